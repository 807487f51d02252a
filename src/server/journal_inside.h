/* What journal.c (keys and answers) and journal_file.c (lines on the disk) share. */
#pragma once

#include "server/journal.h"
#include "server/keys.h"

#include <pthread.h>
#include <sys/types.h>

enum { JOURNAL_HASH_SIZE = 65, JOURNAL_BUCKETS = 4096 };

/* What one tenant has in the journal. Never freed before the end. */
struct journal_owner {
    char name[TENANT_NAME_SIZE];
    int64_t keys, body_bytes;
    struct journal_owner *next;
};

struct journal_entry {
    char id[JOURNAL_HASH_SIZE];   /* of tenant and key: keys of users are not written down */
    char hash[JOURNAL_HASH_SIZE]; /* of the request */
    struct journal_owner *owner;
    int64_t at_s;
    bool done;
    off_t place;     /* of the outcome's line */
    size_t length;   /* of it, with its newline; 0 while under way */
    size_t accepted; /* length of the line that made it */
    struct journal_entry *next;
};

struct journal {
    int data_fd, fd;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an entry got its outcome, or was released */
    struct journal_entry *buckets[JOURNAL_BUCKETS];
    struct journal_owner *owners;
    size_t count;
    int64_t size, useful; /* bytes of the file; of lines that still count */
    int64_t written;      /* bytes since the start: tells what a sync covers, also across a new file */
    int64_t expired_at_s;
    pthread_mutex_t sync_lock; /* taken before `lock`, when both are */
    int64_t synced;
};

/* journal.c */
void journal_identify(const char *tenant, const char *key, char ret_id[JOURNAL_HASH_SIZE]);
struct journal_entry *journal_find(struct journal *journal, const char *id);
struct journal_entry *journal_add(struct journal *journal, const char *id, const char *tenant);
void journal_drop(struct journal *journal, struct journal_entry *entry);

/* journal_file.c; all but the sync with the lock held. `ret_written`: what journal_sync must cover. */
int journal_file_open(struct journal *journal, struct error *err);
int journal_write_accepted(struct journal *journal, struct journal_entry *entry, int64_t *ret_written,
                           struct error *err);
int journal_write_outcome(struct journal *journal, struct journal_entry *entry,
                          const struct journal_outcome *outcome, int64_t *ret_written, struct error *err);
void journal_write_released(struct journal *journal, const struct journal_entry *entry);
int journal_read_outcome(struct journal *journal, const struct journal_entry *entry,
                         struct journal_outcome *ret, struct error *err);
int journal_sync(struct journal *journal, int64_t written, struct error *err);
/* With both locks held. */
int journal_rewrite(struct journal *journal, struct error *err);
