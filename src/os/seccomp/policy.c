#include "os/seccomp/policy.h"

#include "os/fork_flags.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* clang-format off */
#define ALLOW_ALL  {VERDICT_ALLOW, VERDICT_ALLOW, VERDICT_ALLOW, VERDICT_ALLOW, VERDICT_ALLOW}
#define EPERM_ALL  {VERDICT_EPERM, VERDICT_EPERM, VERDICT_EPERM, VERDICT_EPERM, VERDICT_EPERM}
#define ENOSYS_ALL {VERDICT_ENOSYS, VERDICT_ENOSYS, VERDICT_ENOSYS, VERDICT_ENOSYS, VERDICT_ENOSYS}

/* Calls that end a box. A zygote has no capability that they would be good for; what it forbids here its forks could not
 * be asked about, and their end would have no name. */
#define KILL_ALL {VERDICT_KILL, VERDICT_KILL, VERDICT_KILL, VERDICT_KILL, VERDICT_ALLOW}

/* Allowed in a container, where what can be named is the box's own; without namespaces it would reach the host. */
#define OWN_NAMESPACES_ONLY {VERDICT_ALLOW, VERDICT_ALLOW, VERDICT_EPERM, VERDICT_EPERM, VERDICT_EPERM}

/* Without a mount namespace these reach every file of the host that anyone may write to: Landlock does not cover them
 * (nor, before its third version, truncation by path). */
#define ASK_WITHOUT_NAMESPACES {VERDICT_ALLOW, VERDICT_ALLOW, VERDICT_ASK, VERDICT_ASK, VERDICT_ALLOW}
#define NO_ATTRIBUTES          {VERDICT_ALLOW, VERDICT_ALLOW, VERDICT_ENOTSUP, VERDICT_ENOTSUP, VERDICT_ENOTSUP}

/* Only where a group counts what the kernel keeps for it. */
#define COUNTED_MEMORY_ONLY {VERDICT_ALLOW, VERDICT_ALLOW, VERDICT_EPERM, VERDICT_EPERM, VERDICT_ALLOW}
#define NO_RULES_OF_ITS_OWN {VERDICT_ALLOW, VERDICT_ALLOW, VERDICT_ENOSYS, VERDICT_ENOSYS, VERDICT_ALLOW}

/* Names of sockets: only where none of the host can be seen. */
#define NO_HOST_SOCKETS {VERDICT_ALLOW, VERDICT_EPERM, VERDICT_EPERM, VERDICT_EPERM, VERDICT_EPERM}

/* Harmless for a uid of its own; with the caller's uid it would change the caller's files or processes. */
#define NOT_WITH_CALLERS_UID {VERDICT_ALLOW, VERDICT_ALLOW, VERDICT_ALLOW, VERDICT_EPERM, VERDICT_ALLOW}
#define ASK_WITH_CALLERS_UID {VERDICT_ALLOW, VERDICT_ALLOW, VERDICT_ALLOW, VERDICT_ASK, VERDICT_ALLOW}

#define ROW(call)                                                                                            \
    {                                                                                                        \
        .name = #call, .number = -1, .verdict = ALLOW_ALL                                                    \
    }
#define ROW_AS(call, ...)                                                                                    \
    {                                                                                                        \
        .name = #call, .number = -1, .verdict = __VA_ARGS__                                                  \
    }
#define ROW_NEW(call, nr, ...)                                                                               \
    {                                                                                                        \
        .name = #call, .number = nr, .verdict = __VA_ARGS__                                                  \
    }

#define EQUALS(arg, bits)                                                                                    \
    {                                                                                                        \
        1, {{.argument = arg, .mask = UINT32_MAX, .value = (uint32_t)(bits)}}, VERDICT_EPERM                 \
    }
#define EQUALS_THEN(arg, bits, then)                                                                         \
    {                                                                                                        \
        1, {{.argument = arg, .mask = UINT32_MAX, .value = (uint32_t)(bits)}}, then                          \
    }
#define ANY_OF(arg, bits)                                                                                    \
    {                                                                                                        \
        1, {{.argument = arg, .any_set = 1, .mask = (uint32_t)(bits)}}, VERDICT_EPERM                        \
    }

#define IS(arg, bits) {.argument = arg, .mask = UINT32_MAX, .value = (uint32_t)(bits)}

/* which, who: the calling process and nothing else (a who of 0 with another which is a whole group or user).
 */
#define SELF_ONLY(which_process)                                                                             \
    {                                                                                                        \
        2,                                                                                                   \
            {{.argument = 0, .mask = UINT32_MAX, .value = which_process},                                    \
             {.argument = 1, .mask = UINT32_MAX, .value = 0}},                                               \
            VERDICT_ALLOW                                                                                    \
    }

/* clone(2) takes the exit signal in the low byte, where CLONE_NEWTIME would be; it cannot be asked for there.
 */
#define NEW_NAMESPACES                                                                                       \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |            \
     CLONE_NEWNET)

/* A file made setuid inside a directory that the host shares with the box would be setuid on the host. */
#define SET_ID (S_ISUID | S_ISGID)
#define CREATES_SET_ID(flags_arg, mode_arg, creating)                                                        \
    {                                                                                                        \
        2,                                                                                                   \
            {{.argument = flags_arg, .any_set = 1, .mask = (creating)},                                      \
             {.argument = mode_arg, .any_set = 1, .mask = SET_ID}},                                          \
            VERDICT_EPERM                                                                                    \
    }
#define TMPFILE_BIT 020000000

/* O_TRUNC without an access mode that writes: before its third version Landlock asks only for the right to read, and
 * for access mode 3 for none at all. */
#define EMPTIES_WITH(flags_arg, mode)                                                                              \
    {2, {{.argument = flags_arg, .any_set = 1, .mask = O_TRUNC}, {.argument = flags_arg, .mask = O_ACCMODE, .value = mode}}, \
     VERDICT_EPERM, IN_PROCESS | IN_ZYGOTE}

const struct policy_row policy_rows[] = {
    /* Files by descriptor, memory, signals, time, waiting: what every program does. */
    ROW(read), ROW(write), ROW(close), ROW(fstat), ROW(poll), ROW(lseek), ROW(mprotect), ROW(munmap),
    ROW(brk), ROW(rt_sigaction), ROW(rt_sigprocmask), ROW(rt_sigreturn), ROW(pread64), ROW(pwrite64), ROW(readv),
    ROW(writev), ROW(pipe), ROW(select), ROW(sched_yield), ROW(mremap), ROW(msync), ROW(mincore), ROW(madvise),
    ROW(dup), ROW(dup2), ROW(dup3), ROW(pause), ROW(nanosleep), ROW(getitimer), ROW(alarm), ROW(setitimer),
    ROW(getpid), ROW(sendfile), ROW(fork), ROW(vfork), ROW(execve), ROW(execveat), ROW(exit), ROW(exit_group),
    ROW(wait4), ROW(waitid), ROW(uname), ROW(flock), ROW(fsync), ROW(fdatasync), ROW(ftruncate), ROW(getdents),
    ROW(getdents64), ROW(getcwd), ROW(chdir), ROW(fchdir), ROW(umask), ROW(gettimeofday), ROW(getrlimit),
    ROW(getrusage), ROW(sysinfo), ROW(times), ROW(time), ROW(getuid), ROW(getgid), ROW(geteuid), ROW(getegid),
    ROW(setpgid), ROW(getppid), ROW(getpgrp), ROW(setsid), ROW(getgroups), ROW(getresuid), ROW(getresgid),
    ROW(getpgid), ROW(getsid), ROW(capget), ROW(rt_sigpending), ROW(rt_sigtimedwait), ROW(rt_sigsuspend),
    ROW(sigaltstack), ROW(statfs), ROW(fstatfs), ROW(getpriority), ROW(sched_getparam), ROW(sched_getscheduler),
    ROW(sched_get_priority_max), ROW(sched_get_priority_min), ROW(sched_rr_get_interval), ROW(mlock), ROW(munlock),
    ROW(mlockall), ROW(munlockall), ROW(mlock2), ROW(arch_prctl), ROW(sync), ROW(gettid),
    ROW(readahead), ROW(futex), ROW(sched_getaffinity), ROW(epoll_create), ROW(epoll_create1), ROW(epoll_wait),
    ROW(epoll_ctl), ROW(epoll_pwait), ROW(epoll_pwait2), ROW(set_tid_address), ROW(restart_syscall),
    ROW(fadvise64), ROW(timer_create), ROW(timer_settime), ROW(timer_gettime), ROW(timer_getoverrun),
    ROW(timer_delete), ROW(clock_gettime), ROW(clock_getres), ROW(clock_nanosleep), ROW(ioprio_get), ROW(pselect6),
    ROW(ppoll), ROW(set_robust_list), ROW(get_robust_list), ROW(splice), ROW(tee), ROW(sync_file_range),
    ROW(signalfd), ROW(signalfd4), ROW(timerfd_create), ROW(timerfd_settime), ROW(timerfd_gettime),
    ROW(eventfd), ROW(eventfd2), ROW(fallocate), ROW(pipe2), ROW(preadv), ROW(pwritev), ROW(preadv2),
    ROW(pwritev2), ROW(syncfs), ROW(getcpu), ROW(sched_getattr), ROW(getrandom), ROW(membarrier),
    ROW(copy_file_range), ROW(pkey_mprotect), ROW(pkey_alloc), ROW(pkey_free), ROW(rseq),
    ROW(futex_waitv), ROW(landlock_restrict_self),
    ROW_NEW(map_shadow_stack, 453, ALLOW_ALL), ROW_NEW(futex_wake, 454, ALLOW_ALL),
    ROW_NEW(futex_wait, 455, ALLOW_ALL), ROW_NEW(futex_requeue, 456, ALLOW_ALL), ROW_NEW(mseal, 462, ALLOW_ALL),
    ROW(setuid), ROW(setgid), ROW(setreuid), ROW(setregid), ROW(setgroups), ROW(setresuid),
    ROW(setresgid), ROW(setfsuid), ROW(setfsgid), ROW(capset), /* no capability is left for these to use */
    ROW(fgetxattr), ROW(flistxattr), ROW(pidfd_send_signal), /* the descriptor comes from pidfd_open, below */

    /* A table of descriptors of one thread's own is not seen from outside, nor are the files that are open there. */
    {"close_range", -1, ALLOW_ALL, 1,
     {{1, {{.argument = 2, .any_set = 1, .mask = 2 /* CLOSE_RANGE_UNSHARE */}}, VERDICT_EPERM, IN_PROCESS | IN_ZYGOTE}}},

    /* Huge pages that the host has set aside are in no memory limit. Shared memory without a file is in nobody's resident
     * size once it is unmapped: a watchdog could not count it. */
    {"mmap", -1, ALLOW_ALL, 2,
     {ANY_OF(3, 0x40000 /* MAP_HUGETLB */),
      {1, {{.argument = 3, .mask = 0x23 /* MAP_TYPE bits and MAP_ANONYMOUS */, .value = 0x21}}, VERDICT_EPERM, IN_PROCESS}}},

    /* Nor could it count memory of the kernel: of a huge page, all of it stays for a pipe that holds four kilobytes;
     * rules for files are a hundred bytes each, and as many as anybody likes. */
    ROW_AS(vmsplice, COUNTED_MEMORY_ONLY), ROW_AS(landlock_create_ruleset, NO_RULES_OF_ITS_OWN),
    ROW_AS(landlock_add_rule, NO_RULES_OF_ITS_OWN),

    /* Files by name. */
    ROW(stat), ROW(lstat), ROW(access), ROW(rename), ROW(mkdir), ROW(rmdir), ROW(link), ROW(unlink), ROW(symlink),
    ROW(readlink), ROW(mkdirat), ROW(newfstatat), ROW(unlinkat), ROW(renameat), ROW(renameat2), ROW(linkat),
    ROW(symlinkat), ROW(readlinkat), ROW(faccessat), ROW(faccessat2), ROW(statx), ROW_AS(getxattr, NO_ATTRIBUTES), ROW_AS(lgetxattr, NO_ATTRIBUTES),
    ROW_AS(listxattr, NO_ATTRIBUTES), ROW_AS(llistxattr, NO_ATTRIBUTES),
    {"open", -1, ALLOW_ALL, 3,
     {CREATES_SET_ID(1, 2, O_CREAT | TMPFILE_BIT), EMPTIES_WITH(1, O_RDONLY), EMPTIES_WITH(1, 3)}},
    {"openat", -1, ALLOW_ALL, 3,
     {CREATES_SET_ID(2, 3, O_CREAT | TMPFILE_BIT), EMPTIES_WITH(2, O_RDONLY), EMPTIES_WITH(2, 3)}},
    {"creat", -1, ALLOW_ALL, 1, {ANY_OF(1, SET_ID)}},
    /* Its flags are behind a pointer, so the setuid rule could not be checked; callers fall back to openat. */
    ROW_AS(openat2, ENOSYS_ALL),

    /* What Landlock does not control: with the caller's own uid these reach every file of the caller. */
    {"chmod", -1, ASK_WITH_CALLERS_UID, 1, {ANY_OF(1, SET_ID)}},
    {"fchmodat", -1, ASK_WITH_CALLERS_UID, 1, {ANY_OF(2, SET_ID)}},
    {"fchmodat2", 452, {VERDICT_ALLOW, VERDICT_ALLOW, VERDICT_ALLOW, VERDICT_ENOSYS, VERDICT_ALLOW}, 1, {ANY_OF(2, SET_ID)}},
    /* A descriptor that was opened for reading is enough for these. */
    {"fchmod", -1, ASK_WITH_CALLERS_UID, 1, {ANY_OF(1, SET_ID)}},
    ROW_AS(fchown, NOT_WITH_CALLERS_UID), ROW_AS(fsetxattr, NO_ATTRIBUTES),
    ROW_AS(fremovexattr, NO_ATTRIBUTES),
    ROW_AS(truncate, ASK_WITHOUT_NAMESPACES), ROW_AS(chown, NOT_WITH_CALLERS_UID),
    ROW_AS(lchown, NOT_WITH_CALLERS_UID), ROW_AS(fchownat, NOT_WITH_CALLERS_UID),
    ROW_AS(utime, OWN_NAMESPACES_ONLY), ROW_AS(utimes, OWN_NAMESPACES_ONLY),
    ROW_AS(futimesat, OWN_NAMESPACES_ONLY),
    ROW_AS(utimensat, ASK_WITHOUT_NAMESPACES),
    ROW_AS(setxattr, NO_ATTRIBUTES), ROW_AS(lsetxattr, NO_ATTRIBUTES),
    ROW_AS(removexattr, NO_ATTRIBUTES), ROW_AS(lremovexattr, NO_ATTRIBUTES),
    ROW_AS(inotify_init, OWN_NAMESPACES_ONLY), ROW_AS(inotify_init1, OWN_NAMESPACES_ONLY),
    ROW_AS(inotify_add_watch, OWN_NAMESPACES_ONLY), ROW_AS(inotify_rm_watch, OWN_NAMESPACES_ONLY),

    /* Other processes, by number. */
    ROW_AS(kill, ASK_WITH_CALLERS_UID), ROW_AS(tkill, ASK_WITH_CALLERS_UID),
    ROW_AS(tgkill, ASK_WITH_CALLERS_UID), ROW_AS(rt_sigqueueinfo, ASK_WITH_CALLERS_UID),
    ROW_AS(rt_tgsigqueueinfo, ASK_WITH_CALLERS_UID), ROW_AS(pidfd_open, ASK_WITH_CALLERS_UID),
    /* A core limit of exactly 1 keeps the host's crash handler away (0 does not): it stays. Nobody sets limits of
     * others: those of init would end the box without a word. */
    {"prlimit64", -1, {VERDICT_EPERM, VERDICT_EPERM, VERDICT_EPERM, VERDICT_ASK, VERDICT_ALLOW}, 3,
     {{2, {IS(1, RLIMIT_CORE), {.argument = 2, .any_set = 1, .mask = UINT32_MAX}}, VERDICT_EPERM},
      {2, {IS(1, RLIMIT_CORE), {.argument = 2, .any_set = 1, .is_high = 1, .mask = UINT32_MAX}}, VERDICT_EPERM},
      EQUALS_THEN(0, 0, VERDICT_ALLOW)}},
    {"setrlimit", -1, ALLOW_ALL, 1, {EQUALS(0, RLIMIT_CORE)}},
    {"sched_setaffinity", -1, ASK_WITH_CALLERS_UID, 1, {EQUALS_THEN(0, 0, VERDICT_ALLOW)}},
    {"sched_setparam", -1, ASK_WITH_CALLERS_UID, 1, {EQUALS_THEN(0, 0, VERDICT_ALLOW)}},
    {"sched_setscheduler", -1, ASK_WITH_CALLERS_UID, 1, {EQUALS_THEN(0, 0, VERDICT_ALLOW)}},
    {"sched_setattr", -1, ASK_WITH_CALLERS_UID, 1, {EQUALS_THEN(0, 0, VERDICT_ALLOW)}},
    {"setpriority", -1, NOT_WITH_CALLERS_UID, 1, {SELF_ONLY(0)}},
    {"ioprio_set", -1, NOT_WITH_CALLERS_UID, 1, {SELF_ONLY(1)}},
    ROW_AS(ptrace, EPERM_ALL), ROW_AS(process_vm_readv, EPERM_ALL), ROW_AS(process_vm_writev, EPERM_ALL),
    ROW_AS(process_madvise, EPERM_ALL), ROW_AS(process_mrelease, EPERM_ALL), ROW_AS(pidfd_getfd, EPERM_ALL),
    ROW_AS(kcmp, EPERM_ALL),

    /* Calls with a second meaning in their arguments. */
    /* A thread with descriptors of its own could keep files that nobody counts. */
    {"clone", -1, ALLOW_ALL, 5,
     {{1, {IS(0, FORK_INIT_FLAGS)}, VERDICT_ASK, IN_CONTAINER | IN_GRANTED}, /* a fork that the host ordered, or not */
      {1, {IS(0, FORK_PLACE_FLAGS)}, VERDICT_ASK, IN_CONTAINER | IN_GRANTED},
      {1, {IS(0, FORK_PROGRAM_FLAGS)}, VERDICT_ASK, IN_CONTAINER | IN_GRANTED},
      ANY_OF(0, NEW_NAMESPACES),
      {1, {{.argument = 0, .mask = CLONE_THREAD | CLONE_FILES, .value = CLONE_THREAD}}, VERDICT_EPERM, IN_PROCESS | IN_ZYGOTE}}},
    ROW_AS(clone3, ENOSYS_ALL), /* flags behind a pointer; the C library falls back to clone */
    ROW_AS(unshare, EPERM_ALL),
    {"ioctl", -1, ALLOW_ALL, 15,
     {EQUALS(1, 0x5412) /* TIOCSTI */, EQUALS(1, 0x541c) /* TIOCLINUX */, EQUALS(1, 0x541d) /* TIOCCONS */,
      EQUALS(1, 0x5423) /* TIOCSETD */, EQUALS(1, 0x8901) /* FIOSETOWN */, EQUALS(1, 0x8902) /* SIOCSPGRP */,
      /* Attributes of a file: a descriptor opened for reading is enough for these. */
      EQUALS(1, 0x40086602) /* FS_IOC_SETFLAGS */, EQUALS(1, 0x40046602) /* the same, 32 bits */,
      EQUALS(1, 0x401c5820) /* FS_IOC_FSSETXATTR */, EQUALS(1, 0x40087602) /* FS_IOC_SETVERSION */,
      EQUALS(1, 0x40806685) /* FS_IOC_ENABLE_VERITY */, EQUALS(1, 0x800c6613) /* FS_IOC_SET_ENCRYPTION_POLICY */,
      /* btrfs: snapshots and subvolumes of a directory that was opened for reading; copies by reference are of the same
       * family, for which programs have another way. */
      {1, {{.argument = 1, .mask = 0xff00, .value = 0x9400}}, VERDICT_EPERM, IN_PROCESS | IN_ZYGOTE},
      /* Of any socket: bridges, VLANs and bonds, whose modules the kernel loads for who asks. The first process of a fork
       * has the capabilities to make them, in a network of its own. */
      {1, {{.argument = 1, .mask = 0xffffffc0, .value = 0x8980}}, VERDICT_EPERM},
      {1, {{.argument = 1, .mask = 0xfffffffe, .value = 0x8940 /* SIOCGIFBR, SIOCSIFBR */}}, VERDICT_EPERM}}},
    /* An owner of a descriptor gets its signals: a way of signalling processes outside. */
    {"fcntl", -1, ALLOW_ALL, 3,
     {EQUALS(1, 8) /* F_SETOWN */, EQUALS(1, 15) /* F_SETOWN_EX */, EQUALS(1, 1024) /* F_SETLEASE */}},
    {"prctl", -1, ALLOW_ALL, 2, {EQUALS(0, 35) /* PR_SET_MM */, EQUALS(0, 53) /* PR_SET_SPECULATION_CTRL */}},
    {"personality", -1, EPERM_ALL, 3,
     {EQUALS_THEN(0, 0, VERDICT_ALLOW), EQUALS_THEN(0, 0xffffffff, VERDICT_ALLOW),
      EQUALS_THEN(0, 0x20000, VERDICT_ALLOW)}},
    {"seccomp", -1, ALLOW_ALL, 1, {{1, {{.argument = 1, .any_set = 1, .mask = 8}}, VERDICT_EPERM, ~(unsigned)IN_ZYGOTE} /* a listener: ours is the only one */}},
    {"mknod", -1, ALLOW_ALL, 3,
     {ANY_OF(1, SET_ID), {1, {{.argument = 1, .mask = S_IFMT, .value = S_IFCHR}}, VERDICT_EPERM},
      {1, {{.argument = 1, .mask = S_IFMT, .value = S_IFBLK}}, VERDICT_EPERM}}},
    {"mknodat", -1, ALLOW_ALL, 3,
     {ANY_OF(2, SET_ID), {1, {{.argument = 2, .mask = S_IFMT, .value = S_IFCHR}}, VERDICT_EPERM},
      {1, {{.argument = 2, .mask = S_IFMT, .value = S_IFBLK}}, VERDICT_EPERM}}},
    {"memfd_create", -1, {VERDICT_ALLOW, VERDICT_ALLOW, VERDICT_ENOSYS, VERDICT_ENOSYS, VERDICT_ALLOW}, 1,
     {{1, {{.argument = 1, .any_set = 1, .mask = 4 /* MFD_HUGETLB: not in the memory limit */}}, VERDICT_EPERM}}},

    /* Sockets: only between processes of the box. Without a network namespace an AF_UNIX socket can reach the
     * host's daemons by path, which Landlock does not control: pairs only. */
    {"socket", -1, EPERM_ALL, 1, {{1, {IS(0, AF_UNIX)}, VERDICT_ALLOW, IN_CONTAINER}}},
    /* A datagram pair could still send to any name; connected kinds cannot. */
    {"socketpair", -1, EPERM_ALL, 3,
     {{1, {IS(0, AF_UNIX)}, VERDICT_ALLOW, IN_CONTAINER},
      {2, {IS(0, AF_UNIX), {.argument = 1, .mask = 15, .value = SOCK_STREAM}}, VERDICT_ALLOW, IN_GRANTED | IN_PROCESS | IN_ZYGOTE},
      {2, {IS(0, AF_UNIX), {.argument = 1, .mask = 15, .value = SOCK_SEQPACKET}}, VERDICT_ALLOW, IN_GRANTED | IN_PROCESS | IN_ZYGOTE}}},
    ROW_AS(connect, NO_HOST_SOCKETS), ROW_AS(bind, NO_HOST_SOCKETS), ROW_AS(listen, NO_HOST_SOCKETS),
    ROW_AS(accept, NO_HOST_SOCKETS), ROW_AS(accept4, NO_HOST_SOCKETS),
    ROW(sendto), ROW(recvfrom), ROW(sendmsg), ROW(recvmsg), ROW(shutdown), ROW(getsockname), ROW(getpeername),
    ROW(setsockopt), ROW(getsockopt), ROW(recvmmsg), ROW(sendmmsg),

    /* System V and POSIX message passing: own in an ipc namespace, the host's without. */
    {"shmget", -1, OWN_NAMESPACES_ONLY, 1, {ANY_OF(2, 04000 /* SHM_HUGETLB */)}}, ROW_AS(shmat, OWN_NAMESPACES_ONLY), ROW_AS(shmctl, OWN_NAMESPACES_ONLY),
    ROW_AS(shmdt, OWN_NAMESPACES_ONLY), ROW_AS(semget, OWN_NAMESPACES_ONLY), ROW_AS(semop, OWN_NAMESPACES_ONLY),
    ROW_AS(semctl, OWN_NAMESPACES_ONLY), ROW_AS(semtimedop, OWN_NAMESPACES_ONLY),
    ROW_AS(msgget, OWN_NAMESPACES_ONLY), ROW_AS(msgsnd, OWN_NAMESPACES_ONLY), ROW_AS(msgrcv, OWN_NAMESPACES_ONLY),
    ROW_AS(msgctl, OWN_NAMESPACES_ONLY), ROW_AS(mq_open, OWN_NAMESPACES_ONLY),
    ROW_AS(mq_unlink, OWN_NAMESPACES_ONLY), ROW_AS(mq_timedsend, OWN_NAMESPACES_ONLY),
    ROW_AS(mq_timedreceive, OWN_NAMESPACES_ONLY), ROW_AS(mq_notify, OWN_NAMESPACES_ONLY),
    ROW_AS(mq_getsetattr, OWN_NAMESPACES_ONLY),

    /* Refused, visibly: programs try these in good faith. */
    ROW_AS(io_uring_setup, EPERM_ALL), ROW_AS(io_uring_enter, EPERM_ALL), ROW_AS(io_uring_register, EPERM_ALL),
    ROW_AS(userfaultfd, EPERM_ALL), ROW_AS(perf_event_open, EPERM_ALL), ROW_AS(keyctl, EPERM_ALL),
    ROW_AS(add_key, EPERM_ALL), ROW_AS(request_key, EPERM_ALL), ROW_AS(fanotify_init, EPERM_ALL),
    ROW_AS(fanotify_mark, EPERM_ALL), ROW_AS(name_to_handle_at, EPERM_ALL), ROW_AS(mbind, EPERM_ALL),
    ROW_AS(set_mempolicy, EPERM_ALL), ROW_AS(get_mempolicy, EPERM_ALL), ROW_AS(migrate_pages, EPERM_ALL),
    ROW_AS(move_pages, EPERM_ALL), ROW_AS(modify_ldt, EPERM_ALL), ROW_AS(adjtimex, EPERM_ALL),
    ROW_AS(clock_adjtime, EPERM_ALL), ROW_AS(syslog, EPERM_ALL), ROW_AS(vhangup, EPERM_ALL),
    ROW_AS(chroot, EPERM_ALL), ROW_AS(sethostname, EPERM_ALL), ROW_AS(setdomainname, EPERM_ALL),
    ROW_AS(settimeofday, EPERM_ALL), ROW_AS(clock_settime, EPERM_ALL),

    /* The end of the box. */
    ROW_AS(mount, KILL_ALL), ROW_AS(umount2, KILL_ALL), ROW_AS(pivot_root, KILL_ALL), ROW_AS(fsopen, KILL_ALL),
    ROW_AS(fsconfig, KILL_ALL), ROW_AS(fsmount, KILL_ALL), ROW_AS(fspick, KILL_ALL), ROW_AS(move_mount, KILL_ALL),
    ROW_AS(open_tree, KILL_ALL), ROW_AS(mount_setattr, KILL_ALL), ROW_AS(setns, KILL_ALL),
    ROW_AS(open_by_handle_at, KILL_ALL), ROW_AS(bpf, KILL_ALL), ROW_AS(kexec_load, KILL_ALL),
    ROW_AS(kexec_file_load, KILL_ALL), ROW_AS(init_module, KILL_ALL), ROW_AS(finit_module, KILL_ALL),
    ROW_AS(delete_module, KILL_ALL), ROW_AS(reboot, KILL_ALL), ROW_AS(swapon, KILL_ALL),
    ROW_AS(swapoff, KILL_ALL), ROW_AS(iopl, KILL_ALL), ROW_AS(ioperm, KILL_ALL), ROW_AS(quotactl, KILL_ALL),
    ROW_AS(quotactl_fd, KILL_ALL), ROW_AS(acct, KILL_ALL), ROW_AS(lookup_dcookie, KILL_ALL),
};

/* clang-format on */
const size_t policy_row_count = sizeof policy_rows / sizeof *policy_rows;
