#include "server/event.h"

#include "base/text.h"
#include "base/base64.h"

#include <errno.h>
#include <stdlib.h>

static int append_piece(const char *data, size_t length, void *into)
{
    return buffer_append(into, data, length) < 0 ? -1 : 0;
}

int event_append(struct buffer *into, const char *name, json_t *takes)
{
    size_t length = into->length;
    int status = buffer_print(into, "event: %s\ndata: ", name);
    if (status == 0 &&
        (!takes || json_dump_callback(takes, append_piece, into, JSON_COMPACT | JSON_REAL_PRECISION(12)) < 0))
        status = -ENOMEM;
    if (status == 0)
        status = buffer_append(into, "\n\n", 2);
    json_decref(takes);
    if (status < 0 && into->data)
        into->data[into->length = length] = '\0';
    return status;
}

int event_append_output(struct buffer *into, const char *name, struct slice bytes)
{
    if (text_is_utf8(bytes.data, bytes.length))
        return event_append(into, name, json_pack("{s:o}", "text", json_stringn(bytes.data, bytes.length)));
    char *encoded = base64_encode(bytes);
    json_t *event = encoded ? json_pack("{s:s}", "bytes", encoded) : NULL;
    free(encoded);
    return event_append(into, name, event);
}

int event_append_pulse(struct buffer *into)
{
    return buffer_append_text(into, ": \n\n");
}
