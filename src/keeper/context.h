/* A context: an interpreter in a box of its own that keeps variables, imports, directory and files between
 * runs.
 *
 * Theory of operation. The box is made, watched and reaped by a thread, with the same code as any other run;
 * its program is the runner of the language (runtime/runner.h), and lives until it is closed, its lifetime is
 * over, it was idle for too long, or it dies. Runs go to it over the box's channel
 * (runtime/runner_protocol.h), one at a time, from the caller's thread. Limits on memory, processes and disk
 * are the box's; wall and CPU time are for each run: at its limit the run is interrupted, and if that does
 * not help within a second, the context ends. Both threads look at the clock, so that a caller who stalls in
 * a callback stops no limit.
 *
 * A context belongs to one caller at a time; only context_interrupt, context_extend, context_look and
 * context_cancel may be called from other threads. */
#pragma once

#include "engine/supervise.h"
#include "runtime/runner_protocol.h"
#include "spec/policy.h"
#include "spec/result.h"
#include "spec/spec.h"

enum {
    CONTEXT_RUNS_DEFAULT = 20,
    CONTEXT_LIFETIME_DEFAULT_MS = 3600 * 1000,
    CONTEXT_IDLE_DEFAULT_MS = 15 * 60 * 1000,
    CONTEXT_TEXT_MAX = 2048, /* of what a run says about its progress */
};

struct context;

/* What is used at one moment. Limits of wall and CPU time are those of the run under way, extensions
 * included. */
struct context_usage {
    int64_t run; /* number of the run under way; 0: none, and what is the run's own is 0 */
    int64_t elapsed_us, wall_limit_us;
    int64_t cpu_us, cpu_limit_us; /* of all processes since the run began, looked at 20 times a second */
    int64_t silent_us;            /* since the last output, or the start */
    double fraction;              /* what it reported last: 0 to 1; -1: nothing, or unknown */
    char text[CONTEXT_TEXT_MAX];  /* the guest's words, UTF-8 */
    /* Of the box. */
    int64_t memory_bytes, peak_memory_bytes;
    int64_t pids, disk_bytes;
    /* Of the context. */
    int runs, runs_max;
    int64_t age_us, lifetime_us, idle_us, idle_limit_us;
};

struct context_options {
    int64_t lifetime_ms; /* 0: an hour */
    int64_t idle_ms;     /* 0: 15 minutes without a run; then it ends by itself */
    int runs_max;        /* 0: 20 */
    bool is_for_others;  /* it never gets anybody's code: its forks are other people's */
    /* What programs and C code in the box write to descriptors 1 and 2, outside the protocol. `is_runs`: in
     * its place among the events of the run under way, by the thread that waits in context_run; else between
     * runs, by another. May be NULL. */
    void (*output)(void *data, enum supervise_stream stream, struct slice bytes, bool is_runs);
    /* Called five times a second while a run is under way, by the thread that waits in context_run. May be
     * NULL. */
    void (*watch)(void *data, const struct context_usage *usage);
    void *data;
    struct cpu_bill *bill; /* of CPU time that no run or command is charged with; held. May be NULL */
};

/* Takes the spec (which must not have code or a command), also when it fails; the policy must outlive the
 * context. Returns when the interpreter is ready. */
int context_open(struct spec *spec, const struct policy *policy, const struct context_options *options,
                 struct context **ret, struct error *err);

/* What came of one run. */
struct context_outcome {
    enum runner_status status;
    int exit_code;
    int64_t duration_us;
    /* exit: it ended by itself, if with an exception; pids, disk: with one, after it was refused more of
     * that; cancelled: context_interrupt ended it; wall_time, cpu_time, output: it reached that limit;
     * anything else only with `died`. */
    enum cause cause;
    bool timed_out; /* wall_time or cpu_time */
    /* Over the output limit, by what it was; and together. */
    int64_t truncated_stdout_bytes, truncated_stderr_bytes, truncated_bytes;
    bool died;         /* the interpreter is gone: context_result tells more of the cause */
    int64_t cpu_us;    /* of all processes during the run; what its watchdog saw, where it has one */
    int64_t charge_us; /* of that, and of what was used before, what nobody was charged with yet */
    int64_t peak_memory_bytes, pids, disk_bytes; /* of the box, until and at its end */
};

/* Runs code and hands everything that it says to `event` as it comes, the end included. 0 when the run has an
 * outcome, also a death; a negative errno when it was not started: -EBUSY after the last of its runs, -EPIPE
 * when the context has ended, with the reason (it died, was idle, its lifetime is over). */
int context_run(struct context *context, const struct runner_order *order,
                void (*event)(void *data, const struct runner_event *event), void *data,
                struct context_outcome *ret, struct error *err);

/* The next run has these limits instead of the context's; 0: the context's. Above the operator's ceiling:
 * -EINVAL. */
int context_limit_next(struct context *context, int64_t wall_ms, int64_t cpu_ms, struct error *err);

/* Is the code, typed line by line, to be run, or does it go on? What cannot be told is to be run. */
bool context_is_complete(struct context *context, struct slice code);

/* Imports modules before anybody's code runs: python only. What the image lacks is left out. */
int context_preload(struct context *context, const struct string_list *modules, struct error *err);

/* SIGINT for the run that is under way (KeyboardInterrupt in Python), and never for a later one; nothing
 * between runs. A second call for the same run, a second later or more, ends the interpreter. 1: there is a
 * run; 0: there is none. */
int context_interrupt(struct context *context);

/* More time for the run that is under way. Its wall limit grows by so much, and its CPU limit too, but not
 * beyond the operator's ceiling. -EINVAL when the wall limit would be above its ceiling (then nothing
 * changes), -ESRCH when no run is under way or its time is over already. */
int context_extend(struct context *context, int64_t extra_ms, struct error *err);

/* A command beside the interpreter, in the same box and under its limits. Its start is a sign of life, as a
 * run is. */
struct context_command {
    struct string_list words;       /* the first is a path, or a name that the image has in PATH */
    struct string_list environment; /* NAME=VALUE, added to the box's own */
    const char *directory;          /* NULL: /data/output */
    const char *id;                 /* what those who watch are told that it is called; NULL: nothing */
    bool is_about_files; /* not a program of the image: words of guest/files/files.c, from the verb on */
    const struct winsize *window; /* of the terminal that it is to have; NULL: none */
    int *ret_master;              /* our end of that */
    int fds[3];                   /* its streams, where it has none; they stay the caller's */
};

/* The account of its box, noted anew; to be put back. From any thread. */
struct cpu_account *context_cpu_account(struct context *context);

/* Puts on the bill what its box used and nobody was charged with. Returns the memory that the box holds. */
int64_t context_settle(struct context *context);

/* Starts it; from any thread. *ret_socket is for beside_signal and beside_take_end (engine/beside.h); who
 * closes it, kills the command. */
int context_exec(struct context *context, const struct context_command *command, int *ret_socket,
                 struct error *err);

/* A copy of a python context between two runs: variables, imports and files as they are now, in a box of its
 * own that shares nothing with the first from here on. Its limits are the same, its lifetime is the rest of
 * the first's. Its files are open as they were, randomness is renewed; running threads, child processes,
 * sockets and pipes cannot be copied, and are named. NULL options: those of the first. The first one's box
 * stays until all its forks are closed, also if it is closed before; they go on if it dies. */
int context_fork(struct context *context, const struct context_options *options, struct context **ret,
                 struct error *err);

/* The same for a copy that is to be forked itself, to come back to: refused where that would not go. */
int context_fork_point(struct context *context, const struct context_options *options, struct context **ret,
                       struct error *err);

/* The same with a spec of its own, prepared (runner_prepare_spec) and validated, which is taken, also when it
 * fails. Language, image, isolation, environment and open files must be the first's, its disk not larger: its
 * processes carry these with them. */
int context_fork_as(struct context *context, struct spec *spec, const struct context_options *options,
                    struct context **ret, struct error *err);

/* One of several continuations of a context. */
struct context_branch {
    struct runner_order order;
    /* Filled in. */
    int status; /* 0 when it has an outcome; -ECANCELED when another was chosen before it began */
    struct error error;
    struct context_outcome outcome;
};

struct context_branches {
    struct context_branch *items;
    size_t count;
    /* Called by the branches' threads, but never by two at a time. */
    void (*event)(void *data, size_t branch, const struct runner_event *event);
    /* A branch has ended. True: it is the one; the others are ended. May be NULL. */
    bool (*ended)(void *data, size_t branch);
    void *data;
};

/* Forks the context for each branch, runs them side by side, and closes them. *ret_winner (may be NULL) is
 * the fork of the branch that `ended` chose, or NULL; the caller closes it. 0 when every branch was tried;
 * how each fared is in its own fields. */
int context_run_branches(struct context *context, struct context_branches *branches,
                         struct context **ret_winner, struct error *err);

/* What is used now; waits for the next measurement, a twentieth of a second. */
void context_look(struct context *context, struct context_usage *ret);

/* The limits that its box and its runs have. */
const struct limits *context_limits(const struct context *context);
enum isolation context_isolation(const struct context *context);

/* A fresh interpreter with the same spec and limits, whether the old one is alive or not: all variables and
 * files are gone, and all its runs are there again. When it fails the context is dead, and may be restarted
 * again. */
int context_restart(struct context *context, struct error *err);

/* When its box ends, however it does, what is in /data/output goes into this directory, by the rules of a run
 * (keeper/collect.h); what was left out is in the result. The descriptor is copied; -1: where the spec says,
 * and of a fork nowhere. Holds until it is changed; forks do not inherit it. */
int context_collect_into(struct context *context, int directory_fd, struct error *err);

/* Ends it, and waits until its box is gone and its files are collected: context_result tells more. It may be
 * restarted, and is still to be closed. Not while a run is under way. A negative errno when the host failed,
 * and there is no result. */
int context_finish(struct context *context, const char *why, struct error *err);

/* How a context came to its end; NULL while it lives. The context's, until it is restarted or closed. */
const struct result *context_result(struct context *context);

/* How long it waits for a run from now on. */
void context_set_idle(struct context *context, int64_t idle_ms);

/* Ends its box soon, whoever uses it: a run that is under way dies with `why`, forks live on. It is still to
 * be closed. */
void context_cancel(struct context *context, const char *why);

/* Ends it, waits until nothing of it is left, and frees it. NULL is fine. */
void context_close(struct context *context);
