/* What a run in a sandbox shows: output as it comes, results, pictures as files, and how it ended. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

struct screen {
    const char *save_path; /* NULL: the working directory */
    bool quiet;
    int saved_count;
    int exit_status; /* of the first run that failed */
};

/* An event of a run: stdout, stderr, result, end. */
void screen_show(struct screen *screen, const char *name, const json_t *event);

/* A run that is over, all at once. */
void screen_show_whole(struct screen *screen, const json_t *outcome);
