/* Connections on which nobody has shown a key yet.
 *
 * Theory of operation. There is room for so many connections, and whoever can reach the server can open one
 * and say nothing. So those that have not shown a key (or, without keys, have not asked for anything) are
 * kept in a line: they have at most half of the room, and when one more comes, the oldest goes; what is for
 * tenants cannot be taken by others. A client that means it asks at once, and leaves the line with its first
 * request. One that waits, or sends its headers byte by byte, goes after ten seconds. Beside this, an address
 * that is not ours has a quarter of the room at most (dispatch.c).
 *
 * A connection is ended by shutting its socket, which its thread notices. */
#pragma once

#include <stdbool.h>

enum {
    STRANGERS_MAX = 2048,
    STRANGERS_WAIT_MS = 10000, /* for headers that are whole, and between requests */
};

struct stranger;

/* A connection comes; NULL without memory, which all others take. */
struct stranger *stranger_come(int fd);

/* The headers of a request are there. With a key: from here on it is a tenant's. */
void stranger_ask(struct stranger *stranger, bool has_key);

/* A request is over. */
void stranger_rest(struct stranger *stranger);

/* The connection goes, and its socket has not been closed yet. */
void stranger_leave(struct stranger *stranger);

/* Ends those that wait too long. To be called once a second. */
void strangers_sweep(void);
