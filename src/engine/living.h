/* The boxes of this process that are alive now, by their init: a library caller, or a keeper, has many at
 * once. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

int living_add(pid_t init);
void living_remove(pid_t init);

/* Is it one of those inits, or below one? Its line of parents tells. */
bool living_have(pid_t pid);
