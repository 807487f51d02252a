/* The host's end of a runner's channel: orders out, events in, one after the other. */
#pragma once

#include "runtime/runner_protocol.h"

struct runner_link {
    int fd; /* owned */
    struct runner_reader reader;
};

#define RUNNER_LINK_UNSET                                                                                    \
    {                                                                                                        \
        .fd = -1                                                                                             \
    }

void runner_link_close(struct runner_link *link);

/* Sends a frame, with descriptors; waits while the runner does not read. */
int runner_link_send(struct runner_link *link, const struct buffer *frame, const int *fds, size_t count);

/* The next event; -ETIMEDOUT, -EPIPE when the runner is gone, -EPROTO. What it points to is the link's, until
 * the next call. */
int runner_link_next(struct runner_link *link, int timeout_ms, struct runner_event *ret, struct error *err);

/* What has come by now, without waiting: 1: an event; 0: there is none yet; -EPIPE: there will be none. */
int runner_link_hear(struct runner_link *link, struct runner_event *ret, struct error *err);

/* The next event must be that the runner is ready. */
int runner_link_await_ready(struct runner_link *link, int timeout_ms, struct error *err);
