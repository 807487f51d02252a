/* Bytes: a slice looks at memory that somebody else owns; a buffer owns memory and grows. */
#pragma once

#include <stddef.h>
#include <stdbool.h>

struct slice {
    const char *data;
    size_t length;
};

struct buffer {
    char *data; /* NUL-terminated whenever it is not NULL, the NUL not counted */
    size_t length;
    size_t capacity;
};

/* 0 or -ENOMEM. After buffer_reserve() so many bytes can be written behind the length, and a NUL. */
int buffer_reserve(struct buffer *buffer, size_t extra);
int buffer_append(struct buffer *buffer, const void *data, size_t length);
int buffer_append_text(struct buffer *buffer, const char *text);
int buffer_print(struct buffer *buffer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buffer_free(struct buffer *buffer);

#define scope_buffer __attribute__((cleanup(buffer_free))) struct buffer

/* A list of strings that owns them; always NULL-terminated, so that `items` serves as argv or envp. */
struct string_list {
    char **items;
    size_t count;
};

int string_list_add(struct string_list *list, const char *text);
int string_list_print(struct string_list *list, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int string_list_copy(struct string_list *into, const struct string_list *from);
void string_list_free(struct string_list *list);

#define scope_string_list __attribute__((cleanup(string_list_free))) struct string_list
