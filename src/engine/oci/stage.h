/* The root in which an OCI runtime works: built in a child that then becomes the runtime.
 *
 * Theory of operation. The runtime is not trusted with the host. It gets a root of its own with nothing in it
 * but itself, a bundle, the root of the box and its scratch space; namespaces; the box's group; and, where
 * the launcher is root, a user namespace in which its root is the box's own uid on the host. What gets out of
 * the box into the runtime is then where a program of the container engine would be, less its filter. All of
 * it hangs on the first process of a pid namespace and on a mount namespace: when that process is killed,
 * nothing is left.
 *
 * In the user namespace 0 is the runtime (the box's uid), and 1000 is the owner of what the box writes,
 * which is another number that is nobody else's: no process has it. Without root only one can be mapped, and
 * the box's user is 0, in its own kernel and without any capability. */
#pragma once

#include "engine/grants.h"
#include "engine/launch.h"
#include "engine/oci/runtime.h"

struct stage {
    struct box *box;
    struct launch *launch;
    const struct runtime *runtime;
    struct grants grants;
    struct buffer config;
    struct string_list arguments; /* of the runtime */
    uid_t caller_uid;
    gid_t caller_gid;
};

/* The box's user, as its own kernel counts, and the owner of its files as the host's does. */
unsigned stage_user(const struct box *box);
uid_t stage_owner(const struct box *box);

/* In the child. Allocates no memory: the launcher may have threads. */
__attribute__((noreturn)) void stage_main(const struct stage *stage);
