/* The control group of a box, for engines that give it one. */
#pragma once

#include "engine/engine.h"

/* Which limits a group enforces here; what cannot be had must have been accepted by name. */
int group_choose_limits(const struct box *box, struct cgroup_limits *ret, struct error *err);

void group_measure(const struct box *box, struct measurement *now);

/* The scratch space, a file system with a limit of its own. */
void group_measure_disk(const struct box *box, struct measurement *now);

/* The group, or the watchdog in its place, for the result. */
void group_list_layer(const struct box *box, const struct cgroup_limits *limits, struct result *result);
