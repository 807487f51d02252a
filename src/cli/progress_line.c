#include "cli/progress_line.h"

#include "base/clock.h"
#include "base/text.h"
#include "engine/terminal_text.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { FIRST_US = 1000000, PERIOD_US = 200000, QUIET_US = 500000, COLUMNS_DEFAULT = 80 };

void progress_line_init(struct progress_line *line, const struct limits *limits)
{
    *line = (struct progress_line){.limits = limits, .first_us = FIRST_US};
}

/* A line that is wrapped could not be taken back. Letters of double width count as one: then it is cut by the
 * terminal, at worst. */
static void cut_to_width(struct buffer *text)
{
    struct winsize size = {0};
    size_t columns =
        ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : COLUMNS_DEFAULT;
    size_t seen = 0, at = 0;
    for (; at < text->length; at++)
        if (((unsigned char)text->data[at] & 0xC0) != 0x80 && ++seen >= columns)
            break;
    text->length = at;
}

/* The guest's words: on one line, and harmless. */
static void append_note(struct buffer *text, const char *note)
{
    enum { LONGEST = 60 };
    size_t from = text->length, length = strlen(note);
    for (length = length < LONGEST ? length : LONGEST;
         length && ((unsigned char)note[length] & 0xc0) == 0x80;)
        length--; /* no half character */
    terminal_text_clean(text, note, length);
    buffer_append_text(text, " | ");
    for (; from < text->length; from++)
        if (strchr("\n\r\t", text->data[from]))
            text->data[from] = ' ';
}

void progress_line_show(void *data, int64_t elapsed_us, const struct measurement *now)
{
    struct progress_line *line = data;
    int64_t now_us = clock_monotonic_us();
    if (line->is_inside_line || elapsed_us < line->first_us || now_us - line->last_shown_us < PERIOD_US ||
        now_us - line->last_output_us < QUIET_US)
        return;
    scope_buffer text = {0};
    char memory[32], memory_limit[32];
    const int64_t *limit = line->limits->value;
    if (line->note && line->note[0]) /* first: of a line that is too long the end is cut off */
        append_note(&text, line->note);
    buffer_print(&text, "%.1f s of %.0f s | CPU %.1f s of %.0f s | memory %s of %s | %lld processes",
                 (double)elapsed_us / 1e6, (double)limit[LIMIT_wall] / 1e3,
                 (double)(now->cpu_user_us + now->cpu_system_us) / 1e6, (double)limit[LIMIT_cpu] / 1e3,
                 text_format_size(now->memory_bytes, memory, sizeof memory),
                 text_format_size(limit[LIMIT_memory], memory_limit, sizeof memory_limit),
                 (long long)now->pids);
    cut_to_width(&text);
    fprintf(stderr, "\r\033[K%.*s", (int)text.length, text.data ? text.data : "");
    fflush(stderr);
    line->shown = true;
    line->last_shown_us = now_us;
}

void progress_line_output(void *data, enum supervise_stream stream, const char *bytes, size_t length)
{
    struct progress_line *line = data;
    progress_line_clear(line);
    if (length && isatty(stream == STREAM_STDOUT ? STDOUT_FILENO : STDERR_FILENO))
        line->is_inside_line = bytes[length - 1] != '\n';
    line->last_output_us = clock_monotonic_us();
}

void progress_line_clear(struct progress_line *line)
{
    if (line->shown)
        fprintf(stderr, "\r\033[K");
    fflush(stderr);
    line->shown = false;
}
