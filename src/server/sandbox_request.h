/* What handlers ask the keeper about live sandboxes (keeper/session_service.h), and how its refusals become
 * answers. */
#pragma once

#include "server/exchange.h"
#include "spec/limits.h"

/* "session.VERB" of the tenant who asks, about the sandbox that the path names (part 0), if it names one.
 * More fields can be set in it. NULL: no memory. */
json_t *sandbox_request(struct exchange *exchange, const char *verb);

/* Asks, and waits for the one answer, which the caller frees. On a negative errno the exchange has its answer
 * already. Takes the request. */
int sandbox_ask(struct exchange *exchange, json_t *request, json_t **ret);

/* The same with descriptors, which stay the caller's. */
int sandbox_ask_with(struct exchange *exchange, json_t *request, const int *fds, size_t count, json_t **ret);

/* The keeper takes no text with a NUL in it. False: the answer is set. */
bool sandbox_request_is_text(struct exchange *exchange, const json_t *request);

/* Only sends it, over this connection; for what is answered by several frames. */
int sandbox_send(struct exchange *exchange, int link, json_t *request, struct slice body);

/* Answers with a refusal of the keeper's: not_found, conflict, gone with its cause … */
int sandbox_reply_refusal(struct exchange *exchange, const json_t *refusal);

/* The same as an object, for events: {"error": {…}}. */
json_t *sandbox_refusal_to_json(const json_t *refusal);

/* The body as an object whose fields are all among these (NULL at the end); to be freed. On a negative errno
 * the exchange has its answer already. */
int sandbox_body(struct exchange *exchange, const char *const *known, json_t **ret);

/* A field that must be of this type, if it is there. False: the exchange has its answer already. */
bool sandbox_field_is(struct exchange *exchange, const json_t *body, const char *name, json_type type);

/* "10s", or a number of seconds; *ret_ms is left alone when it is not given. */
bool sandbox_duration(struct exchange *exchange, const json_t *body, const char *name, int64_t *ret_ms);

/* As clients see one: `session` is what the keeper tells. All are to be freed. */
json_t *sandbox_view(const json_t *session);
json_t *sandbox_view_lost(const json_t *lost); /* of sandbox_journal_list_lost: little is known of it */
json_t *sandbox_view_context(const json_t *context);
json_t *sandbox_view_checkpoint(const json_t *point);

/* As a number in the unit that a plain number has in a spec. */
json_t *sandbox_limit(enum limit_field field, int64_t value);

/* "2026-11-16T10:35:22.123Z" */
json_t *sandbox_time(int64_t unix_ms);
