/* One request and its answer, as handlers see them; nothing of the HTTP library shows through.
 *
 * Theory of operation. Every connection has a thread of its own, and a handler is called in it when the whole
 * request is there; it may block as long as it likes, and sets exactly one answer. An exchange lives until
 * its answer is sent, or the client is gone. Texts that it gives out live as long as itself. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"

#include <jansson.h>
#include <stdint.h>

struct exchange;
struct server;
struct tenant;

typedef int (*route_handler)(struct exchange *exchange);

struct server *exchange_server(struct exchange *exchange);

/* The {…} parts of the path, decoded, from 0. A last part {name...} takes all the rest, slashes included. */
const char *exchange_part(const struct exchange *exchange, int index);

/* NULL: not given. */
const char *exchange_query(const struct exchange *exchange, const char *name);
const char *exchange_header(const struct exchange *exchange, const char *name);
const char *exchange_method(const struct exchange *exchange);
const char *exchange_path(const struct exchange *exchange); /* as it came, without the query */

/* The path as the routes name it: "/v1/sandboxes/{id}/run". */
const char *exchange_pattern(const struct exchange *exchange);

/* All query values in the order in which they came. */
void exchange_each_query(const struct exchange *exchange,
                         void (*call)(void *data, const char *name, const char *value), void *data);

/* Whole, at most the route's limit; empty for routes that stream it. */
struct slice exchange_body(const struct exchange *exchange);

/* Content-Length; -1 when it is not known beforehand. */
int64_t exchange_body_announced(const struct exchange *exchange);

/* What the route's chunk function left in *state. */
void *exchange_body_state(const struct exchange *exchange);

/* The body as a JSON object, which the caller frees. On a negative errno the answer is set already: not JSON,
 * not an object, too deep, a field twice. An empty body is an empty object. */
int exchange_json(struct exchange *exchange, json_t **ret);

/* JSON that is nested too deeply for a parser on a thread's stack; asked before it is parsed. */
bool exchange_is_too_deep(struct slice text);

/* Who asks; never NULL in a handler. */
const struct tenant *exchange_tenant(const struct exchange *exchange);

/* May it see the figures of all tenants? */
bool exchange_is_operator(const struct exchange *exchange);

/* Of the key that it asks with; empty for the single user. */
const char *exchange_key_id(const struct exchange *exchange);

/* For poll(): POLLRDHUP tells that the client is gone. -1 for a request that is done to its end all the same,
 * because it has an Idempotency-Key. */
int exchange_client_fd(const struct exchange *exchange);

/* Bytes of the client's that nobody has read yet. */
bool exchange_more_waits(const struct exchange *exchange);
bool exchange_client_is_gone(const struct exchange *exchange);

/* Does the client ask for events, by `Accept: text/event-stream`? */
bool exchange_wants_events(const struct exchange *exchange);

/* Answers: each returns 0 when the answer is set; exactly one is called by a handler. Without memory they
 * return -ENOMEM and the client gets a plain 500. */
int exchange_reply_json(struct exchange *exchange, int status, json_t *takes);
int exchange_reply_text(struct exchange *exchange, int status, const char *type, struct buffer *takes);
int exchange_reply_static(struct exchange *exchange, int status, const char *type, struct slice forever);
int exchange_reply_empty(struct exchange *exchange, int status);
int exchange_reply_error(struct exchange *exchange, int status, const char *code, const char *field,
                         const char *hint, const char *format, ...) __attribute__((format(printf, 6, 7)));
int exchange_reply_problem(struct exchange *exchange, const struct error *err);

/* Sends from a file without a copy; Range and If-Range are answered in it. */
int exchange_reply_fd(struct exchange *exchange, int takes_fd, uint64_t offset, uint64_t length,
                      const char *type);

/* Pulled by the connection's thread: `next` blocks until there is more and appends it. 1: more, 0: the end,
 * negative: broken off. `done` frees; it is called exactly once, also when the stream is never read or the
 * reply cannot be made. */
int exchange_reply_stream(struct exchange *exchange, const char *type,
                          int (*next)(void *data, struct buffer *into), void (*done)(void *data), void *data);

/* Of an answer that is set: 206 for a stream that is a part. */
void exchange_set_status(struct exchange *exchange, int status);

int exchange_reply_range_error(struct exchange *exchange, uint64_t length);

/* Before or after the answer is set; both are copied. */
void exchange_set_header(struct exchange *exchange, const char *name, const char *value);
