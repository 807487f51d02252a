#include "server/idempotency.h"

#include "base/sha256.h"
#include "server/exchange_inside.h"
#include "server/journal.h"
#include "server/server.h"
#include "server/tenant.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What one request is answered with, until it is in the journal. */
struct recording {
    struct journal *journal;
    char *key;
    const char *tenant;
    char hash[65];
    bool is_stream, is_over, is_free; /* free: nothing was done under the key */
    struct journal_outcome outcome;
};

static struct journal_request request_of(const struct recording *recording)
{
    return (struct journal_request){
        .tenant = recording->tenant, .key = recording->key, .hash = recording->hash};
}

void recording_add(struct recording *recording, const void *data, size_t length)
{
    if (!recording || recording->is_over)
        return;
    struct journal_outcome *outcome = &recording->outcome;
    outcome->body_bytes += (int64_t)length;
    if (outcome->kept &&
        (outcome->body_bytes > JOURNAL_BODY_MAX || buffer_append(&outcome->body, data, length) < 0)) {
        outcome->kept = false;
        buffer_free(&outcome->body);
    }
}

static void recording_begin(struct recording *recording, int status, const char *type)
{
    buffer_free(&recording->outcome.body);
    recording->outcome = (struct journal_outcome){.status = status, .kept = true};
    snprintf(recording->outcome.type, sizeof recording->outcome.type, "%s", type ? type : "");
}

void recording_take(struct recording *recording, int status, const char *type, const void *data,
                    size_t length)
{
    if (!recording || recording->is_over)
        return;
    recording_begin(recording, status, type);
    recording->is_stream = false;
    recording_add(recording, data, length);
}

void recording_stream(struct recording *recording, const char *type)
{
    if (!recording || recording->is_over)
        return;
    recording_begin(recording, 200, type);
    recording->is_stream = true;
}

void recording_refuse(struct recording *recording, int status)
{
    static const int nothing_done[] = {400, 413, 422};
    for (size_t i = 0; recording && i < sizeof nothing_done / sizeof *nothing_done; i++)
        if (status == nothing_done[i])
            recording->is_free = true;
}

void recording_end(struct recording *recording)
{
    if (!recording || recording->is_over)
        return;
    recording->is_over = true;
    struct journal_request request = request_of(recording);
    struct journal_outcome *outcome = &recording->outcome;
    struct error err = {0};
    if (recording->is_free || outcome->status == 429 || outcome->status == 503)
        journal_release(recording->journal, &request);
    else if (journal_record(recording->journal, &request, outcome, &err) < 0)
        fprintf(stderr, "cloche-server: %s\n", err.text);
}

void recording_free(struct recording *recording)
{
    if (!recording)
        return;
    recording_end(
        recording); /* a handler that could not answer: the client gets a plain 500, and so does the next */
    buffer_free(&recording->outcome.body);
    free(recording->key);
    free(recording);
}

/* ---- before the handler ---- */

static void hash_query(void *data, const char *name, const char *value)
{
    sha256_add(data, name, strlen(name) + 1);
    sha256_add(data, value, strlen(value) + 1);
}

static bool hash_request(const struct exchange *exchange, char ret_hex[65])
{
    struct sha256 *hash = sha256_new();
    if (!hash)
        return false;
    const char *path = exchange_path(exchange);
    struct slice body = exchange_body(exchange);
    sha256_add(hash, path, strlen(path) + 1);
    exchange_each_query(exchange, hash_query, hash);
    if (exchange_wants_events(exchange)) /* another answer, which could not be given from the record */
        sha256_add(hash, "events", sizeof "events");
    sha256_add(hash, "", 1);
    sha256_add(hash, body.data, body.length);
    sha256_finish(hash, ret_hex);
    return true;
}

static struct recording *recording_new(struct exchange *exchange, const char *key)
{
    static const char failure[] = "{\"error\":{\"code\":\"host_failure\",\"message\":\"the server failed\"}}";
    struct recording *recording = calloc(1, sizeof *recording);
    char *copy = strdup(key);
    if (!recording || !copy || !hash_request(exchange, recording->hash)) {
        free(recording);
        free(copy);
        return NULL;
    }
    recording->journal = exchange->server->journal;
    recording->key = copy;
    recording->tenant = exchange->tenant->name;
    recording_take(recording, 500, "application/json", failure, sizeof failure - 1);
    return recording;
}

static int replay(struct exchange *exchange, struct journal_outcome *outcome)
{
    exchange_set_header(exchange, "Idempotency-Replayed", "true");
    if (outcome->kept)
        return exchange_reply_text(exchange, outcome->status,
                                   outcome->type[0] ? outcome->type : "application/json", &outcome->body);
    return exchange_reply_json(exchange, outcome->status,
                               json_pack("{s:b,s:I,s:s}", "outcome_kept", 0, "outcome_bytes",
                                         (json_int_t)outcome->body_bytes, "message",
                                         "this was done before; its answer was too long to be kept"));
}

static int answer_without(struct exchange *exchange, int answer, struct journal_outcome *outcome,
                          const struct error *err)
{
    switch (answer) {
    case JOURNAL_RECORDED:
        return replay(exchange, outcome);
    case JOURNAL_OTHER:
        return exchange_reply_error(exchange, 409, "conflict", "Idempotency-Key",
                                    "take a new key for a new request; that events are asked for, by Accept, "
                                    "makes it another one",
                                    "this Idempotency-Key was used for another request");
    case JOURNAL_FULL:
        exchange_set_header(exchange, "Retry-After", "3600");
        return exchange_reply_error(exchange, 429, "quota", "Idempotency-Key", NULL,
                                    "more than %d keys were used within a day", JOURNAL_KEYS_MAX);
    case -ECANCELED: /* nobody reads it */
        return exchange_reply_error(exchange, 409, "conflict", "Idempotency-Key", NULL,
                                    "the request is under way");
    default:
        return exchange_reply_problem(exchange, err);
    }
}

int idempotency_handle(struct exchange *exchange, route_handler handler)
{
    const char *key = exchange_header(exchange, "Idempotency-Key");
    if (!key || strcmp(exchange->method, "POST") != 0 || !exchange->tenant)
        return handler(exchange);
    if (!journal_key_is_valid(key))
        return exchange_reply_error(exchange, 400, "bad_request", "Idempotency-Key", NULL,
                                    "Idempotency-Key: 1 to %d printable ASCII characters", JOURNAL_KEY_MAX);
    struct recording *recording = recording_new(exchange, key);
    if (!recording)
        return -ENOMEM;
    struct journal_request request = request_of(recording);
    struct journal_outcome outcome = {0};
    struct error err = {0};
    int answer = journal_accept(recording->journal, &request, exchange_client_fd(exchange), &outcome, &err);
    if (answer != JOURNAL_FRESH) {
        recording->is_over = true;
        recording_free(recording);
        int status = answer_without(exchange, answer, &outcome, &err);
        buffer_free(&outcome.body);
        return status;
    }
    exchange->recording = recording;
    int status = handler(exchange);
    if (status < 0 && !exchange->response)
        recording_end(recording); /* as the plain failure that it began with */
    if (!recording->is_stream)
        recording_end(recording);
    return status;
}
