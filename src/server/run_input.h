/* A file or directory of a request, made for its box: in the run's room, so that it goes with it. */
#pragma once

#include "base/error.h"

#include <stddef.h>

struct run_job;
struct run_file;

/* Uploads in a directory get a second name there, without a copy; only programs are copied, since executable
 * is what a file is, not its name. A descriptor to read from; it is number `index` of the request's files. */
int run_input_make(const struct run_job *job, size_t index, const struct run_file *file, struct error *err);
