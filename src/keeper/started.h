/* Spares that are started, each on its own: for interpreters that cannot be forked, and engines that fork no
 * boxes.
 *
 * Theory of operation. The box is made and proved as any cold one, by the same engine->start; only its
 * program is a runner of ours that waits at its channel (runtime/runner.h), and its directories for code and
 * inputs are empty places that we can write to and the box cannot (box.is_spare). When the runner is ready,
 * its own file goes, what it may have printed is dropped, and what it has used up to here is noted: none of
 * it is the run's. The order `main` makes it the program, after which the channel is closed, and nothing that
 * could come over it would be read. */
#pragma once

#include "keeper/spare.h"

struct started_terms {
    const struct kind *kind;
    const struct policy *policy;            /* this, … */
    const struct language_table *languages; /* … and this must outlive the spare */
    const char *image;
    const struct limits *usual, *highest; /* that it waits with, and that its runner may lower */
    const struct string_list *preload;
};

/* Returns when it waits for its program. */
int started_make(const struct started_terms *terms, struct spare **ret, struct error *err);

/* What a cold run of the box's spec would execute: command, environment, and the name of the code's file. */
int started_program(const struct spare *spare, struct program *ret, struct error *err);

/* NULL is fine; after the lease. */
void started_free(struct started *started);
