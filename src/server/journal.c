#include "server/journal_inside.h"

#include "base/condition.h"
#include "base/sha256.h"
#include "server/hangup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    EXPIRE_EVERY_S = 60,
    USELESS_MIN = 1 << 20, /* less is not worth a new file */
};

/* ---- entries ---- */

/* The hash also spreads the entries evenly, whatever keys somebody chooses. */
void journal_identify(const char *tenant, const char *key, char ret_id[JOURNAL_HASH_SIZE])
{
    struct sha256 *hash = sha256_new();
    if (!hash)
        abort(); /* hundred bytes: there is no way on without them */
    sha256_add(hash, tenant, strlen(tenant) + 1);
    sha256_add(hash, key, strlen(key));
    sha256_finish(hash, ret_id);
}

static struct journal_entry **journal_bucket(struct journal *journal, const char *id)
{
    char digits[5] = {id[0], id[1], id[2], id[3]};
    return &journal->buckets[strtoul(digits, NULL, 16) % JOURNAL_BUCKETS];
}

struct journal_entry *journal_find(struct journal *journal, const char *id)
{
    struct journal_entry *entry = *journal_bucket(journal, id);
    while (entry && strcmp(entry->id, id) != 0)
        entry = entry->next;
    return entry;
}

static struct journal_owner *journal_owner(struct journal *journal, const char *tenant)
{
    for (struct journal_owner *owner = journal->owners; owner; owner = owner->next)
        if (strcmp(owner->name, tenant) == 0)
            return owner;
    struct journal_owner *owner = calloc(1, sizeof *owner);
    if (!owner)
        return NULL;
    snprintf(owner->name, sizeof owner->name, "%s", tenant);
    owner->next = journal->owners;
    journal->owners = owner;
    return owner;
}

struct journal_entry *journal_add(struct journal *journal, const char *id, const char *tenant)
{
    struct journal_entry *entry = calloc(1, sizeof *entry);
    struct journal_owner *owner = entry ? journal_owner(journal, tenant) : NULL;
    if (!owner) {
        free(entry);
        return NULL;
    }
    struct journal_entry **bucket = journal_bucket(journal, id);
    snprintf(entry->id, sizeof entry->id, "%s", id);
    entry->owner = owner;
    entry->next = *bucket;
    *bucket = entry;
    owner->keys++;
    journal->count++;
    return entry;
}

void journal_drop(struct journal *journal, struct journal_entry *entry)
{
    struct journal_entry **at = journal_bucket(journal, entry->id);
    while (*at != entry)
        at = &(*at)->next;
    *at = entry->next;
    entry->owner->keys--;
    entry->owner->body_bytes -= (int64_t)entry->length;
    journal->useful -= (int64_t)(entry->accepted + entry->length);
    journal->count--;
    free(entry);
}

static void journal_drop_all(struct journal *journal)
{
    for (size_t i = 0; i < JOURNAL_BUCKETS; i++)
        while (journal->buckets[i])
            journal_drop(journal, journal->buckets[i]);
}

/* ---- open and close ---- */

static int journal_fail_lost(struct journal *journal, int *ret_lost, struct error *err)
{
    static const char body[] =
        "{\"error\":{\"code\":\"host_failure\",\"message\":\"the server ended while this request was under "
        "way; it is "
        "not done again\",\"hint\":\"send it with another Idempotency-Key to have it done anew\"}}";
    struct journal_outcome lost = {
        .status = 500, .kept = true, .body = {.data = (char *)body, .length = sizeof body - 1}};
    int64_t written = 0;
    int status = 0;
    *ret_lost = 0;
    for (size_t i = 0; i < JOURNAL_BUCKETS; i++)
        for (struct journal_entry *entry = journal->buckets[i]; status == 0 && entry; entry = entry->next) {
            if (entry->done)
                continue;
            status = journal_write_outcome(journal, entry, &lost, &written, err);
            ++*ret_lost;
        }
    return status == 0 && written ? journal_sync(journal, written, err) : status;
}

int journal_open(int data_fd, struct journal **ret, int *ret_lost, struct error *err)
{
    struct journal *journal = calloc(1, sizeof *journal);
    if (!journal)
        return error_host(err, -ENOMEM, "the journal");
    journal->data_fd = data_fd;
    journal->fd = -1;
    pthread_mutex_init(&journal->lock, NULL);
    pthread_mutex_init(&journal->sync_lock, NULL);
    pthread_cond_init(&journal->changed, NULL);
    int status = journal_file_open(journal, err);
    if (status == 0)
        status = journal_fail_lost(journal, ret_lost, err);
    if (status < 0) {
        journal_close(journal);
        return status;
    }
    journal_expire(journal, time(NULL));
    *ret = journal;
    return 0;
}

void journal_close(struct journal *journal)
{
    if (!journal)
        return;
    journal_drop_all(journal);
    for (struct journal_owner *owner = journal->owners, *next; owner; owner = next) {
        next = owner->next;
        free(owner);
    }
    if (journal->fd >= 0)
        close(journal->fd);
    pthread_cond_destroy(&journal->changed);
    pthread_mutex_destroy(&journal->sync_lock);
    pthread_mutex_destroy(&journal->lock);
    free(journal);
}

/* ---- accepting and recording ---- */

bool journal_key_is_valid(const char *key)
{
    size_t length = strnlen(key, JOURNAL_KEY_MAX + 1);
    for (size_t i = 0; i < length; i++)
        if (key[i] < 0x20 || key[i] > 0x7e)
            return false;
    return length > 0 && length <= JOURNAL_KEY_MAX;
}

static int journal_make_fresh(struct journal *journal, const char *id, const struct journal_request *request,
                              int64_t *ret_written, struct error *err)
{
    struct journal_entry *entry = journal_add(journal, id, request->tenant);
    if (!entry)
        return error_host(err, -ENOMEM, "the journal");
    if (entry->owner->keys > JOURNAL_KEYS_MAX) {
        journal_drop(journal, entry);
        return JOURNAL_FULL;
    }
    snprintf(entry->hash, sizeof entry->hash, "%s", request->hash);
    entry->at_s = time(NULL);
    int status = journal_write_accepted(journal, entry, ret_written, err);
    if (status < 0)
        journal_drop(journal, entry);
    return status < 0 ? status : JOURNAL_FRESH;
}

/* With the lock held, which is let go while waiting. */
static int journal_decide(struct journal *journal, const char *id, const struct journal_request *request,
                          int client_fd, struct journal_outcome *ret_outcome, int64_t *ret_written,
                          struct error *err)
{
    for (;;) {
        struct journal_entry *entry = journal_find(journal, id); /* anew: it may be another after a wait */
        if (!entry)
            return journal_make_fresh(journal, id, request, ret_written, err);
        if (strcmp(entry->hash, request->hash) != 0)
            return JOURNAL_OTHER;
        if (entry->done) {
            int status = journal_read_outcome(journal, entry, ret_outcome, err);
            *ret_written = journal->written; /* it may have been written a moment ago */
            return status < 0 ? status : JOURNAL_RECORDED;
        }
        clock_wait(&journal->changed, &journal->lock, HANGUP_LOOK_MS);
        if (hangup_is_seen(client_fd))
            return -ECANCELED;
    }
}

int journal_accept(struct journal *journal, const struct journal_request *request, int client_fd,
                   struct journal_outcome *ret_outcome, struct error *err)
{
    char id[JOURNAL_HASH_SIZE];
    journal_identify(request->tenant, request->key, id);
    int64_t written = 0, now_s = time(NULL);
    pthread_mutex_lock(&journal->lock);
    bool is_due = now_s - journal->expired_at_s >= EXPIRE_EVERY_S;
    pthread_mutex_unlock(&journal->lock);
    if (is_due)
        journal_expire(journal, now_s);
    pthread_mutex_lock(&journal->lock);
    int answer = journal_decide(journal, id, request, client_fd, ret_outcome, &written, err);
    pthread_mutex_unlock(&journal->lock);
    int status = written ? journal_sync(journal, written, err) : 0;
    if (status == 0)
        return answer;
    if (answer == JOURNAL_FRESH)
        journal_release(journal, request);
    else
        buffer_free(&ret_outcome->body);
    return status;
}

int journal_record(struct journal *journal, const struct journal_request *request,
                   const struct journal_outcome *outcome, struct error *err)
{
    char id[JOURNAL_HASH_SIZE];
    journal_identify(request->tenant, request->key, id);
    int64_t written = 0;
    pthread_mutex_lock(&journal->lock);
    struct journal_entry *entry = journal_find(journal, id);
    int status = entry && !entry->done
                     ? journal_write_outcome(journal, entry, outcome, &written, err)
                     : error_host(err, -ENOENT, "the journal has no such request under way");
    pthread_mutex_unlock(&journal->lock);
    if (status == 0)
        status = journal_sync(journal, written, err);
    pthread_mutex_lock(&journal->lock);
    pthread_cond_broadcast(&journal->changed); /* only now: who waits must not answer what may be lost */
    pthread_mutex_unlock(&journal->lock);
    return status;
}

void journal_release(struct journal *journal, const struct journal_request *request)
{
    char id[JOURNAL_HASH_SIZE];
    journal_identify(request->tenant, request->key, id);
    pthread_mutex_lock(&journal->lock);
    struct journal_entry *entry = journal_find(journal, id);
    if (entry && !entry->done) {
        journal_write_released(journal, entry);
        journal_drop(journal, entry);
    }
    pthread_cond_broadcast(&journal->changed);
    pthread_mutex_unlock(&journal->lock);
}

/* ---- forgetting ---- */

void journal_expire(struct journal *journal, int64_t now_s)
{
    pthread_mutex_lock(&journal->sync_lock);
    pthread_mutex_lock(&journal->lock);
    journal->expired_at_s = now_s;
    for (size_t i = 0; i < JOURNAL_BUCKETS; i++)
        for (struct journal_entry *entry = journal->buckets[i], *next; entry; entry = next) {
            next = entry->next;
            if (entry->done && entry->at_s + JOURNAL_LIFE_S <= now_s)
                journal_drop(journal, entry);
        }
    int64_t useless = journal->size - journal->useful;
    struct error err = {0};
    if (useless >= USELESS_MIN && useless >= journal->useful && journal_rewrite(journal, &err) < 0)
        fprintf(stderr, "cloche-server: %s; the journal stays as long as it is\n", err.text);
    pthread_mutex_unlock(&journal->lock);
    pthread_mutex_unlock(&journal->sync_lock);
}

size_t journal_count(struct journal *journal)
{
    pthread_mutex_lock(&journal->lock);
    size_t count = journal->count;
    pthread_mutex_unlock(&journal->lock);
    return count;
}

int64_t journal_size_bytes(struct journal *journal)
{
    pthread_mutex_lock(&journal->lock);
    int64_t size = journal->size;
    pthread_mutex_unlock(&journal->lock);
    return size;
}
