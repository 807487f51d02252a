#include "engine/wasm/served.h"

#include "base/clock.h"
#include "base/scope.h"
#include "engine/supervise.h"
#include "engine/wasm/order.h"
#include "os/process.h"
#include "os/process_tree.h"
#include "wasm/order.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CLOSE_LOOK_US = 10000, END_MS = 5000, GRACE_MS = 200 };

static int64_t cpu_us(pid_t pid)
{
    clockid_t clock;
    struct timespec used;
    if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &used) < 0)
        return 0;
    return (int64_t)used.tv_sec * 1000000 + used.tv_nsec / 1000;
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
    now->cpu_user_us = cpu_us(served->home->program_pid) - served->cpu_before_us;
    now->cpu_system_us = 0;
}

static bool served_answer(struct box *box, const char **ret_call)
{
    return engine_wasm.answer(served_of(box)->home, ret_call);
}

static int served_explain(struct box *box, struct result *result, struct error *err)
{
    int status = wasm_report_take(box, result, err);
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

/* Our ends of what the order carries into the process. */
static int make_streams(struct box *box, int *ret_theirs)
{
    int input[2], output[2], errors[2], control[2];
    if (pipe2(input, O_CLOEXEC) < 0)
        return -errno;
    box->stdin_fd = input[1];
    ret_theirs[ORDER_STDIN] = input[0];
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
    const int ours[] = {box->stdin_fd, box->stdout_fd, box->stderr_fd};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (fcntl(ours[i], F_SETFL, fcntl(ours[i], F_GETFL) | O_NONBLOCK) < 0)
            return -errno;
    return 0;
}

static void close_streams(struct box *box)
{
    int *fds[] = {&box->stdin_fd,   &box->stdout_fd, &box->stderr_fd,
                  &box->control_fd, &box->pidfd,     &box->listener_fd};
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
    served->cpu_before_us = cpu_us(home->program_pid);
    int theirs[ORDER_FDS_MAX] = {-1, -1, -1, -1, -1};
    theirs[ORDER_CODE] = wasm_order_pack(box, program, err);
    served->limits = spec->limits;
    served->limits.value[LIMIT_wall] += GRACE_MS;
    served->limits.value[LIMIT_cpu] += GRACE_MS;
    box->limits = &served->limits;
    int status = theirs[ORDER_CODE] < 0 ? theirs[ORDER_CODE] : make_streams(box, theirs);
    box->pidfd = fcntl(home->pidfd, F_DUPFD_CLOEXEC, 0);
    box->listener_fd = home->listener_fd < 0 ? -1 : fcntl(home->listener_fd, F_DUPFD_CLOEXEC, 0);
    box->started_us = clock_monotonic_us();
    char kind = ORDER_SERVE;
    if (status == 0)
        status = process_send_many(home->channel_fd, &kind, 1, theirs, ORDER_FDS_MAX);
    for (size_t i = 0; i < ORDER_FDS_MAX; i++)
        scope_close_fd(&theirs[i]);
    if (status < 0) {
        close_streams(box);
        return error_host(err, status, "cannot give Wasmtime an order");
    }
    return 0;
}

bool wasm_served_close(struct wasm_served *served)
{
    struct box *box = &served->box;
    struct pollfd polled = {.fd = box->pidfd, .events = POLLIN};
    served->home->is_reaped |= box->is_reaped;
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
