/* The launcher's own look at a container that says it is ready: what can be proved only from outside. */
#pragma once

#include "engine/engine.h"
#include "engine/look.h"

#include <sys/stat.h>

int inspect_container(const struct box *box, const struct cgroup_limits *group_limits, struct error *err);

/* Whose namespaces a fork must not be in. Neither we nor the box that it comes from can change theirs, so
 * both are looked at once, and not again for each fork. */
struct inspect_kin {
    struct look_namespaces host, parent;
};

int inspect_namespaces_of(pid_t pid, struct look_namespaces *ret, struct error *err);

/* The same for a box that was forked from another: its program and its init, which is ours, and nobody else
 * in it. So nothing in it can have kept what the two gave up. First what holds for as long as the program has
 * done nothing (it is alone, in its own directory, and has brought no descriptor), and before init is looked
 * at: an orphan goes from below the one to the other, and not back. */
int inspect_fork_alone(const struct box *child, struct error *err);
int inspect_fork(const struct inspect_kin *kin, struct box *child, const struct stat *init_program,
                 struct error *err);

/* The layers that were proved, for the result. */
void inspect_list_layers(const struct box *box, const struct cgroup_limits *group_limits,
                         struct result *result);
