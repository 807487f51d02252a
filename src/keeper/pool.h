/* A pool of spares: boxes that were forked from a zygote beforehand, each for one run.
 *
 * Theory of operation. A spare has everything a box has, proved, and an interpreter in it that waits for a
 * program. A run takes one, gets its limits, its code and its streams, and the box is destroyed afterwards:
 * no two runs ever share one. When there is none, one is forked on demand. A thread makes new ones when
 * nobody is waiting, as many as the last seconds' demand asks for, between a minimum and a maximum; what is
 * too many for long is destroyed. The zygote is exchanged for a new one after so many forks or so much time,
 * and the old one ends with its last fork. */
#pragma once

#include "engine/supervise.h"
#include "spec/policy.h"
#include "spec/result.h"
#include "spec/spec.h"

struct pool;

enum { POOL_SPARES_DEFAULT = 2, POOL_SPARES_MAX_DEFAULT = 32 };

struct pool_options {
    int minimum, maximum; /* spares */
    int64_t rotate_ms;    /* age of a zygote; 0: an hour */
    int rotate_forks;     /* 0: 20,000 */
    int64_t idle_ms;      /* without a run: back to the minimum; 0: a minute */
    const char *image;    /* NULL: the policy's */
    const struct string_list *preload;
};

/* Returns at once: the zygote warms up behind, and until then runs are cold. The policy must live as long. */
int pool_open(const struct policy *policy, const struct pool_options *options, struct pool **ret,
              struct error *err);

/* Waits until the pool has a zygote and its minimum of spares; false when it does not come to that in time.
 */
bool pool_await_warm(struct pool *pool, int timeout_ms);

/* Is this spec one for the pool? It must be validated. */
bool pool_fits(struct pool *pool, const struct spec *spec);

/* Like keeper_run for a spec that fits. -EAGAIN: it could not be had from the pool, and nothing of it ran. */
int pool_run(struct pool *pool, struct spec *spec, const struct supervise_io *io, struct result **ret,
             struct error *err);

/* Validates the spec, and runs it by the pool if it fits, else cold. */
int pool_serve(struct pool *pool, struct spec *spec, const struct supervise_io *io, struct result **ret,
               struct error *err);

/* A conversation starts: have so many spares more ready than demand asks for, for a while. */
void pool_hint(struct pool *pool, int spares);

struct pool_state {
    int spares, target, running;
    int zygotes;          /* the current one and those that still have forks */
    int64_t hits, misses; /* runs that found a spare, and that had to wait for a fork */
    int64_t rotations, failures;
    int64_t spare_bytes; /* private memory of an idle spare, measured on one; 0: none yet */
    pid_t zygote_pid;    /* -1: none */
};
void pool_read_state(struct pool *pool, struct pool_state *ret);

/* Why it is not warm; "" when nothing failed. Valid until the next call. */
const char *pool_failure(struct pool *pool);

/* Ends all runs, spares and zygotes. NULL is fine. */
void pool_close(struct pool *pool);
