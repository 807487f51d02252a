/* What the files of `cloche repl` share: the session, its screen, and the orders that begin with a colon. */
#pragma once

#include "cli/line_reader.h"
#include "cli/progress_line.h"

#include "keeper/context.h"

#include <pthread.h>

enum { REPL_POINTS_MAX = 32 };

struct repl_point {
    char name[64]; /* "": none was given */
    struct context *context;
    bool was_used; /* somebody has gone on from it */
};

struct session {
    struct policy policy;
    struct context *context;
    struct context *first; /* that all others were forked from */
    struct repl_point points[REPL_POINTS_MAX];
    size_t point_count;
    char argument[128]; /* of the order that is obeyed, without blanks around it; "": none */
    /* Held while the context is exchanged, or interrupted by the other thread. */
    pthread_mutex_t context_lock;
    struct line_reader *reader;
    struct context_options wanted;
    const char *config_path, *save_path, *output_path, *language;
    int output_fd;        /* where the files of the session go; -1: nowhere */
    bool is_line_by_line; /* somebody types, or --lines: an error is not the end, and a death neither */
    int exit_status;
    _Atomic bool is_interrupted; /* since the last run of a script */
    int saved_count;
    /* What runs says something by our thread, what it started by another. */
    pthread_mutex_t screen_lock;
    bool shows_progress;
    struct progress_line line;
    struct limits line_limits;
};

/* Callbacks of the context; `data` is the session. */
void repl_show_raw(void *data, enum supervise_stream stream, struct slice bytes, bool is_runs);
void repl_show_usage(void *data, const struct context_usage *usage);
void repl_show_event(void *data, const struct runner_event *event);

/* Before and after a run. */
void repl_screen_begin(struct session *session);
void repl_screen_end(struct session *session);

/* Obeys a line like ":limits". False when the session is over. */
bool repl_obey(struct session *session, const char *line);

/* Ends the interpreter and tells which of its files could not be collected. Nothing without --output. */
void repl_collect(struct session *session);

/* Runs what was typed, or came through a pipe. False when the session is over. */
bool repl_run(struct session *session, struct slice code);

/* A line that begins like an order. */
bool repl_is_order(const struct buffer *line);

/* A fresh interpreter in the place of the old; false when there can be none. */
bool repl_restart(struct session *session);

/* Points: kept under a name (of the context of the session), found by it ("": the last), gone back to. */
void repl_keep_point(struct session *session, const char *name);
struct repl_point *repl_find_point(struct session *session, const char *name);
int repl_go_back(struct session *session, struct repl_point *point, struct error *err);
void repl_forget_points(struct session *session);

/* After a death: to the newest point that can be returned to; false when there is none. */
bool repl_return(struct session *session);
void repl_exchange(struct session *session, struct context *fresh);
