#include "image/layer.h"
#include "image/entry_name.h"
#include "base/scope.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

static const char whiteout_prefix[] = ".wh.";
static const char whiteout_opaque[] = ".wh..wh..opq";
/* What AUFS kept for itself at the top of a layer; archives from its days still carry it. */
static const char whiteout_aufs_prefix[] = ".wh..wh.";

static bool layer_starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

static const char *layer_last_part(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

static bool layer_is_whiteout_device(const struct tar_entry *entry)
{
    return entry->type == TAR_ENTRY_CHARACTER_DEVICE && entry->device_major == 0 && entry->device_minor == 0;
}

int64_t layer_stream_limit(const struct image_import_limits *limits)
{
    /* A header, half a block of padding and room for a long name, per entry. Attributes that a few entries
     * carry more than that fit into the fixed part. */
    int64_t overhead, total;
    if (__builtin_mul_overflow(limits->entries, (int64_t)2048, &overhead) ||
        __builtin_add_overflow(limits->unpacked_bytes, overhead, &total) ||
        __builtin_add_overflow(total, (int64_t)8 << 20, &total))
        return INT64_MAX;
    return total;
}

static int layer_apply_whiteout(struct tree *tree, const struct tar_entry *entry, char *name,
                                struct error *err)
{
    if (layer_is_whiteout_device(entry))
        return tree_remove(tree, name, err);
    size_t start = (size_t)(layer_last_part(name) - name);
    char *last = name + start;
    if (strcmp(last, whiteout_opaque) == 0) {
        name[start ? start - 1 : 0] = '\0';
        return tree_empty_directory(tree, name, err);
    }
    if (!layer_starts_with(last, whiteout_prefix) || layer_starts_with(last, whiteout_aufs_prefix))
        return 0;
    const char *hidden = last + strlen(whiteout_prefix);
    if (!*hidden || strcmp(hidden, ".") == 0 || strcmp(hidden, "..") == 0) {
        char quoted[ENTRY_QUOTED_MAX];
        return error_spec(err, "archive", "whiteout \"%s\" does not name an entry that it removes",
                          entry_name_quote(name, quoted));
    }
    memmove(last, hidden, strlen(hidden) + 1);
    return tree_remove(tree, name, err);
}

int layer_apply_whiteouts(struct tree *tree, struct tar_stream *stream, struct error *err)
{
    struct tar_entry entry;
    char name[PATH_MAX];
    int64_t entries = 0;
    int status;
    while ((status = tar_stream_next(stream, &entry, err)) > 0) {
        /* Not taken from the tree's limit, as the second reading does that. */
        if (tree->entries + ++entries > tree->limits.entries)
            return error_spec(err, "archive", "more than the allowed %lld entries",
                              (long long)tree->limits.entries);
        status = entry_name_clean(entry.name, name, err);
        if (status == 0)
            status = layer_apply_whiteout(tree, &entry, name, err);
        if (status < 0)
            return status;
    }
    return status;
}

/* Does the name belong to the whiteouts, and so not to the tree? */
static bool layer_is_whiteout(const struct tar_entry *entry, const char *name)
{
    return layer_is_whiteout_device(entry) || layer_starts_with(layer_last_part(name), whiteout_prefix) ||
           layer_starts_with(name, whiteout_aufs_prefix);
}

static int layer_write_data(struct tree *tree, struct tar_stream *stream, const char *name,
                            int64_t size_bytes, int fd, struct error *err)
{
    char quoted[ENTRY_QUOTED_MAX];
    const void *data;
    size_t length;
    int64_t offset, end = 0;
    int status;
    while ((status = tar_stream_data(stream, &data, &length, &offset, err)) > 0) {
        if (length == 0)
            continue;
        if (offset < end || length > SSIZE_MAX || offset > INT64_MAX - (int64_t)length)
            return error_spec(err, "archive", "entry \"%s\" has a map of holes that makes no sense",
                              entry_name_quote(name, quoted));
        /* Holes count like data: readers of the file see them as bytes. */
        status = tree_take_bytes(tree, offset + (int64_t)length - end, name, err);
        if (status < 0)
            return status;
        for (size_t done = 0; done < length;) {
            ssize_t written = pwrite(fd, (const char *)data + done, length - done, offset + (int64_t)done);
            if (written < 0 && errno == EINTR)
                continue;
            if (written < 0)
                return error_host(err, -errno, "cannot write \"%s\"", entry_name_quote(name, quoted));
            done += (size_t)written;
        }
        end = offset + (int64_t)length;
    }
    if (status < 0 || size_bytes <= end)
        return status;
    status = tree_take_bytes(tree, size_bytes - end, name, err);
    if (status == 0 && ftruncate(fd, size_bytes) < 0)
        status = error_host(err, -errno, "cannot write \"%s\"", entry_name_quote(name, quoted));
    return status;
}

static int layer_apply_file(struct tree *tree, struct tar_stream *stream, const struct tar_entry *entry,
                            const char *name, struct error *err)
{
    /* Said early, before a disk is filled for nothing; what counts is what is written. */
    if (entry->size_bytes > tree->limits.unpacked_bytes - tree->bytes)
        return tree_take_bytes(tree, entry->size_bytes, name, err);
    scope_fd fd = -1;
    int status = tree_add_file(tree, name, &fd, err);
    if (status == 0)
        status = layer_write_data(tree, stream, name, entry->size_bytes, fd, err);
    if (status == 0)
        status = tree_finish_file(fd, name, entry->mode, entry->modified, err);
    return status;
}

static int layer_apply_hardlink(struct tree *tree, const struct tar_entry *entry, const char *name,
                                struct error *err)
{
    char target[PATH_MAX], quoted[ENTRY_QUOTED_MAX];
    if (entry->size_bytes > 0)
        return error_spec(err, "archive", "hard link \"%s\" carries data; only files may",
                          entry_name_quote(name, quoted));
    int status = entry_name_clean(entry->target, target, err);
    if (status < 0)
        return error_context(err, "target of hard link \"%s\"", entry_name_quote(name, quoted));
    return tree_add_hardlink(tree, name, target, err);
}

static int layer_apply_entry(struct tree *tree, struct tar_stream *stream, const struct tar_entry *entry,
                             const char *name, enum layer_devices devices, struct error *err)
{
    switch (entry->type) {
    case TAR_ENTRY_DIRECTORY:
        return tree_add_directory(tree, name, entry->mode, entry->modified, err);
    case TAR_ENTRY_FILE:
        return layer_apply_file(tree, stream, entry, name, err);
    case TAR_ENTRY_SYMLINK:
        return tree_add_symlink(tree, name, entry->target ? entry->target : "", err);
    case TAR_ENTRY_HARDLINK:
        return layer_apply_hardlink(tree, entry, name, err);
    default:
        break;
    }
    if (devices == LAYER_DEVICES_SKIPPED)
        return 0;
    char quoted[ENTRY_QUOTED_MAX];
    return error_spec(
        err, "archive",
        "entry \"%s\" is a %s; only files, directories, symbolic links and hard links are allowed",
        entry_name_quote(name, quoted), tar_entry_type_name(entry->type));
}

int layer_apply_entries(struct tree *tree, struct tar_stream *stream, enum layer_devices devices,
                        struct error *err)
{
    struct tar_entry entry;
    char name[PATH_MAX];
    int status;
    while ((status = tar_stream_next(stream, &entry, err)) > 0) {
        status = tree_take_entry(tree, err);
        if (status == 0)
            status = entry_name_clean(entry.name, name, err);
        if (status == 0 && !layer_is_whiteout(&entry, name))
            status = layer_apply_entry(tree, stream, &entry, name, devices, err);
        if (status < 0)
            return status;
    }
    tree_finish_layer(tree);
    return status;
}
