/* A context: an interpreter in a box of its own that keeps variables, imports, directory and files between
 * runs.
 *
 * Theory of operation. The box is made, watched and reaped by a thread, with the same code as any other run;
 * its program is the runner of the language (runtime/runner.h), and lives until it is closed, its lifetime is
 * over, or it dies. Runs go to it over the box's channel (runtime/runner_protocol.h), one at a time, from the
 * caller's thread. Limits on memory, processes and disk are the box's; the wall limit is for each run: at its
 * end the run is interrupted, and if that does not help within a second, the context ends.
 *
 * A context belongs to one caller at a time; only context_interrupt may be called from another thread. */
#pragma once

#include "engine/supervise.h"
#include "runtime/runner_protocol.h"
#include "spec/policy.h"
#include "spec/result.h"
#include "spec/spec.h"

struct context;

struct context_options {
    int64_t lifetime_ms; /* 0: an hour */
    int runs_max;        /* 0: 20 */
    /* What programs and C code in the box write to descriptors 1 and 2, outside the protocol; called from
     * another thread. May be NULL. */
    void (*output)(void *data, enum supervise_stream stream, const char *bytes, size_t length);
    void *data;
};

/* Takes the spec (which must not have code or a command), also when it fails. Returns when the interpreter is
 * ready. */
int context_open(struct spec *spec, const struct policy *policy, const struct context_options *options,
                 struct context **ret, struct error *err);

/* What came of one run. */
struct context_outcome {
    enum runner_status status;
    int exit_code;
    int64_t duration_us;
    bool timed_out;          /* interrupted because the wall limit was reached */
    int64_t truncated_bytes; /* of stdout and stderr together, over the output limit */
    bool died;               /* the interpreter is gone: context_result tells the cause */
};

/* Runs code and hands everything that it says to `event` as it comes, the end included. 0 when the run has an
 * outcome, also a death; a negative errno when it was not started: -EBUSY after the last of its runs, -EPIPE
 * when the context is dead already. */
int context_run(struct context *context, const struct runner_order *order,
                void (*event)(void *data, const struct runner_event *event), void *data,
                struct context_outcome *ret, struct error *err);

/* Is the code, typed line by line, to be run, or does it go on? What cannot be told is to be run. */
bool context_is_complete(struct context *context, struct slice code);

/* SIGINT for the run that is under way (KeyboardInterrupt in Python); nothing between runs. */
int context_interrupt(struct context *context);

/* How a context that died came to its end; NULL while it lives. */
const struct result *context_result(const struct context *context);

/* Ends it, waits until nothing of it is left, and frees it. NULL is fine. */
void context_close(struct context *context);
