/* The journal: what was asked with an Idempotency-Key, and how it ended.
 *
 * Theory of operation. DATA/journal is a file that only grows: one JSON object a line. `accepted` is on the
 * disk before anything is done for a request, `outcome` before its answer is sent; so a key never runs twice,
 * and whatever moment the server dies at, each accepted request has one outcome: the one that was written,
 * or, written at the next start, that the host failed. `released` takes an acceptance back when nothing was
 * done (the machine was full): the next one with the key may run. The last line may be torn by a crash;
 * nothing was promised about what was being written, so it is cut off.
 *
 * In memory there is an entry a key, with the place of its outcome in the file; bodies are read from there.
 * Keys count within their tenant, and for a day; then the entry goes, and the file is written anew without it
 * when half of it is of no use any more. Threads share syncs: whoever comes first syncs for all who have
 * written. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    JOURNAL_KEY_MAX = 255,         /* characters of an Idempotency-Key */
    JOURNAL_BODY_MAX = 1 << 20,    /* of an outcome that is kept; of a longer one, only that there was one */
    JOURNAL_LIFE_S = 24 * 60 * 60, /* of a key */
    JOURNAL_KEYS_MAX = 100000,     /* of one tenant */
    JOURNAL_BYTES_MAX = 64 << 20,  /* of bodies of one tenant; further ones are not kept */
};

struct journal;

/* Reads what is there, gives an outcome to what has none, cuts off a torn end. Returns 0 and how many
 * requests were lost. */
int journal_open(int data_fd, struct journal **ret, int *ret_lost, struct error *err);
void journal_close(struct journal *journal);

/* Is it 1 to JOURNAL_KEY_MAX printable ASCII characters? */
bool journal_key_is_valid(const char *key);

struct journal_request {
    const char *tenant;
    const char *key;
    const char *hash; /* SHA-256 of method, path, query and body: what must be the same */
};

struct journal_outcome {
    int status;
    char type[64];      /* Content-Type; empty: JSON */
    struct buffer body; /* freed by who receives it */
    bool kept;          /* false: the body was too long; body_bytes says how long */
    int64_t body_bytes;
};

enum journal_answer {
    JOURNAL_FRESH,    /* on the disk as accepted: do it, then journal_record or journal_release */
    JOURNAL_RECORDED, /* done before: *ret_outcome */
    JOURNAL_OTHER,    /* the key was used for something else */
    JOURNAL_FULL,     /* the tenant has used too many keys today */
};

/* An enum journal_answer. Waits while the same request is under way; -ECANCELED when `client_fd` (-1: none)
 * hangs up meanwhile. */
int journal_accept(struct journal *journal, const struct journal_request *request, int client_fd,
                   struct journal_outcome *ret_outcome, struct error *err);

/* How it ended; on the disk when it returns. Body and type are copied. */
int journal_record(struct journal *journal, const struct journal_request *request,
                   const struct journal_outcome *outcome, struct error *err);
/* Nothing was done. */
void journal_release(struct journal *journal, const struct journal_request *request);

/* Forgets what is older than JOURNAL_LIFE_S at that time, and writes the file anew when that is worth it.
 * Called by itself now and then. */
void journal_expire(struct journal *journal, int64_t now_s);

/* For tests and statistics. */
size_t journal_count(struct journal *journal);
int64_t journal_size_bytes(struct journal *journal);
