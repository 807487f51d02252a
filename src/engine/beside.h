/* Another program in a box whose own program lives: the host's side of guest/init/beside.h. What init says of
 * it is to be read as if the guest had said it. */
#pragma once

#include "engine/engine.h"

struct beside_end {
    int failure;     /* a negative errno: it could not be executed; 0: it was */
    int wait_status; /* of a program that was executed */
    bool is_lost;    /* the box ended before it */
};

struct beside_order {
    const struct program *program;
    struct slice file; /* the program itself, static; length 0: it is in the box */
    bool has_terminal; /* fds[0] is the terminal that controls it */
    int fds[3];        /* its streams; they stay the caller's */
};

/* Starts it. Returns a socket, or a negative errno. When that is closed, the program is killed. */
int beside_start(int control_fd, const struct beside_order *order, struct error *err);

/* For the program and its process group. */
int beside_signal(int socket_fd, int number);

/* What init says on the socket, when it can be read. True: it is over. */
bool beside_take_end(int socket_fd, struct beside_end *ret);
