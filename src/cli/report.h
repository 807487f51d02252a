/* What the command line says at the end of a run. */
#pragma once

#include "base/error.h"
#include "spec/result.h"

/* What a function of a module returned, a value a line, on stdout. */
void report_returned(const struct result *result);

/* Closing remarks on stderr: why it was stopped, what was cut, what was collected or left out, what the first
 * filter found. Nothing for a program that just ended. Code that was only looked at has its findings on
 * stdout; there code_name (NULL: it has none) stands before each. */
void report_remarks(const struct result *result, const char *code_name);

/* What was not collected, and on a terminal how much was. */
void report_files(const struct result *result);

/* Bytes of a guest; made harmless when the descriptor is a terminal. */
void report_text(int fd, const char *data, size_t length);

/* "cloche: …" on stderr. What the caller gave may stand in it: made harmless for a terminal. */
int report_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* {"error": {"code", "message", "field"}} on stdout. */
void report_error_json(const struct error *err);
int report_error_status(const struct error *err);
