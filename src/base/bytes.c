#include "base/bytes.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int buffer_reserve(struct buffer *buffer, size_t extra)
{
    if (extra >= SIZE_MAX / 2 - buffer->length)
        return -ENOMEM;
    size_t needed = buffer->length + extra + 1;
    if (needed <= buffer->capacity)
        return 0;
    size_t capacity = buffer->capacity ? buffer->capacity : 256;
    while (capacity < needed)
        capacity *= 2;
    char *data = realloc(buffer->data, capacity);
    if (!data)
        return -ENOMEM;
    buffer->data = data;
    buffer->data[buffer->length] = '\0';
    buffer->capacity = capacity;
    return 0;
}

int buffer_append(struct buffer *buffer, const void *data, size_t length)
{
    int status = buffer_reserve(buffer, length);
    if (status < 0)
        return status;
    if (length)
        memcpy(buffer->data + buffer->length, data, length);
    buffer->length += length;
    buffer->data[buffer->length] = '\0';
    return 0;
}

int buffer_append_text(struct buffer *buffer, const char *text)
{
    return buffer_append(buffer, text, strlen(text));
}

int buffer_print(struct buffer *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = NULL;
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        return -ENOMEM;
    int status = buffer_append(buffer, text, (size_t)length);
    free(text);
    return status;
}

void buffer_free(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct buffer){0};
}

static int string_list_take(struct string_list *list, char *text)
{
    if (!text)
        return -ENOMEM;
    char **items = realloc(list->items, (list->count + 2) * sizeof *items);
    if (!items) {
        free(text);
        return -ENOMEM;
    }
    list->items = items;
    list->items[list->count++] = text;
    list->items[list->count] = NULL;
    return 0;
}

int string_list_add(struct string_list *list, const char *text)
{
    return string_list_take(list, strdup(text));
}

int string_list_print(struct string_list *list, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = NULL;
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    return string_list_take(list, length < 0 ? NULL : text);
}

int string_list_copy(struct string_list *into, const struct string_list *from)
{
    for (size_t i = 0; i < from->count; i++) {
        int status = string_list_add(into, from->items[i]);
        if (status < 0)
            return status;
    }
    return 0;
}

void string_list_free(struct string_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
    *list = (struct string_list){0};
}
