/* One process of the wasm engine that stays, as the pool of them (wasm_pool.h) has it.
 *
 * It serves one owner, with the limits of each process that it was started with; a run that wants others has
 * another process. A run sees two directories of it, and they are as new for each: what nobody has touched
 * is used again, what somebody has is made anew. */
#pragma once

#include "keeper/lease.h"
#include "runtime/language.h"
#include "runtime/program.h"
#include "spec/policy.h"

#include <sys/stat.h>

enum { WASM_OWNER_SIZE = 128 };

enum wasm_place_kind { WASM_OUTPUT, WASM_INPUT, WASM_PLACES };

struct wasm_place {
    int around_fd;         /* the box's, in which is … */
    int fd;                /* … that of a run, and … */
    struct stat untouched; /* … what that looks like when nobody has used it */
};

struct wasm_worker {
    struct wasm_worker *next;
    char owner[WASM_OWNER_SIZE];
    struct spec *spec; /* of its box, not of a run */
    struct image *image;
    struct lease lease;
    struct result *layers; /* that were proved when it was made */
    struct wasm_place places[WASM_PLACES];
    int scratch_fd; /* in which the process makes /tmp and /code for a run, and removes them behind it */
    int runs;
    int row; /* of the language that ran last, with what was found for it */
    struct program_paths paths;
    int64_t rests_since_us;          /* and the CPU time that it had used by then */
    int64_t cpu_us, measured_cpu_us; /* the latter when its memory was last looked at */
};

/* Starts one for runs like this one. */
int wasm_worker_start(const struct policy *policy, const char *owner, const struct spec *like,
                      struct wasm_worker **ret, struct error *err);

/* May it serve this run, if it lives? */
bool wasm_worker_fits(const struct wasm_worker *worker, const char *owner, const struct spec *spec);
bool wasm_worker_is_dead(const struct wasm_worker *worker);

/* The run's limits are its own from here on, as far as they are watched from outside. */
void wasm_worker_take_limits(struct wasm_worker *worker, const struct limits *limits);

/* Has the run left any? */
bool wasm_worker_has_files(const struct wasm_worker *worker);

/* The process must have ended. */
int wasm_worker_collect(const struct wasm_worker *worker, const struct spec *spec, struct result *result,
                        struct error *err);

/* After a run that has left no files: false when a trace of it is left that cannot be removed, or it holds
 * more than one that waits may hold. */
bool wasm_worker_rest(struct wasm_worker *worker);

/* A look at one that waits: it does nothing, holds no more than it may, and has no processes of its own. Else
 * it is not ours any more. */
bool wasm_worker_rests(const struct wasm_worker *worker);

/* Ends it. NULL is fine. */
void wasm_worker_free(struct wasm_worker *worker);
