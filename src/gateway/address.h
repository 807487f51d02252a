/* Which addresses a name may lead to: those of the public internet, and not this machine's own. */
#pragma once

#include <sys/socket.h>

/* NULL: it may; or what it is instead: "loopback", "a private network" … */
const char *address_fault(const struct sockaddr *address);

/* The same, asked of the kernel's routes as they are now: an address of this machine that has come since it
 * learned its own. For those that have no other fault. */
const char *address_route_fault(const struct sockaddr *address);

/* This machine's own, as they are now, and what its routes call local without anybody wearing it; asked for
 * once, because it takes a socket that is closed to us later. An error, also of more than can be kept: who
 * does not know all of them must not connect to any. */
int address_learn_own(void);
