/* What all engines that start cloche-init share: pipes, the plan, the exec of init, the wait for its report.
 */
#pragma once

#include "engine/engine.h"
#include "plan.h"

#include <sys/resource.h>

struct launch {
    int child_stdin, child_stdout, child_stderr, child_control; /* the child's ends */
    int init_fd;                                                /* sealed memfd with the program of init */
    int plan_fd;
    int child_channel; /* -1: none is wanted */
};

#define LAUNCH_UNSET                                                                                         \
    {                                                                                                        \
        -1, -1, -1, -1, -1, -1, -1                                                                           \
    }

/* The socket between the launcher and who becomes init (the box gets our end): all that a child needs to be
 * begun. */
int launch_open(struct box *box, struct launch *launch, struct error *err);

/* Makes pipes (the box gets our ends) and the program of init; a fork of a zygote shares that with all others
 * of its `parent` (NULL: none). */
int launch_prepare(struct box *box, const struct box *parent, struct launch *launch, struct error *err);
void launch_close(struct launch *launch);
#define scope_launch __attribute__((cleanup(launch_close))) struct launch

/* The plan, put together piece by piece and written into launch->plan_fd. */
struct plan_lists {
    uint32_t flags;
    struct string_list read_paths, write_paths, device_paths;
    uint32_t program_uid; /* with PLAN_TAKES_USER */
};

void plan_lists_free(struct plan_lists *lists);
#define scope_plan_lists __attribute__((cleanup(plan_lists_free))) struct plan_lists

struct launch_rlimit {
    int resource;
    int64_t value;
};

/* What a process of the box may have at most, by its limits; PLAN_RLIMITS rows at most. */
size_t launch_list_rlimits(const struct box *box, struct launch_rlimit *into);

int launch_write_plan(const struct box *box, const struct plan_lists *lists, struct launch *launch,
                      struct error *err);

/* What a program beside is started from (beside.h), and its file where that is not in the box: descriptors.
 */
int launch_pack_program(const struct program *program, uint32_t flags, struct error *err);
int launch_pack_file(const char *name, struct slice bytes, struct error *err);

/* The program of init, for a box whose root it must be a file of. */
struct slice launch_init_program(void);

/* Which filter: with directories of the host in the box, sockets with names are not for it. */
void launch_choose_policy(struct box *box);

/* Hands what was prepared, and the plan, to a child that was begun before them, and closes its ends here. */
int launch_give(const struct box *box, struct launch *launch, struct error *err);

/* In the child: waits for it. */
int launch_take(struct launch *launch);

/* In the child: stdio, control, plan and channel into the places where init expects them, all else closed;
 * signals as a new program has them. */
int launch_take_places(struct launch *launch);

/* In the child: stdio, control and plan into their places, all else closed, init executed. Returns only on
 * failure, with a negative errno. */
int launch_exec_init(struct launch *launch);

/* In the child, before init runs: tells the launcher what went wrong, and ends. */
__attribute__((noreturn)) void launch_child_fail(const struct launch *launch, const struct error *err);

/* What a message of the kind INIT_FAILED says, as an error; its code. */
int launch_report_failure(const struct init_message *message, struct error *err);

int launch_give_the_word(struct box *box, struct error *err);

/* Waits for init's report that all layers are proved, taking the descriptors that come before it. `inspect`
 * (may be NULL) is called once when the child says that it is inside (INIT_ENTERED), while init puts on and
 * proves its layers: from then on nothing about the box changes that can be seen from outside. If it finds
 * nothing wrong, the word to go is given when init runs under its filter; init takes it only after its own
 * proofs, so the program starts when both sides are content, and neither has waited for the other. A box
 * that waits_for_word, and asks for no listener, is left waiting for it. */
int launch_await_verified(struct box *box, int timeout_ms, int (*inspect)(void *data, struct error *err),
                          void *data, struct error *err);
