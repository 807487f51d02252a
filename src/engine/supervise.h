/* The supervisor of one run: moves stdin, stdout and stderr, watches the limits, and names the cause of the
 * end. It never blocks on a reader or writer: a stalled terminal does not stop the clock. */
#pragma once

#include "engine/engine.h"

enum supervise_stream {
    STREAM_STDOUT,
    STREAM_STDERR,
    STREAM_COUNT,
};

/* Something that the program says beside its streams, before it begins or while it runs. `hear` is called
 * when it can be read, or written to if that is what it waits for; it returns 0 when there is more to come, 1
 * when there is not, and a negative errno when the program must not begin: the run ends as vetted; -EFBIG: it
 * said far too much, and ends for its output. */
struct supervise_word {
    int fd;
    bool speaks; /* it has something to tell the program */
    int (*hear)(void *data);
    void *data;
};

/* The run is to stand still, with the clock of its wall limit: `fd` is readable, and `hold` returns when it
 * is to go on. */
struct supervise_pause {
    int fd;
    void (*hold)(void *data);
    void *data;
};

struct supervise_io {
    /* Where output goes as it comes; -1: nowhere. Control characters are made visible for a terminal. */
    int forward_fd[STREAM_COUNT];
    bool for_terminal[STREAM_COUNT];
    /* Called with output as it comes; must not block. May be NULL. */
    void (*output)(void *data, enum supervise_stream stream, const char *bytes, size_t length);
    /* Somebody else may be reading the streams: each look at them is between these two. False: not now. Who
     * shares them counts what comes, too: no limit of output is looked at here. Both or none. */
    bool (*streams_take)(void *data);
    void (*streams_leave)(void *data);
    /* Called with each thing that the program shows, as clients get it; must not block. May be NULL. */
    void (*shown)(void *data, const struct json_t *item);
    /* Called a few times a second with what is used so far. May be NULL. */
    void (*progress)(void *data, int64_t elapsed_us, const struct measurement *now);
    void *data;
    /* The box has a channel for its program (box.channel_fd); called when the program is about to start. */
    bool with_channel, forkable;
    bool is_for_others; /* its forks are other people's boxes */
    void (*started)(void *data, struct box *box);
    /* The box has ended, and goes when this returns: nobody may use it any more. The result is NULL when
     * there is none. May be NULL. */
    void (*ended)(void *data, struct box *box, struct result *result);
    /* Asked when it has ended: a directory for its files, the asker's to close; -1: where the spec says. May
     * be NULL. */
    int (*target)(void *data);
    /* An INIT_INTERRUPT that was given to init has become a signal, pending or delivered. May be NULL. */
    void (*interrupted)(void *data);
    const struct supervise_word *word;   /* may be NULL */
    const struct supervise_pause *pause; /* may be NULL */
    int64_t lifetime_ms; /* 0: the limits of wall and CPU time are for the whole; else this is */
    int64_t asked_us;    /* when somebody asked for the run, for statistics; 0: unknown */
    const char *owner;   /* for whom: runs of two never share a process; NULL: nobody says */
    int queued;          /* how many others wait for their turn behind it */
    int cancel_fd;       /* readable: the run is to be cancelled; -1: never */
};

/* How much more than the output limit may come before a run is ended for it. */
int64_t supervise_flood_bytes(int64_t limit);

/* What supervise_run needs first, for a box that is made long before it is run. */
void supervise_prepare(struct box *box);

/* A sentence on the cause, where it is a limit or a call. */
void supervise_explain(const struct limits *limits, struct result *result);

/* From a started box until nothing in it runs any more. Fills the result's cause, streams and usage. A
 * negative errno only when the program could not be started at all (its name is wrong), with ERROR_SPEC. */
int supervise_run(struct box *box, const struct supervise_io *io, struct result *result, struct error *err);
