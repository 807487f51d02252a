/* A filter of libseccomp's is enough here: it is made once, and has few conditions. What has no row answers
 * EPERM; calls that no part of the server makes, and break-ins are made of, end it. */
#include "server/confine.h"

#include "base/scope.h"
#include "os/landlock.h"

#include <errno.h>
#include <linux/prctl.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

static const char *const allowed[] = {
    /* connections, and the keeper's */
    "accept",
    "accept4",
    "recvfrom",
    "recvmsg",
    "sendto",
    "sendmsg",
    "read",
    "readv",
    "write",
    "writev",
    "pread64",
    "pwrite64",
    "preadv",
    "pwritev",
    "sendfile",
    "splice",
    "shutdown",
    "getsockopt",
    "setsockopt",
    "getsockname",
    "getpeername",
    "socketpair",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    "eventfd2",
    "pipe",
    "pipe2",
    "close",
    "close_range",
    "dup",
    "dup3",
    "fcntl",
    "timerfd_create",
    "timerfd_settime",
    /* files of the data directory, and memory files */
    "open",
    "openat",
    "openat2",
    "stat",
    "fstat",
    "lstat",
    "newfstatat",
    "statx",
    "statfs",
    "fstatfs",
    "lseek",
    "ftruncate",
    "fallocate",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "flock",
    "mkdir",
    "mkdirat",
    "unlink",
    "unlinkat",
    "rename",
    "renameat",
    "renameat2",
    "linkat",
    "symlinkat", /* in a tree for a box, where alone it is followed */
    "getdents64",
    "fchmod",
    "fchmodat",
    "utimensat",
    "copy_file_range",
    "fadvise64",
    "memfd_create",
    "access",
    "faccessat",
    "faccessat2",
    "readlink",
    "readlinkat",
    "getcwd",
    "umask",
    "inotify_init1",
    "inotify_add_watch",
    "inotify_rm_watch",
    /* memory, threads, time */
    "munmap",
    "mremap",
    "madvise",
    "brk",
    "futex",
    "set_robust_list",
    "get_robust_list",
    "rseq",
    "sched_yield",
    "sched_getaffinity",
    "sched_setaffinity",
    "getcpu",
    "nanosleep",
    "clock_nanosleep",
    "clock_gettime",
    "clock_getres",
    "gettimeofday",
    "time",
    "getrandom",
    "gettid",
    "getpid",
    "getppid",
    "getuid",
    "geteuid",
    "getgid",
    "getegid",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "rt_sigtimedwait",
    "sigaltstack",
    "restart_syscall",
    "exit",
    "exit_group",
    "getrusage",
    "sysinfo",
    "uname",
    "getrlimit",
    "membarrier",
    "set_tid_address",
};

static const char *const fatal[] = {
    "execve",
    "execveat",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "mount",
    "umount2",
    "pivot_root",
    "move_mount",
    "open_tree",
    "fsopen",
    "fsmount",
    "setns",
    "unshare",
    "bpf",
    "init_module",
    "finit_module",
    "delete_module",
    "kexec_load",
    "open_by_handle_at",
    "userfaultfd",
    "perf_event_open",
    "add_key",
    "keyctl",
    "connect",
    "bind",
    "fork",
    "vfork",
    "kcmp",
    "pidfd_getfd",
};

static int add(scmp_filter_ctx filter, uint32_t action, const char *name)
{
    int number = seccomp_syscall_resolve_name(name);
    return number < 0 ? 0 : seccomp_rule_add(filter, action, number, 0);
}

/* Calls of which only a part is needed. */
static int add_conditions(scmp_filter_ctx filter)
{
    const uint32_t thread = CLONE_VM | CLONE_THREAD | CLONE_SIGHAND;
    const struct {
        int number;
        struct scmp_arg_cmp condition;
        uint32_t action;
    } rows[] = {
        /* threads, and no processes; clone3 hides its flags: the C library then takes the other */
        {SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, thread, thread), SCMP_ACT_ALLOW},
        {SCMP_SYS(clone3), SCMP_A0(SCMP_CMP_GE, 0), SCMP_ACT_ERRNO(ENOSYS)},
        {SCMP_SYS(mmap), SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0), SCMP_ACT_ALLOW},
        {SCMP_SYS(mprotect), SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0), SCMP_ACT_ALLOW},
        {SCMP_SYS(prctl), SCMP_A0(SCMP_CMP_EQ, PR_SET_NAME), SCMP_ACT_ALLOW},
        {SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_EQ, FIONREAD), SCMP_ACT_ALLOW},
        {SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_EQ, FIONBIO), SCMP_ACT_ALLOW},
        {SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_EQ, TIOCSWINSZ), SCMP_ACT_ALLOW}, /* of a terminal in a box */
        {SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_EQ, TIOCGPGRP), SCMP_ACT_ALLOW},
        {SCMP_SYS(ioctl), SCMP_A1(SCMP_CMP_EQ, TIOCSIG), SCMP_ACT_ALLOW},
        {SCMP_SYS(prlimit64), SCMP_A2(SCMP_CMP_EQ, 0), SCMP_ACT_ALLOW}, /* looks only */
        {SCMP_SYS(tgkill), SCMP_A2(SCMP_CMP_EQ, 6 /* SIGABRT */), SCMP_ACT_ALLOW},
    };
    int status = 0;
    for (size_t i = 0; status == 0 && i < sizeof rows / sizeof *rows; i++)
        status = seccomp_rule_add(filter, rows[i].action, rows[i].number, 1, rows[i].condition);
    return status;
}

static int install_filter(struct error *err)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int status = filter ? seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2) : -ENOMEM;
    for (size_t i = 0; status == 0 && i < sizeof allowed / sizeof *allowed; i++)
        status = add(filter, SCMP_ACT_ALLOW, allowed[i]);
    for (size_t i = 0; status == 0 && i < sizeof fatal / sizeof *fatal; i++)
        status = add(filter, SCMP_ACT_KILL_PROCESS, fatal[i]);
    if (status == 0)
        status = add_conditions(filter);
    if (status == 0)
        status = seccomp_load(filter);
    seccomp_release(filter);
    return status < 0 ? error_layer(err, "seccomp", status, "the server's own filter cannot be installed")
                      : 0;
}

static int grant(int rules, int abi, int directory_fd, enum landlock_grant grant)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", directory_fd);
    return landlock_ruleset_grant(rules, abi, path, grant);
}

static int restrict_files(int data_fd, int shown_fd, struct error *err)
{
    int abi = landlock_abi();
    if (abi <= 0)
        return 0;
    scope_fd rules =
        landlock_ruleset_new(abi, true, LANDLOCK_SCOPE_SIGNALS | LANDLOCK_SCOPE_ABSTRACT_SOCKETS);
    int status = rules < 0 ? rules : grant(rules, abi, data_fd, LANDLOCK_READ_WRITE);
    if (status == 0 && shown_fd >= 0)
        status = grant(rules, abi, shown_fd, LANDLOCK_READ);
    if (status == 0)
        status = landlock_ruleset_enforce(rules);
    return status < 0 ? error_layer(err, "landlock", status, "the server's files cannot be restricted") : 0;
}

int confine_self(int data_fd, int shown_fd, struct error *err)
{
    int status = restrict_files(data_fd, shown_fd, err);
#ifdef __SANITIZE_ADDRESS__
    return status; /* sanitizers start processes and read /proc: only the rest of the server is tested so */
#endif
    return status < 0 ? status : install_filter(err);
}
