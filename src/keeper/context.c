#include "keeper/context_inside.h"
#include "keeper/cpu_account.h"

#include "base/clock.h"
#include "base/scope.h"
#include "base/text.h"
#include "base/thread.h"
#include "engine/launch.h"
#include "keeper/run.h"
#include "runtime/runner.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
    READY_MS = 20000,
    END_MS = 10000, /* for a box to be gone */
    FAMILY_MS = 100,
};

bool context_wait(struct context *context, int64_t until_us)
{
    struct timespec until = {.tv_sec = until_us / 1000000, .tv_nsec = until_us % 1000000 * 1000};
    return pthread_cond_timedwait(&context->changed, &context->lock, &until) == 0;
}

void context_wait_for_end(struct context *context)
{
    int64_t until_us = clock_monotonic_us() + END_MS * 1000;
    while (!context->is_over && context_wait(context, until_us))
        ;
}

void context_end(struct context *context, enum cause cause, const char *format, ...)
{
    if (!context->is_ending) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(context->ending_detail, sizeof context->ending_detail, format, arguments);
        va_end(arguments);
        context->ending_cause = cause;
        context->is_ending = true;
    }
    uint64_t one = 1;
    (void)!write(context->cancel_fd, &one, sizeof one);
}

void context_box_started(void *data, struct box *box)
{
    struct context *context = data;
    int channel = fcntl(box->channel_fd, F_DUPFD_CLOEXEC, 0),
        control = fcntl(box->control_fd, F_DUPFD_CLOEXEC, 0);
    context->stream_fd[STREAM_STDOUT] = fcntl(box->stdout_fd, F_DUPFD_CLOEXEC, 0);
    context->stream_fd[STREAM_STDERR] = fcntl(box->stderr_fd, F_DUPFD_CLOEXEC, 0);
    pthread_mutex_lock(&context->lock);
    context->channel_fd = channel;
    context->control_fd = control;
    context->box = box;
    context->is_started = true;
    pthread_cond_broadcast(&context->changed);
    pthread_mutex_unlock(&context->lock);
}

/* One filter is for a box and all that comes from it, and so is who answers what it asks: we do, until they
 * are gone. */
static void answer_family(struct box *box)
{
    struct pollfd polled = {.fd = box->listener_fd, .events = POLLIN};
    const char *ignored;
    if (poll(&polled, 1, FAMILY_MS) <= 0)
        return;
    if (polled.revents & POLLIN)
        box->engine->answer(box, &ignored);
    else
        scope_close_fd(&box->listener_fd);
}

void context_box_ended(void *data, struct box *box, struct result *result)
{
    struct context *context = data;
    const struct error none = {0};
    pthread_mutex_lock(&context->lock);
    context->box = NULL;
    bool is_outlived = context->forked_boxes > 0;
    pthread_mutex_unlock(&context->lock);
    if (is_outlived && result)
        context_box_over(context, 0, result, &none);
    pthread_mutex_lock(&context->lock);
    while (context->forked_boxes > 0) {
        pthread_mutex_unlock(&context->lock);
        answer_family(box);
        pthread_mutex_lock(&context->lock);
    }
    pthread_mutex_unlock(&context->lock);
}

static void box_progress(void *data, int64_t elapsed_us, const struct measurement *now)
{
    (void)elapsed_us; /* of the box: runs have their own */
    context_clock_sample(data, now);
}

static void box_interrupted(void *data)
{
    struct context *context = data;
    pthread_mutex_lock(&context->lock);
    if (context->signals_open > 0)
        context->signals_open--;
    pthread_cond_broadcast(&context->changed);
    pthread_mutex_unlock(&context->lock);
}

static int box_target(void *data)
{
    struct context *context = data;
    pthread_mutex_lock(&context->lock);
    int fd = context->target_fd < 0 ? -1 : fcntl(context->target_fd, F_DUPFD_CLOEXEC, 0);
    pthread_mutex_unlock(&context->lock);
    return fd;
}

/* What the supervisor cannot know: why it was told to cancel, and what its wall time is here. */
static void explain_end(const struct context *context, struct result *result)
{
    if (result->cause == CAUSE_cancelled && context->is_ending) {
        result->cause = context->ending_cause;
        result->timed_out = result->cause == CAUSE_wall_time || result->cause == CAUSE_cpu_time;
        snprintf(result->detail, sizeof result->detail, "%s", context->ending_detail);
    } else if (result->cause == CAUSE_wall_time) {
        char value[32];
        snprintf(result->detail, sizeof result->detail, "its lifetime of %s is over",
                 text_format_duration(context->options.lifetime_ms, value, sizeof value));
    }
}

struct supervise_io context_io(struct context *context)
{
    return (struct supervise_io){.forward_fd = {-1, -1},
                                 .output = context_streams_output,
                                 .streams_take = context_streams_take,
                                 .streams_leave = context_streams_leave,
                                 .progress = box_progress,
                                 .data = context,
                                 .cancel_fd = context->cancel_fd,
                                 .with_channel = true,
                                 .forkable = context->spec->isolation == ISOLATION_CONTAINER &&
                                             strcmp(context->spec->language, "python") == 0,
                                 .is_for_others = context->options.is_for_others,
                                 .started = context_box_started,
                                 .ended = context_box_ended,
                                 .interrupted = box_interrupted,
                                 .target = box_target,
                                 .lifetime_ms = context->options.lifetime_ms};
}

void context_box_over(struct context *context, int status, struct result *result, const struct error *err)
{
    pthread_mutex_lock(&context->lock);
    bool is_told = context->is_over && result && context->result == result;
    if (is_told) {
        pthread_mutex_unlock(&context->lock);
        return;
    }
    context->status = status;
    context->error = *err;
    context->result = result;
    if (result)
        explain_end(context, result);
    cpu_account_note(context->cpu_account,
                     result ? result->usage.cpu_user_us + result->usage.cpu_system_us : 0, true);
    context->is_over = true;
    pthread_cond_broadcast(&context->changed);
    pthread_mutex_unlock(&context->lock);
}

static void *box_main(void *data)
{
    struct context *context = data;
    struct error err = {0};
    struct result *result = NULL;
    int status = spec_validate(context->spec, context->policy, &err);
    if (status == 0) {
        const struct supervise_io io = context_io(context);
        status = keeper_run_validated(context->spec, context->policy, &io, &result, &err);
    }
    context_box_over(context, status, result, &err);
    return NULL;
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

/* More of it was to be asked for. */
static bool is_for_want_of_room(enum cause cause)
{
    return cause == CAUSE_memory || cause == CAUSE_pids || cause == CAUSE_disk;
}

/* Its channel was closed, most often because it is gone: how it went is the reason, and not that. */
static int explain_early_end(struct context *context, struct error *err)
{
    char end[sizeof context->result->detail + 64];
    pthread_mutex_lock(&context->lock);
    context_wait_for_end(context);
    int status = context->is_over ? context->status : 0;
    const struct result *result = context->is_over ? context->result : NULL;
    if (status < 0 && err)
        *err = context->error;
    else if (status == 0 && result && is_for_want_of_room(result->cause))
        status = error_spec(err, cause_names[result->cause], "the interpreter ended before it was ready: %s",
                            result_format_end(result, end, sizeof end));
    else if (status == 0)
        status =
            error_host_told(err, -EPIPE, "the interpreter ended before it was ready: %s",
                            result ? result_format_end(result, end, sizeof end) : "it closed its channel");
    pthread_mutex_unlock(&context->lock);
    return status;
}

static int wait_for_ready(struct context *context, struct error *err)
{
    int64_t deadline_us = clock_monotonic_us() + READY_MS * 1000;
    for (;;) {
        struct runner_event event;
        int status = runner_reader_next(&context->reader, &event, err);
        if (status < 0)
            return status;
        if (status > 0 && event.kind == RUNNER_ready)
            return 0;
        if (status > 0 && context->parent && event.kind == RUNNER_refused)
            return error_spec(err, "fork", "the context cannot be forked: %.400s", event.text);
        if (status > 0 && context->parent)
            continue; /* code that is called after a fork may print */
        if (status > 0)
            return error_host(err, -EPROTO, "the runner spoke before it was ready");
        int64_t left_ms = (deadline_us - clock_monotonic_us()) / 1000;
        struct pollfd polled = {.fd = context->channel_fd, .events = POLLIN};
        if (left_ms <= 0 || poll(&polled, 1, (int)left_ms) == 0)
            return error_host(err, -ETIMEDOUT, "the interpreter was not ready within %d s", READY_MS / 1000);
        status = context_read(context, err);
        if (status == -EPIPE)
            return explain_early_end(context, err);
        if (status < 0)
            return status;
    }
}

static void start_clocks(struct context *context)
{
    pthread_mutex_lock(&context->lock);
    context->limits = context->spec->limits; /* validated by now */
    context->started_us = context->idle_since_us = clock_monotonic_us();
    context->turn = (struct context_turn){0}; /* what its start took is nobody's CPU time */
    context->is_ready = true;
    pthread_mutex_unlock(&context->lock);
}

int context_start(struct context *context, struct error *err)
{
    int status = thread_start(&context->thread, 0, context->thread_main, context);
    context->has_thread = status == 0;
    if (status < 0)
        return error_host(err, status, "cannot start the thread of a context");
    status = wait_for_box(context, err);
    if (status == 0)
        status = wait_for_ready(context, err);
    if (status == 0)
        start_clocks(context);
    return status;
}

void context_release(struct context *context)
{
    pthread_mutex_lock(&context->lock);
    context->forks--;
    context->idle_since_us = clock_monotonic_us();
    bool is_last = context->forks == 0 && context->is_closed;
    pthread_mutex_unlock(&context->lock);
    if (is_last)
        context_close(context);
}

/* Nothing of the box is left, and a new one can be started. */
static void stop(struct context *context)
{
    pthread_mutex_lock(&context->lock);
    context_end(context, CAUSE_cancelled, "it was closed");
    pthread_mutex_unlock(&context->lock);
    if (context->has_thread)
        pthread_join(context->thread, NULL);
    pthread_mutex_lock(&context->lock);
    scope_close_fd(&context->channel_fd);
    scope_close_fd(&context->control_fd);
    for (int i = 0; i < STREAM_COUNT; i++)
        scope_close_fd(&context->stream_fd[i]);
    runner_reader_free(&context->reader);
    result_free(context->result);
    context->result = NULL;
    context->has_thread = context->is_started = context->is_ready = context->is_over = false;
    context->is_ending = false;
    context->turn = (struct context_turn){0};
    context->signals_open = context->runs = 0;
    context->measured = (struct measurement){0};
    context->peak_memory_bytes = context->idle_output_bytes = 0;
    cpu_account_put(context->cpu_account);
    context->cpu_account =
        cpu_account_new(context->options.bill); /* without memory nothing is charged, and all else goes on */
    uint64_t discarded;
    (void)!read(context->cancel_fd, &discarded, sizeof discarded);
    pthread_mutex_unlock(&context->lock);
}

/* A context that could not be started is dead, and says why. */
static void bury(struct context *context, const struct error *err)
{
    stop(context);
    pthread_mutex_lock(&context->lock);
    context->error = *err;
    context->is_over = true;
    pthread_mutex_unlock(&context->lock);
}

int context_restart(struct context *context, struct error *err)
{
    struct error reason = {0};
    pthread_mutex_lock(&context->lock);
    int forks = context->forks;
    pthread_mutex_unlock(&context->lock);
    if (context->parent)
        return error_spec(err, "context", "a fork cannot be restarted: fork its parent again");
    if (forks)
        return error_spec(err, "context", "%d forks of this context are alive, and would end with it", forks);
    stop(context);
    int status = context_start(context, &reason);
    if (status < 0)
        bury(context, &reason);
    if (status < 0 && err)
        *err = reason;
    return status;
}

struct context *context_make(struct spec *spec, const struct policy *policy,
                             const struct context_options *options)
{
    struct context *context = calloc(1, sizeof *context);
    if (!context)
        return NULL;
    *context = (struct context){.spec = spec,
                                .policy = policy,
                                .options = options ? *options : (struct context_options){0},
                                .thread_main = box_main,
                                .channel_fd = -1,
                                .control_fd = -1,
                                .stream_fd = {-1, -1},
                                .target_fd = -1,
                                .cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                .streams_lock = PTHREAD_MUTEX_INITIALIZER,
                                .lock = PTHREAD_MUTEX_INITIALIZER};
    cpu_bill_hold(context->options.bill);
    context->cpu_account = cpu_account_new(context->options.bill);
    if (context->options.lifetime_ms <= 0)
        context->options.lifetime_ms = CONTEXT_LIFETIME_DEFAULT_MS;
    if (context->options.idle_ms <= 0)
        context->options.idle_ms = CONTEXT_IDLE_DEFAULT_MS;
    if (context->options.runs_max <= 0)
        context->options.runs_max = CONTEXT_RUNS_DEFAULT;
    thread_condition_init(&context->changed);
    return context;
}

int context_open(struct spec *spec, const struct policy *policy, const struct context_options *options,
                 struct context **ret, struct error *err)
{
    struct context *context = context_make(spec, policy, options);
    if (!context) {
        spec_free(spec);
        return error_host(err, -ENOMEM, "no memory for a context");
    }
    int status = context->cancel_fd < 0 ? error_host(err, -EMFILE, "cannot make a context") : 0;
    if (status == 0 && policy->vet_min > VET_warn)
        status = error_spec(err, "vet",
                            "vet: runs of a context are not looked at, and the operator asks for '%s' (%s)",
                            vet_mode_names[policy->vet_min], policy->source);
    if (status == 0)
        status = runner_prepare_spec(spec, err);
    if (status == 0)
        status = context_start(context, err);
    if (status < 0) {
        context_close(context);
        return status;
    }
    *ret = context;
    return 0;
}

const struct limits *context_limits(const struct context *context)
{
    return &context->limits;
}

enum isolation context_isolation(const struct context *context)
{
    return context->spec->isolation;
}

const struct result *context_result(struct context *context)
{
    pthread_mutex_lock(&context->lock);
    const struct result *result = context->is_over ? context->result : NULL;
    pthread_mutex_unlock(&context->lock);
    return result;
}

int context_collect_into(struct context *context, int directory_fd, struct error *err)
{
    int copy = directory_fd < 0 ? -1 : fcntl(directory_fd, F_DUPFD_CLOEXEC, 0);
    if (directory_fd >= 0 && copy < 0)
        return error_host(err, -errno, "cannot keep the output directory");
    pthread_mutex_lock(&context->lock);
    int former = context->target_fd;
    context->target_fd = copy;
    pthread_mutex_unlock(&context->lock);
    scope_close_fd(&former);
    return 0;
}

int context_finish(struct context *context, const char *why, struct error *err)
{
    pthread_mutex_lock(&context->lock);
    if (!context->is_over)
        context_end(context, CAUSE_cancelled, "%s", why);
    while (!context->is_over)
        pthread_cond_wait(&context->changed, &context->lock);
    int status = context->result ? 0 : context->status;
    if (status < 0 && err)
        *err = context->error;
    pthread_mutex_unlock(&context->lock);
    return status;
}

void context_cancel(struct context *context, const char *why)
{
    pthread_mutex_lock(&context->lock);
    context_end(context, CAUSE_cancelled, "%s", why);
    pthread_mutex_unlock(&context->lock);
}

void context_close(struct context *context)
{
    if (!context)
        return;
    pthread_mutex_lock(&context->lock);
    context->is_closed = true;
    bool is_needed = context->forks > 0;
    if (is_needed) /* the kernel ends the forks of a box with it: its init goes with the last of them, all
                      else now */
        context_end(context, CAUSE_cancelled, "it was closed");
    pthread_mutex_unlock(&context->lock);
    if (is_needed)
        return;
    stop(context);
    scope_close_fd(&context->cancel_fd);
    scope_close_fd(&context->target_fd);
    if (!context->shares_spec)
        spec_free(context->spec);
    if (context->parent)
        context_release(context->parent);
    cpu_account_put(context->cpu_account);
    cpu_bill_put(context->options.bill);
    pthread_mutex_destroy(&context->streams_lock);
    pthread_mutex_destroy(&context->lock);
    pthread_cond_destroy(&context->changed);
    free(context);
}
