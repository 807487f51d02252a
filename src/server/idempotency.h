/* Idempotency-Key on POST: around a handler, the journal.
 *
 * A request with a key is done once and to its end, even when its client goes away meanwhile: whoever asks
 * again gets what came of it. So its handler sees no client to hang up on, and a stream that nobody reads is
 * read on here. An answer of 429 or 503 means that nothing was done, and so does a request that was refused
 * as it stands (400, 413, 422): the key stays free. */
#pragma once

#include "server/exchange.h"

struct recording;

/* Calls the handler, or answers in its place. */
int idempotency_handle(struct exchange *exchange, route_handler handler);

/* From the answers: what is being sent is noted. All accept NULL. */
void recording_take(struct recording *recording, int status, const char *type, const void *data,
                    size_t length);
/* A stream begins; its bytes follow by recording_add, and recording_end before its last ones go out. */
void recording_stream(struct recording *recording, const char *type);
void recording_add(struct recording *recording, const void *data, size_t length);
void recording_end(struct recording *recording);
/* The answer is a refusal with this status. */
void recording_refuse(struct recording *recording, int status);
void recording_free(struct recording *recording);
