/* A command that runs in a live sandbox, as a handler holds it: pipes of its own (or a terminal), and a
 * connection to the keeper that is only for it (keeper/session_exec.c). When that is closed, the command is
 * killed. */
#pragma once

#include "base/error.h"
#include "server/exchange.h"

#include <stdint.h>

struct command_link {
    int link;                           /* readable when it has ended */
    int stdin_fd, stdout_fd, stderr_fd; /* our ends, not blocking; of a terminal: stdin_fd and stdout_fd */
    bool has_terminal;
    int64_t charge_us; /* with its end: the CPU time that its tenant is charged with; -1: not known */
};

#define COMMAND_LINK_UNSET                                                                                   \
    {                                                                                                        \
        .link = -1, .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1, .charge_us = -1                        \
    }

/* "session.exec" with these words, in the box of a context (NULL: the first). NULL: no memory. */
json_t *command_request(struct exchange *exchange, const char *context, const char *const *words);

/* The same for cloche-files, which is not a program of the image: guest/files/files.c has its words. */
json_t *command_request_files(struct exchange *exchange, const char *context, const char *const *words);

/* Starts it; takes the request. On a negative errno the exchange has its answer already. */
int command_link_open(struct exchange *exchange, json_t *request, struct command_link *ret);

/* The same without an answer: *err says why, or *ret_refusal, to be freed, in the keeper's words. */
int command_link_start(struct exchange *exchange, json_t *request, struct command_link *ret,
                       json_t **ret_refusal, struct error *err);

/* What the keeper says last, {exit_code, signal, timed_out, lost, cpu_ms?, failure?}, also if it is gone.
 * NULL: no memory. */
json_t *command_link_end(struct command_link *command);

/* The same in a word. */
const char *command_cause(const json_t *end);

int command_link_signal(struct command_link *command, int number);

/* Kills it, and has its end told; NULL if that does not come soon. */
json_t *command_link_kill(struct command_link *command);

/* Reads what is there, at most once; appends it. 1: something came; 0: nothing now; -EPIPE: the end, and the
 * descriptor is closed. */
int command_link_read(int *fd, struct buffer *into);

/* Writes as much as goes; the number of bytes, or -EPIPE. */
int64_t command_link_write(struct command_link *command, struct slice bytes);

void command_link_close(struct command_link *command);
