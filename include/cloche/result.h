/* The result of a run. */
#ifndef CLOCHE_RESULT_H
#define CLOCHE_RESULT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cloche_result;

/* Frees; accepts NULL. */
void cloche_result_free(struct cloche_result *result);

/* "exit", "signal", "wall_time", "cpu_time", "memory", "pids", "disk", "output", "denied_syscall",
 * "cancelled" or "host_failure"; a constant. */
const char *cloche_result_cause(const struct cloche_result *result);

/* A sentence on the cause, where there is more to say, or ""; owned by the result. */
const char *cloche_result_detail(const struct cloche_result *result);

/* -1 when the program did not exit by itself. */
int cloche_result_exit_code(const struct cloche_result *result);

/* 0 when no signal ended it. */
int cloche_result_signal(const struct cloche_result *result);

/* What the program wrote; owned by the result. *ret_length may be NULL. */
const char *cloche_result_stdout(const struct cloche_result *result, size_t *ret_length);
const char *cloche_result_stderr(const struct cloche_result *result, size_t *ret_length);

/* What it used: of all its processes, over all its time. */
int64_t cloche_result_peak_memory_bytes(const struct cloche_result *result);
int64_t cloche_result_cpu_us(const struct cloche_result *result);

/* Collected files; index from 0. NULL and -1 past the end. */
size_t cloche_result_file_count(const struct cloche_result *result);
const char *cloche_result_file_path(const struct cloche_result *result, size_t index);
int64_t cloche_result_file_size(const struct cloche_result *result, size_t index);

/* All of it as JSON; the caller frees with free(). NULL without memory. */
char *cloche_result_to_json(const struct cloche_result *result);

#ifdef __cplusplus
}
#endif
#endif
