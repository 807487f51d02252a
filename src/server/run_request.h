/* What `POST /v1/run` asks for. */
#pragma once

#include "server/exchange.h"
#include "server/run_files.h"
#include "spec/spec.h"

enum run_collect {
    RUN_COLLECT_LIST,   /* names, sizes and hashes only */
    RUN_COLLECT_INLINE, /* contents in the answer, as far as they are small */
    RUN_COLLECT_URL,    /* kept for a while, to be fetched */
};

struct run_request {
    json_t *body;
    struct spec *spec;
    struct run_files files;
    const char *stdin_upload; /* NULL: the spec has it */
    char stdin_sha256[65];    /* of that upload, when it is in use */
    enum run_collect collect;
    bool wants_events, is_cold;
};

/* On a negative errno the answer is set. */
int run_request_read(struct exchange *exchange, struct run_request *ret);
void run_request_free(struct run_request *request);

/* What a preset sets, for others that have presets. -ENOENT: there is none of that name. */
struct server;
int run_preset_apply(const struct server *server, const char *name, struct spec *spec, struct error *err);

/* Answers 400: "FIELD: message". */
int run_refuse(struct exchange *exchange, const char *field, const char *message);

/* Answers 400 for a field that is not of these (NULL at the end), with the one that was meant. */
int run_refuse_unknown(struct exchange *exchange, const json_t *object, const char *const *known,
                       const char *what);
