/* Mounts, made with all their flags on before anyone can see them. */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

enum mount_flag {
    MOUNT_READ_ONLY = 1 << 0,
    MOUNT_NO_SUID = 1 << 1,
    MOUNT_NO_DEVICES = 1 << 2,
    MOUNT_NO_EXEC = 1 << 3,
    MOUNT_RECURSIVE = 1 << 4, /* with what is mounted below, the flags on all of it */
};

/* A detached copy of what is at path (relative to dir_fd; an empty path is the descriptor itself), with
 * flags. A link at the end of the path is not followed. userns_fd >= 0: owners are mapped by that user
 * namespace. A descriptor, or a negative errno. */
int mount_clone_tree(int dir_fd, const char *path, unsigned flags, int userns_fd);

/* Attaches a detached tree at a path, relative to dir_fd, whose last component is not followed when it is a
 * link. */
int mount_attach(int tree_fd, int dir_fd, const char *path);

/* Clone and attach. */
int mount_bind(int from_dir_fd, const char *from, int to_dir_fd, const char *to, unsigned flags);

/* Covers a path with another file or empty directory: one plain bind, for what needs no flags of its own.
 * Half the price of clone and attach. */
int mount_cover(const char *with, const char *path);

/* The same with what is mounted below; flags are to be given by mount_restrict. Links are followed. */
int mount_show(const char *from, const char *path);

/* Adds flags to the mount at path, with MOUNT_RECURSIVE to those below too. */
int mount_restrict(int dir_fd, const char *path, unsigned flags);

/* Takes MOUNT_READ_ONLY away from the mount at path (not below). */
int mount_make_writable(int dir_fd, const char *path);

/* A new file system that is not at any place yet; with one option, or none (NULL). */
int mount_detached(const char *type, unsigned flags, const char *key, const char *value);

/* Another size and number of inodes for a mounted tmpfs, by its root directory. */
int mount_resize(int root_fd, int64_t bytes, int64_t inodes);

/* What is mounted here from now on is seen nowhere else, and the other way round. -EINVAL: the root is that
 * of a chroot, and no mount. */
int mount_make_private(void);

/* mount(2) of a new file system instance. */
int mount_new(const char *type, const char *path, unsigned flags, const char *options);
/* Takes away what is mounted on top of a path, with all below it, without waiting for the kernel. */
int mount_detach(const char *path);

/* Makes `new_root` (a mount) the root of the calling process, and lets go of the old one. The letting go
 * waits for a grace period of the kernel, about a millisecond, so a child does it meanwhile, and then what
 * `and_then` says (NULL: nothing), which returns its exit code. It shares our memory, and may make raw system
 * calls only (os/raw.h). It must be waited for, and must have exited with 0, before anything of the guest's
 * runs. `old_root` is an empty directory below the new root where the old one hangs for that time: stacked on
 * "/" itself, it would make us count as chrooted, and a chrooted process may not make a user namespace.
 * `cpus`: where the child may run; NULL: where we may. */
int mount_pivot(const char *new_root, const char *old_root, int (*and_then)(void), const cpu_set_t *cpus);
enum { MOUNT_NOT_DETACHED = 1 }; /* its exit code */
