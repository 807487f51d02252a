#include "image/spool.h"
#include "image/entry_name.h"
#include "image/layer.h"
#include "image/tar_stream.h"
#include "base/file.h"
#include "base/scope.h"
#include "base/sha256.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char blob_prefix[] = "blobs/sha256/";
static const char bare_tree_hint[] =
    "a bare tree, as `docker export` writes it, is not an image; use `docker save`";

/* What a spool is being filled from, and what is left of its limit. */
struct spool_filling {
    struct spool *spool;
    struct tar_stream *stream;
    struct sha256 *digest; /* of the member that is being written */
    int64_t bytes_left;
};

static int spool_refuse_count(struct error *err)
{
    return error_spec(err, "archive", "more than the allowed %d members (%s)", SPOOL_MEMBERS_MAX,
                      bare_tree_hint);
}

static void spool_member_path(const struct spool *spool, const struct spool_member *member, char into[24])
{
    snprintf(into, 24, "%zu", (size_t)(member - spool->members));
}

static const struct spool_member *spool_member_named(const struct spool *spool, const char *name)
{
    for (size_t i = 0; i < spool->count; i++)
        if (strcmp(spool->members[i].name, name) == 0)
            return &spool->members[i];
    return NULL;
}

/* The name that a symbolic link member stands for, worked out on the names alone: its target seen from the
 * directory of the link, or NULL when that is no name of a member. docker writes such links for equal layers.
 */
static char *spool_link_name(const char *name, const char *target)
{
    const char *slash = strrchr(name, '/');
    size_t length = slash ? (size_t)(slash - name) : 0;
    if (*target == '/' || length + strlen(target) + 2 > PATH_MAX)
        return NULL;
    char result[PATH_MAX];
    memcpy(result, name, length);
    for (const char *at = target; *at; at += strspn(at, "/")) {
        size_t part = strcspn(at, "/");
        if (part == 2 && memcmp(at, "..", 2) == 0) {
            if (!length)
                return NULL;
            while (length && result[length - 1] != '/')
                length--;
            length -= length > 0; /* the "/" itself */
        } else if (!(part == 1 && *at == '.')) {
            if (length)
                result[length++] = '/';
            memcpy(result + length, at, part);
            length += part;
        }
        at += part;
    }
    return strndup(result, length);
}

static int spool_write_file(struct spool_filling *filling, struct spool_member *member, int fd,
                            struct error *err)
{
    const void *data;
    size_t length;
    int64_t offset;
    int status;
    while ((status = tar_stream_data(filling->stream, &data, &length, &offset, err)) > 0) {
        if (offset != member->size_bytes)
            return error_spec(err, "archive", "member \"%s\" has holes, which no image archive has",
                              member->name);
        if ((int64_t)length > filling->bytes_left)
            return error_spec(err, "archive", "member \"%s\" takes the archive past the allowed size",
                              member->name);
        filling->bytes_left -= (int64_t)length;
        member->size_bytes += (int64_t)length;
        status = file_write_all(fd, data, length);
        if (status < 0)
            return error_host(err, status, "cannot put member \"%s\" aside", member->name);
        sha256_add(filling->digest, data, length);
    }
    return status;
}

static int spool_add_file(struct spool_filling *filling, struct spool_member *member, struct error *err)
{
    char path[24];
    spool_member_path(filling->spool, member, path);
    scope_fd fd = openat(filling->spool->dir_fd, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_host(err, -errno, "cannot put member \"%s\" aside", member->name);
    filling->digest = sha256_new();
    if (!filling->digest)
        return error_host(err, -ENOMEM, "cannot take the digest of member \"%s\"", member->name);
    int status = spool_write_file(filling, member, fd, err);
    sha256_finish(filling->digest, member->sha256);
    return status;
}

static int spool_add_link(struct spool_member *member, const struct tar_entry *entry, struct error *err)
{
    char target[PATH_MAX];
    if (entry->type == TAR_ENTRY_HARDLINK) {
        int status = entry_name_clean(entry->target, target, err);
        if (status < 0)
            return error_context(err, "target of link member \"%s\"", member->name);
        member->link = strdup(target);
    } else {
        member->link = spool_link_name(member->name, entry->target ? entry->target : "");
    }
    if (!member->link)
        return error_spec(
            err, "archive",
            "link member \"%s\" points out of the archive; only members of the same archive are "
            "allowed (%s)",
            member->name, bare_tree_hint);
    return 0;
}

static int spool_add_member(struct spool_filling *filling, const struct tar_entry *entry, struct error *err)
{
    struct spool *spool = filling->spool;
    char name[PATH_MAX], quoted[ENTRY_QUOTED_MAX];
    int status = entry_name_clean(entry->name, name, err);
    if (status < 0)
        return status;
    entry_name_quote(name, quoted);
    if (entry->type == TAR_ENTRY_DIRECTORY)
        return 0;
    if (entry->type > TAR_ENTRY_HARDLINK)
        return error_spec(err, "archive",
                          "member \"%s\" is a %s; only files, directories and links are allowed", quoted,
                          tar_entry_type_name(entry->type));
    if (spool->count == SPOOL_MEMBERS_MAX)
        return spool_refuse_count(err);
    /* Two readers of such an archive could see two different images. */
    if (spool_member_named(spool, name))
        return error_spec(err, "archive", "member \"%s\" comes twice; once is allowed", quoted);
    /* Every name in an error text below is this one, so it must be fit to be shown. */
    if (strcmp(name, quoted) != 0)
        return error_spec(err, "archive",
                          "member \"%s\" has a name that no image archive has: plain ASCII of less "
                          "than 236 characters is allowed",
                          quoted);
    struct spool_member *member = &spool->members[spool->count];
    *member = (struct spool_member){.name = strdup(name)};
    if (!member->name)
        return error_host(err, -ENOMEM, "cannot put member \"%s\" aside", quoted);
    spool->count++;
    return entry->type == TAR_ENTRY_FILE ? spool_add_file(filling, member, err)
                                         : spool_add_link(member, entry, err);
}

static int spool_read_archive(struct spool_filling *filling, int archive_fd,
                              const struct image_progress *progress, struct error *err)
{
    struct stat archive;
    double total = fstat(archive_fd, &archive) == 0 && S_ISREG(archive.st_mode) ? (double)archive.st_size : 0;
    struct tar_entry entry;
    int64_t entries = 0;
    int status;
    while ((status = tar_stream_next(filling->stream, &entry, err)) > 0) {
        if (++entries > 4 * SPOOL_MEMBERS_MAX)
            return spool_refuse_count(err);
        status = spool_add_member(filling, &entry, err);
        if (status < 0)
            return status;
        double taken = (double)tar_stream_bytes_taken(filling->stream);
        if (progress && progress->report)
            progress->report(progress->data, "reading the archive", total > 0 ? taken / total : -1);
    }
    return status;
}

int spool_fill(struct spool *spool, int dir_fd, const char *name, int archive_fd,
               const struct image_import_limits *limits, const struct image_progress *progress,
               struct error *err)
{
    *spool = (struct spool){.dir_fd = -1};
    if (mkdirat(dir_fd, name, 0700) < 0)
        return error_host(err, -errno, "cannot make a directory for the archive's members");
    spool->dir_fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (spool->dir_fd < 0)
        return error_host(err, -errno, "cannot open the directory for the archive's members");
    spool->members = calloc(SPOOL_MEMBERS_MAX, sizeof *spool->members);
    if (!spool->members)
        return error_host(err, -ENOMEM, "cannot put the archive's members aside");
    int64_t limit_bytes = layer_stream_limit(limits);
    scope_tar_stream *stream = NULL;
    int status = tar_stream_open(archive_fd, limit_bytes, &stream, err);
    if (status < 0)
        return status;
    struct spool_filling filling = {.spool = spool, .stream = stream, .bytes_left = limit_bytes};
    return spool_read_archive(&filling, archive_fd, progress, err);
}

void spool_free(struct spool *spool)
{
    for (size_t i = 0; i < spool->count; i++) {
        free(spool->members[i].name);
        free(spool->members[i].link);
    }
    free(spool->members);
    scope_close_fd(&spool->dir_fd);
    *spool = (struct spool){.dir_fd = -1};
}

bool spool_has(const struct spool *spool, const char *name)
{
    return spool_member_named(spool, name) != NULL;
}

int spool_find(const struct spool *spool, const char *name, const struct spool_member **ret,
               struct error *err)
{
    char clean[PATH_MAX], quoted[ENTRY_QUOTED_MAX];
    int status = entry_name_clean(name, clean, err);
    if (status < 0)
        return status;
    entry_name_quote(clean, quoted);
    const struct spool_member *member = spool_member_named(spool, clean);
    for (int hop = 0; member && member->link; hop++)
        member = hop < 8 ? spool_member_named(spool, member->link) : NULL;
    if (!member)
        return error_spec(err, "archive",
                          "\"%s\" is named by the image's description, but is not in the archive", quoted);
    if (strncmp(clean, blob_prefix, strlen(blob_prefix)) == 0 &&
        strcmp(clean + strlen(blob_prefix), member->sha256) != 0)
        return error_spec(err, "archive", "blob \"%s\" is damaged: the digest of its bytes is sha256:%s",
                          quoted, member->sha256);
    *ret = member;
    return 0;
}

int spool_open(const struct spool *spool, const struct spool_member *member, int *ret_fd, struct error *err)
{
    char path[24];
    spool_member_path(spool, member, path);
    *ret_fd = openat(spool->dir_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return *ret_fd < 0 ? error_host(err, -errno, "cannot open member \"%s\"", member->name) : 0;
}

int spool_read_json(const struct spool *spool, const struct spool_member *member, json_t **ret,
                    struct error *err)
{
    char path[24], quoted[ENTRY_QUOTED_MAX], size[32];
    if (member->size_bytes > SPOOL_JSON_BYTES_MAX)
        return error_spec(err, "archive", "\"%s\" has %s; descriptions of up to 4 MiB are allowed",
                          member->name, text_format_size(member->size_bytes, size, sizeof size));
    spool_member_path(spool, member, path);
    scope_buffer text = {0};
    int status = file_read_whole(spool->dir_fd, path, SPOOL_JSON_BYTES_MAX, &text);
    if (status < 0)
        return error_host(err, status, "cannot read member \"%s\"", member->name);
    json_error_t problem;
    *ret = json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES, &problem);
    if (!*ret)
        return error_spec(err, "archive", "\"%s\" is not valid JSON: line %d: %s", member->name, problem.line,
                          entry_name_quote(problem.text, quoted));
    return 0;
}
