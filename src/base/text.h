/* Quantities as people write them, and small helpers for strings. */
#pragma once

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "256M", "1.5G", "100000": powers of 1024; an optional B or iB after the letter. False when it is not a
 * size. */
bool text_parse_size(const char *text, int64_t *ret_bytes);

/* "10s", "500ms", "2m", "1h", "1.5" (seconds). */
bool text_parse_duration(const char *text, int64_t *ret_ms);

/* "0.5" or "2" (CPUs), or "50%". */
bool text_parse_cpus(const char *text, int64_t *ret_millicpus);

bool text_parse_count(const char *text, int64_t *ret_count);

/* Into a caller's buffer, which is returned: "512 MiB", "30 s". */
const char *text_format_size(int64_t bytes, char *into, size_t size);
const char *text_format_duration(int64_t ms, char *into, size_t size);

/* A user name, image name, environment variable name: what may appear in paths or lists that we build. */
bool text_is_plain_name(const char *text);

/* One part of a path, and nothing that leads elsewhere: for names of others' making. */
bool text_is_file_name(const char *name, size_t length);
bool text_is_environment_name(const char *text, size_t length);

/* Appends the bytes as UTF-8: what is not becomes U+FFFD, one for each byte. 0 or -ENOMEM. */
int text_append_utf8(struct buffer *into, const char *data, size_t length);

bool text_is_utf8(const char *text, size_t length);

/* Distance by insertions, deletions, substitutions and swaps of neighbours, for "did you mean". */
size_t text_edit_distance(const char *one, const char *other);

/* The word that was meant: begin with the one that was given, offer all that there are; `nearest` is the one
 * that is at most two changes away, or NULL. */
struct text_guess {
    const char *given, *nearest;
    size_t distance;
};
void text_guess_offer(struct text_guess *guess, const char *word);
