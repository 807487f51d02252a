/* What both ways of forking an interpreter have in common: into namespaces of its own (fork.c), and without
 * (plain.c). */
#pragma once

#include "plan.h"

#define HIDDEN __attribute__((visibility("hidden")))

/* The order in which the descriptors of a new box come. */
enum { CONTROL, PLAN, INIT, STDIN, STDOUT, STDERR, CHANNEL, FIRST_JOIN };

enum { DESCRIPTORS_MAX = 16 };

struct fork_state {
    void *back_stack; /* first: known to the assembly in fork.c */
    const int *fds;
    int fd_count;
    int *thread_id; /* where the C library keeps the thread's number; NULL: unknown */
    int landlock_abi;
    int is_plain;
    int is_awaited; /* by a run: pages come as it uses them */
    long number;    /* of the interpreter, in its own pid namespace */
    long failure;
};

__attribute__((noreturn)) HIDDEN void leave(long code);

/* The new box's first process: says to the host that it is there. 0 or a negative errno. */
HIDDEN long say_entered(const struct fork_state *state);

/* Clones the copy, with `flags`. It goes on where the interpreter called from; we are its init, or return
 * with a negative errno. */
HIDDEN long copy_and_become_init(struct fork_state *state, long flags);

HIDDEN long drop_capabilities(void);

/* Signals do not leave it from now on, where the kernel can do that. */
HIDDEN long put_on_scope(int landlock_abi);

/* In the copy: takes `length` bytes; descriptors that come with them are added to the list. False at the end.
 */
HIDDEN int take(int channel, char *into, unsigned length, int *fds, int *fd_count);

/* Has its streams and its channel, and no other descriptor. */
HIDDEN long take_streams(const struct fork_state *state);

/* The first process of a box without namespaces, and its copy before it is let back into the interpreter. */
HIDDEN long plain_first_process(struct fork_state *state);
HIDDEN void plain_settle(const struct fork_state *state);
