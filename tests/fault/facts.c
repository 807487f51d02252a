/* The guest of the fault tests: prints what it is and what it may do, one fact a line, the same in every
 * sound run.
 *
 * A run that succeeded although something was broken on the way must print the same as an untouched run: that
 * is how "no downgrade" is seen from inside, beside the layers that the result lists.
 *
 *     facts CANARY       CANARY: a file of the host, readable by all, that is not granted */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static const char *answer(long result)
{
    return result >= 0 ? "allowed" : strerrorname_np(errno);
}

static void print_identity(void)
{
    uid_t uids[3];
    gid_t gids[3];
    getresuid(&uids[0], &uids[1], &uids[2]);
    getresgid(&gids[0], &gids[1], &gids[2]);
    /* A box of root's process engine has a uid of its own, another one in every run. */
    bool own = uids[0] >= 0x7d000000 && uids[0] < 0x7d010000 && gids[0] == uids[0];
    if (own)
        printf("uid own %d\n",
               uids[0] == uids[1] && uids[1] == uids[2] && gids[0] == gids[1] && gids[1] == gids[2]);
    else
        printf("uid %u %u %u gid %u %u %u\n", uids[0], uids[1], uids[2], gids[0], gids[1], gids[2]);
    printf("groups %d\n", getgroups(0, NULL));
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    syscall(SYS_capget, &header, data);
    printf("capabilities %x %x %x %x %x %x\n", data[0].effective, data[1].effective, data[0].permitted,
           data[1].permitted, data[0].inheritable, data[1].inheritable);
    int bounding = 0;
    for (int i = 0; i < 64; i++)
        bounding += prctl(PR_CAPBSET_READ, i, 0, 0, 0) == 1;
    printf("bounding %d\nno_new_privs %d\nseccomp %d\ndumpable %d\n", bounding,
           prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), prctl(PR_GET_SECCOMP, 0, 0, 0, 0),
           prctl(PR_GET_DUMPABLE, 0, 0, 0, 0));
    mode_t mask = umask(0);
    printf("umask %03o\n", (unsigned)mask);
    umask(mask);
    printf("session %s\n", getsid(0) == getpid() ? "own" : "shared");
    printf("terminal %s\n", answer(open("/dev/tty", O_RDWR | O_CLOEXEC)));
    struct utsname name;
    uname(&name);
    printf("host %s\n", name.nodename);
}

static void print_limits(void)
{
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit limit;
        if (getrlimit((__rlimit_resource_t)i, &limit) == 0)
            printf("rlimit %d %lld %lld\n", i, (long long)limit.rlim_cur, (long long)limit.rlim_max);
    }
    static const char *const places[] = {"/",        "/usr", "/tmp", "/home/user", "/data/output",
                                         "/dev/shm", "/code"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct statvfs what;
        if (statvfs(places[i], &what) < 0)
            printf("place %s %s\n", places[i], strerrorname_np(errno));
        else
            printf("place %s flags %lx size %lld\n", places[i],
                   what.f_flag & (ST_RDONLY | ST_NOSUID | ST_NODEV),
                   what.f_flag & ST_RDONLY ? 0LL : (long long)what.f_blocks);
    }
}

static void print_descriptors(void)
{
    for (int fd = 0; fd < 1024; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            printf("descriptor %d %s\n", fd, fd < 3 ? "" : "open");
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    for (int number = 1; number < NSIG; number++) {
        struct sigaction action;
        if (sigismember(&blocked, number) == 1)
            printf("signal %d blocked\n", number);
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            printf("signal %d ignored\n", number);
    }
    for (char **variable = environ; *variable; variable++)
        printf("variable %.*s\n", (int)strcspn(*variable, "="), *variable);
}

static void print_powers(const char *canary)
{
    printf("canary %s\n", answer(open(canary, O_RDONLY | O_CLOEXEC)));
    static const char *const write_places[] = {"/new", "/usr/new", "/run/new", "/etc/new",
                                               "/proc/sys/kernel/hostname"};
    for (size_t i = 0; i < sizeof write_places / sizeof *write_places; i++)
        printf("write %s %s\n", write_places[i],
               answer(open(write_places[i], O_WRONLY | O_CREAT | O_CLOEXEC, 0600)));
    static const char *const read_places[] = {"/proc/1/environ", "/etc/shadow", "/root",
                                              "/proc/cmdline",   "/sys/kernel", "/var"};
    for (size_t i = 0; i < sizeof read_places / sizeof *read_places; i++) {
        char byte;
        int fd = open(read_places[i], O_RDONLY | O_CLOEXEC);
        printf("read %s %s\n", read_places[i],
               fd < 0                    ? strerrorname_np(errno)
               : read(fd, &byte, 1) == 1 ? "content"
                                         : "nothing");
    }
    printf("internet %s\n", answer(socket(AF_INET, SOCK_STREAM, 0)));
    printf("netlink %s\n", answer(socket(AF_NETLINK, SOCK_RAW, 0)));
    printf("unshare %s\n", answer(unshare(CLONE_NEWUSER)));
    printf("parent %s\n", answer(kill(getppid(), 0)));
    printf("first %s\n", getppid() == 1 ? "init" : answer(kill(1, 0)));
    printf("ptrace %s\n", answer(syscall(SYS_ptrace, 16 /* attach */, getppid(), 0, 0)));
    printf("own file %s\n", answer(open("here", O_WRONLY | O_CREAT | O_TMPFILE, 0600) < 0
                                       ? open("here", O_WRONLY | O_CREAT | O_CLOEXEC, 0600)
                                       : 0));
    unlink("here");
}

/* Mounts without what differs from run to run, and the groups as the box sees them; nothing where /proc is
 * closed. */
static void print_view(void)
{
    char line[1024], place[512], options[256], *tail;
    FILE *mounts = fopen("/proc/self/mountinfo", "re");
    while (mounts && fgets(line, sizeof line, mounts))
        if (sscanf(line, "%*s %*s %*s %*s %511s %255s", place, options) == 2 && (tail = strstr(line, " - ")))
            printf("mount %s %s %.*s\n", place, options, (int)strcspn(tail + 3, " \n"), tail + 3);
    FILE *groups = fopen("/proc/self/cgroup", "re");
    while (groups && fgets(line, sizeof line, groups))
        if ((tail = strrchr(line, ':')))
            printf("group %s", tail + 1);
    struct timespec boot;
    clock_gettime(CLOCK_BOOTTIME, &boot);
    printf("uptime %s\n", boot.tv_sec < 60 ? "hidden" : "shown");
}

int main(int argc, char **argv)
{
    print_descriptors(); /* first: what follows opens more */
    print_identity();
    print_limits();
    print_view();
    print_powers(argc > 1 ? argv[1] : "/nonexistent");
    return fflush(stdout) == 0 ? 0 : 1;
}
