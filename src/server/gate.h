/* The gate: what every run goes through, wherever it comes from: admission, then a note in the audit log for
 * each run; at the end, both back. */
#pragma once

#include "base/bytes.h"
#include "server/exchange.h"
#include "server/refusal.h"
#include "spec/limits.h"
#include "spec/result.h"

struct admission_need;
struct spec;
struct gate_pass;

/* Blocks until the runs may start. 0; or negative, and the answer is set: a quota (429), no room (503). */
int gate_enter(struct exchange *exchange, const struct admission_need *need, struct gate_pass **ret);

/* Counts a run that ended, or was never started: of all, and of the tenant. */
void gate_count_run(struct exchange *exchange, enum cause cause, int64_t duration_us);
void gate_count_refused(struct exchange *exchange);

/* The limits that a spec will have: the operator's where it has none of its own. What is out of range is
 * refused here, with the keeper's words: claims are made of these. 0, or negative and the answer is set. */
int gate_limits(struct exchange *exchange, const struct spec *spec, struct limits *ret);

/* What is known of a run before it. Texts may be NULL. */
struct gate_run {
    const char *id;
    const char *sandbox; /* of a run in a live one */
    const char *language, *isolation, *image;
    struct slice code;           /* its hash is noted, never itself */
    const struct limits *limits; /* may be NULL */
};

/* Notes that a run starts; they are numbered from 0, as many as the need said. */
void gate_note(struct gate_pass *pass, struct exchange *exchange, const struct gate_run *run);

/* How one ended. Texts may be NULL; `files` is an array of objects with path, size and sha256, borrowed, or
 * NULL. */
struct gate_outcome {
    const char *cause, *detail;
    const char *refusal;              /* it was refused after it was noted, with this code, and did not run */
    const char *language, *isolation; /* what it ran in; NULL: as it was noted */
    int exit_code;                    /* -1: none */
    const struct result_usage *usage;
    const int64_t *charge_us; /* CPU time that the tenant is charged with; NULL: that of `usage` */
    const json_t *files;
};
void gate_end(struct gate_pass *pass, size_t number, const struct gate_outcome *outcome);

/* All are over; those that nobody said the end of have failed by the host. To be called before the client
 * hears the last word: what it does next must find the room that it gave back. Frees the pass, and sets it to
 * NULL; if it is NULL already, nothing happens. */
void gate_leave(struct gate_pass **pass);

int gate_refuse(struct exchange *exchange, const struct refusal *refusal);
