/* Who the box is: its uid, its user namespace, its (lack of) capabilities. */
#pragma once

#include "base/error.h"
#include "engine/engine.h"

enum { BOX_UID_INSIDE = 1000, BOX_GID_INSIDE = 1000 };

/* In the user namespace of a forkable box the uids of all boxes are mapped, from this number on, for those
 * that its forks will have. The box has no capability to take one. */
enum { BOX_RANGE_INSIDE = 65536 };

/* Rootless: the child was born in a new user namespace; maps the caller to the box's user. */
int identity_map_self(uid_t outside_uid, gid_t outside_gid, struct error *err);

/* Root: takes the box's own uid, then a new user namespace that maps only it. The other namespaces stay owned
 * by the host's: a break-out of the filter still meets a box without power over its own mounts and network.
 */
int identity_leave_root(const struct box *box, struct error *err);

/* Adds the box's own uid to the line of its parent (NULL: it has none). */
int identity_continue_line(const struct uid_line *parent, struct box *box, struct error *err);

/* From outside: maps the user of a forked box, whose first process is `pid` in a new user namespace below
 * that of the process `parent`. */
int identity_map_fork(const struct box *box, pid_t parent, pid_t pid, struct error *err);

/* Gives up every capability. */
int identity_drop_capabilities(struct error *err);
