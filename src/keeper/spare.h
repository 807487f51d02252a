/* One spare of a pool: a box that waits for its program. It is a fork of a zygote, or was started on its own
 * (started.h); how it runs a spec is the same. */
#pragma once

#include "keeper/kind.h"
#include "keeper/zygote.h"

struct spare {
    struct spare *next;
    const struct kind *kind;
    struct zygote *zygote;   /* that it was forked from; NULL: it was started */
    struct started *started; /* what that one is made of */
    const struct language_table *languages;
    const struct language *language;
    struct lease lease;
    struct runner_link link;
    struct result *result; /* with the layers that were proved */
    bool is_alone;         /* nothing else of the pool runs when it does */
    bool is_expecting;     /* it has a CPU, and waits on it */
    int expectations;      /* how often it was told to */
    void *origin;          /* the lineage's, about its zygote */
    struct shelf *shelf;   /* that it was made for; the pool's */
    int64_t made_us;
    int64_t asked_us; /* when its run was asked for; 0: it has none */
};

/* One without a box yet, for those who make them. The table must outlive it. */
struct spare *spare_new(const struct kind *kind, const struct language_table *languages);

/* A fork. */
int spare_make(const struct kind *kind, struct zygote *zygote, const struct limits *limits,
               enum runner_haste haste, const struct language_table *languages, struct spare **ret,
               struct error *err);

/* The same in two steps: see zygote_make_place. The second fails for good, or for the first. */
int spare_make_place(const struct kind *kind, struct zygote *zygote, const struct limits *limits,
                     const struct language_table *languages, struct spare **ret, struct error *err);
int spare_fill_place(struct spare *spare, enum runner_haste haste, struct error *err);

/* Gives a box that waits other limits from outside. */
int spare_take_limits(struct spare *spare, const struct limits *wanted, struct error *err);

/* The CPU time that was used up to here is not the run's. */
void spare_note_debt(struct spare *spare);

/* A run may be for it that is not known yet: it gets ready, on another CPU than ours. */
void spare_expect(struct spare *spare);

/* Has it died while it waited? */
bool spare_is_dead(const struct spare *spare);

/* Runs the spec's code in it until nothing of it runs any more, and collects. The spare's result is the run's
 * then, and the caller's. -EAGAIN: nothing of it has begun, another box may do. */
int spare_run(struct spare *spare, const struct spec *spec, const struct policy *policy,
              const struct supervise_io *io, int target_fd, struct result **ret, struct error *err);

/* Memory that it shares with nobody. */
int64_t spare_private_bytes(const struct spare *spare);

/* NULL is fine. */
void spare_destroy(struct spare *spare);
