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

/* Serves until stop_fd is readable; then no new request is taken, and those under way are ended after
 * drain_ms. */
int service_run(struct service *service, int stop_fd, int drain_ms, struct error *err);

void service_close(struct service *service);
