/* What a server asks of its live sandboxes, over the wire (wire.h): a request `session.VERB` with `owner` and
 * mostly `session`, one answer; a run answers with frames of `event` before its `outcome`. */
#pragma once

#include "keeper/session.h"

/* Answers a request that came from this connection, whose end means that nobody listens any more. False: it
 * is not one of these. *ret_status: negative when the connection is of no use any more. */
bool session_answer(struct session_table *table, int fd, const char *type, const json_t *request,
                    struct slice body, const int *fds, int *ret_status);
