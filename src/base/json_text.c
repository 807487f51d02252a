#include "base/json_text.h"

#include <errno.h>
#include <stdbool.h>

struct sink {
    struct buffer *into;
    bool is_lost;
};

static int take_piece(const char *piece, size_t length, void *data)
{
    struct sink *sink = data;
    sink->is_lost = sink->is_lost || buffer_append(sink->into, piece, length) < 0;
    return sink->is_lost ? -1 : 0;
}

int json_append(struct buffer *into, const json_t *value, size_t flags)
{
    size_t before = into->length;
    struct sink sink = {.into = into};
    if (value && json_dump_callback(value, take_piece, &sink, flags) == 0 && !sink.is_lost)
        return 0;
    if (into->data)
        into->data[into->length = before] = '\0';
    return -ENOMEM;
}

char *json_text(const json_t *value, size_t flags)
{
    struct buffer text = {0};
    if (json_append(&text, value, flags) == 0)
        return text.data;
    buffer_free(&text);
    return NULL;
}
