/* What the kernel takes for the things that make a box, without an interpreter, a launcher or a proof.
 *
 *   box_objects FLAGS SECONDS [GROUP…]     clone flags in hexadecimal; prints how many a second are made by
 * eight makers. GROUP: a directory below which each box has a group of its own
 *
 * Without GROUP: namespaces, and a process that is born in them and ends at once. With it also what every box
 * has of its own: the groups with their limits, the mounts (a root like a zygote's, from which it has its own
 * /proc with its covers, scratch space and terminals), a user, file rules and the filter of containers. No
 * box can be made with less work than this (bench/warm_floor); what it leaves out, it leaves out in favour of
 * the floor. */
#include "seccomp_programs.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    MAKERS = 8, /* more than CPUs: one waits for the kernel at times, as when it lets go of mounts */
    GROUPS_MAX = 8,
    COVERS = 32,
    BINDS = 16,
    DIRECTORY_MODE = 0755
};

static int group_homes[GROUPS_MAX];
static int group_count;

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void need(bool is_done, const char *what)
{
    if (is_done)
        return;
    perror(what);
    exit(2);
}

/* A root of few mounts, instead of the host's. */
static void leave_mounts(void)
{
    need(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
             mount("none", "/proc", "tmpfs", 0, NULL) == 0 &&
             syscall(SYS_pivot_root, "/proc", "/proc") == 0 && umount2("/", MNT_DETACH) == 0 &&
             chdir("/") == 0,
         "mounts");
}

/* Those that a zygote's root has: of its image, and its devices. */
static void build_template(void)
{
    static const char *const places[] = {"proc", "tmp", "home", "output", "run",
                                         "shm",  "pts", "code", "empty"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        need(mkdir(places[i], DIRECTORY_MODE) == 0, places[i]);
    int null = open("null", O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    need(null >= 0 && close(null) == 0, "null");
    for (int i = 0; i < BINDS; i++) {
        char name[16];
        snprintf(name, sizeof name, "bind%d", i);
        need(mkdir(name, DIRECTORY_MODE) == 0 && mount("empty", name, NULL, MS_BIND, NULL) == 0, name);
    }
}

static bool write_text(int dir_fd, const char *file, const char *text)
{
    int fd = openat(dir_fd, file, O_WRONLY | O_CLOEXEC);
    bool is_done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0)
        close(fd);
    return is_done;
}

/* Which of them there are depends on the kind of group. */
static void limit(int group_fd)
{
    static const char *const limits[][2] = {{"memory.limit_in_bytes", "536870912"},
                                            {"memory.memsw.limit_in_bytes", "536870912"},
                                            {"memory.max", "536870912"},
                                            {"pids.max", "65"},
                                            {"cpu.cfs_quota_us", "100000"},
                                            {"cpu.max", "100000 100000"}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        write_text(group_fd, limits[i][0], limits[i][1]);
}

struct groups {
    char name[32];
    int join_fd[GROUPS_MAX];
};

static void make_groups(struct groups *groups, long number)
{
    snprintf(groups->name, sizeof groups->name, "floor-%d-%ld", (int)getpid(), number);
    for (int i = 0; i < group_count; i++) {
        need(mkdirat(group_homes[i], groups->name, DIRECTORY_MODE) == 0, "group");
        int own = openat(group_homes[i], groups->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        limit(own);
        int join_fd = openat(own, "tasks", O_WRONLY | O_CLOEXEC);
        groups->join_fd[i] = join_fd >= 0 ? join_fd : openat(own, "cgroup.procs", O_WRONLY | O_CLOEXEC);
        close(own);
    }
}

static void remove_groups(const struct groups *groups)
{
    for (int i = 0; i < group_count; i++) {
        close(groups->join_fd[i]);
        unlinkat(group_homes[i], groups->name, AT_REMOVEDIR);
    }
}

/* The entries that a box does not see: the first of a list that is about as long. */
static bool cover_proc(void)
{
    static const char *const covered[COVERS] = {
        "fs",        "bus",        "dma",        "irq",        "sys",      "tty",       "acpi",
        "keys",      "misc",       "mtrr",       "iomem",      "locks",    "swaps",     "crypto",
        "driver",    "vmstat",     "cgroups",    "cmdline",    "devices",  "ioports",   "sysvipc",
        "consoles",  "kallsyms",   "pressure",   "softirqs",   "zoneinfo", "buddyinfo", "diskstats",
        "key-users", "interrupts", "partitions", "execdomains"};
    int covers = 0;
    for (int i = 0; i < COVERS; i++) {
        char path[32];
        snprintf(path, sizeof path, "/proc/%s", covered[i]);
        covers +=
            mount("/null", path, NULL, MS_BIND, NULL) == 0 || mount("/empty", path, NULL, MS_BIND, NULL) == 0;
    }
    return covers > COVERS / 2; /* kernels differ in what they have */
}

static bool furnish(void)
{
    static const char *const scratch[] = {"home", "output", "run", "shm", "own"};
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=2") < 0 || !cover_proc() ||
        mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=104857600,nr_inodes=20000") < 0)
        return false;
    for (size_t i = 0; i < sizeof scratch / sizeof *scratch; i++) {
        char path[16];
        snprintf(path, sizeof path, "/tmp/%s", scratch[i]);
        if (mkdir(path, 0700) < 0 || chown(path, 1000, 1000) < 0 ||
            mount(path, i == 4 ? "/tmp" : path + 4, NULL, MS_BIND, NULL) < 0)
            return false;
    }
    return mount("devpts", "/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666") == 0;
}

static bool take_user(void)
{
    return syscall(SYS_setresgid, 1000, 1000, 1000) == 0 && syscall(SYS_setresuid, 1000, 1000, 1000) == 0 &&
           prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) == 0 && unshare(CLONE_NEWUSER) == 0 &&
           write_text(AT_FDCWD, "/proc/self/setgroups", "deny") &&
           write_text(AT_FDCWD, "/proc/self/gid_map", "1000 1000 1") &&
           write_text(AT_FDCWD, "/proc/self/uid_map", "1000 1000 1");
}

static bool restrict_files(void)
{
    static const char *const places[] = {"/", "/tmp", "/home", "/output", "/shm"};
    struct landlock_ruleset_attr handled = {.handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE};
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0);
    if (ruleset < 0)
        return false;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct landlock_path_beneath_attr rule = {.allowed_access = LANDLOCK_ACCESS_FS_WRITE_FILE,
                                                  .parent_fd = open(places[i], O_PATH | O_CLOEXEC)};
        syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
        close(rule.parent_fd);
    }
    bool is_on =
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
    close(ruleset);
    return is_on;
}

static bool filter(void)
{
    const struct sock_fprog program = {sizeof seccomp_program_container / sizeof *seccomp_program_container,
                                       (struct sock_filter *)(uintptr_t)seccomp_program_container};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

/* 0: all of it was there. */
static int be_boxed(const struct groups *groups)
{
    for (int i = 0; i < group_count; i++)
        if (write(groups->join_fd[i], "0", 1) != 1)
            return 1;
    if (!furnish())
        return 2;
    if (!take_user())
        return 3;
    if (!restrict_files())
        return 4;
    return filter() ? 0 : 5;
}

static long make(unsigned long flags, double seconds)
{
    long made = 0;
    for (double until = now_s() + seconds; now_s() < until; made++) {
        struct groups groups;
        make_groups(&groups, made);
        unsigned long at_birth = group_count > 0 ? flags & ~(unsigned long)CLONE_NEWUSER : flags;
        long pid = syscall(SYS_clone, at_birth | SIGCHLD, 0, 0, 0, 0);
        if (pid == 0)
            _exit(group_count > 0 ? be_boxed(&groups) : 0);
        int how = 0;
        if (pid < 0 || waitpid((pid_t)pid, &how, 0) < 0 || how != 0) {
            fprintf(stderr, "box_objects: a box failed at step %d\n", WEXITSTATUS(how));
            return -1;
        }
        remove_groups(&groups);
    }
    return made;
}

int main(int argc, char **argv)
{
    int counts[2];
    long total = 0;
    need(argc >= 3 && argc - 3 <= GROUPS_MAX && pipe(counts) == 0, "box_objects");
    for (; group_count < argc - 3; group_count++)
        need((group_homes[group_count] = open(argv[3 + group_count], O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >=
                 0,
             argv[3 + group_count]);
    leave_mounts();
    if (group_count > 0)
        build_template();
    unsigned long flags = strtoul(argv[1], NULL, 16);
    double seconds = strtod(argv[2], NULL);
    for (int i = 0; i < MAKERS; i++)
        if (fork() == 0) {
            long made = make(flags, seconds);
            _exit(write(counts[1], &made, sizeof made) != sizeof made);
        }
    close(counts[1]);
    for (long i = 0, made = 0; i < MAKERS; i++, total += made)
        if (read(counts[0], &made, sizeof made) != sizeof made || made < 0)
            return 1;
    printf("%.0f\n", (double)total / seconds);
    return 0;
}
