/* Contexts: an interpreter in a box that keeps variables, imports, directory and files between runs. */
#ifndef CLOCHE_CONTEXT_H
#define CLOCHE_CONTEXT_H

#include <cloche/error.h>
#include <cloche/result.h>
#include <cloche/spec.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cloche_context;

/* What is used at one moment, while a run is under way. */
struct cloche_usage {
    int64_t run; /* its number, from 1 */
    int64_t elapsed_us, wall_limit_us;
    int64_t cpu_us, cpu_limit_us; /* of all processes since it began; limits with their extensions */
    int64_t silent_us;            /* since its last output, or its start */
    double fraction;              /* what it reported last: 0 to 1; -1: nothing, or unknown */
    const char *text;             /* the same in words, UTF-8, the guest's; never NULL */
    /* Of the box that the context lives in. */
    int64_t memory_bytes, peak_memory_bytes, pids, disk_bytes;
    /* Of the context. */
    int runs, runs_max;
    int64_t age_us, lifetime_us;
};

/* All may be 0 or NULL. */
struct cloche_context_options {
    const char *config_path; /* as in cloche_options */
    int64_t lifetime_ms;     /* 0: an hour */
    int64_t idle_ms;         /* 0: 15 minutes without a run */
    int runs_max;            /* 0: 20 */
    /* What other programs and C code in the box write to descriptors 1 and 2; called by another thread. */
    void (*output)(void *data, int stream, const char *bytes, size_t length);
    void *data; /* for the functions; it stays the caller's, and must live as long as the context and its
                   forks */
    /* Called five times a second by the thread that waits in cloche_context_run, and by that of each branch
     * in cloche_context_run_branches; what `usage` points to is valid during the call. */
    void (*watch)(void *data, const struct cloche_usage *usage);
};

/* One thing that a run said. What it points to is valid during the call. */
struct cloche_event {
    /* "started", "stdout", "stderr", "result" (a value or something displayed), "progress", "end" */
    const char *type;
    const char *bytes; /* stdout, stderr: what was written */
    size_t length;
    int is_value;       /* result: of the last expression */
    size_t media_count; /* result: the same thing in several forms, text/plain first */
    const char *const *media_types;
    const char *const *media_bytes;
    const size_t *media_lengths;
    double fraction;                                  /* progress: 0 to 1; -1: unknown */
    const char *text;                                 /* progress */
    const char *status;                               /* end: "ok", "error", "exit", "interrupted" */
    const char *error_name, *error_value, *traceback; /* end with error or interrupted; else NULL */
};

/* What came of a run. */
struct cloche_outcome {
    const char *status; /* a constant, as above */
    const char *cause;  /* "exit"; "cancelled": interrupted; "wall_time", "cpu_time", "output": its
                           limits; "pids", "disk": it failed when it was refused more; others when it died */
    int exit_code;
    int died; /* the interpreter is gone */
    int64_t duration_us, truncated_bytes;
};

typedef void (*cloche_event_function)(void *data, const struct cloche_event *event);

/* The spec says language (python, javascript, bash), image, limits, inputs; it has no code. It is taken, also
 * on failure. Returns when the interpreter is ready. */
int cloche_context_open(struct cloche_spec *spec, const struct cloche_context_options *options,
                        struct cloche_context **ret, struct cloche_error *err);

/* Runs code; `event` (may be NULL) is told what it says as it comes. `stdin_text` NULL: none is given. */
int cloche_context_run(struct cloche_context *context, const char *code, size_t length,
                       const char *stdin_text, cloche_event_function event, void *data,
                       struct cloche_outcome *ret, struct cloche_error *err);

/* From any thread, for the run that is under way. */
int cloche_context_interrupt(struct cloche_context *context);
int cloche_context_extend(struct cloche_context *context, int64_t extra_ms, struct cloche_error *err);

/* A fresh interpreter in its place. */
int cloche_context_restart(struct cloche_context *context, struct cloche_error *err);

/* A copy, between two runs: variables and files as they are now, in a box of its own. Kept aside, it is a
 * point to come back to: fork it as often as you like. It goes on if the first dies. What cannot be copied
 * (threads, child processes, sockets …) is named by the error. python only. */
int cloche_context_fork(struct cloche_context *context, struct cloche_context **ret,
                        struct cloche_error *err);

/* One continuation of a context: code in, what came of it out. */
struct cloche_branch {
    const char *code;
    size_t length;
    int status; /* 0: there is an outcome; else the error says why not */
    struct cloche_error error;
    struct cloche_outcome outcome;
};

/* Forks the context for each, runs all side by side, and closes them. `event` is told which branch speaks;
 * `ended` (may be NULL) is called when one has ended, and chooses it by returning 1: the others are ended,
 * and it is *ret_winner (may be NULL), to be closed by the caller. */
int cloche_context_run_branches(struct cloche_context *context, struct cloche_branch *branches, size_t count,
                                void (*event)(void *data, size_t branch, const struct cloche_event *event),
                                int (*ended)(void *data, size_t branch), void *data,
                                struct cloche_context **ret_winner, struct cloche_error *err);

/* How the interpreter came to its end: cause, detail, exit code or signal, usage, files. NULL while it lives.
 * The context's, until it is restarted or closed: not to be freed. */
const struct cloche_result *cloche_context_result(struct cloche_context *context);

/* Ends the interpreter, between two runs, and writes what it left in /data/output to the directory (made if
 * need be; NULL: nowhere), by the rules of a run. After it there is a result, which lists the files; the
 * context may be restarted, and is still to be closed. One that has ended already has nothing to write any
 * more. */
int cloche_context_finish(struct cloche_context *context, const char *output_directory,
                          struct cloche_error *err);

/* Ends it and frees it; accepts NULL. */
void cloche_context_close(struct cloche_context *context);

#ifdef __cplusplus
}
#endif
#endif
