#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads a non-negative decimal number without exponent, sign or locale; *ret_rest points behind it. */
static bool text_parse_decimal(const char *text, double *ret_value, const char **ret_rest)
{
    double value = 0, scale = 1;
    bool seen_digit = false;
    for (; isdigit((unsigned char)*text); text++, seen_digit = true)
        value = value * 10 + (*text - '0');
    if (*text == '.') {
        for (text++; isdigit((unsigned char)*text); text++, seen_digit = true) {
            scale /= 10;
            value += (*text - '0') * scale;
        }
    }
    *ret_value = value;
    *ret_rest = text;
    return seen_digit && value < 9e18;
}

static bool text_scale(double value, double factor, int64_t *ret)
{
    double scaled = value * factor;
    if (!(scaled < 9e18))
        return false;
    *ret = (int64_t)(scaled + 0.5);
    return true;
}

bool text_parse_size(const char *text, int64_t *ret_bytes)
{
    double value;
    const char *rest;
    if (!text_parse_decimal(text, &value, &rest))
        return false;
    static const char letters[] = "KMGT";
    double factor = 1;
    const char *letter = *rest ? strchr(letters, toupper((unsigned char)*rest)) : NULL;
    if (letter) {
        for (const char *step = letters; step <= letter; step++)
            factor *= 1024;
        rest++;
        if (*rest == 'i')
            rest++;
    }
    if (*rest == 'B' || *rest == 'b')
        rest++;
    return !*rest && text_scale(value, factor, ret_bytes);
}

bool text_parse_duration(const char *text, int64_t *ret_ms)
{
    double value;
    const char *rest;
    if (!text_parse_decimal(text, &value, &rest))
        return false;
    static const struct {
        const char *unit;
        double ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"", 1000}, {"m", 60000}, {"min", 60000}, {"h", 3600000}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(rest, units[i].unit) == 0)
            return text_scale(value, units[i].ms, ret_ms);
    return false;
}

bool text_parse_cpus(const char *text, int64_t *ret_millicpus)
{
    double value;
    const char *rest;
    if (!text_parse_decimal(text, &value, &rest))
        return false;
    if (strcmp(rest, "%") == 0)
        return text_scale(value, 10, ret_millicpus);
    return !*rest && text_scale(value, 1000, ret_millicpus);
}

bool text_parse_count(const char *text, int64_t *ret_count)
{
    if (!isdigit((unsigned char)*text))
        return false;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || *end)
        return false;
    *ret_count = value;
    return true;
}

const char *text_format_size(int64_t bytes, char *into, size_t size)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof *units) {
        value /= 1024;
        unit++;
    }
    snprintf(into, size, value == floor(value) ? "%.0f %s" : "%.1f %s", value, units[unit]);
    return into;
}

const char *text_format_duration(int64_t ms, char *into, size_t size)
{
    if (ms % 1000)
        snprintf(into, size, ms < 1000 ? "%.0f ms" : "%.1f s", ms < 1000 ? (double)ms : (double)ms / 1000);
    else
        snprintf(into, size, "%lld s", (long long)(ms / 1000));
    return into;
}

bool text_is_plain_name(const char *text)
{
    if (!isalnum((unsigned char)*text) || strlen(text) > 64)
        return false;
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr("-_.", *text))
            return false;
    return true;
}

bool text_is_file_name(const char *name, size_t length)
{
    return length > 0 && length <= NAME_MAX && !memchr(name, '/', length) && !memchr(name, '\0', length) &&
           !(length <= 2 && strncmp(name, "..", length) == 0);
}

bool text_is_environment_name(const char *text, size_t length)
{
    if (length == 0 || isdigit((unsigned char)*text))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && text[i] != '_')
            return false;
    return true;
}

/* Length of the well-formed sequence at `at`, or 0. Overlong forms, surrogates and values past U+10FFFF are
 * not well-formed. */
static size_t text_utf8_sequence(const unsigned char *at, size_t left)
{
    if (at[0] < 0x80)
        return 1;
    size_t need = at[0] >= 0xf0 ? 4 : at[0] >= 0xe0 ? 3 : 2;
    if (at[0] < 0xc2 || at[0] > 0xf4 || left < need)
        return 0;
    for (size_t i = 1; i < need; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
        (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))
        return 0;
    return need;
}

bool text_is_utf8(const char *text, size_t length)
{
    for (size_t i = 0; i < length;) {
        size_t step = text_utf8_sequence((const unsigned char *)text + i, length - i);
        if (!step)
            return false;
        i += step;
    }
    return true;
}

int text_append_utf8(struct buffer *into, const char *data, size_t length)
{
    int status = into->data ? 0 : buffer_append(into, "", 0);
    for (size_t i = 0; status == 0 && i < length;) {
        size_t step = text_utf8_sequence((const unsigned char *)data + i, length - i);
        status = buffer_append(into, step ? data + i : "\xef\xbf\xbd", step ? step : 3);
        i += step ? step : 1;
    }
    return status;
}

size_t text_edit_distance(const char *one, const char *other)
{
    enum { LONGEST = 64 };
    size_t rows = strnlen(one, LONGEST), columns = strnlen(other, LONGEST);
    size_t lines[3][LONGEST + 1]; /* this row and the two before it */
    for (size_t column = 0; column <= columns; column++)
        lines[0][column] = column;
    for (size_t row = 1; row <= rows; row++) {
        size_t *line = lines[row % 3], *above = lines[(row + 2) % 3], *higher = lines[(row + 1) % 3];
        line[0] = row;
        for (size_t column = 1; column <= columns; column++) {
            size_t best = above[column - 1] + (one[row - 1] != other[column - 1]);
            if (above[column] + 1 < best)
                best = above[column] + 1;
            if (line[column - 1] + 1 < best)
                best = line[column - 1] + 1;
            bool swapped = row > 1 && column > 1 && one[row - 1] == other[column - 2] &&
                           one[row - 2] == other[column - 1];
            if (swapped && higher[column - 2] + 1 < best)
                best = higher[column - 2] + 1;
            line[column] = best;
        }
    }
    return lines[rows % 3][columns];
}

void text_guess_offer(struct text_guess *guess, const char *word)
{
    enum { CHANGES_MAX = 2 };
    size_t distance = text_edit_distance(guess->given, word);
    if (distance > CHANGES_MAX || (guess->nearest && distance >= guess->distance))
        return;
    guess->nearest = word;
    guess->distance = distance;
}
