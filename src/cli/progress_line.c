#include "cli/progress_line.h"

#include "base/clock.h"
#include "base/text.h"

#include <stdio.h>

enum { FIRST_US = 1000000, PERIOD_US = 200000, QUIET_US = 500000 };

void progress_line_init(struct progress_line *line, const struct limits *limits)
{
    *line = (struct progress_line){.limits = limits};
}

void progress_line_show(void *data, int64_t elapsed_us, const struct measurement *now)
{
    struct progress_line *line = data;
    int64_t now_us = clock_monotonic_us();
    /* Not right behind output that may not have ended its line yet. */
    if (elapsed_us < FIRST_US || now_us - line->last_shown_us < PERIOD_US ||
        now_us - line->last_output_us < QUIET_US)
        return;
    char memory[32], memory_limit[32];
    const int64_t *limit = line->limits->value;
    fprintf(stderr, "\r\033[K%.1f s of %.0f s | CPU %.1f s of %.0f s | memory %s of %s | %lld processes",
            (double)elapsed_us / 1e6, (double)limit[LIMIT_wall] / 1e3,
            (double)(now->cpu_user_us + now->cpu_system_us) / 1e6, (double)limit[LIMIT_cpu] / 1e3,
            text_format_size(now->memory_bytes, memory, sizeof memory),
            text_format_size(limit[LIMIT_memory], memory_limit, sizeof memory_limit), (long long)now->pids);
    fflush(stderr);
    line->shown = true;
    line->last_shown_us = now_us;
}

void progress_line_output(void *data, enum supervise_stream stream, const char *bytes, size_t length)
{
    (void)stream, (void)bytes, (void)length;
    struct progress_line *line = data;
    progress_line_clear(line);
    line->last_output_us = clock_monotonic_us();
}

void progress_line_clear(struct progress_line *line)
{
    if (line->shown)
        fprintf(stderr, "\r\033[K");
    fflush(stderr);
    line->shown = false;
}
