/* The launcher's own look at a container that says it is ready: what can be proved only from outside. */
#pragma once

#include "engine/engine.h"

#include <sys/stat.h>

int inspect_container(const struct box *box, const struct cgroup_limits *group_limits, struct error *err);

/* The same for a box that was forked from another: its init and its program. */
int inspect_fork(const struct box *parent, struct box *child, const struct cgroup_limits *limits,
                 struct error *err);

/* After inspect_fork, whose findings hold for the threads that were looked at: there are no others in the
 * box, and its first process is our init. So nothing in it can have kept what the two gave up. */
int inspect_alone(const struct box *child, const struct stat *init_program, struct error *err);

/* The layers that were proved, for the result. */
void inspect_list_layers(const struct box *box, const struct cgroup_limits *group_limits,
                         struct result *result);
