#include "server/event.h"

#include "base/base64.h"
#include "base/json_text.h"
#include "base/scope.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* NULL `takes`: no memory, which is told by the caller. */
static int append_event(struct buffer *into, size_t length, int status, json_t *takes)
{
    if (status == 0)
        status = json_append(into, takes, JSON_COMPACT | JSON_REAL_PRECISION(12));
    if (status == 0)
        status = buffer_append(into, "\n\n", 2);
    json_decref(takes);
    if (status < 0 && into->data)
        into->data[into->length = length] = '\0';
    return status;
}

int event_append(struct buffer *into, const char *name, json_t *takes)
{
    size_t length = into->length;
    return append_event(into, length, buffer_print(into, "event: %s\ndata: ", name), takes);
}

int event_append_numbered(struct buffer *into, const char *name, int64_t number, json_t *takes)
{
    size_t length = into->length;
    return append_event(into, length,
                        buffer_print(into, "id: %lld\nevent: %s\ndata: ", (long long)number, name), takes);
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

void event_set_output(json_t *object, const char *name, struct slice bytes)
{
    scope_buffer clean = {0};
    char field[32];
    text_append_utf8(&clean, bytes.data, bytes.length);
    json_object_set_new(object, name, json_stringn(clean.data ? clean.data : "", clean.length));
    if (text_is_utf8(bytes.data, bytes.length))
        return;
    scope_free char *encoded = base64_encode(bytes);
    snprintf(field, sizeof field, "%s_base64", name);
    json_object_set_new(object, field, encoded ? json_string(encoded) : NULL);
}

size_t event_incomplete_tail(const char *data, size_t length)
{
    for (size_t back = 1; back <= EVENT_TAIL_MAX && back <= length; back++) {
        unsigned char c = (unsigned char)data[length - back];
        size_t needed = c >= 0xf0 && c < 0xf5 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;
        if (c >= 0xf5)
            return 0;
        if (c >= 0xc0 || c < 0x80)
            return needed > back ? back : 0;
    }
    return 0;
}

int event_append_pulse(struct buffer *into)
{
    return buffer_append_text(into, ": \n\n");
}
