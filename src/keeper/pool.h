/* A pool of spares: boxes that were made beforehand, each for one run.
 *
 * Theory of operation. A spare has everything a box has, proved, and a program in it that waits for its code.
 * A run takes one, gets its limits, its code and its streams, and the box is destroyed afterwards: no two
 * runs ever share one. A thread for each kind (kind.h) makes new ones when nobody is waiting, as many as the
 * last seconds' demand asks for, between a minimum and a maximum; what is too many for long is destroyed.
 *
 * Boxes are of one image, and have imported one set of modules: those of each such pair are a house of their
 * own (house.h), the usual one and what the operator keeps from the start, others while runs ask for them
 * (housing.h).
 *
 * Python is forked from a zygote, one for each house and engine, on demand too when there is no spare. The
 * zygote is exchanged for a new one after so many forks or so much time, and the old one ends with its last
 * fork. Spares of all other kinds are started, each on its own (started.h); without one a run is cold. */
#pragma once

#include "engine/supervise.h"
#include "keeper/kind.h"
#include "keeper/lineage.h"
#include "keeper/milestones.h"
#include "keeper/wasm_pool.h"
#include "spec/policy.h"
#include "spec/result.h"
#include "spec/spec.h"

struct pool;

enum { POOL_SPARES_DEFAULT = 2, POOL_SPARES_MAX_DEFAULT = 32 };

struct pool_options {
    int minimum, maximum;              /* spares */
    int64_t rotate_ms;                 /* age of a zygote; 0: an hour */
    int rotate_forks;                  /* 0: 20,000 */
    int64_t idle_ms;                   /* without a run: back to the minimum; 0: a minute */
    const char *image;                 /* the usual one; NULL: the policy's */
    const struct string_list *preload; /* modules of the default set; NULL: the policy's */
    bool
        is_wanted[KIND_COUNT]; /* the minimum holds for these beside python; others are made on demand only */
};

/* Returns at once: the zygote warms up behind, and until then runs are cold. The policy must live as long. */
int pool_open(const struct policy *policy, const struct pool_options *options, struct pool **ret,
              struct error *err);

/* Waits until the pool has its minimum of spares; false when it does not come to that in time. */
bool pool_await_warm(struct pool *pool, int timeout_ms);

/* What is left of a run when its result is there. */
struct pool_rest {
    struct shelf *shelf; /* NULL: nothing */
    struct spare *spare;
};

/* Validates the spec, and runs it in a spare if there is one that it fits into, else cold. `rest` (NULL: it
 * is cleared at once) is for pool_clear, when the result has been told: the threads that it wakes would take
 * the CPU of who tells it. */
int pool_serve(struct pool *pool, struct spec *spec, const struct supervise_io *io, struct pool_rest *rest,
               struct result **ret, struct error *err);
void pool_clear(struct pool_rest *rest);

/* The same in a box that is made for it, although there may be spares. */
int pool_serve_cold(struct pool *pool, struct spec *spec, const struct supervise_io *io, struct result **ret,
                    struct error *err);

/* A request has come whose kind is not known yet: if nothing else runs, a spare like the last run's gets
 * ready for it meanwhile, because what it is made of has left the caches long ago. */
void pool_expect(struct pool *pool);

/* A conversation starts: have so many spares of python more ready than demand asks for, for a while, in this
 * image (NULL: the usual) with this set of modules (NULL: the image's usual). */
void pool_hint(struct pool *pool, const char *image, const char *set, int spares);

struct pool_kind_state {
    const char *name;
    bool is_in_use;             /* somebody asked for it, or it is kept */
    int spares, target, places; /* boxes that wait for a copy of the zygote only */
    int64_t hits, misses;       /* runs that found a spare, and that had to wait for a fork or were cold */
    int64_t failures;           /* spares that could not be made */
    int64_t spare_bytes;        /* private memory of an idle spare, measured on one; 0: none yet */
    struct lineage_state zygotes;
    char failure[256]; /* why the last could not be made; "": it could */
};

struct pool_house_state {
    char *image, *set;
    struct string_list modules;
    bool is_kept;    /* by the operator's word; else while runs ask for it */
    int64_t idle_ms; /* since somebody asked */
    struct pool_kind_state kinds[KIND_COUNT];
};

struct pool_state {
    int running;
    const struct milestones *milestones; /* of all runs; valid as long as the pool is */
    struct pool_house_state *houses;     /* the usual one first */
    size_t house_count;
    struct wasm_pool_state wasm;
};
int pool_read_state(struct pool *pool, struct pool_state *ret, struct error *err);
void pool_state_free(struct pool_state *state);

/* Why it is not warm; "" when nothing failed. Valid until the next call. */
const char *pool_failure(struct pool *pool);

/* Ends all runs, spares and zygotes. NULL is fine. */
void pool_close(struct pool *pool);
