/* `cloche keep`: a keeper that stays, with a pool of spares, for clients of the same user on this machine.
 *
 * Theory of operation. A socket in the state directory, which only its user can reach; each connection is
 * served by a thread, one request after the other. A request brings the client's own streams: what a program
 * writes goes straight to them. A client that goes away cancels its run. Runs that the pool has no spares for
 * (other languages, granted files, other images) run cold, with the same result. When the keeper dies,
 * however it dies, every box ends with it: their inits see it. */
#pragma once

#include "keeper/pool.h"

struct service;

int service_open(struct pool *pool, struct service **ret, struct error *err);

/* Without a path: its connections are all given to it. */
int service_open_inside(struct pool *pool, struct service **ret, struct error *err);

/* Serves a connection that is there already, which it takes. -EBUSY when there are too many. */
int service_take(struct service *service, int fd);

/* Answers requests about live sandboxes, too; the table stays the caller's. */
struct session_table;
void service_keep_sessions(struct service *service, struct session_table *sessions);

/* Who asked for them is gone: ends them all, and cuts off the connections that are left. */
void service_end_sessions(struct service *service);

/* Requests under way get drain_ms, then they are cut off; returns when none is left. */
void service_drain(struct service *service, int drain_ms);

/* Serves until stop_fd is readable; then no new request is taken, and those under way are ended after
 * drain_ms. */
int service_run(struct service *service, int stop_fd, int drain_ms, struct error *err);

void service_close(struct service *service);
