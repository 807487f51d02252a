/* Privileges: none are held, none can be gained, and what needs them does not work. What is tried is harmless
 * even where it works: nonsense that is found out last, or a change of the probe's own, short life. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/wait.h>
#include <unistd.h>

static enum verdict no_capability_is_held(const void *unused)
{
    (void)unused;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}, {0}};
    if (syscall(SYS_capget, &header, data) < 0)
        return undecided("capget: %s", error_name(errno));
    for (int i = 0; i < 2; i++)
        if (data[i].effective | data[i].permitted | data[i].inheritable)
            return broke("capabilities are held: permitted %08x%08x", data[1].permitted, data[0].permitted);
    for (int capability = 0; capability < 64; capability++)
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, capability, 0, 0) == 1)
            return broke("capability %d is ambient", capability);
    return held("no capability is held");
}

static enum verdict bounding_set_is_empty(const void *unused)
{
    (void)unused;
    for (int capability = 0; capability < 64; capability++)
        if (prctl(PR_CAPBSET_READ, capability, 0, 0, 0) == 1)
            return broke("capability %d could be gained by a program", capability);
    return held("the bounding set is empty");
}

static enum verdict no_new_privs_is_on(const void *unused)
{
    (void)unused;
    int on = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
    if (on < 0)
        return undecided("PR_GET_NO_NEW_PRIVS: %s", error_name(errno));
    return on ? held("no_new_privs is on") : broke("no_new_privs is off");
}

static enum verdict user_is_not_root(const void *unused)
{
    (void)unused;
    uid_t uid[3];
    gid_t gid[3], groups[256];
    if (getresuid(&uid[0], &uid[1], &uid[2]) < 0 || getresgid(&gid[0], &gid[1], &gid[2]) < 0)
        return undecided("the ids cannot be read: %s", error_name(errno));
    for (int i = 0; i < 3; i++)
        if (uid[i] == 0 || gid[i] == 0)
            return broke("uid %d, gid %d", (int)uid[i], (int)gid[i]);
    int count = getgroups(sizeof groups / sizeof *groups, groups);
    for (int i = 0; i < count; i++)
        if (groups[i] == 0)
            return broke("the group of root is held");
    return held("uid %d, gid %d, %d groups", (int)uid[1], (int)gid[1], count);
}

/* Lines of "inside outside count": the host's root must not be the outside of any. */
static enum verdict root_is_not_mapped(const void *path)
{
    char text[4096];
    if (file_read(path, text, sizeof text) < 0)
        return undecided("%s: %s", (const char *)path, error_name(errno));
    char *rest = text, *line;
    unsigned long inside, outside, count;
    while ((line = strsep(&rest, "\n")))
        if (sscanf(line, "%lu %lu %lu", &inside, &outside, &count) == 3 && outside == 0)
            return broke("%lu in the box is the host's root", inside);
    return held("the host's root is not mapped");
}

static int become_root(const void *unused)
{
    (void)unused;
    return setresuid(0, 0, 0) < 0 ? (errno == EINVAL ? EPERM : errno) : 0; /* EINVAL: not mapped */
}

static int become_root_group(const void *unused)
{
    (void)unused;
    return setresgid(0, 0, 0) < 0 ? (errno == EINVAL ? EPERM : errno) : 0;
}

static int become_nobody(const void *unused)
{
    (void)unused;
    return setresuid(65534, 65534, 65534) < 0 ? (errno == EINVAL ? EPERM : errno) : 0;
}

static int drop_groups(const void *unused)
{
    (void)unused;
    return setgroups(0, NULL) < 0 ? errno : 0;
}

static int take_capability(const void *unused)
{
    (void)unused;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{1U << CAP_SYS_CHROOT, 1U << CAP_SYS_CHROOT, 0}, {0}};
    return syscall(SYS_capset, &header, data) < 0 ? errno : 0;
}

static int set_secure_bits(const void *unused)
{
    (void)unused;
    return prctl(PR_SET_SECUREBITS, SECBIT_KEEP_CAPS, 0, 0, 0) < 0 ? errno : 0;
}

static int hang_up(const void *unused)
{
    (void)unused;
    setsid(); /* what is hung up is the controlling terminal: none from here on */
    return syscall(SYS_vhangup) < 0 ? errno : 0;
}

/* A time zone that is not on this planet, and a tick that is no tick: nonsense, found out after the
 * permission. */
static int set_time_zone(const void *unused)
{
    (void)unused;
    struct timezone nowhere = {.tz_minuteswest = 16 * 60};
    return syscall(SYS_settimeofday, NULL, &nowhere) < 0 ? errno : 0;
}

static int tune_clock(const void *unused)
{
    (void)unused;
    struct timex no_tick = {.modes = ADJ_TICK, .tick = 0};
    return syscall(SYS_adjtimex, &no_tick) < 0 ? errno : 0;
}

static int be_nice_to_nobody(const void *unused)
{
    (void)unused;
    return setpriority(PRIO_PROCESS, 0, -5) < 0 ? errno : 0;
}

static int be_real_time(const void *policy)
{
    struct sched_param parameters = {.sched_priority = 1};
    return sched_setscheduler(0, *(const int *)policy, &parameters) < 0 ? errno : 0;
}

static int be_real_time_io(const void *unused)
{
    (void)unused;
    return syscall(SYS_ioprio_set, 1 /* IOPRIO_WHO_PROCESS */, 0, 1 << 13 /* IOPRIO_CLASS_RT */) < 0 ? errno
                                                                                                     : 0;
}

static int map_page_zero(const void *unused)
{
    (void)unused;
    void *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return page == MAP_FAILED ? errno : 0;
}

struct attempt {
    const char *label;
    int (*function)(const void *);
};

static enum verdict attempt_is_refused(const void *target)
{
    static const int policy = SCHED_FIFO;
    const struct attempt *attempt = target;
    return judge_in_child(attempt->label, attempt->function, &policy);
}

/* The loader of the C library, asked to list a program's libraries, prints them instead of starting it,
 * unless the kernel has told it (AT_SECURE) that the program gained privileges. Nothing of the program itself
 * runs then. */
static bool is_inert(const char *path)
{
    int ends[2];
    if (pipe(ends) < 0)
        return true;
    pid_t child = fork();
    if (child == 0) {
        char *const arguments[] = {(char *)path, (char *)"--version", NULL};
        char *const variables[] = {(char *)"LD_TRACE_LOADED_OBJECTS=1", NULL};
        int nowhere = open("/dev/null", O_RDWR);
        dup2(nowhere, STDIN_FILENO);
        dup2(nowhere, STDERR_FILENO);
        dup2(ends[1], STDOUT_FILENO);
        execve(path, arguments, variables);
        if (write(STDOUT_FILENO, " => ", 4) < 0) /* not started: nothing gained */
            _exit(1);
        _exit(0);
    }
    close(ends[1]);
    char output[4096] = "";
    size_t used = 0;
    ssize_t got;
    while (used < sizeof output - 1 && (got = read(ends[0], output + used, sizeof output - 1 - used)) > 0)
        used += (size_t)got;
    close(ends[0]);
    waitpid(child, NULL, 0);
    output[used] = '\0';
    return strstr(output, "=>") || strstr(output, "statically linked");
}

static enum verdict programs_gain_nothing(const void *paths)
{
    char list[2048];
    snprintf(list, sizeof list, "%s", (const char *)paths);
    char *rest = list, *path;
    int tried = 0;
    while ((path = strsep(&rest, ":"))) {
        if (access(path, X_OK) < 0)
            continue;
        tried++;
        if (!is_inert(path))
            return broke("%s gains privileges", path);
    }
    return held("%d programs gain nothing", tried);
}

/* Under no_new_privs the kernel takes a program's file capabilities away again, yet tells the loader that it
 * had some: the sign means nothing there. */
static enum verdict file_capabilities_gain_nothing(const void *paths)
{
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
        return held("no_new_privs is on");
    return programs_gain_nothing(paths);
}

#define ROOTED                 "seccomp," HOST_ROOT
#define TRY(label_, function_) attempt_is_refused, (&(const struct attempt){label_, function_})
/* Set-id files work in the host's user namespace, for ids that it maps, and for those who are not root
 * already. */
#define SET_ID_WORKS NO_NEW_PRIVS ",mount_nosuid,user_namespace"

static const struct probe rows[] = {
    {"no_capability_is_held", ON_BOTH, RETURNS, HOST_ROOT, no_capability_is_held, NULL,
     "The box has no capability in any set."},
    {"bounding_set_is_empty", ON_BOTH, RETURNS, "bounding_set", bounding_set_is_empty, NULL,
     "No program can bring a capability back."},
    {"no_new_privs_is_on", ON_BOTH, RETURNS, NO_NEW_PRIVS, no_new_privs_is_on, NULL,
     "No exec can add privileges."},
    {"user_is_not_root", ON_BOTH, RETURNS, "user_namespace,box_uid", user_is_not_root, NULL,
     "The box is neither root nor in its group."},
    {"host_root_is_not_mapped", ON_CONTAINER, RETURNS, "box_uid", root_is_not_mapped, "/proc/self/uid_map",
     "No user of the box is the host's root."},
    {"host_root_group_is_not_mapped", ON_CONTAINER, RETURNS, "box_uid", root_is_not_mapped,
     "/proc/self/gid_map", "No group of the box is the host's root group."},
    {"root_cannot_be_become", ON_BOTH, RETURNS, "user_namespace,box_uid",
     TRY("setresuid to root", become_root), "setuid does not lead to root."},
    {"root_group_cannot_be_joined", ON_BOTH, RETURNS, "user_namespace,box_uid",
     TRY("setresgid to root", become_root_group), "setgid does not lead to the group of root."},
    {"another_user_cannot_be_become", ON_BOTH, RETURNS, HOST_ROOT, TRY("setresuid to nobody", become_nobody),
     "setuid does not lead to another user, such as that of another box."},
    {"groups_cannot_be_dropped", ON_BOTH, RETURNS, HOST_ROOT, TRY("setgroups", drop_groups),
     "Groups, which may deny as well as grant, cannot be dropped."},
    {"capabilities_cannot_be_taken", ON_BOTH, RETURNS, HOST_ROOT, TRY("capset", take_capability),
     "capset gives nothing."},
    {"secure_bits_cannot_be_set", ON_BOTH, RETURNS, HOST_ROOT, TRY("PR_SET_SECUREBITS", set_secure_bits),
     "The rules by which root gets capabilities cannot be changed."},
    {"terminal_cannot_be_hung_up", ON_BOTH, MAY_BE_KILLED, ROOTED, TRY("vhangup", hang_up),
     "vhangup is refused."},
    {"clock_cannot_be_set", ON_BOTH, MAY_BE_KILLED, ROOTED, TRY("settimeofday", set_time_zone),
     "The host's clock cannot be set."},
    {"clock_cannot_be_tuned", ON_BOTH, MAY_BE_KILLED, ROOTED, TRY("adjtimex", tune_clock),
     "The host's clock cannot be tuned."},
    {"priority_cannot_be_raised", ON_BOTH, RETURNS, ROOTED, TRY("setpriority", be_nice_to_nobody),
     "The box cannot put itself before others."},
    /* A control group without real-time share of its own refuses too: only where there is none is it the
       filter. */
    {"real_time_cannot_be_had", ON_PROCESS, RETURNS, ROOTED, TRY("sched_setscheduler", be_real_time),
     "The box cannot take a processor from everyone."},
    {"real_time_io_cannot_be_had", ON_BOTH, RETURNS, ROOTED, TRY("ioprio_set", be_real_time_io),
     "The box cannot take the disk from everyone."},
    {"page_zero_cannot_be_mapped", ON_BOTH, RETURNS, HOST_ROOT, TRY("mmap of page zero", map_page_zero),
     "The page that a kernel bug would stumble over cannot be mapped."},
    {"setuid_programs_gain_nothing", ON_BOTH, RETURNS, SET_ID_WORKS, programs_gain_nothing,
     "/usr/bin/su:/usr/bin/mount:/usr/bin/umount:/usr/bin/passwd:/usr/bin/newgrp:/usr/bin/chsh:/usr/bin/"
     "gpasswd:"
     "/usr/bin/sudo:/usr/bin/pkexec:/usr/bin/fusermount3:/usr/bin/newuidmap:/usr/sbin/unix_chkpwd",
     "Setuid programs run without the rights of their owner."},
    {"setgid_programs_gain_nothing", ON_BOTH, RETURNS, SET_ID_WORKS, programs_gain_nothing,
     "/usr/bin/chage:/usr/bin/expiry:/usr/bin/ssh-agent:/usr/bin/wall:/usr/bin/write:/usr/bin/crontab",
     "Setgid programs run without the rights of their group."},
    {"file_capabilities_gain_nothing", ON_BOTH, RETURNS, NO_NEW_PRIVS ",mount_nosuid,bounding_set",
     file_capabilities_gain_nothing,
     "/usr/bin/ping:/usr/bin/mtr-packet:/usr/bin/dumpcap:"
     "/usr/lib/x86_64-linux-gnu/gstreamer1.0/gstreamer-1.0/gst-ptp-helper",
     "Programs with file capabilities run without them."},
};

PROBE_GROUP(privileges, rows);
