#include "image/store.h"
#include "image/image.h"
#include "image/metadata.h"
#include "base/file.h"
#include "base/scope.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

static const char incoming_prefix[] = ".incoming-";

static int store_default_path(char **ret, struct error *err)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int length;
    if (geteuid() == 0)
        length = asprintf(ret, "/var/lib/cloche/images");
    else if (data && *data == '/')
        length = asprintf(ret, "%s/cloche/images", data);
    else if (home && *home == '/')
        length = asprintf(ret, "%s/.local/share/cloche/images", home);
    else
        return error_spec(err, "image_store",
                          "no place for images: neither XDG_DATA_HOME nor HOME is set; name one "
                          "with `image_store = ...`");
    if (length >= 0)
        return 0;
    *ret = NULL;
    return error_host(err, -ENOMEM, "cannot name the image store");
}

int store_name(const char *path, char **ret, struct error *err)
{
    if (!path)
        return store_default_path(ret, err);
    *ret = strdup(path);
    return *ret ? 0 : error_host(err, -ENOMEM, "cannot name the image store");
}

int store_open(struct store *store, const char *path, bool make, struct error *err)
{
    *store = (struct store){.fd = -1};
    scope_free char *wanted = NULL;
    int status = store_name(path, &wanted, err);
    if (status < 0)
        return status;
    status = make ? file_make_directories(wanted, 0755) : 0;
    if (status < 0)
        return error_host(err, status, "cannot make the image store %s", wanted);
    store->fd = open(wanted, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (store->fd < 0 && errno == ENOENT && !make)
        return -ENOENT;
    if (store->fd >= 0)
        store->path = realpath(wanted, NULL);
    if (store->fd < 0 || !store->path)
        return error_host(err, -errno, "cannot open the image store %s", wanted);
    return 0;
}

void store_close(struct store *store)
{
    scope_close_fd(&store->fd);
    free(store->path);
    store->path = NULL;
}

static int store_lock(const struct store *store)
{
    while (flock(store->fd, LOCK_EX) < 0)
        if (errno != EINTR)
            return -errno;
    return 0;
}

static void store_unlock(const struct store *store)
{
    flock(store->fd, LOCK_UN);
}

/* The directory, locked by us, or a negative errno: -EWOULDBLOCK when its maker lives. */
static int store_lock_directory(const struct store *store, const char *name)
{
    scope_fd fd = openat(store->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return -errno;
    return take_fd(&fd);
}

static DIR *store_list_directory(const struct store *store)
{
    int fd = openat(store->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir && fd >= 0)
        close(fd);
    return dir;
}

void store_sweep(const struct store *store)
{
    scope_dir *dir = store_list_directory(store);
    struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        if (strncmp(entry->d_name, incoming_prefix, strlen(incoming_prefix)) != 0)
            continue;
        if (store_lock(store) < 0)
            return;
        scope_fd fd = store_lock_directory(store, entry->d_name);
        store_unlock(store);
        if (fd >= 0)
            file_remove_tree(store->fd, entry->d_name);
    }
}

static int store_fresh_name(char into[64], struct error *err)
{
    unsigned long long random;
    if (getrandom(&random, sizeof random, 0) != sizeof random)
        return error_host(err, -errno, "cannot get a random number");
    snprintf(into, 64, "%s%d-%016llx", incoming_prefix, (int)getpid(), random);
    return 0;
}

static int store_check_name(const char *name, struct error *err)
{
    if (!name || !text_is_plain_name(name))
        return error_spec(err, "image",
                          "not a name for an image: up to 64 letters, digits, \"-\", \"_\" and \".\" are "
                          "allowed, a letter or digit first");
    if (strcmp(name, "host") == 0)
        return error_spec(err, "image",
                          "\"host\" is the view of this machine's own programs; it is always there and "
                          "cannot be made or removed");
    return 0;
}

static int incoming_name_taken(const char *name, struct error *err)
{
    return error_spec(
        err, "image",
        "there is an image \"%s\" already; remove it with `cloche image remove %s` or choose another "
        "name",
        name, name);
}

/* Makes the directory and locks it, before anybody can look at it unlocked. */
static int incoming_make(struct incoming *incoming, struct error *err)
{
    int status = store_lock(&incoming->store);
    if (status < 0)
        return error_host(err, status, "cannot lock the image store %s", incoming->store.path);
    status = mkdirat(incoming->store.fd, incoming->directory, 0755) < 0 ? -errno : 0;
    if (status == 0) {
        status = incoming->fd = store_lock_directory(&incoming->store, incoming->directory);
        /* Whatever the umask is: boxes run as other users. */
        if (status >= 0 && fchmod(incoming->fd, 0755) < 0)
            status = -errno;
        if (status < 0)
            unlinkat(incoming->store.fd, incoming->directory, AT_REMOVEDIR);
    }
    store_unlock(&incoming->store);
    if (status < 0)
        return error_host(err, status, "cannot make and lock %s/%s", incoming->store.path,
                          incoming->directory);
    return 0;
}

int incoming_begin(struct incoming *incoming, const char *store_path, const char *name, struct error *err)
{
    *incoming = (struct incoming){.store = {.fd = -1}, .fd = -1, .name = name};
    int status = store_check_name(name, err);
    if (status == 0)
        status = store_open(&incoming->store, store_path, true, err);
    if (status < 0)
        return status;
    struct stat there;
    if (fstatat(incoming->store.fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0)
        return incoming_name_taken(name, err);
    store_sweep(&incoming->store);
    status = store_fresh_name(incoming->directory, err);
    return status < 0 ? status : incoming_make(incoming, err);
}

int incoming_commit(struct incoming *incoming, struct error *err)
{
    /* After a power cut a name must not stand for half an image either. */
    if (syncfs(incoming->fd) < 0)
        return error_host(err, -errno, "cannot write image \"%s\" to the disk", incoming->name);
    /* Onto an image that came meanwhile this fails, since that is not an empty directory. */
    if (renameat(incoming->store.fd, incoming->directory, incoming->store.fd, incoming->name) < 0) {
        if (errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR)
            return incoming_name_taken(incoming->name, err);
        return error_host(err, -errno, "cannot put image \"%s\" in its place", incoming->name);
    }
    fsync(incoming->store.fd);
    scope_close_fd(&incoming->fd);
    return 0;
}

void incoming_end(struct incoming *incoming)
{
    if (incoming->fd >= 0)
        file_remove_tree(incoming->store.fd, incoming->directory);
    scope_close_fd(&incoming->fd);
    store_close(&incoming->store);
}

int image_remove(const char *store_path, const char *name, struct error *err)
{
    scope_store store = {.fd = -1};
    char gone[64];
    int status = store_check_name(name, err);
    if (status == 0)
        status = store_fresh_name(gone, err);
    if (status == 0)
        status = store_open(&store, store_path, false, err);
    if (status == -ENOENT)
        return error_spec(err, "image", "there is no image \"%s\"", name);
    if (status < 0)
        return status;
    status = store_lock(&store);
    scope_fd fd = status < 0 ? status : store_lock_directory(&store, name);
    status = fd;
    if (fd >= 0 && renameat(store.fd, name, store.fd, gone) < 0)
        status = -errno;
    store_unlock(&store);
    if (status == -ENOENT || status == -ENOTDIR)
        return error_spec(err, "image", "there is no image \"%s\" in %s", name, store.path);
    if (status >= 0)
        status = file_remove_tree(store.fd, gone);
    return status < 0 ? error_host(err, status, "cannot remove image \"%s\"", name) : 0;
}

/* 1 and a summary, 0 when it is no image, or a negative errno. */
static int store_summarize(const struct store *store, const char *name, struct image_summary *ret,
                           struct error *err)
{
    struct stat status;
    scope_fd fd = openat(store->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstatat(fd, "rootfs", &status, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(status.st_mode))
        return 0;
    scope_image_metadata metadata = {0};
    struct error ignored;
    /* One damaged description does not hide the other images, nor itself. */
    if (image_metadata_read(fd, &metadata, &ignored) < 0)
        metadata.source = strdup("unknown: image.json is damaged");
    *ret = (struct image_summary){
        .name = strdup(name),
        .source = metadata.source ? take_pointer(metadata.source) : strdup("unknown"),
        .size_bytes = metadata.size_bytes,
        .created_s = metadata.created_s ? metadata.created_s : (int64_t)status.st_mtim.tv_sec,
    };
    if (ret->name && ret->source)
        return 1;
    free(ret->name);
    free(ret->source);
    return error_host(err, -ENOMEM, "cannot list the images");
}

static int store_compare_summaries(const void *one, const void *other)
{
    return strcmp(((const struct image_summary *)one)->name, ((const struct image_summary *)other)->name);
}

static int store_collect_summaries(const struct store *store, struct image_summary **summaries, size_t *count,
                                   struct error *err)
{
    scope_dir *dir = store_list_directory(store);
    if (!dir)
        return error_host(err, -errno, "cannot read the image store %s", store->path);
    struct dirent *entry;
    while (errno = 0, (entry = readdir(dir))) {
        struct image_summary summary;
        int status =
            text_is_plain_name(entry->d_name) ? store_summarize(store, entry->d_name, &summary, err) : 0;
        if (status < 0)
            return status;
        if (status == 0)
            continue;
        struct image_summary *grown = realloc(*summaries, (*count + 1) * sizeof *grown);
        if (!grown) {
            free(summary.name);
            free(summary.source);
            return error_host(err, -ENOMEM, "cannot list the images");
        }
        *summaries = grown;
        grown[(*count)++] = summary;
    }
    return errno ? error_host(err, -errno, "cannot read the image store %s", store->path) : 0;
}

int image_list(const char *store_path, struct image_summary **ret, size_t *ret_count, struct error *err)
{
    *ret = NULL;
    *ret_count = 0;
    scope_store store = {.fd = -1};
    int status = store_open(&store, store_path, false, err);
    if (status < 0)
        return status == -ENOENT ? 0 : status;
    store_sweep(&store);
    struct image_summary *summaries = NULL;
    size_t count = 0;
    status = store_collect_summaries(&store, &summaries, &count, err);
    if (status < 0) {
        image_summaries_free(summaries, count);
        return status;
    }
    if (count)
        qsort(summaries, count, sizeof *summaries, store_compare_summaries);
    *ret = summaries;
    *ret_count = count;
    return 0;
}

void image_summaries_free(struct image_summary *summaries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(summaries[i].name);
        free(summaries[i].source);
    }
    free(summaries);
}
