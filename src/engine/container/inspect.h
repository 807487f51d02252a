/* The launcher's own look at a container that says it is ready: what can be proved only from outside. */
#pragma once

#include "engine/engine.h"

int inspect_container(const struct box *box, const struct cgroup_limits *group_limits, struct result *result,
                      struct error *err);
