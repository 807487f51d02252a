/* What a request says about a command. */
#pragma once

#include "server/exchange.h"

/* From a body {command, context?, cwd?, env?, stdin?, limits?, stream?}, which the caller frees. NULL: the
 * exchange has its answer. */
json_t *exec_request(struct exchange *exchange, json_t **ret_body);

/* The same from the query of a terminal: command (as often as it has words), context, cwd, rows, columns. */
json_t *exec_request_terminal(struct exchange *exchange);

/* Of "TERM", "SIGTERM" or 15; negative: none. */
int exec_signal_number(const json_t *value);
