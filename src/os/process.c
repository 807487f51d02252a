#include "os/process.h"

#include <errno.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

void process_signals_block(struct process_signals *ret_former)
{
    const uint64_t all = ~UINT64_C(0);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &ret_former->mask, sizeof all);
}

void process_signals_restore(const struct process_signals *former)
{
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &former->mask, NULL, sizeof former->mask);
}

void process_signals_reset(void)
{
    enum { HIGHEST = 64 };
    const struct { /* as the kernel has it, which is not as C libraries do */
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        uint64_t mask;
    } usual = {.handler = SIG_DFL};
    for (int number = 1; number <= HIGHEST; number++)
        syscall(SYS_rt_sigaction, number, &usual, NULL, sizeof usual.mask);
}

/* Docker's filter knows no clone3, whose flags it cannot see, and means us to take the older call; which
 * knows neither groups nor what came late (its exit signal is where that would be). */
static long clone_by_the_older_call(const struct clone_args *arguments)
{
    if (arguments->flags & (CLONE_INTO_CGROUP | CSIGNAL))
        return -1;
    return syscall(SYS_clone, (unsigned long)(arguments->flags | arguments->exit_signal), 0,
                   (unsigned long)arguments->pidfd, 0, 0);
}

pid_t process_clone(uint64_t flags, int cgroup_fd, int *ret_pidfd)
{
    int pidfd = -1;
    struct clone_args arguments = {
        .flags = flags | CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)&pidfd,
        .exit_signal = SIGCHLD,
    };
    if (cgroup_fd >= 0) {
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = (uint64_t)cgroup_fd;
    }
    /* A handler of the caller's must not run in the child, on a copy of the caller's state. */
    struct process_signals signals;
    process_signals_block(&signals);
    long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
    if (pid < 0 && errno == ENOSYS)
        pid = clone_by_the_older_call(&arguments);
    int code = errno;
    if (pid != 0)
        process_signals_restore(&signals);
    if (pid < 0)
        return -code;
    if (pid > 0)
        *ret_pidfd = pidfd;
    return (pid_t)pid;
}

int process_call_apart_with(int flags, int (*call)(void *data), void *data)
{
    char stack[32768] __attribute__((aligned(16)));
    struct process_signals signals; /* no handler of the caller's may run in it, on the caller's own memory */
    process_signals_block(&signals);
    pid_t pid =
        clone(call, stack + sizeof stack, CLONE_VM | CLONE_FILES | CLONE_VFORK | SIGCHLD | flags, data);
    int code = errno;
#ifdef __SANITIZE_ADDRESS__
    /* It has left its frames without returning from them: their marks would be taken for ours. */
    __asan_unpoison_memory_region(stack, sizeof stack);
#endif
    process_signals_restore(&signals);
    if (pid < 0)
        return -code;
    while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    return 0;
}

void process_place_elsewhere(pid_t pid, const cpu_set_t *among)
{
    cpu_set_t all, others;
    int here = sched_getcpu();
    if (here < 0 || (!among && sched_getaffinity(0, sizeof all, &all) < 0))
        return;
    if (among)
        all = *among;
    others = all;
    CPU_CLR(here, &others);
    if (CPU_COUNT(&others) > 0 && sched_setaffinity(pid, sizeof others, &others) == 0)
        sched_setaffinity(pid, sizeof all, &all);
}

/* The CPU that we are on, if there are others; -1: there are none. */
static int find_own_cpu(struct process_apart *apart, pid_t pid)
{
    *apart = (struct process_apart){.pid = pid};
    if (pid <= 0 || sched_getaffinity(0, sizeof apart->all, &apart->all) < 0 || CPU_COUNT(&apart->all) < 2)
        return -1;
    return sched_getcpu();
}

static void send_away(struct process_apart *apart, int here)
{
    cpu_set_t others = apart->all;
    CPU_CLR(here, &others);
    apart->they_are = sched_setaffinity(apart->pid, sizeof others, &others) == 0;
}

static void stay(struct process_apart *apart, int here)
{
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(here, &own);
    apart->we_are = sched_setaffinity(0, sizeof own, &own) == 0;
}

void process_stay_apart(struct process_apart *apart, pid_t pid)
{
    int here = find_own_cpu(apart, pid);
    if (here >= 0)
        send_away(apart, here);
    if (apart->they_are)
        stay(apart, here);
}

void process_send_away(struct process_apart *apart, pid_t pid)
{
    int here = find_own_cpu(apart, pid);
    if (here >= 0)
        send_away(apart, here);
}

void process_stay(struct process_apart *apart, pid_t pid)
{
    int here = find_own_cpu(apart, pid);
    if (here >= 0)
        stay(apart, here);
}

void process_keep_off(const struct process_apart *apart, pid_t other)
{
    struct process_apart of_other = {.pid = other, .all = apart->all};
    if (apart->we_are && other > 0)
        send_away(&of_other, sched_getcpu());
}

void process_bring_here(struct process_apart *apart)
{
    cpu_set_t own;
    if (!apart->we_are || !apart->they_are || sched_getaffinity(0, sizeof own, &own) < 0)
        return;
    sched_setaffinity(apart->pid, sizeof own, &own);
}

void process_let_roam(struct process_apart *apart)
{
    if (apart->they_are)
        sched_setaffinity(apart->pid, sizeof apart->all, &apart->all);
    apart->they_are = false;
}

void process_roam(struct process_apart *apart)
{
    if (apart->we_are)
        sched_setaffinity(0, sizeof apart->all, &apart->all);
    apart->we_are = false;
}

int process_close_all_but(const int *kept, size_t count)
{
    unsigned first = 3;
    for (;;) { /* the lowest that is kept, from `first` on, ends a gap */
        unsigned next = ~0U;
        for (size_t i = 0; i < count; i++)
            if (kept[i] >= 0 && (unsigned)kept[i] >= first && (unsigned)kept[i] < next)
                next = (unsigned)kept[i];
        if (next > first && syscall(SYS_close_range, first, next == ~0U ? next : next - 1, 0) < 0)
            return -errno;
        if (next == ~0U)
            return 0;
        first = next + 1;
    }
}

int process_take_ids(uid_t uid, gid_t gid)
{
    if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, gid, gid, gid) < 0 ||
        syscall(SYS_setresuid, uid, uid, uid) < 0)
        return -errno;
    return 0;
}

int process_kill_uid(uid_t uid)
{
    int pidfd = -1;
    pid_t killer = process_clone(0, -1, &pidfd);
    if (killer == 0) {
        int status = process_take_ids(uid, uid);
        if (status == 0)
            kill(-1, SIGKILL);
        _exit(status < 0);
    }
    int how = 1;
    if (pidfd >= 0)
        close(pidfd);
    while (killer > 0 && waitpid(killer, &how, 0) < 0 && errno == EINTR)
        ;
    return killer < 0 ? killer : WIFEXITED(how) && WEXITSTATUS(how) == 0 ? 0 : -EPERM;
}

int process_pidfd_open(pid_t pid)
{
    long fd = syscall(SYS_pidfd_open, pid, 0);
    return fd < 0 ? -errno : (int)fd;
}

int process_pidfd_kill(int pidfd, int signal_number)
{
    return syscall(SYS_pidfd_send_signal, pidfd, signal_number, NULL, 0) < 0 ? -errno : 0;
}

union descriptor_space {
    char bytes[CMSG_SPACE(PROCESS_DESCRIPTORS_MAX * sizeof(int))];
    struct cmsghdr align;
};

int64_t process_send_some(int socket_fd, const void *data, size_t length, const int *fds, size_t count)
{
    union descriptor_space control = {0};
    struct iovec vector = {.iov_base = (void *)(uintptr_t)data, .iov_len = length};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    if (count > PROCESS_DESCRIPTORS_MAX)
        return -EINVAL;
    if (count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(count * sizeof *fds);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(count * sizeof *fds);
        memcpy(CMSG_DATA(header), fds, count * sizeof *fds);
    }
    ssize_t sent;
    /* A peer that died with something of ours unread leaves ECONNRESET, once: then EPIPE, as of any other. */
    do
        sent = sendmsg(socket_fd, &message, MSG_NOSIGNAL);
    while (sent < 0 && (errno == EINTR || errno == ECONNRESET));
    return sent < 0 ? -errno : sent;
}

int process_send_many(int socket_fd, const void *data, uint32_t length, const int *fds, size_t count)
{
    int64_t sent = process_send_some(socket_fd, data, length, fds, count);
    if (sent < 0)
        return (int)sent;
    return sent == length ? 0 : -EMSGSIZE;
}

int process_send(int socket_fd, const void *data, uint32_t length, int fd)
{
    return process_send_many(socket_fd, data, length, &fd, fd >= 0);
}

/* The kernel has installed them all; a sender that we do not trust may have sent more than we have room for.
 */
static size_t take_descriptors(const struct cmsghdr *header, int *into, size_t taken, size_t room)
{
    size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        int fd;
        memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
        if (taken < room)
            into[taken++] = fd;
        else
            close(fd);
    }
    return taken;
}

int process_receive_many(int socket_fd, void *into, uint32_t size, int *fds, size_t room)
{
    union descriptor_space control = {0};
    struct iovec vector = {.iov_base = into, .iov_len = size};
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t length;
    for (size_t i = 0; i < room; i++)
        fds[i] = -1;
    /* A peer that died with something of ours unread leaves ECONNRESET, once, before what it had sent. */
    do
        length = recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC);
    while (length < 0 && (errno == EINTR || errno == ECONNRESET));
    if (length < 0)
        return -errno;
    size_t taken = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header))
        if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS)
            taken = take_descriptors(header, fds, taken, room);
    return (int)length;
}

int process_receive(int socket_fd, void *into, uint32_t size, int *ret_fd)
{
    return process_receive_many(socket_fd, into, size, ret_fd, 1);
}
