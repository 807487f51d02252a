#include "output.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void output_add(struct output *output, const char *data, size_t length)
{
    if (output->length + length > output->capacity) {
        size_t capacity = (output->length + length) * 2 + 4096;
        char *grown = output->has_failed ? NULL : realloc(output->data, capacity);
        if (!grown) {
            output->has_failed = true;
            return;
        }
        output->data = grown;
        output->capacity = capacity;
    }
    memcpy(output->data + output->length, data, length);
    output->length += length;
}

void output_print(struct output *output, const char *format, ...)
{
    char text[128];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length > 0)
        output_add(output, text, (size_t)length < sizeof text ? (size_t)length : sizeof text - 1);
}

/* The length of the character that begins here, 0 when it is none. */
static size_t character_length(const unsigned char *data, size_t left)
{
    unsigned char first = data[0];
    if (first < 0x80)
        return 1;
    size_t length = first >= 0xc2 && first <= 0xdf   ? 2
                    : (first & 0xf0) == 0xe0         ? 3
                    : first >= 0xf0 && first <= 0xf4 ? 4
                                                     : 0;
    if (!length || length > left)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((data[i] & 0xc0) != 0x80)
            return 0;
    bool is_longer_than_needed = (first == 0xe0 && data[1] < 0xa0) || (first == 0xf0 && data[1] < 0x90);
    bool is_none = (first == 0xed && data[1] > 0x9f) || (first == 0xf4 && data[1] > 0x8f);
    return is_longer_than_needed || is_none ? 0 : length;
}

void output_string(struct output *output, const char *data, size_t length)
{
    output_add(output, "\"", 1);
    for (size_t at = 0; at < length;) {
        unsigned char c = (unsigned char)data[at];
        size_t step = character_length((const unsigned char *)data + at, length - at);
        if (c == '"' || c == '\\')
            output_print(output, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            output_print(output, "\\u%04x", c);
        else if (step)
            output_add(output, data + at, step);
        else
            output_add(output, "\xef\xbf\xbd", 3);
        at += step ? step : 1;
    }
    output_add(output, "\"", 1);
}

/* Where the cut went through a character, its first bytes go too. */
static size_t whole_characters(const char *data, size_t length)
{
    size_t back = 0;
    while (back < 3 && back + 1 < length && ((unsigned char)data[length - 1 - back] & 0xc0) == 0x80)
        back++;
    unsigned char first = (unsigned char)data[length - 1 - back];
    size_t needed = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
    return needed > back + 1 ? length - 1 - back : length;
}

void output_cell(struct output *output, const struct cell *cell)
{
    char head[CELL_MAX];
    if (!cell->data) {
        output_add(output, "null", 4);
        return;
    }
    size_t length = cell_head(cell, head);
    bool is_cut = length >= CELL_MAX - 3 && cell->length > length;
    output_string(output, head, is_cut ? whole_characters(head, length) : length);
}

void output_number(struct output *output, double number)
{
    char text[40];
    if (!isfinite(number)) { /* JSON has no word for it */
        output_print(output, number < 0 ? "\"-inf\"" : "\"inf\"");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) { /* as many as tell it from its neighbours */
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    output_add(output, text, strlen(text));
}
