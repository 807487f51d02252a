/* What the parts of the store share. */
#pragma once

#include "server/store.h"

#include <pthread.h>
#include <stdatomic.h>

struct entry {
    char tenant[STORE_TENANT_MAX + 1];
    struct stored file;
};

/* An upload that is not whole: on disk, and perhaps under way. */
struct part {
    struct part *next;
    char tenant[STORE_TENANT_MAX + 1];
    char name[STORE_NAME_MAX + 1];
    _Atomic int64_t offset_bytes;
    int64_t total_bytes;    /* -1: not told yet */
    int64_t reserved_bytes; /* counted for the tenant, whether they have come or not */
    int64_t touched_s;
    struct upload *active;
};

struct hold {
    struct hold *next;
    char sha256[STORE_HASH_LENGTH + 1];
    int count;
};

struct store {
    int data_fd;
    char boot[40]; /* this start of the kernel: what it was told to write is in its memory at least */
    pthread_mutex_t lock;
    struct entry *entries; /* by tenant, then name */
    size_t entry_count, entry_room;
    struct part *parts;
    struct hold *holds;
};

/* ---- store_disk.c: no locks, no memory of their own ---- */

/* A directory below DATA, made when it is not there; "files" and a tenant, "store" and two digits. */
int disk_open_directory(int data_fd, const char *top, const char *below);
int disk_write_whole(int dir_fd, const char *name, const char *text);
int disk_write_entry(int data_fd, const struct entry *entry);
int disk_read_entry(int dir_fd, const char *name, struct stored *ret);

struct part_note {
    int64_t total_bytes, synced_bytes;
    char boot[40];
};
int disk_write_note(int data_fd, const char *tenant, const char *name, const struct part_note *note);
int disk_read_note(int dir_fd, const char *name, struct part_note *ret);
void disk_remove_part(int data_fd, const char *tenant, const char *name);

/* Calls for every name in a directory but those with a leading dot, and stops at a negative answer. */
int disk_each(int dir_fd, int (*each)(void *data, int dir_fd, const char *name), void *data);

/* ---- store.c, with the lock held ---- */

struct part *store_find_part(struct store *store, const char *tenant, const char *name);
struct part *store_add_part(struct store *store, const char *tenant, const char *name);
void store_forget_part(struct store *store, struct part *part);
int64_t store_count_bytes(const struct store *store, const char *tenant, const struct part *but_part,
                          const char *but_name);
int store_put_entry(struct store *store, const struct entry *entry);
int store_hold_content(struct store *store, const char *sha256);
void store_release_content(struct store *store, const char *sha256);

/* ---- upload.c, with the store's lock held ---- */

/* An upload of this part that is under way is cut off: it sees that when its next bytes come. -EAGAIN: it is
 * in the middle of something. */
int upload_take_over(struct part *part);
