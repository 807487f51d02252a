/* Who the box is: its uid, its user namespace, its (lack of) capabilities. */
#pragma once

#include "base/error.h"
#include "engine/engine.h"

enum { BOX_UID_INSIDE = 1000, BOX_GID_INSIDE = 1000 };

/* Rootless: the child was born in a new user namespace; maps the caller to the box's user. */
int identity_map_self(uid_t outside_uid, gid_t outside_gid, struct error *err);

/* Root: takes the box's own uid, then a new user namespace that maps only it. The other namespaces stay owned
 * by the host's: a break-out of the filter still meets a box without power over its own mounts and network.
 */
int identity_leave_root(const struct box_identity *identity, struct error *err);

/* Gives up every capability. */
int identity_drop_capabilities(struct error *err);

/* A user namespace in which `owner` is `uid`, for mapped mounts. A descriptor or a negative errno. */
int identity_mapping_namespace(uid_t owner, gid_t owner_group, uid_t uid);
