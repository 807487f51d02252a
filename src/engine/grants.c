#include "engine/grants.h"

#include "base/file.h"
#include "base/scope.h"
#include "os/hardening.h"
#include "os/mount.h"
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void grants_close(struct grants *grants)
{
    for (size_t i = 0; i < grants->count; i++) {
        scope_close_fd(&grants->shown[i].userns_fd);
        free(grants->shown[i].own_path);
    }
}

/* A user namespace in which `owner` is `uid`, for mapped mounts. A descriptor or a negative errno. */
static int mapping_namespace(uid_t owner, gid_t owner_group, uid_t uid)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    scope_fd read_end = ends[0];
    scope_fd write_end = ends[1];
    scope_fd pidfd = -1;
    pid_t pid = process_clone(CLONE_NEWUSER, -1, &pidfd);
    if (pid < 0)
        return pid;
    if (pid == 0) {
        char byte;
        close(write_end);
        _exit(read(read_end, &byte, 1) < 0); /* until the launcher is done with us */
    }
    char path[64], line[64];
    snprintf(path, sizeof path, "/proc/%d/uid_map", (int)pid);
    snprintf(line, sizeof line, "%u %u 1", owner, uid);
    int status = file_write_attribute(AT_FDCWD, path, line);
    snprintf(path, sizeof path, "/proc/%d/gid_map", (int)pid);
    snprintf(line, sizeof line, "%u %u 1", owner_group, uid);
    if (status == 0)
        status = file_write_attribute(AT_FDCWD, path, line);
    snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
    int namespace_fd = status < 0 ? status : open(path, O_RDONLY | O_CLOEXEC);
    if (namespace_fd == -1)
        namespace_fd = -errno;
    scope_close_fd(&write_end);
    waitpid(pid, NULL, 0);
    return namespace_fd;
}

const char *grant_name(const struct grant *grant)
{
    return grant->is_pinned && grant->name ? grant->name : grant->host_path;
}

static int open_grant(const struct box *box, uid_t owner, const struct grant *grant, struct grant_shown *ret,
                      struct error *err)
{
    struct stat status;
    if (lstat(grant->host_path, &status) < 0)
        return error_host(err, -errno, "cannot look at '%s'", grant_name(grant));
    if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode))
        return error_spec(err, "input", "'%s' is neither a file nor a directory", grant_name(grant));
    if (grant->is_pinned && (status.st_dev != grant->device || status.st_ino != grant->inode))
        return error_host(err, -ESTALE, "'%s' is not what was granted", grant_name(grant));
    ret->host_path = grant->host_path;
    ret->device = status.st_dev;
    ret->inode = status.st_ino;
    ret->is_directory = S_ISDIR(status.st_mode);
    ret->writable = grant->kind == GRANT_WRITE;
    ret->path = grant->host_path + 1;
    if (grant->kind == GRANT_INPUT) {
        if (asprintf(&ret->own_path, "data/input/%s", grant->name) < 0)
            return error_host(err, -ENOMEM, "input");
        ret->path = ret->own_path;
    }
    if (box->identity->has_uid && !hardening_removed(box_uid)) {
        ret->userns_fd = mapping_namespace(status.st_uid, status.st_gid, owner);
        bool unsupported = ret->userns_fd == -EPERM || ret->userns_fd == -ENOSYS || ret->userns_fd == -EINVAL;
        if (ret->userns_fd < 0 && (ret->writable || !unsupported))
            return error_host(err, ret->userns_fd, "cannot map the owner of '%s'", grant_name(grant));
    }
    return 0;
}

/* Shorter paths first, so that a grant inside another is not covered by it. */
static int compare_grants(const void *one, const void *other)
{
    size_t a = strlen(((const struct grant_shown *)one)->path),
           b = strlen(((const struct grant_shown *)other)->path);
    return a < b ? -1 : a > b;
}

int grants_open(const struct box *box, uid_t owner, struct grants *ret, struct error *err)
{
    for (size_t i = 0; i < box->spec->grant_count; i++) {
        struct grant_shown *grant = &ret->shown[ret->count++];
        *grant = (struct grant_shown){.userns_fd = -1};
        int status = open_grant(box, owner, &box->spec->grants[i], grant, err);
        if (status < 0)
            return status;
    }
    qsort(ret->shown, ret->count, sizeof *ret->shown, compare_grants);
    return 0;
}

/* Opens the parent of a path below the new root, making directories on the way; no link is followed. */
static int open_parent(const char *path, char *ret_last)
{
    scope_fd at = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (const char *slash; at >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
        char component[NAME_MAX + 1];
        size_t length = (size_t)(slash - path);
        if (length == 0 || length > NAME_MAX)
            return -ENAMETOOLONG;
        memcpy(component, path, length);
        component[length] = '\0';
        if (mkdirat(at, component, 0755) < 0 && errno != EEXIST)
            return -errno;
        int next = openat(at, component, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
            return -errno;
        close(at);
        at = next;
    }
    snprintf(ret_last, NAME_MAX + 1, "%s", path);
    return at < 0 ? -errno : take_fd(&at);
}

/* What the launcher resolved and looked at, and nothing that was put in its place since. */
static int open_source(const struct grant_shown *grant)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    scope_fd fd = (int)syscall(SYS_openat2, AT_FDCWD, grant->host_path, &how, sizeof how);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0)
        return -errno;
    return status.st_dev == grant->device && status.st_ino == grant->inode ? take_fd(&fd) : -ESTALE;
}

int grant_clone(const struct grant_shown *grant)
{
    scope_fd source = open_source(grant);
    if (source < 0)
        return source;
    unsigned flags = MOUNT_NO_DEVICES | (hardening_removed(mount_nosuid) ? 0 : MOUNT_NO_SUID);
    if (!grant->writable && !hardening_removed(input_read_only))
        flags |= MOUNT_READ_ONLY;
    int tree = -1;
    if (grant->userns_fd >= 0)
        tree = mount_clone_tree(source, "", flags, grant->userns_fd);
    if (grant->userns_fd >= 0 && tree < 0 && tree != -EINVAL && tree != -EOPNOTSUPP && tree != -EPERM)
        return tree;
    if (tree < 0) /* a file system without mapped mounts: rights are then those of a stranger */
        tree = mount_clone_tree(source, "", flags | MOUNT_RECURSIVE, -1);
    return tree;
}

int grant_make_place(const char *path, bool is_directory)
{
    char name[NAME_MAX + 1];
    scope_fd parent = open_parent(path, name);
    if (parent < 0)
        return parent;
    if (is_directory && mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    if (!is_directory) {
        scope_fd place = openat(parent, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0444);
        if (place < 0 && faccessat(parent, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
    }
    int target = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return target < 0 ? -errno : target;
}

int grant_place(const struct grant_shown *grant, int tree)
{
    scope_fd target = grant_make_place(grant->path, grant->is_directory);
    return target < 0 ? target : mount_attach(tree, target, "");
}

int grant_error(const struct grant_shown *grant, int status, struct error *err)
{
    if (status == -EROFS || status == -ENOTDIR || status == -ELOOP)
        return error_layer(err, "root", status, "/%s cannot be shown in this image", grant->path);
    return error_host(err, status, "cannot show /%s in the box", grant->path);
}

int grants_show(const struct grants *grants, struct error *err)
{
    for (size_t i = 0; i < grants->count; i++) {
        scope_fd tree = grant_clone(&grants->shown[i]);
        int status = tree < 0 ? tree : grant_place(&grants->shown[i], tree);
        if (status < 0)
            return grant_error(&grants->shown[i], status, err);
    }
    return 0;
}
