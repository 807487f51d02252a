/* The inside of a context, for the files that make it up: context.c (the box: opened, restarted, closed),
 * context_run.c (the conversation with the runner), context_clock.c (time, CPU, idleness, interrupts),
 * context_streams.c (what comes beside it), context_fork.c (copies of it), context_exec.c (commands beside
 * its interpreter). */
#pragma once

#include "keeper/context.h"

#include <pthread.h>

enum { CONTEXT_GRACE_MS = 1000 /* for an interrupt to take effect, and for init to confirm it */ };

/* What the runner is asked for at the moment. */
struct context_turn {
    bool is_busy;
    int64_t run;   /* its number; 0: only a question, which is not interrupted */
    bool is_begun; /* the runner said so: a signal from now on is for this run */
    bool interrupt_wanted, interrupt_sent;
    int64_t interrupted_us;
    int64_t started_us;
    int64_t wall_ms, cpu_ms; /* its limits, extensions included */
    bool has_cpu_base;
    int64_t cpu_base_us;
    int64_t cpu_begun_us; /* measured when the run began, not a moment before or after */
    int64_t pids_refused_begun;
    enum cause cause; /* the limit that it reached; CAUSE_exit: none */
    int64_t kill_us;  /* when it is ended, if it did not listen */
    int64_t output_us;
    double fraction;
    char text[CONTEXT_TEXT_MAX];
};

struct context {
    struct spec *spec;
    const struct policy *policy;
    struct context_options options;
    int64_t run; /* number of the last, also across restarts */
    struct runner_reader reader;
    int channel_fd; /* a copy of the box's own */
    int cancel_fd;
    pthread_t thread;
    bool has_thread;
    void *(*thread_main)(void *context);
    struct context *parent; /* that it was forked from, and whose spec it shares, unless it has its own */
    bool shares_spec;
    int64_t next_wall_ms, next_cpu_ms; /* of the next run; 0: as usual */
    int stream_fd[STREAM_COUNT];       /* copies of the box's own; -1: not there, or at its end */
    pthread_mutex_t streams_lock; /* held by who reads them: a run all the time, its thread between runs */

    /* What follows is under the lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int control_fd; /* a copy of the box's own */
    bool is_started, is_ready, is_over;
    struct box *box;      /* the thread's own; NULL before and after */
    int forks;            /* alive: its box must not end before theirs */
    int forked_boxes;     /* of those, that are being made or not gone yet: they use its box */
    bool is_closed;       /* by its caller; it goes with its last fork */
    int target_fd;        /* where its files go when its box ends; -1: where the spec says */
    struct limits limits; /* of the validated spec */
    int runs;             /* since it was started */
    struct context_turn turn;
    int signals_open; /* ordered, and not confirmed by init */
    int64_t started_us, idle_since_us;
    struct measurement measured;
    int64_t peak_memory_bytes, samples;
    int64_t idle_output_bytes; /* since the last run */
    bool is_ending;            /* by us: the reason is kept, for the result can only say "cancelled" */
    enum cause ending_cause;
    char ending_detail[384];
    int status;
    struct error error;
    struct result *result;
    struct cpu_account *cpu_account; /* of the box that there is, or was last */
};

/* A context that is not started yet. Does not take the spec when it fails. */
struct context *context_make(struct spec *spec, const struct policy *policy,
                             const struct context_options *options);

/* Starts its thread, and waits until the runner is ready. */
int context_start(struct context *context, struct error *err);

/* What the supervisor needs of a context. */
struct supervise_io context_io(struct context *context);

/* In its thread: the box is there, has ended, and is over. Forks use what is left of it for as long as they
 * are there, its init and its listener: they are waited for, and the result is told before. */
void context_box_started(void *context, struct box *box);
void context_box_ended(void *context, struct box *box, struct result *result);
void context_box_over(struct context *context, int status, struct result *result, const struct error *err);

/* A fork of it is gone. */
void context_release(struct context *context);

/* Waits for `changed` until then; false when that time has come. Called with the lock held. */
bool context_wait(struct context *context, int64_t until_us);

/* For the supervisor: what comes while no run reads. */
bool context_streams_take(void *context);
void context_streams_leave(void *context);
void context_streams_output(void *context, enum supervise_stream stream, const char *bytes, size_t length);

/* What programs have written by now; each piece is handed to `hear`, without waiting. By who holds the
 * streams. */
void context_streams_read(struct context *context,
                          void (*hear)(void *data, enum supervise_stream stream, struct slice bytes),
                          void *data);

/* Until the box is gone, as long as that may take. With the lock held. */
void context_wait_for_end(struct context *context);

/* Reads what the runner has said. 1: something came; 0: nothing for now; -EPIPE: the runner is gone. */
int context_read(struct context *context, struct error *err);

/* Ends the box; the first reason counts. Called with the lock held. */
void context_end(struct context *context, enum cause cause, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* At this moment, where that is only a look into the box's group (`ret_is_exact`, may be NULL); else when it
 * was measured last. With the lock held. */
struct measurement context_clock_measure(const struct context *context, bool *ret_is_exact);

/* What the supervisor measured. Takes the lock. */
void context_clock_sample(struct context *context, const struct measurement *now);

/* The run under way has said far more than it may: it is interrupted, and ended if that does not help. */
void context_clock_flooded(struct context *context);

/* Does what time and CPU ask for: an interrupt, a kill, the end of an idle context. With the lock held. */
void context_clock_look(struct context *context);

/* Until the next moment at which looking may matter, for poll. With the lock held. */
int context_clock_next_ms(const struct context *context);

/* The runner said that the run has begun: an interrupt that waited for it is sent. With the lock held. */
void context_clock_begun(struct context *context);

/* With the lock held. */
void context_usage_fill(const struct context *context, struct context_usage *ret);
