/* Memory and the other quantities: what the box may have, and how much of it. How fast a box that takes too
 * much is ended is tested elsewhere; here only that there is a limit at all, far below what the host has. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    MEMORY_TRIED_MB = 1536, /* three times the default limit */
    PROCESSES_TRIED = 512,  /* eight times */
    SCRATCH_MAX_MB = 1024,
    INODES_MAX = 1000 * 1000,
    DESCRIPTORS_MAX = 16384,
};

static int take_memory(const void *unused)
{
    (void)unused;
    for (int mb = 0; mb < MEMORY_TRIED_MB; mb++) {
        char *part = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (part == MAP_FAILED)
            return EPERM;
        memset(part, 1, 1 << 20);
    }
    return 0;
}

static enum verdict memory_is_bounded(const void *unused)
{
    return judge_in_child("taking more memory than the limit", take_memory, unused);
}

static enum verdict processes_are_bounded(const void *unused)
{
    (void)unused;
    static pid_t children[PROCESSES_TRIED];
    int count = 0, error = 0;
    while (count < PROCESSES_TRIED && !error) {
        children[count] = fork();
        if (children[count] == 0)
            for (;;)
                pause();
        if (children[count] < 0)
            error = errno;
        else
            count++;
    }
    for (int i = 0; i < count; i++) {
        kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
    return error ? held("fork after %d processes: %s", count, error_name(error))
                 : broke("%d processes were started", count);
}

static enum verdict scratch_is_bounded(const void *path)
{
    char expanded[4096];
    struct statvfs status;
    if (!path_expand(path, expanded, sizeof expanded) || statvfs(expanded, &status) < 0)
        return undecided("%s: %s", (const char *)path, error_name(errno));
    unsigned long megabytes = (unsigned long)(status.f_blocks * status.f_frsize >> 20);
    return megabytes > SCRATCH_MAX_MB ? broke("%s has %lu MB", expanded, megabytes)
                                      : held("%s has %lu MB", expanded, megabytes);
}

static enum verdict inodes_are_bounded(const void *path)
{
    char expanded[4096];
    struct statvfs status;
    if (!path_expand(path, expanded, sizeof expanded) || statvfs(expanded, &status) < 0)
        return undecided("%s: %s", (const char *)path, error_name(errno));
    unsigned long files = (unsigned long)status.f_files; /* 0 means that there is no limit */
    return files == 0 || files > INODES_MAX ? broke("%s has %lu inodes", expanded, files)
                                            : held("%s has %lu inodes", expanded, files);
}

struct limit {
    int resource;
    rlim_t most;
    const char *label;
};

/* The hard limit: the soft one is the program's own to raise. */
static enum verdict limit_is_bounded(const void *target)
{
    const struct limit *limit = target;
    struct rlimit found;
    if (getrlimit(limit->resource, &found) < 0)
        return undecided("getrlimit: %s", error_name(errno));
    if (found.rlim_max > limit->most)
        return broke("%s may be raised to %llu", limit->label, (unsigned long long)found.rlim_max);
    return held("%s ends at %llu", limit->label, (unsigned long long)found.rlim_max);
}

#define LIMITED(name, resource, most, label, description)                                                    \
    {                                                                                                        \
        name, ON_BOTH, RETURNS, "rlimits", limit_is_bounded, (&(const struct limit){resource, most, label}), \
            description                                                                                      \
    }
#define CALLS(name, call, description)                                                                       \
    {                                                                                                        \
        name, ON_BOTH, RETURNS, "seccomp", call_is_refused, call, description                                \
    }

static const struct probe rows[] = {
    /* In the mode that needs no privilege. */
    CALLS("userfaultfd_is_denied", CALL("userfaultfd", SYS_userfaultfd, UFFD_USER_MODE_ONLY | O_CLOEXEC),
          "Page faults, the lever of many kernel exploits, cannot be held up."),
    CALLS("secret_memory_is_denied", CALL("memfd_secret", SYS_memfd_secret, 0),
          "Memory that even the kernel cannot see is refused."),
    CALLS("memory_policy_is_denied", CALL("mbind", SYS_mbind, 0, 0, -1, 0, 0, 0),
          "The placing of memory cannot be chosen."),
    {"memory_is_bounded", ON_BOTH, MAY_BE_KILLED, "cgroup_memory,rlimits,watchdog", memory_is_bounded, NULL,
     "Three times the default of 512 MB cannot be had."},
    {"processes_are_bounded", ON_CONTAINER, MAY_BE_KILLED, "cgroup_pids,rlimits,watchdog",
     processes_are_bounded, NULL, "Eight times the default of 64 processes cannot be started."},
    {"scratch_size_is_bounded", ON_CONTAINER, RETURNS, "scratch_size", scratch_is_bounded, "{scratch}",
     "The scratch directory has far less room than the host's disk or memory."},
    {"scratch_inodes_are_bounded", ON_CONTAINER, RETURNS, "scratch_inodes", inodes_are_bounded, "{scratch}",
     "The scratch directory takes far fewer files than the host could."},
    {"shared_memory_size_is_bounded", ON_CONTAINER, RETURNS, "scratch_size", scratch_is_bounded, "/dev/shm",
     "Shared memory has no more room than the scratch directory."},
    /* A core pattern that starts a program starts it, as the host's root, even for a limit of 0; the one
     * limit that the kernel takes as a no to that is 1. */
    LIMITED("core_dumps_are_off", RLIMIT_CORE, 1, "the size of core dumps",
            "No core dump is written to the host."),
    LIMITED("descriptors_are_bounded", RLIMIT_NOFILE, DESCRIPTORS_MAX, "the number of descriptors",
            "The number of open descriptors is limited."),
    LIMITED("file_size_is_bounded", RLIMIT_FSIZE, RLIM_INFINITY - 1, "the size of files",
            "The size of a file is limited."),
};

PROBE_GROUP(memory, rows);
