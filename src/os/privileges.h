/* What a child of ours does before it becomes a program that meets strangers. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* No capabilities, no way to get any, no core dumps; with takes_user, which needs root, this user and no
 * other from now on. Safe in a child of a process with threads. 0 or a negative errno. */
int privileges_give_up(bool takes_user, uid_t user);
