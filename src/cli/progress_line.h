/* One line on a terminal that shows a long run: elapsed time, CPU, memory against the limit. It appears after
 * a second, gives way to output, and is gone at the end. It stays away from a line that the program has begun
 * and not ended: a question, say, behind which somebody types. */
#pragma once

#include "engine/supervise.h"

struct progress_line {
    const struct limits *limits;
    int64_t first_us; /* before that nothing is shown */
    const char *note; /* what the run says of itself, shown last; NULL: nothing */
    bool shown;
    int64_t last_shown_us;
    int64_t last_output_us;
    bool is_inside_line; /* what the terminal shows last has not ended its line */
};

void progress_line_init(struct progress_line *line, const struct limits *limits);
void progress_line_show(void *data, int64_t elapsed_us, const struct measurement *now);
/* Before output is written. */
void progress_line_output(void *data, enum supervise_stream stream, const char *bytes, size_t length);
void progress_line_clear(struct progress_line *line);
