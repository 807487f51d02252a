#include "engine/wasm/served.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "engine/supervise.h"
#include "engine/wasm/order.h"
#include "engine/watchdog.h"
#include "os/process.h"
#include "os/process_tree.h"
#include "plan.h"
#include "wasm/order.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CLOSE_LOOK_US = 10000, END_MS = 5000, GRACE_MS = 200 };

/* As clock_getcpuclockid makes it, which asks the kernel whether it is one. */
#define CPU_CLOCK_OF(pid) ((clockid_t)((~(unsigned)(pid) << 3) | 2))

int64_t wasm_served_cpu_us(const struct box *home)
{
    struct timespec used;
    if (home->program_pid <= 0 || clock_gettime(CPU_CLOCK_OF(home->program_pid), &used) < 0)
        return 0;
    return (int64_t)used.tv_sec * 1000000 + used.tv_nsec / 1000;
}

/* Shared pages are those of files: a process box makes no others (os/seccomp/policy.c). */
int64_t wasm_served_held_bytes(const struct box *home)
{
    char path[48], text[128];
    long long resident, shared;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)home->program_pid);
    if (home->program_pid <= 0)
        return 0; /* it has had nothing to run */
    if (file_read_attribute(AT_FDCWD, path, text, sizeof text) <= 0 ||
        sscanf(text, "%*s %lld %lld", &resident, &shared) != 2)
        return INT64_MAX;
    return (resident - shared) * sysconf(_SC_PAGESIZE);
}

bool wasm_served_is_alone(const struct box *home)
{
    pid_t pids[2];
    return process_tree_list(home->pid, pids, 2) == 1 &&
           (home->program_pid <= 0 || pids[0] == home->program_pid);
}

static struct wasm_served *served_of(const struct box *box)
{
    return (struct wasm_served *)box->engine_data;
}

/* A short run is over before there is anything to see: its CPU time is asked for, and nothing more. */
static void served_measure(struct box *box, struct measurement *now)
{
    struct wasm_served *served = served_of(box);
    *now = (struct measurement){0};
    if (clock_monotonic_us() - box->started_us > CLOSE_LOOK_US && !box->is_reaped)
        engine_wasm.measure(served->home, now);
    now->cpu_user_us = wasm_served_cpu_us(served->home) - served->cpu_before_us;
    now->cpu_system_us = 0;
    /* A module starts no processes: who does has broken out, and their time would be in nobody's account. */
    const struct watchdog *watchdog = served->home->engine_data;
    if (watchdog && watchdog->seen_count > 1)
        now->pids = box->limits->value[LIMIT_pids] + 1;
}

static bool served_answer(struct box *box, const char **ret_call)
{
    return engine_wasm.answer(served_of(box)->home, ret_call);
}

/* The signal that ended the process, as its init has told; 0: it has not. */
static int signal_of_process(const struct box *home)
{
    struct pollfd polled = {.fd = home->control_fd, .events = POLLIN};
    struct init_message message;
    scope_fd unused = -1;
    if (home->control_fd < 0 || poll(&polled, 1, 0) <= 0 ||
        process_receive(home->control_fd, &message, sizeof message, &unused) != (int)sizeof message)
        return 0;
    return message.kind == INIT_ENDED && WIFSIGNALED(message.wait_status) ? WTERMSIG(message.wait_status) : 0;
}

static int served_explain(struct box *box, struct result *result, struct error *err)
{
    int status = wasm_report_take(box, result, err);
    if (status == 0 && result->cause == CAUSE_host_failure && box->is_reaped)
        wasm_crash_take(signal_of_process(served_of(box)->home), result);
    if (result->timed_out)
        supervise_explain(&box->spec->limits, result);
    return status;
}

/* There is no end for a run that does not end by itself but that of the process. */
static void served_stop(struct box *box)
{
    box->stops++;
    engine_wasm.stop(served_of(box)->home);
}

static int served_destroy(struct box *box)
{
    (void)box;
    return 0;
}

static const struct engine engine_served = {
    .isolation = ISOLATION_WASM,
    .name = "wasm",
    .in_directory = true,
    .measure = served_measure,
    .answer = served_answer,
    .explain = served_explain,
    .stop = served_stop,
    .destroy = served_destroy,
};

static bool has_stdin(const struct spec *spec)
{
    return spec->stdin_kind == STDIN_DESCRIPTOR ||
           (spec->stdin_kind == STDIN_BYTES && spec->stdin_bytes.length > 0);
}

/* Our ends of what the order carries into the process. */
static int make_streams(struct box *box, int *ret_theirs)
{
    int input[2], output[2], errors[2], control[2];
    if (has_stdin(box->spec)) {
        if (pipe2(input, O_CLOEXEC) < 0)
            return -errno;
        box->stdin_fd = input[1];
        ret_theirs[ORDER_STDIN] = input[0];
    }
    if (pipe2(output, O_CLOEXEC) < 0)
        return -errno;
    box->stdout_fd = output[0];
    ret_theirs[ORDER_STDOUT] = output[1];
    if (pipe2(errors, O_CLOEXEC) < 0)
        return -errno;
    box->stderr_fd = errors[0];
    ret_theirs[ORDER_STDERR] = errors[1];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) < 0)
        return -errno;
    box->control_fd = control[0];
    ret_theirs[ORDER_END] = control[1];
    if (box->identity->has_uid && /* so that it can be opened again (guest/wasm/run.c) */
        (fchown(output[1], box->identity->uid, (gid_t)-1) < 0 ||
         fchown(errors[1], box->identity->uid, (gid_t)-1) < 0))
        return -errno;
    const int ours[] = {box->stdin_fd, box->stdout_fd, box->stderr_fd};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (ours[i] >= 0 && fcntl(ours[i], F_SETFL, O_NONBLOCK) < 0)
            return -errno;
    return 0;
}

static void close_streams(struct box *box)
{
    int *fds[] = {&box->stdin_fd, &box->stdout_fd, &box->stderr_fd, &box->control_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        scope_close_fd(fds[i]);
}

int wasm_served_open(struct wasm_served *served, struct box *home, const struct spec *spec,
                     const struct program *program, struct error *err)
{
    struct box *box = &served->box;
    *served = (struct wasm_served){.home = home};
    box_init(box);
    box->engine = &engine_served;
    box->engine_data = served;
    box->spec = spec;
    box->limits = &spec->limits;
    box->program = program;
    box->image = home->image;
    box->identity = home->identity;
    box->pid = home->pid;
    box->channel_fd = home->channel_fd;
    box->is_watched = box->is_served = true;
    box->debt.memory_bytes = home->debt.memory_bytes;
    if (home->program_pid <= 0)
        process_tree_list(home->pid, &home->program_pid, 1);
    served->cpu_before_us = wasm_served_cpu_us(home);
    int theirs[ORDER_STDIN + 1] = {-1, -1, -1, -1};
    int status = make_streams(box, theirs);
    box->pidfd = home->pidfd;
    box->listener_fd = home->listener_fd;
    box->started_us = clock_monotonic_us();
    status = status < 0 ? error_host(err, status, "cannot make streams")
                        : wasm_order_send(box, program, ORDER_SERVE, theirs,
                                          ORDER_STDIN + (theirs[ORDER_STDIN] >= 0), err);
    for (size_t i = 0; i < sizeof theirs / sizeof *theirs; i++)
        scope_close_fd(&theirs[i]);
    served->limits = spec->limits; /* those of the order are the run's own */
    served->limits.value[LIMIT_wall] += GRACE_MS;
    served->limits.value[LIMIT_cpu] += GRACE_MS;
    box->limits = &served->limits;
    if (status < 0)
        close_streams(box);
    return status;
}

bool wasm_served_close(struct wasm_served *served)
{
    struct box *box = &served->box;
    struct pollfd polled = {.fd = box->pidfd, .events = POLLIN};
    served->home->is_reaped |= box->is_reaped;
    served->home->listener_fd = box->listener_fd; /* which the supervisor may have closed */
    bool is_usable = box->ended_by_itself && !box->stops && !box->is_reaped && poll(&polled, 1, 0) == 0;
    close_streams(box);
    return is_usable;
}

void wasm_served_end(struct box *home)
{
    engine_wasm.stop(home);
    struct pollfd polled = {.fd = home->pidfd, .events = POLLIN};
    if (poll(&polled, 1, END_MS) <= 0) {
        engine_wasm.stop(home);
        process_pidfd_kill(home->pidfd, SIGKILL);
    }
    while (!home->is_reaped && waitpid(home->pid, NULL, __WALL) < 0 && errno == EINTR)
        ;
    home->is_reaped = true;
}
