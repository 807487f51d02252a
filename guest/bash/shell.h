/* The shell of a context, as a child process.
 *
 * Its descriptors, beside 0, 1 and 2, have numbers that scripts do not use themselves. Files have no name,
 * and are filled and emptied by the runner. */
#pragma once

#include "wire.h"

#include <stdbool.h>
#include <sys/types.h>

enum shell_fd {
    SHELL_CODE = 100,    /* a file: the code of the run, with a NUL behind it */
    SHELL_INPUT = 101,   /* a file: the stdin of the run */
    SHELL_STATE = 102,   /* a file: what an ending shell leaves to the next, see prelude.sh */
    SHELL_ORDERS = 103,  /* a pipe: a line says that a run is to begin */
    SHELL_REPORTS = 104, /* a pipe: a line says that the shell waits, and how its last run ended; or what else
                            the runner has to know */
};

struct shell {
    const char *program;
    pid_t pid; /* also of its process group; 0: there is none */
    int code_fd, input_fd, state_fd;
    int orders_fd, reports_fd;
    int output_fd, errors_fd; /* what it and its commands print */
    int output_end, errors_end;
    struct text line; /* of a report, so far */
    char version[64];
    bool traps_interrupt; /* the code has a trap on INT */
    bool is_leaving;      /* it writes down its state */
};

/* Makes files and pipes. Negative errno. */
int shell_init(struct shell *shell, const char *program);

/* Starts a shell; with the state of the last one if there is any. */
int shell_start(struct shell *shell);

/* Writes code and input where the shell finds them, and tells it to begin. */
int shell_begin(struct shell *shell, const char *setup, const struct text *code, const struct text *input);

/* Reads reports. True when the shell waits for orders; *ret_status is the status of its last run. */
bool shell_hear(struct shell *shell, int *ret_status);

/* Whether the shell that has ended left its state, whole. */
bool shell_left_state(const struct shell *shell);

/* bash -n: whether code could be executed. What it said is appended to `ret_complaint`. */
bool shell_accepts(struct shell *shell, const struct text *code, struct text *ret_complaint);
