#include "server/store_inside.h"

#include "base/bytes.h"
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
#include <unistd.h>

enum { PART_LIFETIME_S = 24 * 3600, PROFILE_MAX = 16 << 20, PART_TRIES = 2000 };

bool store_is_name(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length > STORE_NAME_MAX || name[0] == '.' || !text_is_utf8(name, length))
        return false;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)name[i] < 0x20 || name[i] == 0x7f || name[i] == '/')
            return false;
    return true;
}

void store_content_path(const char *sha256, char into[STORE_PATH_MAX])
{
    snprintf(into, STORE_PATH_MAX, "store/%.2s/%.64s", sha256, sha256);
}

int store_open_content(struct store *store, const char *sha256)
{
    char path[STORE_PATH_MAX];
    store_content_path(sha256, path);
    int fd = openat(store->data_fd, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* ---- entries ---- */

static int compare(const struct entry *entry, const char *tenant, const char *name)
{
    int order = strcmp(entry->tenant, tenant);
    return order ? order : strcmp(entry->file.name, name);
}

/* The first that is not before it. */
static size_t entry_place(const struct store *store, const char *tenant, const char *name)
{
    size_t low = 0, high = store->entry_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(&store->entries[middle], tenant, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct entry *find_entry(const struct store *store, const char *tenant, const char *name)
{
    size_t at = entry_place(store, tenant, name);
    bool is_there = at < store->entry_count && compare(&store->entries[at], tenant, name) == 0;
    return is_there ? &store->entries[at] : NULL;
}

static struct entry *find_living(const struct store *store, const char *tenant, const char *name)
{
    struct entry *entry = find_entry(store, tenant, name);
    return entry && entry->file.expires_s > time(NULL) ? entry : NULL;
}

static bool is_referred_to(const struct store *store, const char *sha256, const char *tenant)
{
    for (size_t i = 0; i < store->entry_count; i++)
        if (strcmp(store->entries[i].file.sha256, sha256) == 0 &&
            (!tenant || strcmp(store->entries[i].tenant, tenant) == 0))
            return true;
    for (struct hold *hold = store->holds; !tenant && hold; hold = hold->next)
        if (strcmp(hold->sha256, sha256) == 0)
            return true;
    return false;
}

static void remove_content_if_unused(struct store *store, const char *sha256)
{
    char path[STORE_PATH_MAX];
    store_content_path(sha256, path);
    if (!is_referred_to(store, sha256, NULL))
        unlinkat(store->data_fd, path, 0);
}

static void name_is_gone(struct store *store, const char *tenant, const char *sha256)
{
    remove_content_if_unused(store, sha256);
    scope_fd profiles =
        is_referred_to(store, sha256, tenant) ? -1 : disk_open_directory(store->data_fd, "profiles", tenant);
    if (profiles >= 0)
        unlinkat(profiles, sha256, 0);
}

int store_put_entry(struct store *store, const struct entry *entry)
{
    struct entry *old = find_entry(store, entry->tenant, entry->file.name);
    if (old) {
        char sha256[STORE_HASH_LENGTH + 1];
        memcpy(sha256, old->file.sha256, sizeof sha256);
        *old = *entry;
        if (strcmp(sha256, entry->file.sha256) != 0)
            name_is_gone(store, entry->tenant, sha256);
        return 0;
    }
    if (store->entry_count == store->entry_room) {
        size_t room = store->entry_room ? store->entry_room * 2 : 64;
        struct entry *entries = realloc(store->entries, room * sizeof *entries);
        if (!entries)
            return -ENOMEM;
        store->entries = entries;
        store->entry_room = room;
    }
    size_t at = entry_place(store, entry->tenant, entry->file.name);
    memmove(&store->entries[at + 1], &store->entries[at], (store->entry_count - at) * sizeof *entry);
    store->entries[at] = *entry;
    store->entry_count++;
    return 0;
}

/* The name goes from the disk first: content without a name is removed at the next start, a name without
 * content would be a lie. */
static int drop_entry(struct store *store, struct entry *entry)
{
    struct entry gone = *entry;
    scope_fd dir = disk_open_directory(store->data_fd, "files", gone.tenant);
    if (dir < 0)
        return dir;
    if (unlinkat(dir, gone.file.name, 0) < 0 && errno != ENOENT)
        return -errno;
    fsync(dir);
    size_t at = (size_t)(entry - store->entries);
    store->entry_count--;
    memmove(entry, entry + 1, (store->entry_count - at) * sizeof *entry);
    name_is_gone(store, gone.tenant, gone.file.sha256);
    return 0;
}

/* ---- holds ---- */

int store_hold_content(struct store *store, const char *sha256)
{
    struct hold *hold = store->holds;
    while (hold && strcmp(hold->sha256, sha256) != 0)
        hold = hold->next;
    if (!hold) {
        hold = calloc(1, sizeof *hold);
        if (!hold)
            return -ENOMEM;
        memcpy(hold->sha256, sha256, sizeof hold->sha256);
        hold->next = store->holds;
        store->holds = hold;
    }
    hold->count++;
    return 0;
}

void store_release_content(struct store *store, const char *sha256)
{
    for (struct hold **at = &store->holds; *at; at = &(*at)->next) {
        struct hold *hold = *at;
        if (strcmp(hold->sha256, sha256) != 0)
            continue;
        if (--hold->count == 0) {
            *at = hold->next;
            free(hold);
            remove_content_if_unused(store, sha256);
        }
        return;
    }
}

int store_hold(struct store *store, const char *tenant, const char *name, struct stored *ret)
{
    pthread_mutex_lock(&store->lock);
    const struct entry *entry = find_living(store, tenant, name);
    int status = entry ? store_hold_content(store, entry->file.sha256) : -ENOENT;
    if (status == 0)
        *ret = entry->file;
    pthread_mutex_unlock(&store->lock);
    return status;
}

void store_release(struct store *store, const char *sha256)
{
    pthread_mutex_lock(&store->lock);
    store_release_content(store, sha256);
    pthread_mutex_unlock(&store->lock);
}

/* ---- parts ---- */

struct part *store_find_part(struct store *store, const char *tenant, const char *name)
{
    for (struct part *part = store->parts; part; part = part->next)
        if (strcmp(part->tenant, tenant) == 0 && strcmp(part->name, name) == 0)
            return part;
    return NULL;
}

struct part *store_add_part(struct store *store, const char *tenant, const char *name)
{
    struct part *part = calloc(1, sizeof *part);
    if (!part)
        return NULL;
    snprintf(part->tenant, sizeof part->tenant, "%s", tenant);
    snprintf(part->name, sizeof part->name, "%s", name);
    part->total_bytes = -1;
    part->touched_s = time(NULL);
    part->next = store->parts;
    store->parts = part;
    return part;
}

void store_forget_part(struct store *store, struct part *part)
{
    for (struct part **at = &store->parts; *at; at = &(*at)->next)
        if (*at == part) {
            *at = part->next;
            free(part);
            return;
        }
}

/* ---- questions ---- */

int store_find(struct store *store, const char *tenant, const char *name, struct stored *ret)
{
    pthread_mutex_lock(&store->lock);
    const struct entry *entry = find_living(store, tenant, name);
    if (entry)
        *ret = entry->file;
    pthread_mutex_unlock(&store->lock);
    return entry ? 0 : -ENOENT;
}

int store_list(struct store *store, const char *tenant, const char *after, size_t limit, struct stored **ret,
               size_t *ret_count)
{
    *ret = NULL;
    *ret_count = 0;
    pthread_mutex_lock(&store->lock);
    size_t first = entry_place(store, tenant, after ? after : "");
    size_t end = first;
    while (end < store->entry_count && strcmp(store->entries[end].tenant, tenant) == 0)
        end++;
    size_t most = end - first < limit ? end - first : limit;
    struct stored *found = calloc(most + 1, sizeof *found);
    int64_t now_s = time(NULL);
    for (size_t i = first; found && i < end && *ret_count < most; i++) {
        const struct stored *file = &store->entries[i].file;
        if (file->expires_s > now_s && (!after || strcmp(file->name, after) > 0))
            found[(*ret_count)++] = *file;
    }
    pthread_mutex_unlock(&store->lock);
    *ret = found;
    return found ? 0 : -ENOMEM;
}

int64_t store_count_bytes(const struct store *store, const char *tenant, const struct part *but_part,
                          const char *but_name)
{
    int64_t sum = 0;
    for (size_t i = entry_place(store, tenant, "");
         i < store->entry_count && strcmp(store->entries[i].tenant, tenant) == 0; i++)
        if (!but_name || strcmp(store->entries[i].file.name, but_name) != 0)
            sum += store->entries[i].file.size_bytes;
    for (struct part *part = store->parts; part; part = part->next)
        if (part != but_part && strcmp(part->tenant, tenant) == 0)
            sum += part->reserved_bytes > part->offset_bytes ? part->reserved_bytes : part->offset_bytes;
    return sum;
}

int64_t store_used_bytes(struct store *store, const char *tenant)
{
    pthread_mutex_lock(&store->lock);
    int64_t sum = store_count_bytes(store, tenant, NULL, NULL);
    pthread_mutex_unlock(&store->lock);
    return sum;
}

/* ---- changes ---- */

/* With the lock held. Who uploads it still may have gone away unseen, and would leave it here for a day. */
static int delete_part(struct store *store, const char *tenant, const char *name)
{
    struct part *part = store_find_part(store, tenant, name);
    int status = part ? upload_take_over(part) : -ENOENT;
    if (status < 0)
        return status;
    disk_remove_part(store->data_fd, tenant, name);
    store_forget_part(store, part);
    return 0;
}

int store_delete(struct store *store, const char *tenant, const char *name)
{
    pthread_mutex_lock(&store->lock);
    struct entry *entry = find_entry(store, tenant, name);
    bool is_expired = entry && entry->file.expires_s <= time(NULL);
    int status = entry ? drop_entry(store, entry) : -ENOENT;
    if (status == 0 && is_expired)
        status = -ENOENT;
    int of_part = delete_part(store, tenant, name);
    pthread_mutex_unlock(&store->lock);
    for (int tries = 0; of_part == -EAGAIN && tries < PART_TRIES; tries++) { /* its upload writes just now */
        usleep(1000);
        pthread_mutex_lock(&store->lock);
        of_part = delete_part(store, tenant, name);
        pthread_mutex_unlock(&store->lock);
        if (of_part == -ENOENT) /* and has been finished */
            return store_delete(store, tenant, name);
    }
    return of_part == -ENOENT ? status : of_part;
}

void store_sweep(struct store *store, int64_t now_s)
{
    pthread_mutex_lock(&store->lock);
    for (size_t i = store->entry_count; i-- > 0;)
        if (store->entries[i].file.expires_s <= now_s)
            drop_entry(store, &store->entries[i]);
    for (struct part *part = store->parts, *next; part; part = next) {
        next = part->next;
        if (part->active || part->touched_s + PART_LIFETIME_S > now_s)
            continue;
        disk_remove_part(store->data_fd, part->tenant, part->name);
        store_forget_part(store, part);
    }
    pthread_mutex_unlock(&store->lock);
}

int store_read_profile(struct store *store, const char *tenant, const char *sha256, struct buffer *ret)
{
    scope_fd dir = disk_open_directory(store->data_fd, "profiles", tenant);
    return dir < 0 ? dir : file_read_whole(dir, sha256, PROFILE_MAX, ret);
}

int store_write_profile(struct store *store, const char *tenant, const char *sha256, const char *text)
{
    scope_fd dir = disk_open_directory(store->data_fd, "profiles", tenant);
    int status = dir < 0 ? dir : disk_write_whole(dir, sha256, text);
    pthread_mutex_lock(&store->lock);
    if (status == 0 && !is_referred_to(store, sha256, tenant)) /* deleted meanwhile */
        unlinkat(dir, sha256, 0);
    pthread_mutex_unlock(&store->lock);
    return status;
}
