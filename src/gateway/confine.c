#include "gateway/confine.h"

#include "base/scope.h"
#include "os/capabilities.h"
#include "os/landlock.h"
#include "os/seccomp/own_filter.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum { DNS_PORT = 53, OWN_BYTES = 192 << 20, OPEN_FILES = 64 };

static const char *const allowed[] = {
    "recvfrom",        "recvmsg",       "recvmmsg",     "read",           "readv",
    "write",           "writev",        "connect",      "shutdown",       "getsockopt",
    "getsockname",     "getpeername",   "poll",         "ppoll",          "select",
    "pselect6",        "epoll_create1", "epoll_ctl",    "epoll_wait",     "epoll_pwait",
    "eventfd2",        "pipe2",         "close",        "openat",         "stat",
    "fstat",           "newfstatat",    "lseek",        "pread64",        "munmap",
    "mremap",          "madvise",       "brk",          "futex",          "clock_gettime",
    "clock_getres",    "gettimeofday",  "time",         "nanosleep",      "clock_nanosleep",
    "getrandom",       "getpid",        "gettid",       "getuid",         "geteuid",
    "getgid",          "getegid",       "rt_sigaction", "rt_sigprocmask", "rt_sigreturn",
    "restart_syscall", "exit",          "exit_group",   "sysinfo",        "uname",
    "getrlimit",
};

/* No part of it makes these, and break-ins are made of them. */
static const char *const fatal[] = {
    "execve",
    "execveat",
    "fork",
    "vfork",
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "mount",
    "unshare",
    "setns",
    "bpf",
    "open_by_handle_at",
    "userfaultfd",
    "perf_event_open",
    "keyctl",
    "add_key",
    "bind",
    "listen",
    "accept",
    "accept4",
    "pidfd_getfd",
};

/* Landlock knows a TCP socket by its protocol, and connecting by the call of that name. One of another
 * protocol that speaks TCP all the same (MPTCP) passes by its ports. */
#define SOCKETS(family)                                                                                      \
    SOCKET(family, SOCK_STREAM, 0), SOCKET(family, SOCK_STREAM, IPPROTO_TCP), SOCKET(family, SOCK_DGRAM, 0), \
        SOCKET(family, SOCK_DGRAM, IPPROTO_UDP)
#define SOCKET(family, type, protocol)                                                                       \
    {                                                                                                        \
        "socket", 0,                                                                                         \
        {                                                                                                    \
            OWN_FILTER_IS(0, family), OWN_FILTER_TYPE(1, type), OWN_FILTER_IS(2, protocol)                   \
        }                                                                                                    \
    }

static const struct own_filter_condition conditions[] = {
    SOCKETS(AF_INET),
    SOCKETS(AF_INET6),
    /* … and so does what connects by sending */
    {"sendto", 0, {OWN_FILTER_CLEAR(3, MSG_FASTOPEN)}},
    /* Nothing lingers, and (there is no sendmsg) no descriptor goes out: the last to close one that does
     * would be who started us. */
    {"setsockopt", 0, {OWN_FILTER_IS(1, IPPROTO_TCP), OWN_FILTER_IS(2, TCP_NODELAY)}},
    {"setsockopt", 0, {OWN_FILTER_IS(1, IPPROTO_IP), OWN_FILTER_IS(2, IP_RECVERR)}},
    {"setsockopt", 0, {OWN_FILTER_IS(1, IPPROTO_IPV6), OWN_FILTER_IS(2, IPV6_RECVERR)}},
    /* libcurl wakes itself by one */
    OWN_FILTER_PAIR(SOCK_STREAM),
    OWN_FILTER_PAIR(SOCK_SEQPACKET),
    OWN_FILTER_DESCRIPTORS,
    {"mmap", 0, {OWN_FILTER_CLEAR(2, PROT_EXEC)}},
    {"mprotect", 0, {OWN_FILTER_CLEAR(2, PROT_EXEC)}},
    {"ioctl", 0, {OWN_FILTER_IS(1, FIONREAD)}},
    {"ioctl", 0, {OWN_FILTER_IS(1, FIONBIO)}},
    {"prlimit64", 0, {OWN_FILTER_IS(2, 0)}}, /* looks only */
};

static int restrict_files(const struct fetch_rule *rules, size_t count)
{
    static char *const names[] = {"/etc/hosts",    "/etc/resolv.conf", "/etc/nsswitch.conf",
                                  "/etc/gai.conf", "/etc/host.conf",   "/etc/services"};
    const struct landlock_paths read = {names, sizeof names / sizeof *names, LANDLOCK_READ};
    const char *unused;
    int abi = landlock_abi();
    if (abi <= 0)
        return abi < 0 ? abi : -EOPNOTSUPP;
    scope_fd ruleset =
        landlock_ruleset_new(abi, true, LANDLOCK_SCOPE_SIGNALS | LANDLOCK_SCOPE_ABSTRACT_SOCKETS);
    int status = ruleset < 0 ? ruleset : landlock_ruleset_grant_all(ruleset, abi, &read, 1, &unused);
    if (status == 0)
        status = landlock_ruleset_grant_port(ruleset, abi, DNS_PORT);
    for (size_t i = 0; status == 0 && i < count; i++) {
        status = landlock_ruleset_grant_port(ruleset, abi, rules[i].port ? rules[i].port : 80);
        if (status == 0 && !rules[i].port)
            status = landlock_ruleset_grant_port(ruleset, abi, 443);
    }
    return status < 0 ? status : landlock_ruleset_enforce(ruleset);
}

static int restrict_resources(const struct fetch_limits *limits)
{
    /* A body and an answer, which grows by being copied. */
    const rlim_t bytes = (rlim_t)(OWN_BYTES + limits->value[FETCH_body] + 3 * limits->value[FETCH_response]);
    const struct {
        int resource;
        struct rlimit limit;
    } rows[] = {{RLIMIT_CORE, {0, 0}},
                {RLIMIT_FSIZE, {0, 0}},
                {RLIMIT_NOFILE, {OPEN_FILES, OPEN_FILES}},
                {RLIMIT_DATA, {bytes, bytes}},
                {RLIMIT_AS, {bytes, bytes}}}; /* shared memory, stacks and page tables, too */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (setrlimit((__rlimit_resource_t)rows[i].resource, &rows[i].limit) < 0)
            return -errno;
    return 0;
}

int gateway_confine(const struct fetch_rule *rules, size_t count, const struct fetch_limits *limits,
                    struct error *err)
{
    if (!capabilities_are_none() || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        return error_layer(err, "capabilities", -EPERM, "the gateway has privileges that it must not have");
    int status = restrict_files(rules, count);
    if (status < 0)
        return error_layer(err, "landlock", status,
                           "the gateway's files and ports cannot be restricted by Landlock");
#ifdef __SANITIZE_ADDRESS__
    (void)limits;
    return 0; /* sanitizers start processes and read /proc: only the rest of the gateway is tested so */
#endif
    status = restrict_resources(limits);
    if (status < 0)
        return error_layer(err, "rlimits", status, "the gateway's resources cannot be limited");
    const struct own_filter filter = {.allowed = allowed,
                                      .allowed_count = sizeof allowed / sizeof *allowed,
                                      .fatal = fatal,
                                      .fatal_count = sizeof fatal / sizeof *fatal,
                                      .conditions = conditions,
                                      .condition_count = sizeof conditions / sizeof *conditions};
    status = own_filter_install(&filter);
    return status < 0 ? error_layer(err, "seccomp", status, "the gateway's own filter cannot be installed")
                      : 0;
}
