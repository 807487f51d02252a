/* What has no row answers EPERM; calls that no part of the server makes, and break-ins are made of, end it.
 */
#include "server/confine.h"

#include "base/scope.h"
#include "os/landlock.h"
#include "os/seccomp/own_filter.h"

#include <errno.h>
#include <linux/prctl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

enum { THREAD_FLAGS = CLONE_VM | CLONE_THREAD | CLONE_SIGHAND };

static const char *const allowed[] = {
    /* connections, and the keeper's */
    "accept",
    "accept4",
    "recvfrom",
    "recvmsg",
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

/* Calls of which only a part is needed. */
static const struct own_filter_condition conditions[] = {
    /* what connects by sending: a socket that listened, and was shut down, can */
    {"sendto", 0, {OWN_FILTER_CLEAR(3, MSG_FASTOPEN)}},
    {"sendmsg", 0, {OWN_FILTER_CLEAR(2, MSG_FASTOPEN)}},
    /* to the keeper, one for each run */
    OWN_FILTER_PAIR(SOCK_STREAM),
    OWN_FILTER_PAIR(SOCK_SEQPACKET),
    /* threads, and no processes; clone3 hides its flags: the C library then takes the other */
    {"clone", 0, {{0, THREAD_FLAGS, THREAD_FLAGS}}},
    {"clone3", ENOSYS, {{0}}},
    OWN_FILTER_DESCRIPTORS,
    {"mmap", 0, {OWN_FILTER_CLEAR(2, PROT_EXEC)}},
    {"mprotect", 0, {OWN_FILTER_CLEAR(2, PROT_EXEC)}},
    {"prctl", 0, {OWN_FILTER_IS(0, PR_SET_NAME)}},
    {"ioctl", 0, {OWN_FILTER_IS(1, FIONREAD)}},
    {"ioctl", 0, {OWN_FILTER_IS(1, FIONBIO)}},
    {"ioctl", 0, {OWN_FILTER_IS(1, TIOCSWINSZ)}}, /* of a terminal in a box */
    {"ioctl", 0, {OWN_FILTER_IS(1, TIOCGPGRP)}},
    {"ioctl", 0, {OWN_FILTER_IS(1, TIOCSIG)}},
    {"prlimit64", 0, {OWN_FILTER_IS(2, 0)}}, /* looks only */
};

static int install_filter(struct error *err)
{
    const struct own_filter filter = {.allowed = allowed,
                                      .allowed_count = sizeof allowed / sizeof *allowed,
                                      .fatal = fatal,
                                      .fatal_count = sizeof fatal / sizeof *fatal,
                                      .conditions = conditions,
                                      .condition_count = sizeof conditions / sizeof *conditions};
    int status = own_filter_install(&filter);
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
