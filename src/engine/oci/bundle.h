/* config.json of an OCI bundle. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/grants.h"

/* The root of the box is one mount to its runtime, and read-only. A grant that is written to, or that lies
 * below one of the writable places, which cover what is in the root, must be one of its own. */
bool bundle_mounts_grant(const struct grant_shown *grant);

/* For a path below a writable place: the same path below the scratch space. */
bool bundle_scratch_path(const char *path, char *into, size_t size);

/* `uid` is the box's user as its own kernel counts. */
int bundle_write(const struct box *box, const struct grants *grants, unsigned uid, struct buffer *ret,
                 struct error *err);
