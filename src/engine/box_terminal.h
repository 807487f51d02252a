/* The terminal of a command in a box.
 *
 * It is one of the box's own: made from the file system of terminals that is mounted in the box and nowhere
 * else, so that it has a name there, and nothing of the host's terminals is within reach. Where a box has
 * none that the host can see (its kernel is a program), it is one of the host's, of which the box gets one
 * end and no name. */
#pragma once

#include "engine/engine.h"

struct winsize;

/* The master stays with us. Both are the caller's. */
int box_terminal_open(const struct box *box, const struct winsize *window, int *ret_master, int *ret_slave,
                      struct error *err);
