/* Connections to the keeper.
 *
 * Theory of operation. The server has no way to connect to anything: it makes a pair of sockets and gives one
 * end to the keeper through the door (keeper/door.h), which serves it like a client of `cloche keep`. A
 * thread takes a connection for as long as its exchange lasts; then it goes to a stack of idle ones, so that
 * a request costs no new connection, and an idle client holds none. */
#pragma once

#include "base/error.h"

struct server;

/* The connection of the calling thread; made or taken from the idle ones when it has none yet. */
int keeper_link(struct server *server, struct error *err);

/* After an error, or a request that was broken off: it is closed, the next call brings a new one. */
void keeper_link_drop(struct server *server);

/* The exchange is over: others may have it. */
void keeper_link_release(struct server *server);

/* Takes the connection out of the thread's hands, for one that lasts longer than its exchange or is used by
 * another thread; the caller closes it. */
int keeper_link_take(struct server *server, struct error *err);

/* Gives back one that was taken and is as it was: others may have it. */
void keeper_link_give(struct server *server, int fd);

/* A question with one answer, on the thread's connection: takes the request (without its version), *ret is to
 * be freed. */
struct json_t;
int keeper_ask(struct server *server, struct json_t *takes, struct json_t **ret, struct error *err);

void keeper_links_close(struct server *server);
