/* Mounting, for real: arguments that pass every permission check and then change nothing. The probes of
 * syscalls.c tell of the filter; these tell whether the attack works. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Two kinds of propagation at once: refused as nonsense, after Landlock and after the capability. */
static int mount_nonsense(void)
{
    return mount("none", "/", NULL, MS_SHARED | MS_PRIVATE, NULL) < 0 ? errno : 0;
}

static enum verdict mount_is_refused(const void *unused)
{
    (void)unused;
    return judge_error("mount", mount_nonsense());
}

/* Not the root of any mount, so there is nothing to remount or to unmount. */
static const char no_mount_point[] = "/proc/self";

static enum verdict remount_is_refused(const void *unused)
{
    (void)unused;
    return judge_call("remount", mount(NULL, no_mount_point, NULL, MS_REMOUNT | MS_BIND, NULL));
}

static enum verdict unmount_is_refused(const void *unused)
{
    (void)unused;
    return judge_call("umount2", umount2(no_mount_point, 0));
}

static enum verdict bind_is_refused(const void *unused)
{
    (void)unused;
    /* A file cannot be laid over a directory; the kernel finds that out last. */
    return judge_call("bind mount", mount("/dev/null", "/", NULL, MS_BIND, NULL));
}

static enum verdict tree_cannot_be_cloned(const void *unused)
{
    (void)unused;
    return judge_call("open_tree",
                      syscall(SYS_open_tree, AT_FDCWD, "/", 1 /* OPEN_TREE_CLONE */ | O_CLOEXEC));
}

static enum verdict file_system_cannot_be_made(const void *unused)
{
    (void)unused;
    return judge_call("fsopen", syscall(SYS_fsopen, "tmpfs", 1 /* FSOPEN_CLOEXEC */));
}

static int unshare_and_mount(const void *unused)
{
    (void)unused;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
        return errno;
    return mount_nonsense();
}

static enum verdict user_namespace_mounts_nothing(const void *unused)
{
    return judge_in_child("mount in a user namespace of our own", unshare_and_mount, unused);
}

static int change_root_to_root(const void *unused)
{
    (void)unused;
    return chroot("/") < 0 ? errno : 0;
}

static enum verdict chroot_is_refused(const void *unused)
{
    return judge_in_child("chroot", change_root_to_root, unused);
}

/* A handle that names the root inode of whatever file system the directory lies on: inode 2 for the ext
 * family, where generation 0 means any. The bind mount of one directory gives the whole disk. */
static enum verdict handle_does_not_open_the_disk(const void *unused)
{
    (void)unused;
    struct {
        unsigned bytes;
        int type;
        uint32_t inode[2];
    } handle = {sizeof handle.inode, 1 /* FILEID_INO32_GEN */, {2, 0}};
    int mounted = open("/usr", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (mounted < 0)
        mounted = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (mounted < 0)
        return undecided("no directory to start from: %s", error_name(errno));
    int disk = (int)syscall(SYS_open_by_handle_at, mounted, &handle, O_RDONLY | O_DIRECTORY);
    if (disk < 0)
        return judge_call("open_by_handle_at of the disk's root", disk);
    const char *canary = host_canary();
    if (canary && openat(disk, canary + 1, O_RDONLY) >= 0)
        return broke("the canary was read through a file handle");
    return broke("the root of the disk was opened by a file handle");
}

static enum verdict mounts_have_flag(const char *const paths[], unsigned long flag, const char *flag_name)
{
    for (size_t i = 0; paths[i]; i++) {
        struct statvfs status;
        if (statvfs(paths[i], &status) == 0 && !(status.f_flag & flag))
            return broke("%s is mounted without %s", paths[i], flag_name);
    }
    return held("all are mounted %s", flag_name);
}

static const char *const guest_directories[] = {"/",          "/usr",         "/etc",     "/tmp",
                                                "/home/user", "/data/output", "/dev/shm", NULL};
static const char *const image_directories[] = {"/", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", NULL};

static enum verdict image_is_read_only(const void *unused)
{
    (void)unused;
    return mounts_have_flag(image_directories, ST_RDONLY, "read-only");
}

static enum verdict directory_is_read_only(const void *path)
{
    char expanded[PATH_MAX];
    if (!path_expand(path, expanded, sizeof expanded))
        return undecided("there is no %s", (const char *)path);
    return mounts_have_flag((const char *const[]){expanded, NULL}, ST_RDONLY, "read-only");
}

static enum verdict everything_is_nosuid(const void *unused)
{
    (void)unused;
    return mounts_have_flag(guest_directories, ST_NOSUID, "nosuid");
}

#define FULL "seccomp,landlock," HOST_ROOT

static const struct probe rows[] = {
    {"mount_is_denied", ON_BOTH, MAY_BE_KILLED, FULL, mount_is_refused, NULL, "Nothing can be mounted."},
    {"remount_is_denied", ON_BOTH, MAY_BE_KILLED, FULL, remount_is_refused, NULL,
     "A read-only mount cannot be remounted."},
    {"bind_mount_is_denied", ON_BOTH, MAY_BE_KILLED, FULL, bind_is_refused, NULL,
     "No file can be laid over another."},
    {"unmount_is_denied", ON_BOTH, MAY_BE_KILLED, "seccomp," HOST_ROOT, unmount_is_refused, NULL,
     "No mount can be taken away from above what it hides."},
    {"mount_tree_cannot_be_cloned", ON_BOTH, MAY_BE_KILLED, "seccomp," HOST_ROOT, tree_cannot_be_cloned, NULL,
     "No detached copy of the mounts can be had."},
    {"file_system_cannot_be_made", ON_BOTH, MAY_BE_KILLED, "seccomp," HOST_ROOT, file_system_cannot_be_made,
     NULL, "No file system can be configured."},
    {"user_namespace_does_not_lead_to_mounting", ON_BOTH, RETURNS, "seccomp,landlock",
     user_namespace_mounts_nothing, NULL, "A user namespace of its own does not let the box mount."},
    {"chroot_is_denied", ON_BOTH, MAY_BE_KILLED, "seccomp," HOST_ROOT, chroot_is_refused, NULL,
     "The root directory cannot be changed."},
    {"file_handle_does_not_open_the_disk", ON_BOTH, MAY_BE_KILLED, FULL, handle_does_not_open_the_disk, NULL,
     "The disk under a bind mount cannot be opened by inode number."},
    {"image_is_mounted_read_only", ON_CONTAINER, RETURNS, "root_read_only", image_is_read_only, NULL,
     "Every part of the image is read-only by its mount, whoever asks."},
    {"code_is_mounted_read_only", ON_CONTAINER, RETURNS, "root_read_only", directory_is_read_only,
     "{program_directory}", "The code is read-only by its mount."},
    {"input_is_mounted_read_only", ON_CONTAINER, RETURNS, "input_read_only", directory_is_read_only,
     "{input}/given.txt", "The input is read-only by its mount."},
    {"mounts_are_nosuid", ON_CONTAINER, RETURNS, "mount_nosuid", everything_is_nosuid, NULL,
     "No mount of the box honours setuid files."},
};

PROBE_GROUP(mounts, rows);
