/* The conversation with the runner: one frame goes out, and events come until it is answered. */
#include "keeper/context_inside.h"
#include "keeper/cpu_account.h"

#include "base/clock.h"
#include "base/scope.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WATCH_US = 200000, READS_AT_ONCE = 16 };

/* Where a conversation is. */
struct talk {
    const struct buffer *frame;
    size_t sent;
    enum runner_event_kind answer;
    void (*event)(void *data, const struct runner_event *event);
    void *data;
    int64_t seen_bytes, said_bytes, watched_us; /* that were told, and all */
    int results;
    struct context_outcome *outcome;
    struct context *context;
};

int context_read(struct context *context, struct error *err)
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

static int write_some(struct context *context, struct talk *talk)
{
    if (talk->sent == talk->frame->length)
        return 0;
    ssize_t length = send(context->channel_fd, talk->frame->data + talk->sent,
                          talk->frame->length - talk->sent, MSG_NOSIGNAL);
    if (length < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -EPIPE;
    talk->sent += (size_t)length;
    return 0;
}

static bool is_output(const struct runner_event *event)
{
    return event->kind == RUNNER_stdout || event->kind == RUNNER_stderr || event->kind == RUNNER_result;
}

/* At most so much of it, without half a character at the end. */
static size_t cut(struct slice text, int64_t most)
{
    size_t length = most > 0 ? (size_t)most : 0;
    for (int i = 0; i < 3 && length > 0 && ((unsigned char)text.data[length] & 0xC0) == 0x80; i++)
        length--;
    return length;
}

/* What of a run's own is told to the caller; what goes over its output limit is counted and left out. Text is
 * cut; half a picture would be of no use to anybody. */
static bool passes(struct context *context, struct runner_event *event, struct talk *talk)
{
    if (!is_output(event))
        return true;
    int64_t limit = context->limits.value[LIMIT_output_limit], left = limit - talk->seen_bytes;
    size_t length = event->body.length, kept = 0;
    talk->said_bytes += (int64_t)length;
    if (talk->said_bytes > supervise_flood_bytes(limit)) {
        pthread_mutex_lock(&context->lock);
        context_clock_flooded(context);
        pthread_mutex_unlock(&context->lock);
    }
    bool is_one_too_many = event->kind == RUNNER_result && talk->results++ >= RUNNER_RESULTS_MAX;
    if ((int64_t)length <= left && !is_one_too_many) {
        talk->seen_bytes += (int64_t)length;
        return true;
    }
    if (event->kind != RUNNER_result) {
        kept = cut(event->body, left);
        talk->seen_bytes = limit; /* nothing comes behind a hole */
    }
    int64_t left_out = (int64_t)(length - kept);
    talk->outcome->truncated_bytes += left_out;
    if (event->kind == RUNNER_stdout)
        talk->outcome->truncated_stdout_bytes += left_out;
    else if (event->kind == RUNNER_stderr)
        talk->outcome->truncated_stderr_bytes += left_out;
    event->body.length = kept;
    return kept > 0;
}

/* As much as there is room for, without a cut character at the end. */
static void keep_text(char *into, size_t size, const char *text)
{
    size_t length = strnlen(text, size - 1);
    while (length > 0 && text[length] && ((unsigned char)text[length] & 0xC0) == 0x80)
        length--;
    memcpy(into, text, length);
    into[length] = '\0';
}

static void note(struct context *context, const struct runner_event *event)
{
    struct context_turn *turn = &context->turn;
    pthread_mutex_lock(&context->lock);
    if (turn->run && event->run == turn->run && event->kind != RUNNER_end && !turn->is_begun)
        context_clock_begun(context); /* "started", or anything else that only a run can say */
    if (event->kind == RUNNER_progress) {
        turn->fraction = event->fraction;
        keep_text(turn->text, sizeof turn->text, event->text);
    } else if (is_output(event)) {
        turn->output_us = clock_monotonic_us();
    }
    pthread_mutex_unlock(&context->lock);
}

static void hear_between(void *data, enum supervise_stream stream, struct slice bytes)
{
    context_streams_output(data, stream, bytes.data, bytes.length);
}

/* What programs of the run have written; behind a question there is no run. */
static void hear_stream(void *data, enum supervise_stream stream, struct slice bytes)
{
    struct talk *talk = data;
    struct context *context = talk->context;
    struct runner_event event = {
        .kind = stream == STREAM_STDOUT ? RUNNER_stdout : RUNNER_stderr, .run = -1, .body = bytes};
    if (talk->answer != RUNNER_end) {
        hear_between(context, stream, bytes);
        return;
    }
    note(context, &event);
    if (passes(context, &event, talk) && context->options.output)
        context->options.output(context->options.data, stream, event.body, true);
}

/* True when it is what was waited for. */
static bool take_event(struct context *context, struct runner_event *event, struct talk *talk)
{
    bool is_answer =
        event->kind == talk->answer && (talk->answer != RUNNER_end || event->run == context->run);
    if (is_answer) /* what programs wrote before they ended is in the pipes by now, and belongs to the run */
        context_streams_read(context, hear_stream, talk);
    note(context, event);
    if (passes(context, event, talk) && talk->event)
        talk->event(talk->data, event);
    if (!is_answer)
        return false;
    talk->outcome->status = event->status;
    talk->outcome->exit_code = event->exit_code;
    talk->outcome->duration_us = event->duration_us;
    return true;
}

/* Time goes on while nothing comes, too. Returns how long to wait for the runner. */
static int look(struct context *context, struct talk *talk)
{
    int64_t now_us = clock_monotonic_us();
    bool is_due = context->options.watch && context->turn.run && now_us - talk->watched_us >= WATCH_US;
    struct context_usage usage;
    pthread_mutex_lock(&context->lock);
    context_clock_look(context);
    int wait_ms = context_clock_next_ms(context);
    if (is_due)
        context_usage_fill(context, &usage);
    pthread_mutex_unlock(&context->lock);
    if (is_due) {
        talk->watched_us = now_us;
        context->options.watch(context->options.data, &usage);
    }
    return wait_ms;
}

/* All that the runner has said by now. 1: the answer is among it; 0: it is not; a negative errno: what the
 * runner broke.
 */
static int hear_runner(struct context *context, struct talk *talk, struct error *reason)
{
    int status = 1;
    for (int reads = 0; reads < READS_AT_ONCE && status > 0; reads++) {
        struct runner_event event;
        while ((status = runner_reader_next(&context->reader, &event, reason)) > 0)
            if (take_event(context, &event, talk))
                return 1;
        if (status == 0)
            status = context_read(context, reason);
    }
    return status < 0 ? status : 0;
}

/* 0 when it was answered; a negative errno when the runner is of no use any more. */
static int converse(struct context *context, struct talk *talk, struct error *reason)
{
    for (;;) {
        int status = hear_runner(context, talk, reason);
        if (status != 0)
            return status < 0 ? status : 0;
        context_streams_read(context, hear_stream, talk);
        int wait_ms = look(context, talk);
        bool is_sent = talk->sent == talk->frame->length;
        struct pollfd polled[] = {
            {.fd = context->channel_fd, .events = (short)(POLLIN | (is_sent ? 0 : POLLOUT))},
            {.fd = context->stream_fd[STREAM_STDOUT], .events = POLLIN},
            {.fd = context->stream_fd[STREAM_STDERR], .events = POLLIN}};
        if (poll(polled, sizeof polled / sizeof *polled, wait_ms) < 0 && errno != EINTR)
            return -errno;
        if ((status = write_some(context, talk)) < 0)
            return status;
    }
}

/* Its channel is closed: most often because it is dying, and then how it dies is the cause. One that only
 * closed its channel, or broke the protocol, is of no use, and is ended. */
static void die(struct context *context, const struct error *reason, struct context_outcome *outcome)
{
    int64_t until_us = clock_monotonic_us() + CONTEXT_GRACE_MS * 1000;
    pthread_mutex_lock(&context->lock);
    while (!context->is_over && !reason->text[0] && context_wait(context, until_us))
        ;
    context_end(context, CAUSE_cancelled, "%s",
                reason->text[0] ? reason->text : "the interpreter closed its channel");
    context_wait_for_end(context);
    outcome->died = true;
    outcome->cause = context->result ? context->result->cause : CAUSE_host_failure;
    outcome->status = outcome->cause == CAUSE_exit ? RUNNER_STATUS_exit : RUNNER_STATUS_error;
    if (outcome->cause == CAUSE_exit)
        outcome->exit_code = context->result->exit_code;
    pthread_mutex_unlock(&context->lock);
}

static int explain_death(const struct context *context, struct error *err)
{
    const struct result *result = context->result;
    const char *why = context->ending_detail;
    char end[sizeof result->detail + 64];
    if (context->is_over && result)
        why = result->detail[0] ? result->detail : result_format_end(result, end, sizeof end);
    else if (context->is_over)
        why = context->error.text;
    error_spec(err, "context", "the context has ended: %s", why);
    return -EPIPE;
}

/* A signal for the last run must have reached the runner before it hears of the next: then it finds nothing
 * to interrupt. With the lock held. */
static void wait_for_signals(struct context *context)
{
    int64_t until_us = clock_monotonic_us() + CONTEXT_GRACE_MS * 1000;
    while (context->signals_open && !context->is_over && context_wait(context, until_us))
        ;
    if (context->signals_open)
        context_end(context, CAUSE_host_failure, "an interrupt was not confirmed");
}

static int64_t total_cpu_us(const struct context *context, const struct measurement *now)
{
    const struct result_usage *end = context->is_over && context->result ? &context->result->usage : NULL;
    return end ? end->cpu_user_us + end->cpu_system_us : now->cpu_user_us + now->cpu_system_us;
}

struct cpu_account *context_cpu_account(struct context *context)
{
    pthread_mutex_lock(&context->lock);
    struct measurement now = context_clock_measure(context, NULL);
    cpu_account_note(context->cpu_account, total_cpu_us(context, &now), false);
    struct cpu_account *account = cpu_account_hold(context->cpu_account);
    pthread_mutex_unlock(&context->lock);
    return account;
}

int64_t context_settle(struct context *context)
{
    pthread_mutex_lock(&context->lock);
    struct measurement now = context_clock_measure(context, NULL);
    cpu_account_note(context->cpu_account, total_cpu_us(context, &now), false);
    cpu_account_settle(context->cpu_account);
    int64_t memory_bytes = context->is_over ? 0 : now.memory_bytes;
    pthread_mutex_unlock(&context->lock);
    return memory_bytes;
}

static void count_usage(const struct context *context, struct context_outcome *outcome)
{
    const struct result *result = context->is_over ? context->result : NULL;
    struct measurement now = context_clock_measure(context, NULL);
    int64_t cpu_us = total_cpu_us(context, &now);
    outcome->pids = now.pids;
    outcome->disk_bytes = now.disk_bytes;
    outcome->peak_memory_bytes = now.peak_memory_bytes > context->peak_memory_bytes
                                     ? now.peak_memory_bytes
                                     : context->peak_memory_bytes;
    if (result) {
        outcome->peak_memory_bytes = result->usage.peak_memory_bytes;
        outcome->disk_bytes = result->usage.disk_bytes;
    }
    outcome->cpu_us = cpu_us > context->turn.cpu_begun_us ? cpu_us - context->turn.cpu_begun_us : 0;
    cpu_account_note(context->cpu_account, cpu_us, false);
    outcome->charge_us = cpu_account_charge_us(context->cpu_account);
}

static int begin(struct context *context, int64_t run, struct error *err)
{
    int status = 0;
    pthread_mutex_lock(&context->lock);
    wait_for_signals(context);
    if (context->is_ending)
        context_wait_for_end(context);
    if (context->is_ending || context->is_over) {
        status = explain_death(context, err);
    } else if (run && context->runs >= context->options.runs_max) {
        error_spec(err, "runs", "the context has had all its %d runs; restart it, or open a new one",
                   context->options.runs_max);
        status = -EBUSY;
    } else {
        bool is_exact = false;
        struct measurement now = run ? context_clock_measure(context, &is_exact) : (struct measurement){0};
        int64_t now_us = clock_monotonic_us();
        int64_t wall_ms = run ? context->next_wall_ms : 0, cpu_ms = run ? context->next_cpu_ms : 0;
        context->next_wall_ms = context->next_cpu_ms = 0;
        context->runs += run != 0;
        context->idle_output_bytes = 0;
        if (run)
            cpu_account_begin(context->cpu_account, now.cpu_user_us + now.cpu_system_us);
        context->turn =
            (struct context_turn){.is_busy = true,
                                  .run = run,
                                  .started_us = now_us,
                                  .output_us = now_us,
                                  .wall_ms = wall_ms ? wall_ms : context->limits.value[LIMIT_wall],
                                  .cpu_ms = cpu_ms ? cpu_ms : context->limits.value[LIMIT_cpu],
                                  .cpu_begun_us = now.cpu_user_us + now.cpu_system_us,
                                  .pids_refused_begun = now.pids_refused,
                                  .has_cpu_base = is_exact,
                                  .cpu_base_us = now.cpu_user_us + now.cpu_system_us,
                                  .cause = CAUSE_exit,
                                  .fraction = -1};
    }
    pthread_mutex_unlock(&context->lock);
    return status;
}

/* As of a program that ends with an error: what it was refused is the reason. */
static enum cause cause_of_failure(const struct context *context, const struct context_outcome *outcome)
{
    struct measurement now = context_clock_measure(context, NULL);
    if (outcome->status != RUNNER_STATUS_error || !context->turn.run)
        return CAUSE_exit;
    return now.pids_refused > context->turn.pids_refused_begun ? CAUSE_pids
           : now.disk_is_full                                  ? CAUSE_disk
                                                               : CAUSE_exit;
}

static void finish(struct context *context, struct context_outcome *outcome)
{
    pthread_mutex_lock(&context->lock);
    const struct context_turn *turn = &context->turn;
    if (!outcome->died && turn->cause != CAUSE_exit)
        outcome->cause = turn->cause;
    else if (!outcome->died && turn->interrupt_sent && outcome->status == RUNNER_STATUS_interrupted)
        outcome->cause = CAUSE_cancelled;
    else if (!outcome->died)
        outcome->cause = cause_of_failure(context, outcome);
    outcome->timed_out = outcome->cause == CAUSE_wall_time || outcome->cause == CAUSE_cpu_time;
    if (turn->run)
        count_usage(context, outcome);
    if (outcome->died) /* else the runner told */
        outcome->duration_us = clock_monotonic_us() - turn->started_us;
    context->turn = (struct context_turn){0};
    context->idle_since_us = clock_monotonic_us();
    pthread_mutex_unlock(&context->lock);
}

static void hold_talk(struct context *context, struct talk *talk)
{
    struct error reason = {0};
    talk->context = context;
    talk->watched_us = clock_monotonic_us();
    pthread_mutex_lock(&context->streams_lock);
    /* The last words of what the run before has killed, and that died later than it, are not this one's. */
    context_streams_read(context, hear_between, context);
    if (converse(context, talk, &reason) < 0) {
        die(context, &reason, talk->outcome);
        context_streams_read(context, hear_stream, talk);
    }
    pthread_mutex_unlock(&context->streams_lock);
    finish(context, talk->outcome);
}

int context_run(struct context *context, const struct runner_order *order,
                void (*event)(void *data, const struct runner_event *event), void *data,
                struct context_outcome *ret, struct error *err)
{
    *ret = (struct context_outcome){.cause = CAUSE_exit};
    struct runner_order numbered = *order;
    numbered.run = context->run + 1;
    scope_buffer frame = {0};
    int status = runner_write_run(&frame, &numbered);
    if (status < 0)
        return error_spec(err, "code", "code: it cannot be sent: %s", strerror(-status));
    status = begin(context, numbered.run, err);
    if (status < 0)
        return status;
    context->run = numbered.run;
    struct talk talk = {.frame = &frame, .answer = RUNNER_end, .event = event, .data = data, .outcome = ret};
    hold_talk(context, &talk);
    return 0;
}

int context_preload(struct context *context, const struct string_list *modules, struct error *err)
{
    struct context_outcome outcome = {.cause = CAUSE_exit};
    scope_buffer frame = {0};
    struct talk talk = {.frame = &frame, .answer = RUNNER_ready, .outcome = &outcome};
    int status = runner_write_preload(&frame, modules, false);
    if (status < 0)
        return error_host(err, status, "cannot name the modules");
    status = begin(context, 0, err);
    if (status < 0)
        return status;
    hold_talk(context, &talk);
    return outcome.died ? error_host(err, -EPIPE, "the interpreter died while it was warmed up") : 0;
}

int context_limit_next(struct context *context, int64_t wall_ms, int64_t cpu_ms, struct error *err)
{
    int status = wall_ms ? policy_check_limit(context->policy, LIMIT_wall, wall_ms, err) : 0;
    if (status == 0 && cpu_ms)
        status = policy_check_limit(context->policy, LIMIT_cpu, cpu_ms, err);
    if (status < 0)
        return status;
    context->next_wall_ms = wall_ms;
    context->next_cpu_ms = cpu_ms;
    return 0;
}

static void take_completeness(void *data, const struct runner_event *event)
{
    if (event->kind == RUNNER_completeness)
        *(bool *)data = strcmp(event->text, "incomplete") != 0;
}

bool context_is_complete(struct context *context, struct slice code)
{
    bool complete = true;
    struct context_outcome ignored = {.cause = CAUSE_exit};
    scope_buffer frame = {0};
    struct talk talk = {.frame = &frame,
                        .answer = RUNNER_completeness,
                        .event = take_completeness,
                        .data = &complete,
                        .outcome = &ignored};
    if (runner_write_question(&frame, code) == 0 && begin(context, 0, NULL) == 0)
        hold_talk(context, &talk);
    return complete;
}
