/* Programs beside the one that a box was made for, started at the host's order while that one lives.
 *
 * An order brings a plan (directory, arguments, environment), a socket and three streams. On the socket init
 * says at last how it ended, INIT_ENDED, after INIT_EXEC_FAILED if it could not be executed; a byte that
 * comes in on it is the number of a signal for the program and its process group; when the host closes it,
 * the program is killed. Everything that init wears is worn by them too: only a container's init wears the
 * layers itself, and only it takes such orders. */
#pragma once

#include "plan.h"

#include <poll.h>
#include <sys/types.h>

enum { BESIDE_MAX = 16 };

/* Takes the order that waits on the control socket, and starts its program. `box` is init's own plan: whether
 * output goes by way of us (pump.h), and whose the program is. */
void beside_take_order(const struct init_plan *box);

/* What to wait for: fills at most BESIDE_MAX entries. */
int beside_watched(struct pollfd *into);

/* The same entries after poll: passes signals on. */
void beside_look(const struct pollfd *polled, int count);

/* A process has ended that may be one of them. */
void beside_ended(pid_t pid, int status);
