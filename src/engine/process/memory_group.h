/* The kernel's own limit of memory, where there are control groups that we may use.
 *
 * A watchdog sees what a process has mapped, every few milliseconds. A program can take more than that
 * between two looks, hold memory where no look finds it (files without a name, pages of a pipe, the kernel's
 * own), or keep a look busy. In a group all of it is counted as it is taken. One group of one controller
 * costs a quarter of a millisecond; the watchdog goes on to look at processes, CPU time and files. Where no
 * group can be had, as inside most other containers, it is all there is, and what it cannot count a box is
 * not given (place.c, os/seccomp/policy.c). */
#pragma once

#include "engine/engine.h"

bool memory_group_can_be_had(const struct box *box);

/* Of v2: it is there before the box's first process, which is born inside. Of v1, and for forks: their first
 * process joins. All do nothing where none can be had. */
bool memory_group_comes_first(const struct box *box);
int memory_group_make(struct box *box, struct error *err);

/* Of a fork, whose parents are in another. */
int memory_group_make_for_fork(struct box *box, struct error *err);

/* The file to join it by; -1: nobody has to. */
int memory_group_join_fd(const struct box *box);

/* Reads the limit back. */
int memory_group_verify(const struct box *box, struct error *err);

/* What box->limits says by now. */
int memory_group_limit(struct box *box, struct error *err);

/* In place of what the watchdog would sum. */
void memory_group_measure(const struct box *box, struct measurement *now);

void memory_group_list_layer(const struct box *box, struct result *result);
