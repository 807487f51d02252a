/* The zygotes of a pool: the one that is forked now, and those that were retired and live until their last
 * fork is gone. A thread loads the first, and the next after so many forks, so much time, or a death;
 * meanwhile the old one serves. */
#pragma once

#include "keeper/spare.h"

struct lineage;

/* All that is pointed to must outlive it. */
struct lineage_terms {
    const struct kind *kind; /* of its forks */
    const struct policy *policy;
    const struct language_table *languages;
    const char *image;
    const struct string_list *preload;
    const struct limits *usual;   /* of a fork */
    const struct limits *highest; /* of a zygote: that a fork can be given */
    int64_t rotate_ms;
    int rotate_forks;
    /* There is a new zygote, or it could not be made. Called by the thread, without a lock. */
    void (*changed)(void *data, const struct error *failure);
    void *data;
};

int lineage_open(const struct lineage_terms *terms, struct lineage **ret, struct error *err);

/* Is there one to fork? */
bool lineage_is_ready(struct lineage *lineage);

/* A fork of the current one. -EAGAIN: there is none yet. */
int lineage_fork(struct lineage *lineage, enum runner_haste haste, struct spare **ret, struct error *err);

/* The same in two steps: see spare_make_place. -EAGAIN: such zygotes make none. */
int lineage_make_place(struct lineage *lineage, struct spare **ret, struct error *err);

/* Its zygote is retired and another is there: when such a spare goes, the zygote can. */
bool lineage_is_old(struct lineage *lineage, const struct spare *spare);

/* Destroys a fork. */
void lineage_destroy_fork(struct lineage *lineage, struct spare *spare);

struct lineage_state {
    int zygotes;
    int64_t rotations, failures;
    pid_t pid; /* of the current one; -1: none */
};
void lineage_read_state(struct lineage *lineage, struct lineage_state *ret);

/* When all its forks are destroyed. NULL is fine. */
void lineage_close(struct lineage *lineage);
