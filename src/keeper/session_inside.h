/* The inside of sessions, for the files that make them up: session.c (the list, deadlines, ends),
 * session_slot.c (contexts and runs), session_fork.c (forks, branches, checkpoints), session_state.c (what is
 * told of them), session_toll.c (what they use behind their runs), session_warm.c (interpreters that were
 * warmed up). */
#pragma once

#include "base/identifier.h"
#include "keeper/cpu_account.h"
#include "keeper/session.h"

#include <pthread.h>

enum { SESSION_EVENTS_KEPT = 128, LIFETIME_MS = SESSION_TTL_MAX_MS + 3600 * 1000 };

/* One context of a session. */
struct slot {
    struct slot *next;
    struct session *session;
    char id[IDENTIFIER_SIZE];
    char language[32];
    struct context *context; /* NULL: being opened, or could not be */
    bool is_claimed;         /* by one thread, which alone may run, fork or replace it */
    int visitors;            /* in context_interrupt and the like; a replacement waits for them */
    bool is_warm;            /* came from an interpreter that was warmed up */
    int runs;

    /* Of the thread that has claimed it. */
    const struct session_listener *listener;
    int64_t dropped_bytes[STREAM_COUNT];

    pthread_mutex_t loose_lock; /* of what programs in the box wrote, and nobody was told yet */
    struct buffer loose[STREAM_COUNT];
    int64_t loose_taken, loose_dropped[STREAM_COUNT];
};

/* A sleeping copy of every context. */
struct point_part {
    char slot[IDENTIFIER_SIZE];
    char language[32];
    struct context *context;
};
struct point {
    struct point *next;
    char id[IDENTIFIER_SIZE];
    char *name;
    int64_t created_ms; /* since 1970 */
    struct point_part parts[SESSION_CONTEXTS_MAX];
    size_t part_count;
};

/* Whose sessions there are or were; lives as long as the table. */
struct session_owner {
    struct session_owner *next;
    struct cpu_bill *bill; /* where CPU time goes that nobody is charged with */
    int64_t made;          /* sessions: a number of all owners' would tell what others do */
    char name[];
};

struct session {
    struct session *next;
    struct session_table *table;
    char id[IDENTIFIER_SIZE], parent[IDENTIFIER_SIZE];
    int64_t number; /* of its owner's, in the order in which they were made */
    char *owner;
    struct cpu_bill *bill; /* the owner's, who outlives it */
    json_t *spec;
    struct limits limits; /* of each of its boxes */
    char *about;          /* JSON text; NULL: none */
    json_t *inputs;
    int *input_fds; /* WIRE_DESCRIPTORS; NULL: there are no inputs */
    char room[IDENTIFIER_SIZE];
    bool is_cold;
    int64_t created_ms, ttl_ms, idle_ms;
    int64_t opened_us, until_us, most_us; /* most: no extension goes beyond */
    int64_t idle_since_us;
    int runs, runs_max;

    int users;
    int working;       /* claims and openings under way: its end waits for them */
    bool is_condemned; /* a thread is on its way to end it */
    bool is_ending, is_over, is_forgotten;
    int64_t over_us;
    enum cause cause;
    char detail[512];
    struct slot *slots;
    struct point *points;

    char *events[SESSION_EVENTS_KEPT]; /* JSON texts, a ring */
    int64_t event_count;
};

struct session_table {
    const struct policy *policy;
    struct warm *warm;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t clock;
    bool has_clock, is_closing;
    int enders; /* threads that end one */
    struct session *sessions, **last;
    int alive;
    struct session_owner *owners;
};

int64_t clock_unix_ms(void);

/* Notes an event; takes the JSON. With the lock held. */
void session_tell(struct session *session, const char *what, json_t *more);

/* A session in the list, without a context yet, and with `working` of one. NULL: no memory. With the lock
 * held. */
struct session *session_add(struct session_table *table, const struct session_terms *terms,
                            struct error *err);

/* What it takes up; nothing once it is over. With the lock held. */
struct session_sum session_sum(const struct session *session);

/* It has its contexts, and its time begins. With the lock held. */
void session_begin(struct session *session);

/* The owner of that name; NULL without memory. With the lock held. */
struct session_owner *owner_find(struct session_table *table, const char *name);
void owners_free(struct session_table *table);

/* -ESTALE when it ends or has ended. With the lock held. */
int session_check_alive(const struct session *session, struct error *err);

/* The end of something that was counted in `working`. Takes the lock. */
void session_work_done(struct session *session);

/* Ends a session that was added, but did not come to life. Takes the lock. */
void session_abandon(struct session *session);

/* ---- slots ---- */

struct slot *slot_new(struct session *session, const char *language);
void slot_free(struct slot *slot); /* closes its context */
void slot_add(struct session *session, struct slot *slot);

/* NULL id: the first. With the lock held. */
struct slot *slot_find(const struct session *session, const char *id);

/* What a context is opened or forked with so that it belongs to the slot. */
struct context_options slot_options(struct slot *slot);
struct context_options slot_sleeping_options(void);

/* A fresh interpreter. */
int slot_fill(struct slot *slot, struct error *err);

/* Claims all contexts of a session, or one; -EBUSY. Counted in `working`; given back by slots_release. */
int slots_claim(struct session *session, const char *id, struct slot **ret_one, struct error *err);
void slots_release(struct session *session, struct slot *one);

/* Runs in a slot that was claimed. */
int slot_run(struct slot *slot, const struct session_order *order, const struct session_listener *listener,
             struct session_outcome *ret, struct error *err);

/* Before a context goes. Visits are short. With the lock held, which it lets go of. */
void slot_await_visitors(struct slot *slot);

/* Puts another context into a slot that was claimed; returns the old one, for context_close. */
struct context *slot_exchange(struct slot *slot, struct context *context);

void point_free(struct point *point); /* closes its contexts */

/* ---- interpreters that were warmed up ---- */

struct warm;
int warm_open(const struct policy *policy, const struct string_list *preload, struct warm **ret,
              struct error *err);
void warm_close(struct warm *warm);

/* A context for this spec, forked from a warm interpreter; takes the spec, also when it fails. -EAGAIN: there
 * is none, or the spec asks for something else. */
int warm_take(struct warm *warm, struct spec *spec, const struct context_options *options,
              struct context **ret, struct error *err);
