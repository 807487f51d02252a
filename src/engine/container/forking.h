/* Forking the program of a box into a box of its own.
 *
 * Theory of operation. Only a process itself can be copied with its memory, so it is the program (a runner,
 * see docs/runner-protocol.md) that forks, when it is told to; guest/fork/fork.c is its side. Ours: the
 * order brings it the descriptors of the new box; its filter asks us about the two clones, and we let those
 * of an order pass, once each. The new box's user namespace lies below its parent's, so we have all power
 * over it: we map its user, and a helper goes into its mount namespace and puts new scratch space, /proc and
 * terminals over those of the parent. Then both processes are looked at from outside, and init proves the
 * layers from inside, as in any box. A program that was hijacked and uses the clones for something else gets
 * a child that is still under the filter, which forbids every call that its capabilities would be good for,
 * and that never gets anything to do.
 *
 * All boxes that come from one share its filter, and with it its listener: they are a family. The
 * supervisor of the first answers for all of them, and hands what concerns another box over to it. The pid
 * namespaces lie below each other too: the family ends with its first box. */
#pragma once

#include "engine/engine.h"

/* Makes a box forkable; before it starts. */
int forking_prepare(struct box *box, struct error *err);

/* `child` as engine.start() has it. When this returns 0, both its init and its program wait: the program for
 * orders over its channel. One at a time in a family; others wait. */
int forking_fork(struct box *parent, struct box *child, const struct fork_request *request,
                 const struct cgroup_limits *limits, struct error *err);

/* The same in two steps, where nobody's code runs in the parent: its first process waits in all that a box
 * has but a program, and costs next to nothing; then it makes the copy. Only the second is waited for by a
 * run. A place that nobody wants goes as a box does. */
int forking_make_place(struct box *parent, struct box *child, const struct fork_request *request,
                       const struct cgroup_limits *limits, struct error *err);
int forking_fill_place(struct box *parent, struct box *child, const struct fork_request *request,
                       struct error *err);

/* Shows the inputs of the box's spec (files; there are none yet) in a fork that begins anew. */
int forking_show_inputs(struct box *box, struct error *err);

/* A call that waits on the listener of a box, see engine.answer. */
bool forking_answer(struct box *box, const char **ret_call);

void forking_leave(struct box *box);
