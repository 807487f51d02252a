/* What a gateway tells of its requests, as a result lists it. */
#pragma once

#include "gateway/talk.h"

#include <stdbool.h>

struct json_t;

struct fetched {
    struct json_t *rows;
    int64_t more; /* that are not among them */
};

/* 1: there was one; 0: not now; or a negative errno: there will be none. */
int fetched_hear_word(int control_fd, struct gateway_word *ret);

/* Takes what has been told until now, but no more than fits into the socket at once: who tells may be a
 * stranger that never ends, and who listens has limits to watch. */
void fetched_hear(struct fetched *fetched, int control_fd);
