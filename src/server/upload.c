#include "server/upload.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "server/content_hash.h"
#include "server/store_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum {
    GATHER =
        256 << 10, /* written at a time: the library hands out a few KiB, the file system likes large ones */
    WRITE_BEHIND = 8 << 20, /* the disk begins with these while the next ones come */
    SYNC_EVERY = 1 << 30,   /* what a crash of the machine can cost at most */
    RESERVE_STEP = 64 << 20,
    TAKE_OVER_MS = 5000,
};

struct upload {
    struct store *store;
    struct part *part;
    char tenant[STORE_TENANT_MAX + 1], name[STORE_NAME_MAX + 1];
    char wanted_sha256[STORE_HASH_LENGTH + 1];
    int64_t offset_bytes, begun_bytes, body_bytes, total_bytes, quota_bytes, lifetime_s;
    int64_t written_bytes; /* of offset_bytes; the rest is gathered */
    int64_t written_behind, synced_bytes;
    char *gathered;
    int fd;
    bool is_sealed; /* nothing may be added */
    struct content_hash hash;
    pthread_mutex_t lock;
    atomic_bool is_taken;
};

static int write_note(const struct upload *upload)
{
    struct part_note note = {.total_bytes = upload->total_bytes, .synced_bytes = upload->synced_bytes};
    snprintf(note.boot, sizeof note.boot, "%s", upload->store->boot);
    return disk_write_note(upload->store->data_fd, upload->tenant, upload->name, &note);
}

static void upload_free(struct upload *upload)
{
    if (!upload)
        return;
    content_hash_close(&upload->hash);
    scope_close_fd(&upload->fd);
    free(upload->gathered);
    pthread_mutex_destroy(&upload->lock);
    free(upload);
}

static int open_part(struct upload *upload)
{
    scope_fd dir = disk_open_directory(upload->store->data_fd, "partial", upload->tenant);
    if (dir < 0)
        return dir;
    if (upload->offset_bytes == 0)
        unlinkat(dir, upload->name, 0); /* not emptied: it may have become content in the last moment */
    /* Readable for all who get there, which nobody does: where owners cannot be mapped, a box reads it as a
     * stranger. */
    upload->fd = openat(dir, upload->name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    struct stat there;
    if (upload->fd < 0 || fstat(upload->fd, &there) < 0)
        return -errno;
    /* It became content, and then its name could not be written: others may have that content too by now. */
    upload->is_sealed = there.st_nlink > 1;
    if (upload->is_sealed && there.st_size != upload->offset_bytes)
        return -ESTALE;
    if (ftruncate(upload->fd, upload->offset_bytes) < 0 ||
        lseek(upload->fd, upload->offset_bytes, SEEK_SET) < 0)
        return -errno;
    if (content_hash_open(&upload->hash, upload->fd) < 0)
        return -ENOMEM;
    upload->written_behind = upload->written_bytes;
    return write_note(upload);
}

int upload_take_over(struct part *part)
{
    struct upload *other = part->active;
    if (!other)
        return 0;
    other->is_taken = true;
    if (pthread_mutex_trylock(&other->lock) != 0)
        return -EAGAIN;
    other->part = NULL;
    pthread_mutex_unlock(&other->lock);
    part->active = NULL;
    return 0;
}

/* With the store locked. */
static int reserve(struct upload *upload, struct part *part, int64_t bytes)
{
    int64_t others = store_count_bytes(upload->store, upload->tenant, part, upload->name);
    if (bytes > upload->quota_bytes)
        return -E2BIG; /* whatever else is deleted */
    if (others > upload->quota_bytes - bytes)
        return -EDQUOT;
    part->reserved_bytes = bytes;
    return 0;
}

static int64_t known_total(const struct upload_terms *terms)
{
    if (terms->total_bytes >= 0 || terms->body_bytes < 0)
        return terms->total_bytes;
    return terms->offset_bytes + terms->body_bytes;
}

/* With the store locked: finds or makes the part, and checks that this goes on where it stopped. */
static int claim_part(struct upload *upload, int64_t *ret_offset)
{
    struct store *store = upload->store;
    struct part *part = store_find_part(store, upload->tenant, upload->name);
    *ret_offset = part ? part->offset_bytes : 0;
    if (upload->offset_bytes > *ret_offset)
        return -ERANGE;
    int status = part ? upload_take_over(part) : 0;
    if (status < 0)
        return status;
    bool is_new = !part;
    if (!part && !(part = store_add_part(store, upload->tenant, upload->name)))
        return -ENOMEM;
    status = reserve(upload, part, upload->total_bytes >= 0 ? upload->total_bytes : upload->offset_bytes);
    if (status < 0) {
        if (is_new)
            store_forget_part(store, part);
        return status;
    }
    part->offset_bytes = upload->offset_bytes;
    part->total_bytes = upload->total_bytes;
    part->active = upload;
    upload->part = part;
    return 0;
}

static int claim(struct upload *upload, int64_t *ret_offset)
{
    int64_t until_us = clock_monotonic_us() + TAKE_OVER_MS * 1000;
    for (;;) {
        pthread_mutex_lock(&upload->store->lock);
        int status = claim_part(upload, ret_offset);
        pthread_mutex_unlock(&upload->store->lock);
        if (status != -EAGAIN)
            return status;
        if (clock_monotonic_us() > until_us)
            return -EBUSY;
        usleep(2000);
    }
}

static void no_room(int status, const char *name, int64_t quota_bytes, struct error *err)
{
    error_spec(err, "name",
               status == -E2BIG ? "'%s' is more than the %lld bytes that the tenant's files may be in all"
                                : "no room for '%s': the tenant's files may be %lld bytes in all",
               name, (long long)quota_bytes);
}

static int begin_error(int status, const struct upload_terms *terms, int64_t offset, struct error *err)
{
    char used[64];
    switch (status) {
    case -ERANGE:
        snprintf(used, sizeof used, "%lld", (long long)offset);
        error_spec(err, "Content-Range", "there are %s bytes of this upload: go on from there", used);
        break;
    case -EDQUOT:
    case -E2BIG:
        no_room(status, terms->name, terms->quota_bytes, err);
        break;
    case -EBUSY:
        error_spec(err, "name", "another upload of '%s' is just being finished", terms->name);
        break;
    default:
        error_host(err, status, "cannot begin an upload");
    }
    return status;
}

int upload_begin(struct store *store, const struct upload_terms *terms, struct upload **ret,
                 int64_t *ret_offset, struct error *err)
{
    struct upload *upload = calloc(1, sizeof *upload);
    if (!upload)
        return error_host(err, -ENOMEM, "no memory for an upload");
    *upload = (struct upload){.store = store,
                              .fd = -1,
                              .offset_bytes = terms->offset_bytes,
                              .written_bytes = terms->offset_bytes,
                              .begun_bytes = terms->offset_bytes,
                              .body_bytes = terms->body_bytes,
                              .total_bytes = known_total(terms),
                              .quota_bytes = terms->quota_bytes,
                              .lifetime_s = terms->lifetime_s,
                              .lock = PTHREAD_MUTEX_INITIALIZER};
    snprintf(upload->tenant, sizeof upload->tenant, "%s", terms->tenant);
    snprintf(upload->name, sizeof upload->name, "%s", terms->name);
    snprintf(upload->wanted_sha256, sizeof upload->wanted_sha256, "%s", terms->sha256 ? terms->sha256 : "");
    int status = claim(upload, ret_offset);
    if (status == 0 && (status = open_part(upload)) < 0) {
        upload_abandon(upload);
        upload = NULL;
    }
    if (status < 0) {
        upload_free(upload);
        return begin_error(status, terms, *ret_offset, err);
    }
    *ret = upload;
    return 0;
}

/* Whose length nobody told: it takes of the quota step by step. */
static int reserve_more(struct upload *upload, size_t length)
{
    int64_t end = upload->offset_bytes + (int64_t)length;
    if (upload->is_sealed || (upload->total_bytes >= 0 && end > upload->total_bytes))
        return -EFBIG;
    if (upload->total_bytes >= 0)
        return 0;
    pthread_mutex_lock(&upload->store->lock);
    int status = 0;
    if (upload->part && end > upload->part->reserved_bytes) {
        status = reserve(upload, upload->part, end + RESERVE_STEP);
        if (status < 0)
            status = reserve(upload, upload->part, end);
    }
    pthread_mutex_unlock(&upload->store->lock);
    return status;
}

static int put_on_disk(struct upload *upload)
{
    if (upload->written_bytes - upload->written_behind >= WRITE_BEHIND) {
        sync_file_range(upload->fd, upload->written_behind, upload->written_bytes - upload->written_behind,
                        SYNC_FILE_RANGE_WRITE);
        upload->written_behind = upload->written_bytes;
    }
    if (upload->written_bytes - upload->synced_bytes < SYNC_EVERY)
        return 0;
    if (fdatasync(upload->fd) < 0)
        return -errno;
    upload->synced_bytes = upload->written_bytes;
    return write_note(upload);
}

/* Only what is in the file counts for who goes on with it. */
static int write_bytes(struct upload *upload, struct slice bytes)
{
    int status = file_write_all(upload->fd, bytes.data, bytes.length);
    if (status < 0) { /* a part of it may be in the file: the next try begins where this one did */
        lseek(upload->fd, upload->written_bytes, SEEK_SET);
        return status;
    }
    upload->written_bytes += (int64_t)bytes.length;
    upload->part->offset_bytes = upload->written_bytes;
    content_hash_follow(&upload->hash, upload->written_bytes);
    return put_on_disk(upload);
}

static int write_gathered(struct upload *upload)
{
    size_t length = (size_t)(upload->offset_bytes - upload->written_bytes);
    return length ? write_bytes(upload, (struct slice){upload->gathered, length}) : 0;
}

static int add_locked(struct upload *upload, struct slice bytes, bool more_waits)
{
    if (upload->is_taken)
        return -ECANCELED;
    if (more_waits && !upload->gathered)
        upload->gathered = malloc(GATHER); /* or it is written as it comes */
    size_t length = (size_t)(upload->offset_bytes - upload->written_bytes);
    bool is_gathered = more_waits && upload->gathered && bytes.length <= GATHER;
    int status = is_gathered && bytes.length <= GATHER - length ? 0 : write_gathered(upload);
    if (status < 0)
        return status;
    length = (size_t)(upload->offset_bytes - upload->written_bytes);
    if (is_gathered) {
        memcpy(upload->gathered + length, bytes.data, bytes.length);
        upload->offset_bytes += (int64_t)bytes.length;
        return 0;
    }
    status = write_bytes(upload, bytes);
    upload->offset_bytes = upload->written_bytes; /* nothing is gathered by now, also where this failed */
    return status;
}

int upload_add(struct upload *upload, struct slice bytes, bool more_waits, struct error *err)
{
    int status = reserve_more(upload, bytes.length);
    if (status == 0) {
        pthread_mutex_lock(&upload->lock);
        status = add_locked(upload, bytes, more_waits);
        pthread_mutex_unlock(&upload->lock);
    }
    if (status == -ECANCELED)
        error_spec(err, "name", "another upload of '%s' took over", upload->name);
    else if (status == -EFBIG)
        error_spec(err, "Content-Range", "more bytes come than the %lld that were told",
                   (long long)upload->total_bytes);
    else if (status == -EDQUOT || status == -E2BIG)
        no_room(status, upload->name, upload->quota_bytes, err);
    else if (status < 0)
        error_host(err, status, "cannot write the upload");
    return status;
}

/* The part is gone, or stays as it is; nobody works on it any more. */
static void let_go(struct upload *upload, bool is_gone)
{
    struct store *store = upload->store;
    pthread_mutex_lock(&store->lock);
    struct part *part = upload->part;
    if (part) { /* NULL: another one's by now */
        part->active = NULL;
        part->touched_s = time(NULL);
        part->reserved_bytes = 0;
        if (is_gone)
            store_forget_part(store, part);
    }
    pthread_mutex_unlock(&store->lock);
}

static void keep_part(struct upload *upload)
{
    pthread_mutex_lock(&upload->lock);
    if (!upload->is_taken && upload->fd >= 0 && write_gathered(upload) == 0 && fdatasync(upload->fd) == 0) {
        upload->synced_bytes = upload->written_bytes;
        write_note(upload);
    }
    pthread_mutex_unlock(&upload->lock);
}

void upload_abandon(struct upload *upload)
{
    if (!upload)
        return;
    keep_part(upload);
    let_go(upload, false);
    upload_free(upload);
}

void upload_discard(struct upload *upload)
{
    if (!upload)
        return;
    pthread_mutex_lock(&upload->lock);
    bool is_ours = !upload->is_taken;
    if (is_ours)
        disk_remove_part(upload->store->data_fd, upload->tenant, upload->name);
    pthread_mutex_unlock(&upload->lock);
    let_go(upload, is_ours);
    upload_free(upload);
}

/* The part becomes content by a second name, so that it is there whole under one of them at any moment. */
static int link_content(const struct upload *upload, const char *sha256)
{
    char shelf[3] = {sha256[0], sha256[1], '\0'};
    scope_fd parts = disk_open_directory(upload->store->data_fd, "partial", upload->tenant);
    scope_fd contents = disk_open_directory(upload->store->data_fd, "store", shelf);
    if (parts < 0 || contents < 0)
        return parts < 0 ? parts : contents;
    if (linkat(parts, upload->name, contents, sha256, 0) < 0 && errno != EEXIST)
        return -errno;
    return fsync(contents) < 0 ? -errno : 0;
}

static int commit(struct upload *upload, struct stored *ret)
{
    struct store *store = upload->store;
    struct entry entry = {.file = {.size_bytes = upload->offset_bytes, .created_s = time(NULL)}};
    int status = write_gathered(upload);
    if (status < 0)
        return status;
    if (fsync(upload->fd) < 0)
        return -errno;
    status = content_hash_finish(&upload->hash, upload->offset_bytes, entry.file.sha256);
    if (status < 0)
        return status;
    if (upload->wanted_sha256[0] && strcasecmp(upload->wanted_sha256, entry.file.sha256) != 0)
        return -EILSEQ;
    entry.file.expires_s = entry.file.created_s + upload->lifetime_s;
    snprintf(entry.tenant, sizeof entry.tenant, "%s", upload->tenant);
    snprintf(entry.file.name, sizeof entry.file.name, "%s", upload->name);
    pthread_mutex_lock(&store->lock);
    status = store_hold_content(store, entry.file.sha256);
    pthread_mutex_unlock(&store->lock);
    if (status < 0)
        return status;
    status = link_content(upload, entry.file.sha256);
    if (status == 0)
        status = disk_write_entry(store->data_fd, &entry);
    pthread_mutex_lock(&store->lock);
    if (status == 0)
        status = store_put_entry(store, &entry);
    store_release_content(store, entry.file.sha256);
    pthread_mutex_unlock(&store->lock);
    *ret = entry.file;
    return status;
}

static int finish_error(const struct upload *upload, int status, struct error *err)
{
    if (status == -ECANCELED)
        error_spec(err, "name", "another upload of '%s' took over", upload->name);
    else if (status == -EILSEQ)
        error_spec(err, "X-Content-SHA256", "the bytes that came have another SHA-256");
    else
        error_host(err, status, "cannot finish the upload");
    return status;
}

int upload_finish(struct upload *upload, struct stored *ret, int64_t *ret_offset, struct error *err)
{
    *ret_offset = upload->offset_bytes;
    bool is_cut = upload->body_bytes >= 0 && upload->offset_bytes - upload->begun_bytes < upload->body_bytes;
    if (is_cut || (upload->total_bytes >= 0 && upload->offset_bytes < upload->total_bytes)) {
        upload_abandon(upload);
        return 1;
    }
    store_sweep(upload->store, time(NULL));
    pthread_mutex_lock(&upload->lock);
    int status = upload->is_taken ? -ECANCELED : commit(upload, ret);
    bool is_gone = status == 0 || status == -EILSEQ;
    if (is_gone)
        disk_remove_part(upload->store->data_fd, upload->tenant, upload->name);
    pthread_mutex_unlock(&upload->lock);
    let_go(upload, is_gone);
    if (status < 0)
        finish_error(upload, status, err);
    upload_free(upload);
    return status;
}

int upload_find(struct store *store, const char *tenant, const char *name, int64_t *ret_offset,
                int64_t *ret_total)
{
    pthread_mutex_lock(&store->lock);
    const struct part *part = store_find_part(store, tenant, name);
    if (part) {
        *ret_offset = part->offset_bytes;
        *ret_total = part->total_bytes;
    }
    pthread_mutex_unlock(&store->lock);
    return part ? 0 : -ENOENT;
}
