/* What all shelves of a pool have in common. The lock is one for the whole pool: a run takes it for moments
 * only, and what takes time is done without it. */
#pragma once

#include "keeper/burial.h"
#include "keeper/kind.h"
#include "keeper/milestones.h"

#include <pthread.h>

struct shelf;

struct grounds {
    const struct policy *policy;
    struct language_table languages;
    struct limits limits;       /* of a spare: the operator's defaults, as a validated spec has them */
    struct limits highest;      /* that a spare can be given */
    struct string_list modules; /* of the default set */
    int minimum, maximum;       /* spares of a kind, in a house that is kept */
    bool is_wanted[KIND_COUNT];
    int64_t idle_ms, rotate_ms;
    int rotate_forks;
    struct burial *burial;
    struct milestones milestones;

    pthread_mutex_t lock;   /* of all that follows, and of all houses and shelves */
    pthread_cond_t changed; /* somewhere there is a spare more, or a failure */
    int running;
    int64_t last_run_us;
    struct shelf *last_shelf; /* of the last run that came; NULL: it was for none */
};
