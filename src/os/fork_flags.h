/* How an interpreter in a box is forked into a box of its own: the two calls that the filter asks the
 * supervisor about, by their exact flags. See guest/fork/fork.c for who makes them, and engine/container/
 * forking.h for when they are let through. */
#pragma once

#include <linux/sched.h>

enum {
    FORK_EXIT_SIGNAL = 17, /* SIGCHLD */

    /* The new box's init: it shares the interpreter's memory for as long as it takes to fork it again. */
    FORK_INIT_FLAGS = CLONE_VM | CLONE_VFORK | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET |
                      CLONE_NEWIPC | CLONE_NEWUTS | FORK_EXIT_SIGNAL,

    /* The same for a box whose interpreter comes later: only a zygote makes such. The kernel tells it when
     * the memory is not shared any more. */
    FORK_PLACE_FLAGS = (FORK_INIT_FLAGS & ~CLONE_VFORK) | CLONE_CHILD_CLEARTID,

    /* The forked interpreter: inside its groups by now, so that they are the root of what it sees of them. */
    FORK_PROGRAM_FLAGS = CLONE_NEWCGROUP | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | FORK_EXIT_SIGNAL,

    /* Both without namespaces: the filter has nothing to ask about. */
    FORK_PLAIN_FLAGS = CLONE_VM | CLONE_VFORK | FORK_EXIT_SIGNAL,
    FORK_PLAIN_PROGRAM_FLAGS = CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | FORK_EXIT_SIGNAL,
};
