/* A guest's output for a terminal: nothing in it may drive the terminal. */
#pragma once

#include "base/bytes.h"

/* Output comes in pieces that may end in the middle of a character. */
struct terminal_text {
    unsigned char held[4]; /* the begun character */
    size_t held_length;
};

/* Appends the bytes with control characters made visible (ESC as ^[, DEL as ^?, C1 controls as \u009b, bytes
 * that are not UTF-8 as \x9b); newline, tab and carriage return stay, and so does everything that prints. */
int terminal_text_append(struct terminal_text *state, struct buffer *into, const char *data, size_t length);

/* At the end: a begun character that was never finished. */
int terminal_text_flush(struct terminal_text *state, struct buffer *into);

/* A whole text at once. */
int terminal_text_clean(struct buffer *into, const char *data, size_t length);
