#include "kind.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { LOOK_AT = 4096, DIRECTORY_BYTES = 1 << 16, ENCODING_BYTES = 16 << 20 };

static bool has(const char *data, size_t length, const char *word)
{
    size_t most = length > strlen(word) ? length - strlen(word) : 0;
    for (const char *at = data; most && at <= data + most; at++) {
        at = memchr(at, word[0], (size_t)(data + most - at) + 1);
        if (!at)
            return false;
        if (memcmp(at, word, strlen(word)) == 0)
            return true;
    }
    return false;
}

/* The names of what is in an archive stand at its end. */
static const char *kind_of_zip(const char *data, size_t length)
{
    size_t end = length < DIRECTORY_BYTES ? length : DIRECTORY_BYTES;
    return has(data + length - end, end, "xl/workbook.") ? "xlsx" : "zip";
}

const char *kind_by_signature(const char *data, size_t length)
{
    static const struct {
        const char *bytes;
        size_t length;
        const char *name;
    } rows[] = {
        {"PK\3\4", 4, "zip"},
        {"PK\5\6", 4, "zip"}, /* an empty one */
        {"\x1f\x8b", 2, "gzip"},
        {"\x28\xb5\x2f\xfd", 4, "zstd"},
        {"SQLite format 3", 16, "sqlite"},
        {"%PDF-", 5, "pdf"},
        {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 8, "xls"},
        {"ARROW1", 6, "arrow"},
    };
    if (length >= 12 && memcmp(data, "PAR1", 4) == 0 && memcmp(data + length - 4, "PAR1", 4) == 0)
        return "parquet";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (length >= rows[i].length && memcmp(data, rows[i].bytes, rows[i].length) == 0)
            return strcmp(rows[i].name, "zip") == 0 ? kind_of_zip(data, length) : rows[i].name;
    return NULL;
}

const char *kind_utf16(const char *data, size_t length)
{
    size_t zeros[2] = {0}, looked_at = (length < LOOK_AT ? length : LOOK_AT) & ~(size_t)1;
    if (length >= 2 && memcmp(data, "\xff\xfe", 2) == 0)
        return "utf-16le";
    if (length >= 2 && memcmp(data, "\xfe\xff", 2) == 0)
        return "utf-16be";
    for (size_t i = 0; i < looked_at; i++)
        zeros[i & 1] += data[i] == '\0';
    /* Of a text in Latin letters nearly every second byte is zero, and of the others none. */
    bool has_many[2] = {zeros[0] * 10 > looked_at * 4, zeros[1] * 10 > looked_at * 4};
    return looked_at < 8                  ? NULL
           : has_many[1] && zeros[0] == 0 ? "utf-16le"
           : has_many[0] && zeros[1] == 0 ? "utf-16be"
                                          : NULL;
}

/* Bytes of the character, or 0 when they are none; `left` may cut it, which is fine. */
static size_t character_length(const unsigned char *at, size_t left)
{
    size_t length = at[0] < 0x80                     ? 1
                    : at[0] >= 0xc2 && at[0] <= 0xdf ? 2
                    : (at[0] & 0xf0) == 0xe0         ? 3
                    : at[0] >= 0xf0 && at[0] <= 0xf4 ? 4
                                                     : 0;
    for (size_t i = 1; i < length && i < left; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

const char *kind_encoding(const char *data, size_t length)
{
    const unsigned char *at = (const unsigned char *)data;
    const unsigned char *end = at + (length < ENCODING_BYTES ? length : ENCODING_BYTES);
    while (at < end) {
        uint64_t eight;
        if (end - at >= 8 && (memcpy(&eight, at, 8), !(eight & UINT64_C(0x8080808080808080)))) {
            at += 8;
            continue;
        }
        size_t step = character_length(at, (size_t)(end - at));
        if (!step)
            return "latin-1";
        at += step;
    }
    return "utf-8";
}
