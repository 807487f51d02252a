/* One request to the sessions, for the files that answer them: session_service.c, session_run_service.c,
 * session_exec.c. */
#pragma once

#include "keeper/session.h"

struct session_request {
    struct session_table *table;
    int fd;
    const json_t *header;
    struct slice body;
    const int *fds; /* that came with it: WIRE_DESCRIPTORS of them */
    const char *owner;
    struct session *session; /* that it is about, or NULL */
};

const char *request_text(const struct session_request *request, const char *name);
int64_t request_number(const struct session_request *request, const char *name);

/* Takes the JSON. */
int request_reply(const struct session_request *request, json_t *answer);
int request_reply_error(const struct session_request *request, const struct error *err);

/* In session_exec.c: `started`, then `ended`; `signal` may come from the other side meanwhile. */
int session_answer_exec(struct session_request *request);

/* Frames of events, then the outcome. */
int session_answer_run(struct session_request *request);
int session_answer_branches(struct session_request *request);
