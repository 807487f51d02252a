/* What is said between the host and a box that is being forked (guest/fork), in either engine. */
#pragma once

#include "engine/engine.h"
#include "engine/launch.h"

enum { FORK_STEP_MS = 10000 };

/* What the order to fork brings, in the order of guest/fork/fork.h; `into` has room for
 * PROCESS_DESCRIPTORS_MAX. */
size_t fork_list_descriptors(const struct launch *launch, int *into);

/* Before the order: the kernel is to say who speaks on the new box's control socket. */
int fork_ask_who_speaks(const struct box *child, struct error *err);

/* Waits for the first process of the new box to say that it is there; the kernel says who it is. */
pid_t fork_await_first_process(const struct box *child, const struct fork_request *request,
                               struct error *err);

/* Of a fork that somebody waits for alone: its copy is made, and is in the way of its init, or the other way
 * round, as long as both have one CPU. */
int fork_await_copied(const struct box *child, struct error *err);

/* After the order was taken back: what the program says of it must not be taken for its word on the next. */
void fork_await_refusal(const struct fork_request *request);

/* The copy says over its channel that it has come so far. */
int fork_await_program(const struct box *child, struct error *err);
