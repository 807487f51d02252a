#include "os/mount.h"

#include "base/scope.h"
#include "os/process.h"
#include "os/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux/mount.h and sys/mount.h disagree with each other in Debian 12; the old flags are few. */
enum {
    OLD_NOSUID = 2,
    OLD_NODEV = 4,
    OLD_NOEXEC = 8,
    OLD_RDONLY = 1,
    OLD_BIND = 4096,
    OLD_RECURSIVE = 16384
};
extern int mount(const char *, const char *, const char *, unsigned long, const void *);

enum {
    TREE_RECURSIVE = 0x8000 /* AT_RECURSIVE */,
    DETACH = 2 /* MNT_DETACH */,
    NO_FOLLOW = 8 /* UMOUNT_NOFOLLOW */
};

static uint64_t mount_attributes(unsigned flags)
{
    return (flags & MOUNT_READ_ONLY ? MOUNT_ATTR_RDONLY : 0) |
           (flags & MOUNT_NO_SUID ? MOUNT_ATTR_NOSUID : 0) |
           (flags & MOUNT_NO_DEVICES ? MOUNT_ATTR_NODEV : 0) |
           (flags & MOUNT_NO_EXEC ? MOUNT_ATTR_NOEXEC : 0);
}

static int set_attributes(int dir_fd, const char *path, unsigned flags, int userns_fd)
{
    struct mount_attr attributes = {.attr_set = mount_attributes(flags)};
    if (userns_fd >= 0) {
        attributes.attr_set |= MOUNT_ATTR_IDMAP;
        attributes.userns_fd = (uint64_t)userns_fd;
    }
    if (!attributes.attr_set)
        return 0;
    unsigned how = (unsigned)AT_EMPTY_PATH | (flags & MOUNT_RECURSIVE ? (unsigned)TREE_RECURSIVE : 0);
    return syscall(SYS_mount_setattr, dir_fd, path, how, &attributes, sizeof attributes) < 0 ? -errno : 0;
}

int mount_clone_tree(int dir_fd, const char *path, unsigned flags, int userns_fd)
{
    unsigned how = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (unsigned)AT_EMPTY_PATH |
                   (unsigned)AT_SYMLINK_NOFOLLOW | (flags & MOUNT_RECURSIVE ? (unsigned)TREE_RECURSIVE : 0);
    scope_fd tree = (int)syscall(SYS_open_tree, dir_fd, path, how);
    if (tree < 0)
        return -errno;
    int status = set_attributes(tree, "", flags, userns_fd);
    return status < 0 ? status : take_fd(&tree);
}

int mount_attach(int tree_fd, int dir_fd, const char *path)
{
    return syscall(SYS_move_mount, tree_fd, "", dir_fd, path,
                   MOVE_MOUNT_F_EMPTY_PATH | (*path ? 0 : MOVE_MOUNT_T_EMPTY_PATH)) < 0
               ? -errno
               : 0;
}

int mount_detached(const char *type, unsigned flags, const char *key, const char *value)
{
    scope_fd context = (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);
    if (context < 0 || (key && syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, key, value, 0) < 0) ||
        syscall(SYS_fsconfig, context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return -errno;
    long mount_fd = syscall(SYS_fsmount, context, FSMOUNT_CLOEXEC, mount_attributes(flags));
    return mount_fd < 0 ? -errno : (int)mount_fd;
}

static int set_number(int context, const char *key, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return syscall(SYS_fsconfig, context, FSCONFIG_SET_STRING, key, text, 0) < 0 ? -errno : 0;
}

int mount_resize(int root_fd, int64_t bytes, int64_t inodes)
{
    scope_fd context = (int)syscall(SYS_fspick, root_fd, "", FSPICK_CLOEXEC | FSPICK_EMPTY_PATH);
    if (context < 0)
        return -errno;
    int status = set_number(context, "size", bytes);
    if (status == 0)
        status = set_number(context, "nr_inodes", inodes);
    if (status == 0 && syscall(SYS_fsconfig, context, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0) < 0)
        status = -errno;
    return status;
}

int mount_bind(int from_dir_fd, const char *from, int to_dir_fd, const char *to, unsigned flags)
{
    scope_fd tree = mount_clone_tree(from_dir_fd, from, flags, -1);
    return tree < 0 ? tree : mount_attach(tree, to_dir_fd, to);
}

int mount_cover(const char *with, const char *path)
{
    return mount(with, path, NULL, OLD_BIND, NULL) < 0 ? -errno : 0;
}

int mount_show(const char *from, const char *path)
{
    return mount(from, path, NULL, OLD_BIND | OLD_RECURSIVE, NULL) < 0 ? -errno : 0;
}

int mount_restrict(int dir_fd, const char *path, unsigned flags)
{
    return set_attributes(dir_fd, path, flags, -1);
}

int mount_make_writable(int dir_fd, const char *path)
{
    struct mount_attr attributes = {.attr_clr = MOUNT_ATTR_RDONLY};
    return syscall(SYS_mount_setattr, dir_fd, path, AT_EMPTY_PATH, &attributes, sizeof attributes) < 0
               ? -errno
               : 0;
}

int mount_make_private(void)
{
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ? -errno : 0;
}

int mount_detach(const char *path)
{
    return syscall(SYS_umount2, path, DETACH | NO_FOLLOW) < 0 ? -errno : 0;
}

int mount_new(const char *type, const char *path, unsigned flags, const char *options)
{
    unsigned long old = (flags & MOUNT_READ_ONLY ? OLD_RDONLY : 0) |
                        (flags & MOUNT_NO_SUID ? OLD_NOSUID : 0) |
                        (flags & MOUNT_NO_DEVICES ? OLD_NODEV : 0) | (flags & MOUNT_NO_EXEC ? OLD_NOEXEC : 0);
    return mount(type, path, type, old, options) < 0 ? -errno : 0;
}

struct detaching {
    char path[64];
    int (*and_then)(void);
};

static int detach(void *data)
{
    const struct detaching *detaching = data;
    long status = raw_call(SYS_umount2, RAW(detaching->path), DETACH, 0, 0, 0);
    long code = status < 0 ? MOUNT_NOT_DETACHED : detaching->and_then ? detaching->and_then() : 0;
    raw_call(SYS_exit_group, code, 0, 0, 0, 0);
    return 1;
}

int mount_pivot(const char *new_root, const char *old_root, int (*and_then)(void), const cpu_set_t *cpus)
{
    if (chdir(new_root) < 0 || syscall(SYS_pivot_root, ".", old_root) < 0 || chdir("/") < 0)
        return -errno;
    /* It shares our memory, which is much cheaper than a copy, and has a stack of its own; it must not touch
     * errno. */
    static char stack[16384] __attribute__((aligned(16)));
    static struct detaching detaching;
    snprintf(detaching.path, sizeof detaching.path, "/%s", old_root);
    detaching.and_then = and_then;
    int child = clone(detach, stack + sizeof stack, CLONE_VM | SIGCHLD, &detaching);
    if (child < 0)
        return -errno;
    process_place_elsewhere(child, cpus);
    return 0;
}
