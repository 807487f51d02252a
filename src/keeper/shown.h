/* What a program shows beside its output: the results of a run that is a cell of a notebook.
 *
 * Theory of operation. The program's streams are the box's own, as of any run; what it shows comes over the
 * channel of its runner, as `result` events (docs/runner-protocol.md), which the supervisor hears while it
 * watches. A warm box has that channel anyway, and only does not close it. A cold one is started with the
 * runner as its program, and gets the code over the channel. The words are the guest's: they are kept as far
 * as the run's output limit goes, and believed in nothing. */
#pragma once

#include "engine/supervise.h"
#include "keeper/runner_link.h"
#include "keeper/vetting.h"

struct shown {
    const struct supervise_io *io; /* whom it is told as it comes */
    struct result *result;         /* that it is kept in */
    struct runner_link *link;
    struct vetting *vetting; /* the first word is its; NULL: nobody vets, or that word was heard */
    struct buffer unsent;    /* of what the runner is told */
    int64_t limit_bytes, seen_bytes;
    struct supervise_word word;
};

/* Refuses what has nothing to show. `language` NULL: a command. */
int shown_check(const struct spec *spec, const char *language, struct error *err);

/* All that is given must outlive it. */
int shown_open(struct shown *shown, const struct spec *spec, const struct supervise_io *io,
               struct result *result, struct runner_link *link, struct vetting *vetting, struct error *err);

/* For a box that was started: its runner is told to run the spec's code, under this name, when it listens. */
int shown_order(struct shown *shown, struct box *box, const char *name, struct error *err);

/* The run is over: takes what is still on its way. */
void shown_finish(struct shown *shown);
void shown_close(struct shown *shown);
