#include "cell.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const cell_type_names[CELL_TYPES] = {"text", "integer",  "number", "boolean",
                                                 "date", "datetime", "text"};

enum { NUMBER_MAX = 64 };

static bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

/* ---- words ---- */

/* Up to five letters as one number: this is asked of very many cells. */
#define WORD(a, b, c, d, e)                                                                                  \
    ((uint64_t)(a) | (uint64_t)(b) << 8 | (uint64_t)(c) << 16 | (uint64_t)(d) << 24 | (uint64_t)(e) << 32)

static uint64_t word_of(const char *data, size_t length)
{
    uint64_t word = 0;
    for (size_t i = 0; i < length; i++)
        word |= (uint64_t)(unsigned char)data[i] << (8 * i);
    return word;
}

static enum cell_type classify_word(const char *data, size_t length, struct cell_value *ret)
{
    if (length < 2 || length > 5)
        return CELL_TEXT;
    switch (word_of(data, length)) {
    case WORD('N', 'A', 0, 0, 0):
    case WORD('N', '/', 'A', 0, 0):
    case WORD('n', '/', 'a', 0, 0):
    case WORD('N', 'U', 'L', 'L', 0):
    case WORD('n', 'u', 'l', 'l', 0):
    case WORD('N', 'u', 'l', 'l', 0):
    case WORD('N', 'o', 'n', 'e', 0):
    case WORD('N', 'a', 'N', 0, 0):
    case WORD('n', 'a', 'n', 0, 0):
    case WORD('<', 'N', 'A', '>', 0):
    case WORD('#', 'N', '/', 'A', 0):
    case WORD('#', 'N', 'A', 0, 0):
        return CELL_NULL;
    case WORD('t', 'r', 'u', 'e', 0):
    case WORD('T', 'r', 'u', 'e', 0):
    case WORD('T', 'R', 'U', 'E', 0):
    case WORD('f', 'a', 'l', 's', 'e'):
    case WORD('F', 'a', 'l', 's', 'e'):
    case WORD('F', 'A', 'L', 'S', 'E'):
        return CELL_BOOLEAN;
    case WORD('i', 'n', 'f', 0, 0):
    case WORD('I', 'n', 'f', 0, 0):
        ret->number = INFINITY;
        return CELL_NUMBER;
    case WORD('-', 'i', 'n', 'f', 0):
    case WORD('-', 'I', 'n', 'f', 0):
        ret->number = -INFINITY;
        return CELL_NUMBER;
    default:
        return CELL_TEXT;
    }
}

/* ---- dates ---- */

static int two_digits(const char *data)
{
    return is_digit(data[0]) && is_digit(data[1]) ? (data[0] - '0') * 10 + data[1] - '0' : -1;
}

static bool is_date(const char *data)
{
    static const char days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if ((data[4] != '-' && data[4] != '/') || data[7] != data[4] || two_digits(data) < 0 ||
        two_digits(data + 2) < 0)
        return false;
    int month = two_digits(data + 5), day = two_digits(data + 8);
    return month >= 1 && month <= 12 && day >= 1 && day <= days[month - 1];
}

/* Z, +01, +0100, +01:00 */
static bool is_zone(const char *data, size_t length)
{
    if (length == 1)
        return data[0] == 'Z' || data[0] == 'z';
    if ((data[0] != '+' && data[0] != '-') || (length != 3 && length != 5 && length != 6))
        return false;
    if (two_digits(data + 1) < 0 || two_digits(data + 1) > 23)
        return false;
    if (length == 6 && data[3] != ':')
        return false;
    int minutes = length == 3 ? 0 : two_digits(data + length - 2);
    return minutes >= 0 && minutes < 60;
}

/* HH:MM, HH:MM:SS, a fraction, a zone */
static bool is_time(const char *data, size_t length)
{
    if (length < 5 || data[2] != ':')
        return false;
    int hours = two_digits(data), minutes = two_digits(data + 3);
    if (hours < 0 || hours > 23 || minutes < 0 || minutes > 59)
        return false;
    size_t at = 5;
    if (length >= 8 && data[5] == ':') {
        int seconds = two_digits(data + 6);
        if (seconds < 0 || seconds > 60)
            return false;
        at = 8;
        if (at < length && data[at] == '.') {
            size_t first = ++at;
            while (at < length && is_digit(data[at]))
                at++;
            if (at == first)
                return false;
        }
    }
    return at == length || is_zone(data + at, length - at);
}

enum cell_type cell_classify_text(const char *data, size_t length)
{
    if (length < 10 || length > 40 || !is_digit(data[0]) || !is_date(data))
        return CELL_TEXT;
    if (length == 10)
        return CELL_DATE;
    bool is_joined = data[10] == 'T' || data[10] == ' ';
    return is_joined && is_time(data + 11, length - 11) ? CELL_DATETIME : CELL_TEXT;
}

/* ---- numbers ---- */

static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

struct decimal {
    uint64_t digits;
    int digit_count; /* without zeros in front */
    int exponent;
    bool is_whole; /* neither point nor exponent */
};

/* [digits][.digits][e[+-]digits], all of it. */
static bool read_decimal(const char *data, size_t length, struct decimal *ret)
{
    size_t at = 0, seen = 0;
    *ret = (struct decimal){.is_whole = true};
    for (bool after_point = false; at < length; at++) {
        unsigned digit = (unsigned char)(data[at] - '0');
        if (data[at] == '.' && !after_point) {
            after_point = true;
            ret->is_whole = false;
            continue;
        }
        if (digit > 9)
            break;
        seen++;
        if (ret->digit_count < 19)
            ret->digits = ret->digits * 10 + digit;
        ret->digit_count += ret->digits != 0;
        ret->exponent -= after_point;
    }
    if (!seen)
        return false;
    if (at == length)
        return true;
    if (data[at] != 'e' && data[at] != 'E')
        return false;
    ret->is_whole = false;
    bool is_negative = ++at < length && data[at] == '-';
    at += at < length && (data[at] == '-' || data[at] == '+');
    size_t first = at;
    int exponent = 0;
    for (; at < length && is_digit(data[at]); at++)
        exponent = exponent < 10000 ? exponent * 10 + data[at] - '0' : exponent;
    ret->exponent += is_negative ? -exponent : exponent;
    return at == length && at > first;
}

static bool read_exactly(const char *data, size_t length, double *ret)
{
    char text[NUMBER_MAX + 1];
    if (length > NUMBER_MAX)
        return false;
    memcpy(text, data, length);
    text[length] = '\0';
    *ret = strtod(text, NULL);
    return true;
}

static enum cell_type classify_number(const char *data, size_t length, struct cell_value *ret)
{
    bool is_negative = data[0] == '-';
    size_t sign = is_negative || data[0] == '+';
    struct decimal decimal;
    if (!read_decimal(data + sign, length - sign, &decimal))
        return CELL_TEXT;
    if (decimal.is_whole && decimal.digit_count <= 18) {
        ret->integer = is_negative ? -(int64_t)decimal.digits : (int64_t)decimal.digits;
        return CELL_INTEGER;
    }
    /* Both are exact doubles then, so one division rounds as it must. */
    if (decimal.digit_count <= 15 && decimal.exponent >= -22 && decimal.exponent <= 22) {
        double digits = (double)decimal.digits;
        double value =
            decimal.exponent < 0 ? digits / powers[-decimal.exponent] : digits * powers[decimal.exponent];
        ret->number = is_negative ? -value : value;
        return CELL_NUMBER;
    }
    return read_exactly(data, length, &ret->number) ? CELL_NUMBER : CELL_TEXT;
}

/* Eight digits as a number; they are the bytes of a word, the first the lowest. */
static inline uint64_t eight_digits(uint64_t word)
{
    word = (word & 0x0f0f0f0f0f0f0f0f) * 2561 >> 8;
    word = (word & 0x00ff00ff00ff00ff) * 6553601 >> 16;
    return (word & 0x0000ffff0000ffff) * 42949672960001 >> 32;
}

static inline bool are_digits(uint64_t word)
{
    return ((word & 0xf0f0f0f0f0f0f0f0) ^ 0x3030303030303030) == 0 &&
           (((word + 0x0606060606060606) & 0xf0f0f0f0f0f0f0f0) ^ 0x3030303030303030) == 0;
}

/* At most eight characters without a sign, all at once: their number is different in each cell, and a loop
 * over them would end unforeseen by the CPU each time. */
static inline enum cell_type classify_short(const char *data, size_t length, bool is_negative,
                                            struct cell_value *ret)
{
    uint64_t word;
    memcpy(&word, data, 8);
    uint64_t points = word ^ 0x2e2e2e2e2e2e2e2e;
    points = (points - 0x0101010101010101) & ~points & 0x8080808080808080;
    size_t point = points ? (size_t)__builtin_ctzll(points) / 8 : 8;
    size_t digits = length;
    if (point < length) { /* what is behind it moves up */
        uint64_t before = (UINT64_C(1) << 8 * point) - 1;
        word = (word & before) | (word >> 8 & ~before);
        digits--;
    }
    if (!digits)
        return CELL_TEXT;
    word <<= 8 * (8 - digits);
    if (digits < 8)
        word |= 0x3030303030303030 >> 8 * digits;
    if (!are_digits(word))
        return CELL_TEXT;
    int64_t value = (int64_t)eight_digits(word);
    ret->integer = is_negative ? -value : value;
    if (point >= length)
        return CELL_INTEGER;
    ret->number = (double)(is_negative ? -value : value) / powers[digits - point];
    return CELL_NUMBER;
}

/* The plain and the frequent, in one pass: up to 18 digits, or up to 15 with a point among them. */
static enum cell_type classify_plain(const char *data, size_t length, struct cell_value *ret)
{
    bool is_negative = data[0] == '-';
    const char *at = data + is_negative, *end = data + length, *point = NULL;
    uint64_t value = 0;
    if (end - at > 18)
        return CELL_TEXT;
    for (; at < end; at++) {
        unsigned digit = (unsigned char)(*at - '0');
        if (digit <= 9)
            value = value * 10 + digit;
        else if (*at == '.' && !point)
            point = at;
        else
            return CELL_TEXT;
    }
    size_t digits = length - is_negative - (point != NULL);
    if (!digits)
        return CELL_TEXT;
    if (!point) {
        ret->integer = is_negative ? -(int64_t)value : (int64_t)value;
        return CELL_INTEGER;
    }
    if (digits > 15)
        return CELL_TEXT;
    double number = (double)value / powers[end - point - 1];
    ret->number = is_negative ? -number : number;
    return CELL_NUMBER;
}

enum cell_type cell_classify(const char *data, size_t length, const char *limit, struct cell_value *ret)
{
    while (length && data[0] == ' ')
        data++, length--;
    while (length && data[length - 1] == ' ')
        length--;
    if (!length)
        return CELL_NULL;
    char first = data[0];
    bool is_numeric = is_digit(first) || ((first == '-' || first == '+' || first == '.') && length > 1);
    if (!is_numeric)
        return classify_word(data, length, ret);
    if (length >= 10 && (data[4] == '-' || data[4] == '/')) {
        enum cell_type type = cell_classify_text(data, length);
        if (type != CELL_TEXT)
            return type;
    }
    size_t sign = first == '-';
    bool is_short = length - sign <= 8 && limit - data >= 9;
    enum cell_type type =
        is_short ? classify_short(data + sign, length - sign, sign, ret) : classify_plain(data, length, ret);
    if (type == CELL_TEXT)
        type = classify_number(data, length, ret);
    return type != CELL_TEXT || is_digit(first) ? type : classify_word(data, length, ret);
}

/* ---- escapes ---- */

static size_t head_of_quoted(const struct cell *cell, char *into)
{
    size_t length = 0;
    bool is_quoted = true;
    for (size_t at = 0; at < cell->length && length < CELL_MAX; at++) {
        if (is_quoted && cell->data[at] == '"') {
            if (at + 1 < cell->length && cell->data[at + 1] == '"')
                into[length++] = cell->data[at++];
            else
                is_quoted = false;
            continue;
        }
        into[length++] = cell->data[at];
    }
    return length;
}

static int hex_digits(const char *data)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        char c = data[i];
        int digit = is_digit(c)            ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static size_t encode(unsigned code, char *into)
{
    if (code < 0x80) {
        into[0] = (char)code;
        return 1;
    }
    size_t more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
    into[0] = (char)(first[more] | code >> (6 * more));
    for (size_t i = 1; i <= more; i++)
        into[i] = (char)(0x80 | (code >> (6 * (more - i)) & 0x3f));
    return more + 1;
}

/* \uXXXX, and a second one where they are halves of one character; moves *at behind it. */
static unsigned read_escape(const struct cell *cell, size_t *at)
{
    size_t left = cell->length - *at;
    int code = left >= 4 ? hex_digits(cell->data + *at) : -1;
    if (code < 0)
        return 0xfffd;
    *at += 4;
    if (code < 0xd800 || code > 0xdfff)
        return (unsigned)code;
    const char *next = cell->data + *at;
    if (code > 0xdbff || left < 10 || next[0] != '\\' || next[1] != 'u')
        return 0xfffd;
    int low = hex_digits(next + 2);
    if (low < 0xdc00 || low > 0xdfff)
        return 0xfffd;
    *at += 6;
    return 0x10000u + (((unsigned)code - 0xd800u) << 10) + ((unsigned)low - 0xdc00u);
}

static size_t head_of_backslashed(const struct cell *cell, char *into)
{
    static const char letters[] = "bfnrt", meanings[] = "\b\f\n\r\t";
    size_t length = 0, at = 0;
    while (at < cell->length && length + 4 <= CELL_MAX) {
        char c = cell->data[at++];
        if (c != '\\' || at == cell->length) {
            into[length++] = c;
            continue;
        }
        c = cell->data[at++];
        const char *letter = c ? strchr(letters, c) : NULL;
        if (c == 'u')
            length += encode(read_escape(cell, &at), into + length);
        else
            into[length++] = letter ? meanings[letter - letters] : c;
    }
    return length;
}

size_t cell_head(const struct cell *cell, char *into)
{
    if (cell->escape == ESCAPE_QUOTES)
        return head_of_quoted(cell, into);
    if (cell->escape == ESCAPE_BACKSLASHES)
        return head_of_backslashed(cell, into);
    size_t length = cell->length < CELL_MAX ? cell->length : CELL_MAX;
    memcpy(into, cell->data, length);
    return length;
}

int cell_compare(const struct cell *one, const struct cell *other)
{
    char heads[2][CELL_MAX];
    const char *data[2] = {one->data, other->data};
    size_t lengths[2] = {one->length, other->length};
    const struct cell *cells[2] = {one, other};
    for (int i = 0; i < 2; i++) {
        if (cells[i]->escape) {
            lengths[i] = cell_head(cells[i], heads[i]);
            data[i] = heads[i];
        } else if (lengths[i] > CELL_MAX) {
            lengths[i] = CELL_MAX;
        }
    }
    size_t both = lengths[0] < lengths[1] ? lengths[0] : lengths[1];
    int order = both ? memcmp(data[0], data[1], both) : 0;
    return order ? order : lengths[0] < lengths[1] ? -1 : lengths[0] > lengths[1];
}
