/* A guest's output for a terminal: nothing in it may drive the terminal. */
#pragma once

#include "base/bytes.h"

/* Appends the bytes with control characters made visible (ESC as ^[, DEL as ^?, C1 as \u009b …); newline, tab and
 * carriage return stay, and so does everything that prints. */
int terminal_text_append(struct buffer *into, const char *data, size_t length);
