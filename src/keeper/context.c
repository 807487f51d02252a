#include "keeper/context.h"

#include "base/clock.h"
#include "base/scope.h"
#include "engine/launch.h"
#include "keeper/run.h"
#include "os/process.h"
#include "runtime/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    LIFETIME_DEFAULT_MS = 3600 * 1000,
    RUNS_DEFAULT = 20,
    READY_MS = 20000,
    GRACE_MS = 1000, /* for an interrupt to take effect */
};

struct context {
    struct spec *spec;
    const struct policy *policy;
    struct context_options options;
    int64_t wall_ms, output_limit;
    int runs_left;
    int64_t run; /* number of the last */
    struct runner_reader reader;
    int channel_fd, control_fd; /* copies of the box's own */
    int cancel_fd;
    pthread_t thread;
    bool has_thread, is_joined;
    /* Written by the thread under the lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_started, is_over;
    bool is_running; /* by the caller: a run is under way */
    int status;
    struct error error;
    struct result *result;
};

static void box_started(void *data, const struct box *box)
{
    struct context *context = data;
    int channel = fcntl(box->channel_fd, F_DUPFD_CLOEXEC, 0),
        control = fcntl(box->control_fd, F_DUPFD_CLOEXEC, 0);
    pthread_mutex_lock(&context->lock);
    context->channel_fd = channel;
    context->control_fd = control;
    context->is_started = true;
    pthread_cond_broadcast(&context->changed);
    pthread_mutex_unlock(&context->lock);
}

static void box_output(void *data, enum supervise_stream stream, const char *bytes, size_t length)
{
    struct context *context = data;
    if (context->options.output)
        context->options.output(context->options.data, stream, bytes, length);
}

static void *box_main(void *data)
{
    struct context *context = data;
    const struct supervise_io io = {.forward_fd = {-1, -1},
                                    .output = box_output,
                                    .data = context,
                                    .cancel_fd = context->cancel_fd,
                                    .with_channel = true,
                                    .started = box_started,
                                    .lifetime_ms = context->options.lifetime_ms};
    struct error err = {0};
    struct result *result = NULL;
    int status = keeper_run(context->spec, context->policy, &io, &result, &err);
    pthread_mutex_lock(&context->lock);
    context->status = status;
    context->error = err;
    context->result = result;
    context->is_over = true;
    pthread_cond_broadcast(&context->changed);
    pthread_mutex_unlock(&context->lock);
    return NULL;
}

static void join(struct context *context)
{
    if (context->has_thread && !context->is_joined)
        pthread_join(context->thread, NULL);
    context->is_joined = true;
}

static void cancel(struct context *context)
{
    uint64_t one = 1;
    (void)!write(context->cancel_fd, &one, sizeof one);
}

/* The runner of the language is the code. */
static int prepare_spec(struct context *context, struct error *err)
{
    struct spec *spec = context->spec;
    if (spec->command.count || spec->code.length)
        return error_spec(err, "code", "code: a context takes its code run by run");
    const struct runner *runner = runner_find(spec->language ? spec->language : "python");
    if (!runner) {
        scope_buffer names = {0};
        runner_names(&names);
        return error_spec(err, "language", "language: there are contexts in %s, not in '%.64s'",
                          names.data ? names.data : "", spec->language);
    }
    char channel[16];
    snprintf(channel, sizeof channel, "%d", INIT_CHANNEL_FD);
    int status = spec->language ? 0 : spec_set(spec, "language", runner->language, err);
    if (status == 0 && buffer_append(&spec->code, runner->code.data, runner->code.length) < 0)
        status = error_host(err, -ENOMEM, "cannot load the runner");
    if (status == 0 && string_list_add(&spec->arguments, channel) < 0)
        status = error_host(err, -ENOMEM, "cannot load the runner");
    spec->has_code = true;
    spec->stdin_kind = STDIN_NONE;
    return status;
}

static int wait_for_box(struct context *context, struct error *err)
{
    pthread_mutex_lock(&context->lock);
    while (!context->is_started && !context->is_over)
        pthread_cond_wait(&context->changed, &context->lock);
    bool started = context->is_started;
    int status = context->status;
    if (!started && err)
        *err = context->error;
    pthread_mutex_unlock(&context->lock);
    if (!started)
        return status < 0 ? status : error_host(err, -EIO, "the context ended before it began");
    if (context->channel_fd < 0 || context->control_fd < 0)
        return error_host(err, -EMFILE, "no descriptors for a context");
    int flags = fcntl(context->channel_fd, F_GETFL);
    return fcntl(context->channel_fd, F_SETFL, flags | O_NONBLOCK) < 0
               ? error_host(err, -errno, "cannot use the channel of a context")
               : 0;
}

/* Reads what is there. 1: something came; 0: nothing for now; -EPIPE: the runner is gone. */
static int read_more(struct context *context, struct error *err)
{
    char chunk[65536];
    ssize_t length = read(context->channel_fd, chunk, sizeof chunk);
    if (length > 0) {
        int status = runner_reader_feed(&context->reader, chunk, (size_t)length, err);
        return status < 0 ? status : 1;
    }
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return -EPIPE;
}

static int wait_for_ready(struct context *context, struct error *err)
{
    int64_t deadline_us = clock_monotonic_us() + READY_MS * 1000;
    for (;;) {
        struct runner_event event;
        int status = runner_reader_next(&context->reader, &event, err);
        if (status < 0)
            return status;
        if (status > 0)
            return event.kind == RUNNER_ready
                       ? 0
                       : error_host(err, -EPROTO, "the runner spoke before it was ready");
        int64_t left_ms = (deadline_us - clock_monotonic_us()) / 1000;
        struct pollfd polled = {.fd = context->channel_fd, .events = POLLIN};
        if (left_ms <= 0 || poll(&polled, 1, (int)left_ms) == 0)
            return error_host(err, -ETIMEDOUT, "the interpreter was not ready within %d s", READY_MS / 1000);
        status = read_more(context, err);
        if (status == -EPIPE)
            return error_host(err, -EPIPE, "the interpreter ended before it was ready");
        if (status < 0)
            return status;
    }
}

int context_open(struct spec *spec, const struct policy *policy, const struct context_options *options,
                 struct context **ret, struct error *err)
{
    struct context *context = calloc(1, sizeof *context);
    if (!context) {
        spec_free(spec);
        return error_host(err, -ENOMEM, "no memory for a context");
    }
    *context = (struct context){.spec = spec,
                                .policy = policy,
                                .options = options ? *options : (struct context_options){0},
                                .channel_fd = -1,
                                .control_fd = -1,
                                .cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                .lock = PTHREAD_MUTEX_INITIALIZER,
                                .changed = PTHREAD_COND_INITIALIZER};
    if (!context->options.lifetime_ms)
        context->options.lifetime_ms = LIFETIME_DEFAULT_MS;
    context->runs_left = context->options.runs_max ? context->options.runs_max : RUNS_DEFAULT;
    int status = context->cancel_fd < 0 ? error_host(err, -errno, "cannot make a context") : 0;
    if (status == 0)
        status = prepare_spec(context, err);
    if (status == 0) {
        status = -pthread_create(&context->thread, NULL, box_main, context);
        context->has_thread = status == 0;
        if (status < 0)
            error_host(err, status, "cannot start the thread of a context");
    }
    if (status == 0)
        status = wait_for_box(context, err);
    if (status == 0) { /* the spec is validated now, and has its limits */
        context->wall_ms = spec->limits.value[LIMIT_wall];
        context->output_limit = spec->limits.value[LIMIT_output_limit];
        status = wait_for_ready(context, err);
    }
    if (status < 0) {
        context_close(context);
        return status;
    }
    *ret = context;
    return 0;
}

/* What of a run's own is told to the caller; what goes over its output limit is counted and left out. */
static bool passes(struct context *context, const struct runner_event *event, int64_t *seen_bytes,
                   struct context_outcome *outcome)
{
    if (event->kind != RUNNER_stdout && event->kind != RUNNER_stderr && event->kind != RUNNER_result)
        return true;
    int64_t length = (int64_t)event->body.length;
    if (*seen_bytes + length > context->output_limit) {
        outcome->truncated_bytes += length;
        return false;
    }
    *seen_bytes += length;
    return true;
}

static void take_end(const struct runner_event *event, struct context_outcome *outcome)
{
    outcome->status = event->status;
    outcome->exit_code = event->exit_code;
    outcome->duration_us = event->duration_us;
}

/* Until when, and what then. */
struct run_clock {
    int64_t deadline_us;
    bool interrupted;
};

static void time_is_up(struct context *context, struct run_clock *clock, struct context_outcome *outcome)
{
    outcome->timed_out = true;
    if (clock->interrupted) {
        cancel(context); /* it did not listen */
        clock->deadline_us = clock_monotonic_us() + READY_MS * 1000;
        return;
    }
    clock->interrupted = true;
    clock->deadline_us = clock_monotonic_us() + GRACE_MS * 1000;
    context_interrupt(context);
}

static int write_some(struct context *context, const struct buffer *frame, size_t *sent)
{
    if (*sent == frame->length)
        return 0;
    ssize_t length = send(context->channel_fd, frame->data + *sent, frame->length - *sent, MSG_NOSIGNAL);
    if (length < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -EPIPE;
    *sent += (size_t)length;
    return 0;
}

static void set_running(struct context *context, bool is_running)
{
    pthread_mutex_lock(&context->lock);
    context->is_running = is_running;
    pthread_mutex_unlock(&context->lock);
}

/* Its channel is closed: most often because it is dying, and then how it dies is the cause. One that only
 * closed its channel, or broke the protocol, is of no use, and is ended. */
static int die(struct context *context, struct context_outcome *outcome)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    pthread_mutex_lock(&context->lock);
    int waited = 0;
    while (!context->is_over && waited == 0)
        waited = pthread_cond_timedwait(&context->changed, &context->lock, &until);
    pthread_mutex_unlock(&context->lock);
    cancel(context);
    join(context);
    outcome->died = true;
    context->runs_left = 0;
    return 0;
}

/* Sends a frame, and reads until the answer: the end of the run, or what else is waited for. */
static int converse(struct context *context, const struct buffer *frame, enum runner_event_kind answer,
                    void (*event_to)(void *data, const struct runner_event *event), void *data,
                    struct context_outcome *ret)
{
    struct run_clock clock = {.deadline_us = clock_monotonic_us() + context->wall_ms * 1000};
    size_t sent = 0;
    int64_t seen_bytes = 0;
    for (;;) {
        struct runner_event event;
        struct error reason = {0};
        int status;
        while ((status = runner_reader_next(&context->reader, &event, &reason)) > 0) {
            if (passes(context, &event, &seen_bytes, ret) && event_to)
                event_to(data, &event);
            if (event.kind != answer || (answer == RUNNER_end && event.run != context->run))
                continue;
            take_end(&event, ret);
            return 0;
        }
        int64_t left_us = clock.deadline_us - clock_monotonic_us();
        if (status == 0 && left_us <= 0) {
            time_is_up(context, &clock, ret);
            continue;
        }
        struct pollfd polled = {.fd = context->channel_fd,
                                .events = (short)(POLLIN | (sent < frame->length ? POLLOUT : 0))};
        if (status == 0 && poll(&polled, 1, (int)(left_us / 1000 + 1)) < 0 && errno != EINTR)
            status = -errno;
        if (status == 0)
            status = write_some(context, frame, &sent);
        if (status == 0)
            status = read_more(context, &reason);
        if (status < 0)
            return die(context, ret);
    }
}

int context_run(struct context *context, const struct runner_order *order,
                void (*event_to)(void *data, const struct runner_event *event), void *data,
                struct context_outcome *ret, struct error *err)
{
    *ret = (struct context_outcome){0};
    if (context->is_joined)
        return error_host(err, -EPIPE, "the context is dead");
    if (context->runs_left <= 0) {
        error_spec(err, "runs", "the context has had all its runs; open a new one");
        return -EBUSY;
    }
    struct runner_order numbered = *order;
    numbered.run = ++context->run;
    scope_buffer frame = {0};
    int status = runner_write_run(&frame, &numbered);
    if (status < 0)
        return error_spec(err, "code", "code: it cannot be sent: %s", strerror(-status));
    context->runs_left--;
    set_running(context, true);
    status = converse(context, &frame, RUNNER_end, event_to, data, ret);
    set_running(context, false);
    return status;
}

static void take_completeness(void *data, const struct runner_event *event)
{
    if (event->kind == RUNNER_completeness)
        *(bool *)data = strcmp(event->text, "incomplete") != 0;
}

bool context_is_complete(struct context *context, struct slice code)
{
    bool complete = true;
    struct context_outcome ignored = {0};
    scope_buffer frame = {0};
    if (!context->is_joined && runner_write_question(&frame, code) == 0)
        converse(context, &frame, RUNNER_completeness, take_completeness, &complete, &ignored);
    return complete;
}

int context_interrupt(struct context *context)
{
    char order = INIT_INTERRUPT;
    pthread_mutex_lock(&context->lock);
    int status = context->is_running ? process_send(context->control_fd, &order, 1, -1) : 0;
    pthread_mutex_unlock(&context->lock);
    return status;
}

const struct result *context_result(const struct context *context)
{
    return context->is_joined ? context->result : NULL;
}

void context_close(struct context *context)
{
    if (!context)
        return;
    if (context->cancel_fd >= 0)
        cancel(context);
    join(context);
    int *fds[] = {&context->channel_fd, &context->control_fd, &context->cancel_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        scope_close_fd(fds[i]);
    runner_reader_free(&context->reader);
    result_free(context->result);
    spec_free(context->spec);
    pthread_mutex_destroy(&context->lock);
    pthread_cond_destroy(&context->changed);
    free(context);
}
