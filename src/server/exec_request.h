/* What a request says about a command. */
#pragma once

#include "base/bytes.h"
#include "server/exchange.h"

/* From a body {command, context?, cwd?, env?, stdin? or stdin_base64?, limits?, stream?}, which the caller
 * frees. NULL: the exchange has its answer. */
json_t *exec_request(struct exchange *exchange, json_t **ret_body);

/* The bytes of its stdin, appended. Negative: the exchange has its answer. */
int exec_stdin(struct exchange *exchange, const json_t *body, struct buffer *ret);

/* The same from the query of a terminal: command (as often as it has words), context, cwd, rows, columns.
 * NULL: the exchange has its answer. */
json_t *exec_request_terminal(struct exchange *exchange);

/* Of "TERM", "SIGTERM" or 15; negative: none. */
int exec_signal_number(const json_t *value);
