/* The first filter of a run, on the host's side: who looks at the code, and what becomes of it.
 *
 * Theory of operation. In a box that waits for its program, the vetter is part of what waits there: it says
 * what it found over the channel of the box before the code begins. In `warn` that is read when the run is
 * over, and costs it nothing. In `block` and `only` the code is held until we let it go, by one byte: the
 * report comes before any line of the code, so it is the vetter's own, and the decision is made here.
 *
 * A cold box has no such channel. There the vetter is a program in a box of its own, before that of the code
 * is made, as a compile step is: a second start of the interpreter. So a cold run is vetted only when it was
 * asked for, and so is JavaScript, whose parser takes longer to start than most programs. */
#pragma once

#include "engine/supervise.h"
#include "keeper/runner_link.h"
#include "spec/policy.h"
#include "spec/result.h"
#include "spec/spec.h"

/* Refuses what cannot be done in this language: only the languages with a vetter can be blocked. */
int vetting_check(const struct spec *spec, const char *language, struct error *err);

/* Is this code to be looked at? */
bool vetting_is_due(const struct spec *spec, const char *language, bool is_warm);

/* Is the code held until its report is there? */
bool vetting_holds(const struct spec *spec);

/* One in a box that waits. */
struct vetting {
    const struct spec *spec;
    struct runner_link *link;
    struct json_t *order;  /* what the vetter is told; NULL: nothing is looked at */
    struct json_t *report; /* what it said */
    struct supervise_word word;
};

void vetting_open(struct vetting *vetting, const struct spec *spec, const struct policy *policy,
                  const char *language, struct runner_link *link);
/* The first word that came from the box, to who reads what comes later. Like supervise_word.hear. */
int vetting_take(struct vetting *vetting, const struct runner_event *event);
void vetting_close(struct vetting *vetting);

/* The run is over: its result gets the report. */
void vetting_finish(struct vetting *vetting, struct result *result);

/* The report on code that does not run. */
void vetting_stop(struct result *result, struct json_t *takes_report);

/* The run is over, and nobody may have read its code: says so to who asked for it, and tells afterwards which
 * package it ended for the want of. That costs nothing. `language` NULL: it was a command. */
void vetting_conclude(const struct spec *spec, const char *language, struct result *result);

/* When there is no report, by how its vetter ended. */
struct json_t *vetting_failure(const struct spec *spec, const struct result *ended);

/* For a vetter that is a program: what it reads from stdin. */
int vetting_write_input(const struct spec *spec, const struct policy *policy, struct buffer *into);

/* The code that runs in place of `restricted` code: RestrictedPython's world, with the code in it. */
int vetting_write_restricted(const struct spec *spec, const char *name, struct buffer *into);
