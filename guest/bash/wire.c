#include "wire.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LENGTHS_SIZE = 8, HEADER_MAX = 1 << 20, BODY_MAX = 64 << 20 };

void text_append(struct text *text, const void *data, size_t length)
{
    char *grown = realloc(text->data, text->length + length + 1);
    if (!grown)
        _exit(70);
    text->data = grown;
    memcpy(text->data + text->length, data, length);
    text->length += length;
    text->data[text->length] = '\0';
}

void text_print(struct text *text, const char *format, ...)
{
    char *printed = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&printed, format, arguments);
    va_end(arguments);
    if (length < 0)
        _exit(70);
    text_append(text, printed, (size_t)length);
    free(printed);
}

void text_free(struct text *text)
{
    free(text->data);
    *text = (struct text){0};
}

/* Length of the UTF-8 character there; 0: it is none. */
static size_t utf8_length(const unsigned char *at, size_t left)
{
    size_t length = at[0] < 0x80                    ? 1
                    : at[0] >= 0xc2 && at[0] < 0xe0 ? 2
                    : at[0] >= 0xe0 && at[0] < 0xf0 ? 3
                    : at[0] >= 0xf0 && at[0] < 0xf5 ? 4
                                                    : 0;
    if (length > left)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
        (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
        return 0;
    return length;
}

void text_append_json(struct text *text, const char *data, size_t length)
{
    text_append(text, "\"", 1);
    for (size_t i = 0; i < length;) {
        const unsigned char *at = (const unsigned char *)data + i;
        size_t size = utf8_length(at, length - i);
        if (size == 0 || *at == '\0')
            text_append(text, "?", 1);
        else if (*at < 0x20 || *at == '"' || *at == '\\')
            text_print(text, "\\u%04x", *at);
        else
            text_append(text, at, size);
        i += size ? size : 1;
    }
    text_append(text, "\"", 1);
}

static void write_all(int fd, const char *data, size_t length)
{
    while (length > 0) {
        ssize_t written = write(fd, data, length);
        if (written < 0 && errno != EINTR)
            _exit(71); /* the host is gone */
        if (written > 0) {
            data += written;
            length -= (size_t)written;
        }
    }
}

static bool read_all(int fd, char *into, size_t length)
{
    while (length > 0) {
        ssize_t count = read(fd, into, length);
        if (count == 0 || (count < 0 && errno != EINTR))
            return false;
        if (count > 0) {
            into += count;
            length -= (size_t)count;
        }
    }
    return true;
}

static void put_u32(char *at, size_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (char)(value >> 8 * i);
}

static size_t get_u32(const char *at)
{
    const unsigned char *bytes = (const unsigned char *)at;
    return bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16 | (size_t)bytes[3] << 24;
}

void frame_write(int fd, const char *type, int64_t run, const char *fields, const void *body, size_t length)
{
    struct text frame = {0};
    text_append(&frame, "\0\0\0\0\0\0\0\0", LENGTHS_SIZE);
    text_print(&frame, "{\"type\":\"%s\",\"run\":", type);
    if (run < 0)
        text_print(&frame, "null");
    else
        text_print(&frame, "%lld", (long long)run);
    text_print(&frame, "%s}", fields);
    put_u32(frame.data, frame.length - LENGTHS_SIZE);
    put_u32(frame.data + 4, length);
    text_append(&frame, body, length);
    write_all(fd, frame.data, frame.length);
    text_free(&frame);
}

/* A place in a header. What is not JSON sets `failed`, and everything after it is empty. */
struct cursor {
    const char *at, *end;
    bool failed;
};

static char peek(struct cursor *cursor)
{
    while (cursor->at < cursor->end && strchr(" \t\r\n", *cursor->at))
        cursor->at++;
    if (cursor->at < cursor->end && !cursor->failed)
        return *cursor->at;
    cursor->failed = true;
    return '\0';
}

static bool take(struct cursor *cursor, char wanted)
{
    if (peek(cursor) != wanted)
        return false;
    cursor->at++;
    return true;
}

static unsigned read_hex(struct cursor *cursor)
{
    unsigned value = 0;
    if (cursor->end - cursor->at < 4 || sscanf(cursor->at, "%4x", &value) != 1)
        cursor->failed = true;
    else
        cursor->at += 4;
    return value;
}

static void append_character(struct text *text, unsigned code)
{
    char bytes[4];
    int length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int i = length - 1; i > 0; i--, code >>= 6)
        bytes[i] = (char)(0x80 | (code & 0x3f));
    bytes[0] = (char)(first[length] | code);
    text_append(text, bytes, (size_t)length);
}

static void read_escape(struct cursor *cursor, struct text *into)
{
    static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    char letter = cursor->at < cursor->end ? *cursor->at++ : '\0';
    const char *found = letter ? strchr(letters, letter) : NULL;
    if (found) {
        text_append(into, &meanings[found - letters], 1);
        return;
    }
    cursor->failed |= letter != 'u';
    unsigned code = cursor->failed ? 0 : read_hex(cursor);
    if (code >= 0xd800 && code < 0xdc00 && cursor->end - cursor->at >= 6 && cursor->at[0] == '\\' &&
        cursor->at[1] == 'u') {
        cursor->at += 2;
        code = 0x10000 + ((code - 0xd800) << 10) + ((read_hex(cursor) - 0xdc00) & 0x3ff);
    }
    append_character(into, code);
}

static struct text read_string(struct cursor *cursor)
{
    struct text text = {0};
    text_append(&text, "", 0);
    cursor->failed |= !take(cursor, '"');
    while (!cursor->failed) {
        const char *plain = cursor->at;
        while (cursor->at < cursor->end && *cursor->at != '"' && *cursor->at != '\\')
            cursor->at++;
        text_append(&text, plain, (size_t)(cursor->at - plain));
        if (cursor->at >= cursor->end)
            cursor->failed = true;
        else if (*cursor->at++ == '"')
            return text;
        else
            read_escape(cursor, &text);
    }
    return text;
}

/* Numbers, null, true, false: whatever ends at a comma or bracket. */
static void skip_plain(struct cursor *cursor)
{
    const char *begin = cursor->at;
    while (cursor->at < cursor->end && !strchr(",]} \t\r\n", *cursor->at))
        cursor->at++;
    cursor->failed |= cursor->at == begin;
}

static void skip_value(struct cursor *cursor)
{
    int depth = 0;
    do {
        char next = peek(cursor);
        if (next == '"') {
            struct text ignored = read_string(cursor);
            text_free(&ignored);
        } else if (next == '{' || next == '[') {
            depth++;
            cursor->at++;
        } else if (next == '}' || next == ']') {
            depth--;
            cursor->at++;
        } else if (next == ',' || next == ':') {
            cursor->at++;
        } else {
            skip_plain(cursor);
        }
    } while (depth > 0 && !cursor->failed);
}

static void quote_for_shell(struct text *into, const char *word)
{
    text_append(into, " '", 2);
    for (; *word; word++)
        if (*word == '\'')
            text_append(into, "'\\''", 4);
        else
            text_append(into, word, 1);
    text_append(into, "'", 1);
}

static void read_arguments(struct cursor *cursor, struct text *into)
{
    cursor->failed |= !take(cursor, '[');
    while (!cursor->failed && !take(cursor, ']')) {
        struct text word = read_string(cursor);
        quote_for_shell(into, word.data);
        text_free(&word);
        take(cursor, ',');
    }
}

/* Never freed one by one: who gets words becomes the program that they name. */
static void read_words(struct cursor *cursor, struct words *into)
{
    cursor->failed |= !take(cursor, '[');
    while (!cursor->failed && !take(cursor, ']')) {
        char **grown = realloc(into->items, (into->count + 2) * sizeof *grown);
        if (!grown)
            _exit(70);
        into->items = grown;
        into->items[into->count++] = read_string(cursor).data;
        into->items[into->count] = NULL;
        take(cursor, ',');
    }
}

static long long read_number(struct cursor *cursor)
{
    peek(cursor);
    long long number = strtoll(cursor->at, NULL, 10);
    skip_plain(cursor);
    take(cursor, ',');
    return number;
}

static void read_rlimits(struct cursor *cursor, struct order *order)
{
    cursor->failed |= !take(cursor, '[');
    while (!cursor->failed && !take(cursor, ']')) {
        cursor->failed |= !take(cursor, '[') || order->rlimit_count == ORDER_RLIMITS;
        if (cursor->failed)
            return;
        order->rlimits[order->rlimit_count].resource = (int)read_number(cursor);
        order->rlimits[order->rlimit_count++].value = (uint64_t)read_number(cursor);
        cursor->failed |= !take(cursor, ']');
        take(cursor, ',');
    }
}

static void read_field(struct cursor *cursor, const char *key, struct order *order)
{
    bool is_text = peek(cursor) == '"';
    if (strcmp(key, "type") == 0 && is_text) {
        struct text type = read_string(cursor);
        order->kind = strcmp(type.data, "run") == 0        ? ORDER_RUN
                      : strcmp(type.data, "complete") == 0 ? ORDER_COMPLETE
                      : strcmp(type.data, "main") == 0     ? ORDER_MAIN
                                                           : ORDER_UNKNOWN;
        text_free(&type);
    } else if (strcmp(key, "stdin") == 0 && is_text) {
        text_free(&order->input);
        order->input = read_string(cursor);
    } else if (strcmp(key, "arguments") == 0 && peek(cursor) == '[') {
        read_arguments(cursor, &order->arguments);
    } else if (strcmp(key, "command") == 0 && peek(cursor) == '[') {
        read_words(cursor, &order->command);
    } else if (strcmp(key, "environment") == 0 && peek(cursor) == '[') {
        read_words(cursor, &order->environment);
    } else if (strcmp(key, "rlimits") == 0 && peek(cursor) == '[') {
        read_rlimits(cursor, order);
    } else if (strcmp(key, "run") == 0 && !is_text) {
        order->run = strtoll(cursor->at, NULL, 10);
        skip_plain(cursor);
    } else {
        skip_value(cursor);
    }
}

static bool read_header(const char *header, size_t length, struct order *order)
{
    struct cursor cursor = {header, header + length, false};
    cursor.failed = !take(&cursor, '{');
    while (!cursor.failed && !take(&cursor, '}')) {
        struct text key = read_string(&cursor);
        cursor.failed |= !take(&cursor, ':');
        read_field(&cursor, key.data, order);
        text_free(&key);
        take(&cursor, ',');
    }
    return !cursor.failed;
}

bool order_read(int fd, struct order *ret)
{
    *ret = (struct order){.run = -1};
    char lengths[LENGTHS_SIZE];
    if (!read_all(fd, lengths, sizeof lengths))
        return false;
    size_t head = get_u32(lengths), body = get_u32(lengths + 4);
    if (head > HEADER_MAX || body > BODY_MAX)
        return false;
    char *bytes = malloc(head + body + 2);
    if (!bytes)
        return false;
    bool is_whole = read_all(fd, bytes, head + body);
    if (is_whole) {
        text_append(&ret->code, bytes + head, body);
        bytes[head] = '\0'; /* numbers are read up to it */
        is_whole = read_header(bytes, head, ret);
    }
    free(bytes);
    if (!is_whole)
        order_free(ret);
    return is_whole;
}

void order_free(struct order *order)
{
    text_free(&order->input);
    text_free(&order->arguments);
    text_free(&order->code);
}
