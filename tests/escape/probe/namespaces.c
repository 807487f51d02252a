/* Namespaces: which ones the box is in, and that it makes and joins no others. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Kernels give the first namespace of each kind a fixed number (include/linux/proc_ns.h); those of mnt and
 * net are fixed from 6.18 on only. A host that is itself in namespaces tells its own in
 * CLOCHE_PROBE_NAMESPACES, as the links of /proc/self/ns read, separated by spaces. */
static const struct {
    const char *kind;
    unsigned first;
} first_namespaces[] = {
    {"ipc", 0xEFFFFFFFU},    {"uts", 0xEFFFFFFEU},  {"user", 0xEFFFFFFDU}, {"pid", 0xEFFFFFFCU},
    {"cgroup", 0xEFFFFFFBU}, {"time", 0xEFFFFFFAU}, {"net", 0xEFFFFFF9U},  {"mnt", 0xEFFFFFF8U},
};

static enum verdict namespace_is_own(const void *kind)
{
    char path[64], found[64], first[64] = "";
    snprintf(path, sizeof path, "/proc/self/ns/%s", (const char *)kind);
    ssize_t length = readlink(path, found, sizeof found - 1);
    if (length < 0)
        return undecided("%s: %s", path, error_name(errno));
    found[length] = '\0';
    for (size_t i = 0; i < sizeof first_namespaces / sizeof *first_namespaces; i++)
        if (strcmp(first_namespaces[i].kind, kind) == 0)
            snprintf(first, sizeof first, "%s:[%u]", (const char *)kind, first_namespaces[i].first);
    const char *of_host = host_value("NAMESPACES");
    if (strcmp(found, first) == 0 || (of_host && strstr(of_host, found)))
        return broke("%s is the host's", found);
    return held("%s", found);
}

/* In a child: what is made ends with it. */
static int clone_with(const void *flags)
{
    long child = syscall(SYS_clone, (unsigned long)(uintptr_t)flags | SIGCHLD, 0, 0, 0, 0);
    if (child == 0)
        _exit(0);
    if (child < 0)
        return errno;
    waitpid((pid_t)child, NULL, __WALL);
    return 0;
}

static enum verdict clone_is_refused(const void *flags)
{
    return judge_in_child("clone with a new namespace", clone_with, flags);
}

static int unshare_with(const void *flags)
{
    return unshare((int)(uintptr_t)flags) < 0 ? errno : 0;
}

static enum verdict unshare_is_refused(const void *flags)
{
    return judge_in_child("unshare", unshare_with, flags);
}

static int unshare_and_open_packet_socket(const void *unused)
{
    (void)unused;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
        return errno;
    return socket(AF_PACKET, SOCK_RAW, 0) < 0 ? errno : 0;
}

static enum verdict user_namespace_has_no_network(const void *unused)
{
    return judge_in_child("packet socket in a user namespace of our own", unshare_and_open_packet_socket,
                          unused);
}

static int join(const void *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? EACCES : errno;
    return setns(fd, 0) < 0 ? errno : 0;
}

static enum verdict namespace_cannot_be_joined(const void *path)
{
    char expanded[PATH_MAX];
    if (!path_expand(path, expanded, sizeof expanded))
        return undecided("the runner named no process");
    char label[PATH_MAX + 16];
    snprintf(label, sizeof label, "setns to %s", expanded);
    return judge_in_child(label, join, expanded);
}

static enum verdict host_name_is_hidden(const void *unused)
{
    (void)unused;
    const char *of_host = host_value("HOSTNAME");
    struct utsname name;
    if (!of_host || uname(&name) < 0)
        return undecided("the runner did not say the host's name");
    if (strcmp(name.nodename, of_host) == 0)
        return broke("the host name is the host's: %s", name.nodename);
    return held("the host name is %s", name.nodename);
}

static enum verdict host_uptime_is_hidden(const void *unused)
{
    (void)unused;
    const char *of_host = host_value("UPTIME");
    struct timespec now;
    if (!of_host || clock_gettime(CLOCK_BOOTTIME, &now) < 0)
        return undecided("the runner did not say the host's uptime");
    /* The host's clock goes on from what the runner read; any other is elsewhere. */
    long since = (long)now.tv_sec - atol(of_host);
    if (since >= 0 && since < 600)
        return broke("the uptime of %ld s is the host's", (long)now.tv_sec);
    return held("the uptime is %ld s", (long)now.tv_sec);
}

#define OWN(kind, step)                                                                                      \
    {                                                                                                        \
        kind "_namespace_is_not_the_hosts", ON_CONTAINER, RETURNS, step, namespace_is_own, kind,             \
            "The box is in a " kind " namespace of its own."                                                 \
    }
#define FLAGS(flags) ((const void *)(uintptr_t)(flags))
#define ROOTED       "seccomp," HOST_ROOT
#define CLONES(name, flag)                                                                                   \
    {                                                                                                        \
        name, ON_BOTH, RETURNS, ROOTED, clone_is_refused, FLAGS(flag), "clone does not take " #flag "."      \
    }
#define UNSHARES(name, flag)                                                                                 \
    {                                                                                                        \
        name, ON_BOTH, RETURNS, ROOTED, unshare_is_refused, FLAGS(flag), "unshare does not take " #flag "."  \
    }

static const struct probe rows[] = {
    OWN("user", "user_namespace"),
    OWN("pid", HOST_PIDS),
    OWN("net", "network_namespace"),
    OWN("ipc", "ipc_namespace"),
    OWN("uts", "uts_namespace"),
    OWN("cgroup", "cgroup_namespace"),
    OWN("time", "time_namespace"),
    {"host_name_is_hidden", ON_CONTAINER, RETURNS, "uts_namespace", host_name_is_hidden, NULL,
     "The kernel does not tell the host's name."},
    {"host_uptime_is_hidden", ON_CONTAINER, RETURNS, "time_namespace", host_uptime_is_hidden, NULL,
     "The clock since boot is not the host's."},

    {"clone_of_a_user_namespace_is_denied", ON_BOTH, RETURNS, "seccomp", clone_is_refused,
     FLAGS(CLONE_NEWUSER),
     "clone does not take CLONE_NEWUSER, which needs no privilege and gives all of them inside."},
    CLONES("clone_of_a_mount_namespace_is_denied", CLONE_NEWNS),
    CLONES("clone_of_a_pid_namespace_is_denied", CLONE_NEWPID),
    CLONES("clone_of_a_network_namespace_is_denied", CLONE_NEWNET),
    CLONES("clone_of_an_ipc_namespace_is_denied", CLONE_NEWIPC),
    CLONES("clone_of_a_uts_namespace_is_denied", CLONE_NEWUTS),
    CLONES("clone_of_a_cgroup_namespace_is_denied", CLONE_NEWCGROUP),
    {"unshare_of_a_user_namespace_is_denied", ON_BOTH, RETURNS, "seccomp", unshare_is_refused,
     FLAGS(CLONE_NEWUSER), "unshare does not take CLONE_NEWUSER."},
    UNSHARES("unshare_of_a_mount_namespace_is_denied", CLONE_NEWNS),
    UNSHARES("unshare_of_a_network_namespace_is_denied", CLONE_NEWNET),
    UNSHARES("unshare_of_a_time_namespace_is_denied", CLONE_NEWTIME),
    {"user_namespace_does_not_lead_to_networking", ON_BOTH, RETURNS, "seccomp", user_namespace_has_no_network,
     NULL, "A user namespace of its own does not give the box raw sockets."},
    {"supervisor_namespaces_cannot_be_joined", ON_BOTH, MAY_BE_KILLED, "seccomp," ANY_LANDLOCK "," HOST_ROOT,
     namespace_cannot_be_joined, "/proc/{parent}/ns/net",
     "The namespaces of the process above cannot be entered."},
    {"host_namespaces_cannot_be_joined", ON_BOTH, MAY_BE_KILLED,
     "seccomp,pid_namespace," ANY_LANDLOCK "," HOST_ROOT, namespace_cannot_be_joined, "/proc/{pid}/ns/net",
     "The namespaces of a process of the host cannot be entered."},
};

PROBE_GROUP(namespaces, rows);
