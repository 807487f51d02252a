/* Output by way of pipes of the box's own kernel.
 *
 * gVisor writes to a pipe of the host's what that takes at once, and tells the program of a short write,
 * which Linux never does and programs do not expect; a socket of the host's takes all, but cannot be opened
 * as /dev/stdout. So a program gets pipes of its own kernel, and init carries what comes out of them. */
#pragma once

#include <poll.h>
#include <sys/types.h>

enum { PUMPS_MAX = 2 + 2 * 16 /* the program's, and those beside */ };

/* Returns the end to write to, or a negative errno. `to` is the host's, and the pump's from then on; the pipe
 * is `owner`'s. */
int pump_open(int to, uid_t owner);

/* What to wait for: fills at most PUMPS_MAX entries. */
int pump_watched(struct pollfd *into);

/* The same entries after poll. */
void pump_look(const struct pollfd *polled, int count);

/* Carries all that is there now, waiting for the host to take it, and not for more to come. */
void pump_drain(int control_fd);
