/* What both ways of forking an interpreter have in common: into namespaces of its own (fork.c), and without
 * (plain.c). */
#pragma once

#include "plan.h"

#include <stdint.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* The order in which the descriptors of a new box come. */
enum { CONTROL, PLAN, INIT, STDIN, STDOUT, STDERR, CHANNEL, FIRST_JOIN };

enum { DESCRIPTORS_MAX = 16 };

/* The length of an order's body: nobody waits for the copy; a run does, so that pages come as it uses them; a
 * run that has the machine to itself, where the copy has time for them while the host is busy with its place.
 */
enum haste {
    HASTE_NONE,
    HASTE_AWAITED,
    HASTE_AWAITED_ALONE,
    HASTE_PLACE /* it comes later, and says then */
};

struct fork_state {
    void *back_stack; /* these two first: known to the assembly in fork.c. 0: to where the first process is
                         made */
    int *cleared;     /* by the kernel, with FORK_PLACE_FLAGS */
    const int *fds;
    int fd_count;
    int *thread_id; /* where the C library keeps the thread's number; NULL: unknown */
    int landlock_abi;
    int is_plain;
    enum haste haste;
    long number;      /* of the interpreter, in its own pid namespace */
    uint64_t ignored; /* signals, as bits: see note_ignored */
    long failure;
};

__attribute__((noreturn)) HIDDEN void leave(long code);

/* The new box's first process: joins by files, and closes them. 0 or a negative errno. */
HIDDEN long join_groups(const int *fds, int count);

/* The same: which signals the interpreter ignores, as an execution would not change that. Asked while the
 * host is busy, as it takes longer than to change the few. */
HIDDEN void note_ignored(struct fork_state *state);

/* The same: says to the host that it is there. */
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
