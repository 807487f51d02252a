/* Files of a box that have no name any more, where it has no file system of its own that would bound them.
 *
 * Theory of operation. What keeps such a file is a descriptor, a program that runs from it, a mapping, or a
 * message that carries a descriptor and was not read yet. Those of the first two kinds can be asked for their
 * size, from outside. Of the others that cannot be done; where files are in memory, a group counts them as
 * that, and on a disk they are not counted. */
#pragma once

#include "engine/watchdog.h"

/* Adds their bytes, each file once. False: there are more than anybody could need, or somebody does not let
 * us see what he has open, and goes on with it. */
bool nameless_sum(struct watchdog *watchdog, const struct box *box, int64_t *bytes);
