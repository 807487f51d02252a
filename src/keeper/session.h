/* Live sandboxes: contexts that a server keeps for its clients, with names, deadlines, forks and checkpoints.
 *
 * Theory of operation. A session is one or more contexts (context.h), each an interpreter in a box of its own
 * that nothing is shared with. All bookkeeping is under one lock, which is never held while a box is made,
 * run or ended. Whoever works with a context has claimed it first; a second claim is refused, not queued. Who
 * only looks, interrupts or gives more time visits it, and whoever would replace it waits for visitors. A
 * checkpoint is a fork of every context that stays asleep; to roll back is to fork it again.
 *
 * A thread ends sessions whose time is over or that were idle for too long. Those stay in the list for a
 * while, so that one can be told why they are gone. All sessions belong to the server behind the door: when
 * that goes, they end. */
#pragma once

#include "base/bytes.h"
#include "keeper/context.h"

#include <jansson.h>

enum {
    SESSION_TTL_DEFAULT_MS = 3600 * 1000,
    SESSION_TTL_MAX_MS = 24 * 3600 * 1000,
    SESSION_IDLE_DEFAULT_MS = 15 * 60 * 1000,
    SESSION_CONTEXTS_MAX = 16,
    SESSION_POINTS_MAX = 16,
    SESSION_FORKS_MAX = 64,
    SESSIONS_MAX = 1000,
};

struct session_table;
struct session;

/* The policy must live as long. */
int session_table_open(const struct policy *policy, const struct string_list *preload,
                       struct session_table **ret, struct error *err);

/* Ends and forgets all of them, and waits until nothing of them is left: their server is gone. */
void session_table_end_all(struct session_table *table);

/* NULL is fine. */
void session_table_close(struct session_table *table);

/* What a session is opened with. All of it is copied. */
struct session_terms {
    const char *owner;   /* who alone may name it */
    const json_t *spec;  /* language, image, isolation, limits, env, accept: as in docs/spec.md, no more */
    const json_t *about; /* the owner's own words, given back as they are; NULL: none */
    int64_t ttl_ms, idle_ms; /* 0: the defaults */
    int runs_max;            /* 0: CONTEXT_RUNS_DEFAULT */
    const json_t *inputs;    /* [{name, fd}]: shown read-only in /data/input (handed.h); NULL: none */
    const int *fds;          /* that they number, WIRE_DESCRIPTORS of them */
    const char *room;        /* where the server has them, in its words; forks share it. NULL: nowhere */
    bool is_cold;            /* do not fork it from an interpreter that was warmed up */
};

/* Opens a session with one context. *ret is to be put back. */
int session_open(struct session_table *table, const struct session_terms *terms, struct session **ret,
                 struct error *err);

/* -ENOENT: there is none of this owner's. -ESTALE: it has ended; with `also_ended` that is found too. To be
 * put back. */
int session_find(struct session_table *table, const char *owner, const char *id, bool also_ended,
                 struct session **ret, struct error *err);
void session_put(struct session *session);

/* Ends it, and waits until nothing of it is left. Nobody finds it any more. */
void session_close(struct session *session);

/* The room of one that has ended, if nobody else has it any more; or NULL. */
const char *session_empty_room(const struct session *session);

/* More time, from now on, at most SESSION_TTL_MAX_MS since it, or what it was forked from, was opened; a
 * longer idle time; more runs, up to the operator's ceiling. 0: as it was. All of it or nothing. */
struct session_extension {
    int64_t ttl_ms, idle_ms, runs_max;
};
int session_extend(struct session *session, const struct session_extension *more, struct error *err);

/* Of the operator: the most runs that a session may have. */
int session_check_runs(const struct session_table *table, int64_t runs_max, struct error *err);

/* All that can be told of it, or NULL. With `usage`: what its contexts use, which takes a moment. */
json_t *session_to_json(struct session *session, bool with_usage);

/* What sessions of an owner take up: their boxes, asleep or not, and what those may write to disk. */
struct session_sum {
    int64_t boxes, disk_bytes, memory_bytes; /* bytes: their limits */
};
struct session_sum session_sum_of_owner(struct session_table *table, const char *owner);

/* What sessions use that no run or command is charged with: {"held_bytes", "owners": {NAME: {"cpu_us",
 * "boxes", "disk_bytes", "memory_bytes"}}}. cpu_us is told once. Held is what boxes hold in which nothing
 * runs. */
json_t *session_toll(struct session_table *table);

/* The limits of each of its boxes, and how many it has that run. */
void session_limits(struct session *session, struct limits *ret, int64_t *ret_boxes);

/* By their names; to be freed. */
json_t *limits_to_json(const struct limits *limits);

/* As it was given; to be freed. */
json_t *session_spec(const struct session *session);

/* The rooms of all that have not ended, of all owners, as the keys of an object. */
json_t *session_rooms(struct session_table *table);

/* Why one has ended, as JSON: the cause's name, or null. */
json_t *session_cause(struct session_table *table, const char *owner, const char *id);

/* Those of an owner in the order in which they were made, after the one with this number (0: from the first);
 * an array of at most `limit`, and the number to go on from, or 0. */
json_t *session_list(struct session_table *table, const char *owner, int64_t after, size_t limit,
                     bool (*wanted)(void *data, const json_t *session), void *data, int64_t *ret_next);

/* ---- contexts: `id` NULL is the first one ---- */

int session_context_open(struct session *session, const char *language, char *ret_id, struct error *err);
int session_context_close(struct session *session, const char *id, struct error *err);
int session_context_restart(struct session *session, const char *id, struct error *err);
int session_context_interrupt(struct session *session, const char *id, struct error *err);
int session_context_extend(struct session *session, const char *id, int64_t extra_ms, struct error *err);

/* A context itself, for what others than its owner may call: context_exec, context_look … Nobody replaces it
 * until it is left, which must be soon. With `is_work` the session is not idle meanwhile. */
struct session_visit {
    struct context *context;
    struct slot *slot;
    bool is_work;
};
int session_visit(struct session *session, const char *id, bool is_work, struct session_visit *ret,
                  struct error *err);
void session_leave(struct session_visit *visit);

/* Who hears a run. Called by the thread that runs it only; what is pointed to is gone afterwards. */
struct session_listener {
    void (*event)(void *data, const struct runner_event *event);
    void (*output)(void *data, enum supervise_stream stream, struct slice bytes); /* of other programs */
    void (*watch)(void *data, const struct context_usage *usage);                 /* may be NULL */
    bool (*is_gone)(void *data); /* nobody listens any more: the run is interrupted */
    void *data;
};

struct session_order {
    const char *context;
    const char *id; /* what events call it; NULL: nothing */
    struct slice code;
    const struct slice *stdin_text; /* NULL: none */
    int64_t wall_ms, cpu_ms;        /* 0: the context's */
};

/* What came of a run, in words. */
struct session_outcome {
    struct context_outcome is;
    char language[32];
    enum isolation isolation;
    int signal;       /* that the interpreter died of; 0: none. `is.exit_code` is its own then, or -1 */
    char detail[512]; /* of a death */
};

/* As context_run. -EBUSY: another run is under way, or the session has had all its runs. */
int session_run(struct session *session, const struct session_order *order,
                const struct session_listener *listener, struct session_outcome *ret, struct error *err);

/* ---- commands ---- */

/* Starts a command in the box of a context (context_exec). Until session_command_over the session is not
 * idle, and its end waits for it: the socket tells when the box goes. *ret_wall_ms is the context's own
 * limit. */
int session_command_start(struct session *session, const char *context, const struct context_command *command,
                          int *ret_socket, int64_t *ret_wall_ms, struct error *err);
/* `end` (taken; NULL: there is nothing to tell) is told to who watches. */
void session_command_over(struct session *session, json_t *end);

/* The account of the box of that context, as it is now; to be put back. NULL: it is gone. */
struct cpu_account *session_cpu_account(struct session *session, const char *context);

/* Of the operator. */
int session_check_wall(const struct session *session, int64_t wall_ms, struct error *err);

/* ---- forks ---- */

/* A session of its own with the same state, or with that of a checkpoint (NULL: as it is now). To be put
 * back. */
int session_fork(struct session *session, const char *checkpoint, struct session **ret, struct error *err);

struct session_branch {
    struct session_order order;
    struct session_listener listener; /* called by a thread of the branch's own */
    /* Called when it is over, by the same thread. */
    void (*ended)(void *data, struct session_branch *branch);
    int status;
    struct error error;
    struct session_outcome outcome;
};

/* Forks the context for each branch, runs them side by side, and closes the forks. */
int session_run_branches(struct session *session, struct session_branch *branches, size_t count,
                         struct error *err);

int session_checkpoint(struct session *session, const char *name, char *ret_id, struct error *err);
int session_rollback(struct session *session, const char *id, struct error *err);
int session_checkpoint_drop(struct session *session, const char *id, struct error *err);

/* ---- what happens in it ---- */

/* Waits until something has happened after number `since`, or for so long; appends JSON texts, one a line,
 * and sets *ret_last. 1: more may come; 0: it has ended, and this was all. */
int session_await_events(struct session *session, int64_t since, int64_t wait_ms, struct buffer *into,
                         int64_t *ret_last);
