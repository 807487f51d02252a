/* Processes outside of the box: signalled, traced, slowed down. Signals are always number 0, and what is set
 * is what was set before: only the permission is tried. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static const char not_said[] = "the runner named no process";
static const char label[] = "a process of the host";

enum { LAST_PID = 65535 };

/* Any error holds: ESRCH where it cannot be seen, EPERM where it is protected. */
#define AGAINST_HOST_PROCESS(function, expression)                                                           \
    static enum verdict function(const void *unused)                                                         \
    {                                                                                                        \
        (void)unused;                                                                                        \
        pid_t pid = host_pid();                                                                              \
        if (!pid)                                                                                            \
            return undecided("%s", not_said);                                                                \
        return judge_reach(label, expression);                                                               \
    }

AGAINST_HOST_PROCESS(signalled_by_kill, kill(pid, 0))
AGAINST_HOST_PROCESS(signalled_by_tkill, syscall(SYS_tkill, pid, 0))
AGAINST_HOST_PROCESS(signalled_by_tgkill, syscall(SYS_tgkill, pid, pid, 0))
AGAINST_HOST_PROCESS(limits_read, prlimit(pid, RLIMIT_NOFILE, NULL, &(struct rlimit){0}))
AGAINST_HOST_PROCESS(priority_set, setpriority(PRIO_PROCESS, (id_t)pid, getpriority(PRIO_PROCESS, (id_t)pid)))
AGAINST_HOST_PROCESS(policy_set, sched_setscheduler(pid, SCHED_OTHER, &(struct sched_param){0}))
AGAINST_HOST_PROCESS(objects_compared, syscall(SYS_kcmp, getpid(), pid, 1 /* KCMP_VM */, 0, 0))

static long signal_group(pid_t pid)
{
    pid_t group = getpgid(pid);
    return group > 1 ? kill(-group, 0) : -1; /* -1 would be everyone, and 1 is another's group */
}
AGAINST_HOST_PROCESS(group_signalled, signal_group(pid))

static long queue_signal(pid_t pid)
{
    siginfo_t info = {.si_code = SI_QUEUE};
    return syscall(SYS_rt_sigqueueinfo, pid, 0, &info);
}
AGAINST_HOST_PROCESS(signalled_by_queue, queue_signal(pid))

static long signal_by_descriptor(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    return fd < 0 ? -1 : syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0);
}
AGAINST_HOST_PROCESS(signalled_by_descriptor, signal_by_descriptor(pid))

static long take_descriptor(pid_t pid)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    return fd < 0 ? -1 : syscall(SYS_pidfd_getfd, fd, 0, 0);
}
AGAINST_HOST_PROCESS(descriptor_taken, take_descriptor(pid))

static long set_affinity(pid_t pid)
{
    cpu_set_t set;
    return sched_getaffinity(pid, sizeof set, &set) < 0 ? -1 : sched_setaffinity(pid, sizeof set, &set);
}
AGAINST_HOST_PROCESS(affinity_set, set_affinity(pid))

static long set_io_priority(pid_t pid)
{
    long priority = syscall(SYS_ioprio_get, 1 /* IOPRIO_WHO_PROCESS */, pid);
    return priority < 0 ? -1 : syscall(SYS_ioprio_set, 1, pid, priority);
}
AGAINST_HOST_PROCESS(io_priority_set, set_io_priority(pid))

/* The remote address is one that nobody has mapped: EFAULT comes after the permission. */
static long touch_memory(long number, pid_t pid)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)BAD_ADDRESS, 1};
    long result = syscall(number, pid, &here, 1, &there, 1, 0);
    return result < 0 && errno == EFAULT ? 0 : result;
}
AGAINST_HOST_PROCESS(memory_read, touch_memory(SYS_process_vm_readv, pid))
AGAINST_HOST_PROCESS(memory_written, touch_memory(SYS_process_vm_writev, pid))

/* Seizing does not stop the process; the end of the child lets go of it. */
static int seize(const void *pid)
{
    return ptrace(PTRACE_SEIZE, *(const pid_t *)pid, 0, 0) < 0 ? (errno == ESRCH ? EPERM : errno) : 0;
}

static enum verdict host_process_traced(const void *unused)
{
    (void)unused;
    pid_t pid = host_pid();
    return pid ? judge_in_child("tracing a process of the host", seize, &pid) : undecided("%s", not_said);
}

static enum verdict parent_traced(const void *unused)
{
    (void)unused;
    pid_t parent = getppid(); /* 0 from inside a pid namespace, when it is outside of it */
    return parent > 0 ? judge_in_child("tracing the parent", seize, &parent)
                      : held("the parent cannot be named");
}

static enum verdict parent_signalled(const void *unused)
{
    (void)unused;
    pid_t parent = getppid();
    return parent > 0 ? judge_reach("the parent", kill(parent, 0)) : held("the parent cannot be named");
}

static enum verdict init_signalled(const void *unused)
{
    (void)unused;
    return judge_reach("process 1", kill(1, 0));
}

/* Not by kill(-1), which answers 0 even when it was refused for everyone it found. Process 1 has a probe of
 * its own. */
static enum verdict anyone_signalled(const void *unused)
{
    (void)unused;
    for (pid_t pid = 2; pid <= LAST_PID; pid++)
        if (pid != getpid() && kill(pid, 0) == 0)
            return broke("process %d can be signalled", (int)pid);
    return held("none of the first %d processes can be signalled", LAST_PID);
}

/* Signals are refused by uid and by the Landlock scope, and cannot name what no pid namespace shows. */
#define SIGNALS HOST_PIDS ",landlock_scope," HOST_USER
/* Ours to look at if it is ours by uid; to schedule, if it has no capability that we lack (cap_task_setnice).
 */
#define LIMITS    "seccomp," HOST_PIDS "," HOST_USER
#define SCHEDULES "pid_namespace," HOST_ROOT
/* As a debugger. */
#define TRACES "pid_namespace,seccomp," ANY_LANDLOCK "," HOST_ROOT

#define ROW(name, controls, attack, description)                                                             \
    {                                                                                                        \
        name, ON_BOTH, RETURNS, controls, attack, NULL, description                                          \
    }

static const struct probe rows[] = {
    ROW("host_process_cannot_be_signalled", SIGNALS, signalled_by_kill, "kill does not reach the host."),
    ROW("host_process_cannot_be_signalled_by_tkill", SIGNALS, signalled_by_tkill,
        "tkill does not reach the host."),
    ROW("host_process_cannot_be_signalled_by_tgkill", SIGNALS, signalled_by_tgkill,
        "tgkill does not reach the host."),
    ROW("host_process_cannot_be_signalled_by_queue", SIGNALS, signalled_by_queue,
        "rt_sigqueueinfo does not reach the host."),
    ROW("host_process_cannot_be_signalled_by_descriptor", SIGNALS, signalled_by_descriptor,
        "pidfd_send_signal does not reach the host."),
    ROW("host_process_group_cannot_be_signalled", SIGNALS, group_signalled,
        "A signal to a process group of the host does not arrive."),
    ROW("no_process_can_be_signalled", SIGNALS, anyone_signalled,
        "Whatever number is tried, kill reaches nobody."),
    ROW("init_cannot_be_signalled", "landlock_scope," HOST_USER, init_signalled,
        "kill(1) does not reach the init of the box, nor that of the host."),
    ROW("supervisor_cannot_be_signalled", "landlock_scope," HOST_USER, parent_signalled,
        "The process that watches the box cannot be signalled."),
    ROW("supervisor_cannot_be_traced", "seccomp," ANY_LANDLOCK "," HOST_ROOT, parent_traced,
        "The process that watches the box cannot be traced."),
    ROW("host_process_cannot_be_traced", TRACES, host_process_traced, "ptrace does not reach the host."),
    {"host_process_memory_cannot_be_read", ON_BOTH, MAY_BE_KILLED, TRACES, memory_read, NULL,
     "process_vm_readv does not reach the host."},
    {"host_process_memory_cannot_be_written", ON_BOTH, MAY_BE_KILLED, TRACES, memory_written, NULL,
     "process_vm_writev does not reach the host."},
    ROW("host_process_descriptor_cannot_be_taken", TRACES, descriptor_taken,
        "pidfd_getfd does not reach the host."),
    ROW("host_process_objects_cannot_be_compared", TRACES, objects_compared, "kcmp does not reach the host."),
    ROW("host_process_limits_cannot_be_read", LIMITS, limits_read, "prlimit does not reach the host."),
    ROW("host_process_priority_cannot_be_set", SCHEDULES, priority_set,
        "setpriority does not reach the host."),
    ROW("host_process_policy_cannot_be_set", SCHEDULES, policy_set,
        "sched_setscheduler does not reach the host."),
    ROW("host_process_affinity_cannot_be_set", SCHEDULES, affinity_set,
        "sched_setaffinity does not reach the host."),
    ROW("host_process_io_priority_cannot_be_set", SCHEDULES, io_priority_set,
        "ioprio_set does not reach the host."),
};

PROBE_GROUP(processes, rows);
