/* What cloche-files says: lines of JSON, kept until lines_flush. */
#pragma once

#include <sys/stat.h>

/* {"path", "type", "size", "mode", "modified_ns"}; for links "target". */
void lines_entry(const char *path, const struct stat *status);

/* {"event", "path"} */
void lines_change(const char *event, const char *path);

/* {"error", "path", "message"}; returns 1, the exit code. */
int lines_fail(const char *path, int code);

/* {"cut": so many entries were listed, and there are more} */
void lines_cut(int entries);

int lines_flush(void);
