/* Files out: what the program left in /data/output, read after nothing in the box runs any more. Every name,
 * type, size and content is the guest's. Only regular files are taken; bytes are counted as they are read. */
#pragma once

#include "base/error.h"
#include "spec/result.h"
#include "spec/spec.h"

/* Opens the directory for a spec's files, and makes it if need be: before the run, so that nothing starts
 * when it cannot be had, and nobody puts another in its place meanwhile. A copy of the descriptor that the
 * spec brings, its directory, or -1 with no error when it wants no files. */
int collect_open_target_of(const struct spec *spec, struct error *err);

/* output_fd: the box's output directory. into_fd -1: only hash. What is left out is listed with its reason.
 */
int collect_files(int output_fd, int into_fd, const struct limits *limits, struct result *result,
                  struct error *err);

/* One regular file below dir_fd as bytes: the artifact of a compile step. */
int collect_one(int dir_fd, const char *name, size_t limit_bytes, struct buffer *ret, struct error *err);
