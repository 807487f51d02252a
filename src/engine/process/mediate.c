/* Why letting a call go on is sound here, where it is not in general: the arguments that were looked at are
 * numbers in registers, which no other thread of the guest can change after the filter saw them. Where an
 * argument is a pointer, the call is not let go on: we copy what it points to once, and do the thing
 * ourselves. */
#include "engine/process/mediate.h"

#include "base/scope.h"
#include "engine/notify.h"
#include "os/seccomp/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static bool group_is_ours(const struct watchdog *watchdog, pid_t group)
{
    /* A process group is named after its leader; a session of the box has only processes of the box. */
    return watchdog_owns(watchdog, group);
}

static int judge_pid(const struct watchdog *watchdog, const struct seccomp_notif *call)
{
    pid_t pid = (pid_t)call->data.args[0];
    bool is_kill = call->data.nr == SYS_kill;
    if (is_kill && pid == 0)
        return 0; /* its own group, which is inside: init gave the program a session of its own */
    if (is_kill && pid == -1)
        return EPERM;
    if (is_kill && pid < -1)
        return pid != INT_MIN && group_is_ours(watchdog, -pid) ? 0 : ESRCH;
    if (pid == 0)
        return 0;
    if (pid < 0)
        return EINVAL;
    return watchdog_owns(watchdog, pid) ? 0 : ESRCH;
}

/* Copies a NUL-terminated string out of the guest, a page at a time, since the next page may not be there. */
static int copy_path(pid_t pid, uint64_t address, char *into, size_t size)
{
    size_t length = 0;
    while (length < size) {
        size_t step = 4096 - (address + length) % 4096;
        if (step > size - length)
            step = size - length;
        struct iovec local = {into + length, step};
        struct iovec remote = {(void *)(uintptr_t)(address + length), step};
        ssize_t got = process_vm_readv(pid, &local, 1, &remote, 1, 0);
        if (got <= 0)
            return -EFAULT;
        if (memchr(into + length, '\0', (size_t)got))
            return 0;
        length += (size_t)got;
    }
    return -ENAMETOOLONG;
}

static int copy_bytes(pid_t pid, uint64_t address, void *into, size_t size)
{
    struct iovec local = {into, size}, remote = {(void *)(uintptr_t)address, size};
    return process_vm_readv(pid, &local, 1, &remote, 1, 0) == (ssize_t)size ? 0 : -EFAULT;
}

/* The path as an absolute one, by the guest's own working directory or descriptor. */
static int absolute_path(pid_t pid, int dir_fd, const char *path, char *into, size_t size)
{
    if (path[0] == '/')
        return snprintf(into, size, "%s", path) < (int)size ? 0 : -ENAMETOOLONG;
    char link[64], base[PATH_MAX];
    if (dir_fd == AT_FDCWD)
        snprintf(link, sizeof link, "/proc/%d/cwd", (int)pid);
    else
        snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)pid, dir_fd);
    ssize_t length = readlink(link, base, sizeof base - 1);
    if (length < 0)
        return -EBADF;
    base[length] = '\0';
    int written = *path ? snprintf(into, size, "%s/%s", base, path) : snprintf(into, size, "%s", base);
    return written < (int)size ? 0 : -ENAMETOOLONG;
}

/* Opens what the path names if it lies below `root`, without ever leaving it on the way. */
static int open_below(const char *root, const char *absolute, bool follow)
{
    size_t length = strlen(root);
    if (strncmp(absolute, root, length) != 0 || (absolute[length] && absolute[length] != '/'))
        return -EPERM;
    scope_fd root_fd = open(root, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (root_fd < 0)
        return -EPERM;
    const char *rest = absolute + length;
    rest += strspn(rest, "/");
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW),
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    long fd = syscall(SYS_openat2, root_fd, *rest ? rest : ".", &how, sizeof how);
    return fd < 0 ? (errno == EXDEV ? -EPERM : -errno) : (int)fd;
}

static int open_writable(const struct box *box, const char *absolute, bool follow)
{
    static const char *const places[] = {"tmp", "home", "output"};
    int result = -EPERM;
    for (size_t i = 0; i < sizeof places / sizeof *places && result == -EPERM; i++) {
        char root[600];
        snprintf(root, sizeof root, "%s/%s", box->identity->directory, places[i]);
        result = open_below(root, absolute, follow);
    }
    for (size_t i = 0; i < box->spec->grant_count && result == -EPERM; i++)
        if (box->spec->grants[i].kind == GRANT_WRITE)
            result = open_below(box->spec->grants[i].host_path, absolute, follow);
    return result;
}

/* chmod, fchmod, fchmodat, truncate, utimensat: returns a positive errno or 0. */
static int change_metadata(const struct box *box, const struct seccomp_notif *call)
{
    const uint64_t *args = (const uint64_t *)call->data.args;
    pid_t pid = (pid_t)call->pid;
    int dir_fd = AT_FDCWD;
    uint64_t path_address = args[0];
    uint64_t mode = args[1];
    bool follow = true, times = call->data.nr == SYS_utimensat;
    if (call->data.nr == SYS_fchmodat || times) {
        dir_fd = (int)args[0];
        path_address = args[1];
        mode = args[2];
        follow = !(times && args[3] & AT_SYMLINK_NOFOLLOW);
    }
    char path[PATH_MAX] = "", absolute[2 * PATH_MAX];
    int status = 0;
    bool by_descriptor = call->data.nr == SYS_fchmod || (times && path_address == 0);
    if (by_descriptor)
        dir_fd = (int)args[0];
    else
        status = copy_path(pid, path_address, path, sizeof path);
    if (status == 0 && !*path && !by_descriptor)
        status = -ENOENT;
    struct timespec stamps[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}};
    if (status == 0 && times && args[2])
        status = copy_bytes(pid, args[2], stamps, sizeof stamps);
    if (status == 0)
        status = absolute_path(pid, dir_fd, path, absolute, sizeof absolute);
    if (status == 0 && !notify_is_alive(box->listener_fd, call->id))
        return EINTR;
    scope_fd fd = status < 0 ? status : open_writable(box, absolute, follow);
    if (fd < 0)
        return -fd;
    char self[48];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    struct stat what;
    if (fstat(fd, &what) < 0 || (S_ISLNK(what.st_mode) && !times))
        return EPERM;
    if (S_ISLNK(what.st_mode))
        return 0; /* times of a link itself: nobody looks at them */
    if (S_ISDIR(what.st_mode) && call->data.nr != SYS_truncate)
        mode |= 0700; /* or what lies below could not be counted, nor collected */
    if (call->data.nr == SYS_truncate) {
        if (!S_ISREG(what.st_mode) || (int64_t)mode < 0)
            return EINVAL;
        if ((int64_t)mode > box->limits->value[LIMIT_disk])
            return EFBIG;
        return truncate(self, (off_t)mode) < 0 ? errno : 0;
    }
    int done = times ? utimensat(AT_FDCWD, self, stamps, 0) : chmod(self, (mode_t)mode & 01777);
    return done < 0 ? errno : 0;
}

bool mediate_answer(struct box *box, const struct watchdog *watchdog, const char **ret_call)
{
    struct seccomp_notif call;
    if (!notify_receive(box->listener_fd, &call))
        return false;
    int verdict;
    switch (call.data.nr) {
    case SYS_kill:
    case SYS_tkill:
    case SYS_tgkill:
    case SYS_rt_sigqueueinfo:
    case SYS_rt_tgsigqueueinfo:
    case SYS_pidfd_open:
    case SYS_prlimit64:
    case SYS_sched_setaffinity:
    case SYS_sched_setparam:
    case SYS_sched_setscheduler:
    case SYS_sched_setattr:
        verdict = judge_pid(watchdog, &call);
        if (verdict == 0)
            notify_continue(box, call.id);
        else
            notify_answer(box, call.id, verdict);
        return false;
    case SYS_chmod:
    case SYS_truncate:
    case SYS_fchmod:
    case SYS_fchmodat:
    case SYS_utimensat:
        notify_answer(box, call.id, change_metadata(box, &call));
        return false;
    default:
        *ret_call = seccomp_call_name(call.data.nr);
        return true;
    }
}
