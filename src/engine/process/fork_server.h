/* Boxes without namespaces that are forked from a zygote.
 *
 * Theory of operation. The zygote is a box in which nobody's code ever runs: own directory, file rules, a
 * filter, no privileges but to give its forks users of their own, where boxes have such. It forks when it is
 * told to; guest/fork/plain.c is its side. Each fork comes as two processes, an init of ours, which is our
 * child and not the zygote's, and a copy of the interpreter. We make its directory and its file rules, and
 * hand both over with its filter; the copy puts them on, gives us its listener and proves what it wears, as
 * init's child does in a box that is started. Then both are looked at from outside. From there on it is a box
 * like any other: its own user, or the caller's with all calls mediated; its own watchdog; an init that ends
 * it when we are gone. It does not need its zygote any more. */
#pragma once

#include "engine/engine.h"

#include <linux/capability.h>

/* What a zygote keeps, where it has users to give. */
#define GIVEN_CAPABILITIES (UINT64_C(1) << CAP_SETUID | UINT64_C(1) << CAP_SETGID)

static inline bool fork_server_is_zygote(const struct box *box)
{
    return box->is_forkable && box->is_for_others;
}

bool fork_server_gives_users(const struct box *box);

/* Before a zygote starts. */
int fork_server_prepare(struct box *box, struct error *err);

/* engine.fork */
int fork_server_fork(struct box *parent, struct box *child, const struct fork_request *request,
                     struct result *result, struct error *err);

void fork_server_leave(struct box *box);

/* Of process.c: what a box needs before it has processes, and the layers that it has when it is proved. */
int process_prepare(struct box *box, struct error *err);
void process_list_layers(const struct box *box, struct result *result);
