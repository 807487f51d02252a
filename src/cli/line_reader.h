/* Lines that a person types, or that come through a pipe.
 *
 * On a terminal they can be edited, and those of before come back with the arrow keys, also in later sessions
 * (libedit). What was typed over several lines comes back as one. Elsewhere lines are read as they come. */
#pragma once

#include "base/bytes.h"

#include <stdbool.h>

struct line_reader;

enum line_kind {
    LINE_READ,
    LINE_CLEARED, /* Ctrl-C: what was typed is not meant */
    LINE_END,
};

/* NULL without memory. `history_name`: a file in the caller's state directory ($XDG_STATE_HOME/cloche, or
 * ~/.local/state/cloche). */
struct line_reader *line_reader_open(const char *history_name);

/* Somebody sits there. */
bool line_reader_is_interactive(const struct line_reader *reader);

/* The next line without its end, into *ret, which is emptied first. The prompt is for people only. */
enum line_kind line_reader_read(struct line_reader *reader, const char *prompt, struct buffer *ret);

/* To come back later; lines in pipes are not remembered. */
void line_reader_remember(struct line_reader *reader, const char *text);

void line_reader_close(struct line_reader *reader);
