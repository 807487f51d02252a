/* One spare of a pool: a fork of a zygote that waits for its program. */
#pragma once

#include "keeper/zygote.h"

struct spare {
    struct spare *next;
    struct zygote *zygote;
    struct lease lease;
    struct runner_link link;
    struct result *result; /* with the layers that were proved */
    void *origin;          /* the pool's, about its zygote */
};

int spare_make(struct zygote *zygote, const struct limits *limits, struct spare **ret, struct error *err);

/* Has it died while it waited? */
bool spare_is_dead(const struct spare *spare);

/* Runs the spec's code in it until nothing of it runs any more, and collects. The spare's result is the run's
 * then, and the caller's. -EAGAIN: nothing of it has begun, another box may do. */
int spare_run(struct spare *spare, const struct spec *spec, const struct supervise_io *io, int target_fd,
              struct result **ret, struct error *err);

/* Memory that it shares with nobody. */
int64_t spare_private_bytes(const struct spare *spare);

/* NULL is fine. */
void spare_destroy(struct spare *spare);
