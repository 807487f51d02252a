#include "os/user_namespace.h"

#include "base/file.h"
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int write_map(const char *file, unsigned inside, unsigned outside)
{
    char path[64], line[64];
    snprintf(path, sizeof path, "/proc/self/%s", file);
    snprintf(line, sizeof line, "%u %u 1", inside, outside);
    return file_write_attribute(AT_FDCWD, path, line);
}

int user_namespace_map_self(uid_t uid, uid_t outside_uid, gid_t gid, gid_t outside_gid)
{
    int status = file_write_attribute(AT_FDCWD, "/proc/self/setgroups", "deny");
    if (status == 0)
        status = write_map("gid_map", gid, outside_gid);
    if (status == 0)
        status = write_map("uid_map", uid, outside_uid);
    return status;
}

int user_namespace_map(pid_t pid, const char *lines)
{
    static const char *const files[] = {"gid_map", "uid_map"};
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/setgroups", (int)pid);
    int status = file_write_attribute(AT_FDCWD, path, "deny");
    for (size_t i = 0; status == 0 && i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, files[i]);
        status = file_write_attribute(AT_FDCWD, path, lines);
    }
    return status;
}

int user_namespace_enter(const char *lines)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    int pidfd = -1;
    pid_t self = getpid(), child = process_clone(0, -1, &pidfd);
    if (child == 0) {
        char byte;
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 1 && user_namespace_map(self, lines) == 0 ? 0 : 1);
    }
    int status = child < 0 ? child : unshare(CLONE_NEWUSER) < 0 ? -errno : 0;
    if (status == 0 && write(ends[1], "m", 1) != 1)
        status = -EPIPE;
    close(ends[0]);
    close(ends[1]);
    int how = 1;
    if (child > 0 && (waitpid(child, &how, __WALL) != child || how != 0) && status == 0)
        status = -EPERM;
    if (pidfd >= 0)
        close(pidfd);
    return status;
}
