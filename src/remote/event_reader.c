#include "remote/event_reader.h"

#include "base/base64.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { EVENT_MAX = 512 << 20 };

static int finish_event(struct event_reader *reader)
{
    int status = 0;
    if (reader->body.length) {
        json_t *event = json_loadb(reader->body.data, reader->body.length, JSON_ALLOW_NUL, NULL);
        status = event ? reader->take(reader->data, reader->name, event) : -EPROTO;
        json_decref(event);
    }
    reader->body.length = 0;
    reader->name[0] = '\0';
    return status;
}

static int take_line(struct event_reader *reader, const char *line, size_t length)
{
    if (length && line[length - 1] == '\r')
        length--;
    if (!length)
        return finish_event(reader);
    const char *colon = memchr(line, ':', length);
    size_t name_length = colon ? (size_t)(colon - line) : length;
    const char *value = line + name_length + (colon ? 1 : 0);
    if (value < line + length && *value == ' ')
        value++;
    size_t value_length = (size_t)(line + length - value);
    if (name_length == 5 && strncmp(line, "event", 5) == 0)
        snprintf(reader->name, sizeof reader->name, "%.*s", (int)value_length, value);
    if (name_length != 4 || strncmp(line, "data", 4) != 0)
        return 0; /* a comment, an id */
    if (reader->body.length + value_length > EVENT_MAX)
        return -EFBIG;
    int status = reader->body.length ? buffer_append(&reader->body, "\n", 1) : 0;
    return status == 0 ? buffer_append(&reader->body, value, value_length) : status;
}

int event_reader_feed(struct event_reader *reader, struct slice bytes)
{
    int status = 0;
    while (bytes.length && status == 0) {
        const char *end = memchr(bytes.data, '\n', bytes.length);
        size_t length = end ? (size_t)(end - bytes.data) : bytes.length;
        if (end && !reader->line.length) {
            status = take_line(reader, bytes.data, length);
        } else {
            if (reader->line.length + length > EVENT_MAX)
                return -EFBIG;
            status = buffer_append(&reader->line, bytes.data, length);
            if (end && status == 0) {
                status = take_line(reader, reader->line.data, reader->line.length);
                reader->line.length = 0;
            }
        }
        size_t taken = length + (end ? 1 : 0);
        bytes = (struct slice){bytes.data + taken, bytes.length - taken};
    }
    return status;
}

void event_reader_free(struct event_reader *reader)
{
    buffer_free(&reader->line);
    buffer_free(&reader->body);
}

int event_bytes(const json_t *event, struct buffer *into)
{
    const json_t *text = json_object_get(event, "text"), *encoded = json_object_get(event, "bytes");
    if (json_is_string(text))
        return buffer_append(into, json_string_value(text), json_string_length(text));
    return json_is_string(encoded)
               ? base64_decode((struct slice){json_string_value(encoded), json_string_length(encoded)}, into)
               : 0;
}
