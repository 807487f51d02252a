/* The gate: what every run goes through, wherever it comes from: admission, then its note in the audit log;
 * at its end, both back. */
#pragma once

#include "base/bytes.h"
#include "server/exchange.h"
#include "spec/limits.h"
#include "spec/result.h"

struct gate_pass;

/* What is known before a run. Texts may be NULL. */
struct gate_run {
    const char *run_id;
    const char *endpoint; /* "POST /v1/run" */
    const char *sandbox;  /* of a run in a live one */
    const char *language, *isolation, *image;
    struct slice code; /* its hash is noted, never itself */
    const struct limits *limits;
    bool holds_disk; /* false: the disk is that of a live sandbox, which has claimed it */
};

/* Blocks until the run may start. 0; or negative, and the answer is set: a quota (429), no room (503). */
int gate_enter(struct exchange *exchange, const struct gate_run *run, struct gate_pass **ret);

/* How it ended. Texts may be NULL; `files` is an array of objects with path, size and sha256, borrowed, or
 * NULL. */
struct gate_outcome {
    const char *cause, *detail;
    int exit_code; /* -1: none */
    const struct result_usage *usage;
    const json_t *files;
};

/* Frees the pass, NULL too. `outcome` NULL: the host failed. */
void gate_leave(struct gate_pass *pass, const struct gate_outcome *outcome);

/* The same from a result's JSON object: cause, exit_code, usage, files. */
void gate_leave_json(struct gate_pass *pass, const json_t *result);

/* Claims for what lives longer than a run (boxes, disk, uploads); 0, or negative and the answer is set. */
struct tenant_claim;
struct refusal;
int gate_claim(struct exchange *exchange, const struct tenant_claim *claim);
int gate_refuse(struct exchange *exchange, const struct refusal *refusal);
