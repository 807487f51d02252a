/* The result of a run: what happened, why it ended, what it made, what it used. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "spec/policy.h"

#include <stdbool.h>
#include <stdint.h>

#define CAUSE_ROWS(X)                                                                                        \
    X(exit, "the program ended by itself")                                                                   \
    X(signal, "a signal ended the program")                                                                  \
    X(wall_time, "the wall time limit was reached")                                                          \
    X(cpu_time, "the CPU time limit was reached")                                                            \
    X(memory, "the memory limit was reached")                                                                \
    X(pids, "the limit of processes was reached")                                                            \
    X(disk, "the disk limit was reached")                                                                    \
    X(output, "far more output than the limit was written")                                                  \
    X(denied_syscall, "a system call that ends the box was made")                                            \
    X(trap, "WebAssembly code did what it must not, and was ended")                                          \
    X(cancelled, "the run was cancelled")                                                                    \
    X(vetted, "the code was looked at, and did not run")                                                     \
    X(host_failure, "the host failed; not the program's fault")

enum cause {
#define X(name, meaning) CAUSE_##name,
    CAUSE_ROWS(X)
#undef X
        CAUSE_COUNT,
};

extern const char *const cause_names[CAUSE_COUNT];
extern const char *const cause_meanings[CAUSE_COUNT];

struct result_file {
    char *path; /* relative to /data/output; may hold any bytes but NUL */
    int64_t size;
    char sha256[65];
};

/* Something in /data/output that was not collected, and why. */
struct result_omission {
    char *path;
    const char *reason; /* a constant */
};

struct result_stream {
    struct buffer kept;
    int64_t dropped_bytes;
};

struct result_usage {
    int64_t wall_us;
    int64_t cpu_user_us;
    int64_t cpu_system_us;
    int64_t peak_memory_bytes;
    int64_t peak_pids;
    int64_t disk_bytes;
};

/* On the monotonic clock; 0: it did not come to that. */
struct result_times {
    int64_t started_us, output_us, ended_us;
};

struct result_layer {
    char *name;   /* a constant of the table in engine/layers.h */
    char *detail; /* "abi 7", "v1: memory pids cpu" */
    bool active;  /* false: the caller accepted to run without */
};

enum { RESULT_LAYERS_MAX = 32 };

struct result {
    enum cause cause;
    int exit_code; /* -1 when the program did not exit by itself */
    int signal;    /* 0 when no signal ended it */
    bool timed_out;
    char denied_syscall[32];     /* CAUSE_denied_syscall: its name, or "" where the kernel did not tell */
    char chosen[256];            /* auto: which engine, and why */
    char trap[32];               /* wasm: its kind, where one ended it */
    struct string_list returned; /* wasm: values of the function that was called, as text */
    int64_t fuel_used;           /* wasm: where it was counted; -1: not */
    char detail[512];            /* a sentence on the cause, when there is more to say */
    struct result_stream output, errors;
    struct result_file *files;
    size_t file_count;
    struct result_omission *omissions;
    size_t omission_count;
    int64_t omissions_uncounted; /* more than are listed */
    struct result_usage usage;
    struct result_times times;
    enum isolation isolation;
    struct result_layer layers[RESULT_LAYERS_MAX];
    size_t layer_count;
    bool is_incomplete;     /* something of it could not be kept, for want of memory: it is none */
    bool left_behind;       /* something of the box could not be removed: `cloche reap` will */
    struct result *compile; /* the compile step's result; NULL when there was none */
    struct json_t *shown;   /* list of what it showed, as clients get it; NULL: nobody asked */
    int64_t shown_dropped_bytes;
    struct json_t *fetched;    /* wasm: list of what was asked of the gateway; NULL: there was none */
    int64_t fetched_uncounted; /* more than are listed */
    struct json_t *vet;        /* a report of spec/vet.h; NULL when the code was not looked at */
};

/* Takes the report, in place of another. */
void result_take_vet(struct result *result, struct json_t *report);

struct result *result_new(void);
void result_free(struct result *result);

int result_add_file(struct result *result, const char *path, int64_t size, const char *sha256);
int result_add_omission(struct result *result, const char *path, const char *reason);
/* Listed before all others, however many there are. */
int result_add_omission_first(struct result *result, const char *path, const char *reason);
int result_add_layer(struct result *result, const char *name, bool active, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The result as one JSON object (see docs/result.md), to be freed; NULL without memory. Bytes that are not
 * UTF-8 are replaced by U+FFFD in `stdout` and `stderr`, and the exact bytes given in base64 beside them. */
char *result_to_json(const struct result *result, bool pretty);

/* How it ended, in a few words: "exit 3", "signal 11 (SIGSEGV)", "memory, the memory limit was reached".
 * Returns `into`. */
const char *result_format_end(const struct result *result, char *into, size_t size);

/* What `cloche run` exits with for this result. */
int result_exit_status(const struct result *result);

enum {
    EXIT_STATUS_TRAP = 134,             /* as a program that aborts */
    EXIT_STATUS_PROGRAM_RESERVED = 249, /* the program itself exited with one of the codes below */
    EXIT_STATUS_BAD_SPEC = 250,
    EXIT_STATUS_LAYER_MISSING = 251,
    EXIT_STATUS_HOST_FAILURE = 252,
    EXIT_STATUS_VETTED = 253,
    EXIT_STATUS_LAST = EXIT_STATUS_VETTED,
};
