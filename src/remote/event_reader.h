/* Events of a stream (text/event-stream), from bytes as they come. */
#pragma once

#include "base/bytes.h"

#include <jansson.h>

struct event_reader {
    /* A negative errno breaks off. */
    int (*take)(void *data, const char *name, const json_t *event);
    void *data;
    struct buffer line, body; /* what has come of a line, and of an event */
    char name[32];
};

int event_reader_feed(struct event_reader *reader, struct slice bytes);
void event_reader_free(struct event_reader *reader);

/* The bytes of an output event: `text`, or `bytes` in base64. */
int event_bytes(const json_t *event, struct buffer *into);
