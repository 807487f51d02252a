/* Server-sent events. */
#pragma once

#include "base/bytes.h"

#include <jansson.h>

/* Appends "event: NAME\ndata: {…}\n\n". 0 or -ENOMEM. */
int event_append(struct buffer *into, const char *name, json_t *takes);

/* The same for bytes that a program wrote: {"text": …}, or {"bytes": base64} when they are not UTF-8. */
int event_append_output(struct buffer *into, const char *name, struct slice bytes);

/* A comment, which keeps a connection that says nothing from being taken for dead. */
int event_append_pulse(struct buffer *into);
