/* A request for a run, as the keeper answers it. */
#pragma once

#include "base/bytes.h"
#include "keeper/pool.h"

#include <jansson.h>

struct run_order {
    struct pool *pool;
    int fd;         /* the connection; its end cancels the run */
    bool is_inside; /* from the server: only what it hands over is granted, no path */
    const json_t *request;
    struct buffer *code; /* is taken */
    int *fds;            /* WIRE_DESCRIPTORS that came along */
};

/* 0 when an answer was sent. */
int run_answer(const struct run_order *order);
