/* What a start finds. Whatever moment the last one ended at: an entry has its content, a part is where its
 * bytes are known to be, and content without a name is removed. */
#include "server/store_inside.h"

#include "base/file.h"
#include "base/scope.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

struct reading {
    struct store *store;
    const char *tenant;
};

/* A name whose content is not there, or not of its size, is none. */
static int read_entry(void *data, int dir_fd, const char *name)
{
    const struct reading *reading = data;
    struct entry entry = {0};
    snprintf(entry.tenant, sizeof entry.tenant, "%s", reading->tenant);
    if (!store_is_name(name) || disk_read_entry(dir_fd, name, &entry.file) < 0)
        return 0;
    char path[STORE_PATH_MAX];
    struct stat status;
    store_content_path(entry.file.sha256, path);
    if (fstatat(reading->store->data_fd, path, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISREG(status.st_mode) || status.st_size != entry.file.size_bytes) {
        unlinkat(dir_fd, name, 0);
        return 0;
    }
    return store_put_entry(reading->store, &entry);
}

/* After a crash of the machine only what was told to be on the disk counts; after one of the server all that
 * was written. */
static int read_part(void *data, int dir_fd, const char *name)
{
    const struct reading *reading = data;
    struct part_note note;
    struct stat status;
    if (!store_is_name(name) || fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
        !S_ISREG(status.st_mode))
        return 0;
    if (disk_read_note(dir_fd, name, &note) < 0)
        note = (struct part_note){.total_bytes = -1, .synced_bytes = 0};
    struct part *part = store_add_part(reading->store, reading->tenant, name);
    if (!part)
        return -ENOMEM;
    bool is_remembered = note.boot[0] && strcmp(note.boot, reading->store->boot) == 0;
    bool is_short = note.synced_bytes > status.st_size;
    part->offset_bytes = is_remembered ? status.st_size : is_short ? 0 : note.synced_bytes;
    part->total_bytes = note.total_bytes;
    part->touched_s = status.st_mtim.tv_sec;
    return 0;
}

static int read_tenant(void *data, int dir_fd, const char *name,
                       int (*each)(void *data, int dir_fd, const char *name))
{
    struct reading *reading = data;
    scope_fd below = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (below < 0 || !text_is_plain_name(name))
        return 0;
    reading->tenant = name;
    return disk_each(below, each, reading);
}

static int read_files_of(void *data, int dir_fd, const char *name)
{
    return read_tenant(data, dir_fd, name, read_entry);
}

static int read_parts_of(void *data, int dir_fd, const char *name)
{
    return read_tenant(data, dir_fd, name, read_part);
}

static int compare_hashes(const void *one, const void *other)
{
    return strcmp(*(const char *const *)one, *(const char *const *)other);
}

struct contents {
    const char **known;
    size_t count;
};

static int check_content(void *data, int dir_fd, const char *name)
{
    const struct contents *contents = data;
    if (!contents->count ||
        !bsearch(&name, contents->known, contents->count, sizeof *contents->known, compare_hashes))
        unlinkat(dir_fd, name, 0);
    return 0;
}

static int check_contents_of(void *data, int dir_fd, const char *name)
{
    scope_fd below = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return below < 0 ? 0 : disk_each(below, check_content, data);
}

static int remove_unknown_contents(struct store *store, int dir_fd)
{
    struct contents contents = {.known = calloc(store->entry_count + 1, sizeof(char *)),
                                .count = store->entry_count};
    if (!contents.known)
        return -ENOMEM;
    for (size_t i = 0; i < store->entry_count; i++)
        contents.known[i] = store->entries[i].file.sha256;
    qsort(contents.known, contents.count, sizeof *contents.known, compare_hashes);
    int status = disk_each(dir_fd, check_contents_of, &contents);
    free(contents.known);
    return status;
}

static int read_all(struct store *store, struct error *err)
{
    scope_fd files = disk_open_directory(store->data_fd, "files", NULL);
    scope_fd parts = disk_open_directory(store->data_fd, "partial", NULL);
    scope_fd contents = disk_open_directory(store->data_fd, "store", NULL);
    if (files < 0 || parts < 0 || contents < 0)
        return error_host(err,
                          files < 0   ? files
                          : parts < 0 ? parts
                                      : contents,
                          "cannot open the store of uploaded files");
    struct reading reading = {.store = store};
    int status = disk_each(files, read_files_of, &reading);
    if (status == 0)
        status = disk_each(parts, read_parts_of, &reading);
    if (status == 0)
        status = remove_unknown_contents(store, contents);
    return status < 0 ? error_host(err, status, "cannot read the store of uploaded files") : 0;
}

int store_open(int data_fd, struct store **ret, struct error *err)
{
    struct store *store = calloc(1, sizeof *store);
    if (!store)
        return error_host(err, -ENOMEM, "no memory for the store");
    *store = (struct store){.data_fd = data_fd, .lock = PTHREAD_MUTEX_INITIALIZER};
    file_read_attribute(AT_FDCWD, "/proc/sys/kernel/random/boot_id", store->boot, sizeof store->boot);
    store->boot[strcspn(store->boot, "\n")] = '\0';
    int status = read_all(store, err);
    if (status < 0) {
        store_close(store);
        return status;
    }
    store_sweep(store, time(NULL));
    *ret = store;
    return 0;
}

void store_close(struct store *store)
{
    if (!store)
        return;
    while (store->parts)
        store_forget_part(store, store->parts);
    for (struct hold *hold = store->holds, *next; hold; hold = next) {
        next = hold->next;
        free(hold);
    }
    free(store->entries);
    pthread_mutex_destroy(&store->lock);
    free(store);
}
