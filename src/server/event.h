/* Server-sent events. */
#pragma once

#include "base/bytes.h"

#include <jansson.h>

/* Appends "event: NAME\ndata: {…}\n\n". 0 or -ENOMEM. */
int event_append(struct buffer *into, const char *name, json_t *takes);

/* The same with an "id: NUMBER", which a client that comes back names as Last-Event-ID. */
int event_append_numbered(struct buffer *into, const char *name, int64_t number, json_t *takes);

/* The same for bytes that a program wrote: {"text": …}, or {"bytes": base64} when they are not UTF-8. */
int event_append_output(struct buffer *into, const char *name, struct slice bytes);

/* In an answer that is not a stream: NAME is the text, with U+FFFD for what is none; then NAME_base64 has the
 * exact bytes too. */
void event_set_output(json_t *object, const char *name, struct slice bytes);

/* How many bytes at the end are a character that goes on: of a stream, they wait for their rest. */
enum { EVENT_TAIL_MAX = 3 };
size_t event_incomplete_tail(const char *data, size_t length);

/* A comment, which keeps a connection that says nothing from being taken for dead. */
int event_append_pulse(struct buffer *into);
