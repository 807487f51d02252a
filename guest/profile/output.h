/* JSON as it grows. */
#pragma once

#include "cell.h"

struct output {
    char *data;
    size_t length, capacity;
    bool has_failed; /* no memory: all that follows is ignored */
};

void output_add(struct output *output, const char *data, size_t length);
void output_print(struct output *output, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* In quotes; what is not UTF-8 becomes U+FFFD, one for each byte. */
void output_string(struct output *output, const char *data, size_t length);

/* A value, cut; one that is cut in the middle of a character ends before it. */
void output_cell(struct output *output, const struct cell *cell);
void output_number(struct output *output, double number);
