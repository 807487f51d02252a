/* What the launcher makes for a box while its child builds the room, and the way it gets in there.
 *
 * Control groups (v1) and the network namespace take as long to make as half the room. So the child is
 * started without them and waits, halfway through the room, for the launcher's word (INIT_ENTER), which
 * brings the descriptors; it joins them itself, because a move by another process waits for an RCU grace
 * period. Without a uid of our own to give, the network namespace must belong to the child's user namespace
 * and is made with it; on v2 the child is born inside its group. Nothing of a guest runs before all of it is
 * proved. */
#pragma once

#include "engine/engine.h"
#include "engine/launch.h"

/* Does the launcher make the network namespace, or is it one of the child's clone flags? */
bool entry_brings_network(const struct box *box);

/* In the launcher: makes what is missing and gives it to the child. The group must exist. */
int entry_give(const struct box *box, struct error *err);

/* In the child: waits for it and goes inside. */
int entry_take(const struct launch *launch, struct error *err);
