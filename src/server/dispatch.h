/* From the HTTP library to handlers: one call for the headers, one for each piece of the body, one at its
 * end. */
#pragma once

struct server;

/* Starts to serve on server->listen_fd; certificate and key are NULL without TLS. 0 or a negative errno. */
int dispatch_start(struct server *server, const char *certificate, const char *key);

/* No connection is accepted any more; those under way go on for at most this long. */
void dispatch_stop(struct server *server, int drain_ms);
