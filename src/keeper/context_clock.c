/* What time does to a context. Everything here is called with the lock of the context held, from the thread
 * that supervises the box and from the one that waits for a run: whoever looks first acts. */
#include "keeper/context_inside.h"

#include "base/clock.h"
#include "base/text.h"
#include "engine/launch.h"
#include "os/process.h"

#include <errno.h>
#include <string.h>

enum { LOOK_MS = 50 };

/* At most one signal a run, and only when the runner is known to be inside of it. */
static int send_interrupt(struct context *context)
{
    struct context_turn *turn = &context->turn;
    if (!turn->interrupt_wanted)
        turn->interrupted_us = clock_monotonic_us();
    turn->interrupt_wanted = true;
    if (!turn->is_begun || turn->interrupt_sent)
        return 0;
    char order = INIT_INTERRUPT;
    int status = process_send(context->control_fd, &order, 1, -1);
    if (status < 0)
        return status;
    turn->interrupt_sent = true;
    context->signals_open++;
    return 0;
}

void context_clock_begun(struct context *context)
{
    context->turn.is_begun = true;
    if (context->turn.interrupt_wanted)
        send_interrupt(context);
}

int context_interrupt(struct context *context)
{
    int status = 0;
    pthread_mutex_lock(&context->lock);
    const struct context_turn *turn = &context->turn;
    bool has_run = turn->is_busy && turn->run;
    if (has_run) {
        if (!turn->interrupt_wanted)
            status = send_interrupt(context);
        else if (clock_monotonic_us() - turn->interrupted_us >= CONTEXT_GRACE_MS * 1000)
            context_end(context, CAUSE_cancelled, "the run went on after it was interrupted");
    }
    pthread_mutex_unlock(&context->lock);
    return status < 0 ? status : has_run;
}

struct measurement context_clock_measure(const struct context *context, bool *ret_is_exact)
{
    struct box *box = context->box;
    struct measurement now = context->measured;
    bool is_exact = box && !box->engine->in_directory && !box->is_watched;
    if (is_exact)
        box->engine->measure(box, &now);
    if (ret_is_exact)
        *ret_is_exact = is_exact;
    return now;
}

static int64_t cpu_used_us(const struct context *context)
{
    const struct context_turn *turn = &context->turn;
    int64_t total_us = context->measured.cpu_user_us + context->measured.cpu_system_us;
    return turn->has_cpu_base ? total_us - turn->cpu_base_us : 0;
}

/* Between runs. What goes on then, threads or a run that only said that it had ended, has no other limit than
 * a run has. */
static void look_while_idle(struct context *context, int64_t now_us)
{
    char value[32];
    if (context->forks == 0 && now_us - context->idle_since_us >= context->options.idle_ms * 1000)
        context_end(context, CAUSE_cancelled, "it was idle for %s",
                    text_format_duration(context->options.idle_ms, value, sizeof value));
    else if (cpu_used_us(context) >= context->limits.value[LIMIT_cpu] * 1000)
        context_end(context, CAUSE_cpu_time, "%s between runs: cpu is %s", cause_meanings[CAUSE_cpu_time],
                    limit_format(LIMIT_cpu, context->limits.value[LIMIT_cpu], value, sizeof value));
}

static void interrupt_at_limit(struct context *context, enum cause cause, int64_t now_us)
{
    struct context_turn *turn = &context->turn;
    turn->cause = cause;
    turn->kill_us = now_us + CONTEXT_GRACE_MS * 1000;
    send_interrupt(context);
}

static void kill_at_limit(struct context *context)
{
    const struct context_turn *turn = &context->turn;
    enum limit_field field = turn->cause == CAUSE_wall_time  ? LIMIT_wall
                             : turn->cause == CAUSE_cpu_time ? LIMIT_cpu
                                                             : LIMIT_output_limit;
    int64_t limit = field == LIMIT_wall  ? turn->wall_ms
                    : field == LIMIT_cpu ? turn->cpu_ms
                                         : context->limits.value[LIMIT_output_limit];
    char value[32];
    context_end(context, turn->cause, "%s: %s is %s; the run went on after it was interrupted",
                cause_meanings[turn->cause], limit_rows[field].name,
                limit_format(field, limit, value, sizeof value));
}

void context_clock_flooded(struct context *context)
{
    struct context_turn *turn = &context->turn;
    if (turn->is_busy && turn->run && turn->cause == CAUSE_exit && !context->is_ending)
        interrupt_at_limit(context, CAUSE_output, clock_monotonic_us());
}

void context_clock_look(struct context *context)
{
    const struct context_turn *turn = &context->turn;
    int64_t now_us = clock_monotonic_us();
    if (!context->is_ready || context->is_ending || context->is_over)
        return;
    if (!turn->is_busy) {
        look_while_idle(context, now_us);
    } else if (turn->cause != CAUSE_exit) {
        if (now_us >= turn->kill_us)
            kill_at_limit(context);
    } else if (now_us - turn->started_us >= turn->wall_ms * 1000) {
        /* Who was kept from looking for long finds more than one limit broken. CPU time is the nearer cause:
         * waiting alone does not use it up. */
        context->measured = context_clock_measure(context, NULL);
        bool is_cpu_spent = cpu_used_us(context) >= turn->cpu_ms * 1000;
        interrupt_at_limit(context, is_cpu_spent ? CAUSE_cpu_time : CAUSE_wall_time, now_us);
    } else if (cpu_used_us(context) >= turn->cpu_ms * 1000) {
        interrupt_at_limit(context, CAUSE_cpu_time, now_us);
    }
}

int context_clock_next_ms(const struct context *context)
{
    const struct context_turn *turn = &context->turn;
    int64_t then_us = turn->cause == CAUSE_exit ? turn->started_us + turn->wall_ms * 1000 : turn->kill_us;
    int64_t left_ms = (then_us - clock_monotonic_us()) / 1000 + 1;
    if (left_ms > LOOK_MS || context->is_ending)
        return LOOK_MS;
    return left_ms > 0 ? (int)left_ms : 0;
}

void context_clock_sample(struct context *context, const struct measurement *now)
{
    struct context_turn *turn = &context->turn;
    pthread_mutex_lock(&context->lock);
    context->measured = *now;
    if (now->memory_bytes > context->peak_memory_bytes)
        context->peak_memory_bytes = now->memory_bytes;
    if (now->peak_memory_bytes > context->peak_memory_bytes)
        context->peak_memory_bytes = now->peak_memory_bytes;
    context->samples++;
    if (!turn->has_cpu_base) { /* the one before may have been taken inside the last run */
        turn->has_cpu_base = true;
        turn->cpu_base_us = now->cpu_user_us + now->cpu_system_us;
    }
    context_clock_look(context);
    pthread_cond_broadcast(&context->changed);
    pthread_mutex_unlock(&context->lock);
}

static int extend(struct context *context, int64_t extra_ms, struct error *err)
{
    struct context_turn *turn = &context->turn;
    int64_t wall_ms, cpu_ms, cpu_most_ms = context->policy->ceilings.value[LIMIT_cpu];
    if (!turn->is_busy || !turn->run || turn->cause != CAUSE_exit || context->is_ending) {
        error_spec(err, "run", "%s",
                   turn->is_busy && turn->run ? "the time of the run is over already"
                                              : "no run is under way whose time could be extended");
        return -ESRCH;
    }
    if (extra_ms <= 0 || __builtin_add_overflow(turn->wall_ms, extra_ms, &wall_ms) ||
        __builtin_add_overflow(turn->cpu_ms, extra_ms, &cpu_ms))
        return error_spec(err, "wall", "wall: %lld ms is no time that a run could be extended by",
                          (long long)extra_ms);
    int status = policy_check_limit(context->policy, LIMIT_wall, wall_ms, err);
    if (status < 0)
        return status;
    turn->wall_ms = wall_ms;
    if (turn->cpu_ms < cpu_most_ms)
        turn->cpu_ms = cpu_ms < cpu_most_ms ? cpu_ms : cpu_most_ms;
    return 0;
}

int context_extend(struct context *context, int64_t extra_ms, struct error *err)
{
    pthread_mutex_lock(&context->lock);
    int status = extend(context, extra_ms, err);
    pthread_mutex_unlock(&context->lock);
    return status;
}

void context_usage_fill(const struct context *context, struct context_usage *ret)
{
    const struct context_turn *turn = &context->turn;
    const struct measurement *measured = &context->measured;
    const struct limits *limits = &context->limits;
    int64_t now_us = clock_monotonic_us();
    bool has_run = turn->is_busy && turn->run;
    *ret = (struct context_usage){.wall_limit_us = limits->value[LIMIT_wall] * 1000,
                                  .cpu_limit_us = limits->value[LIMIT_cpu] * 1000,
                                  .fraction = -1,
                                  .memory_bytes = measured->memory_bytes,
                                  .peak_memory_bytes = context->peak_memory_bytes,
                                  .pids = measured->pids,
                                  .disk_bytes = measured->disk_bytes,
                                  .runs = (int)context->runs,
                                  .runs_max = context->options.runs_max,
                                  .age_us = now_us - context->started_us,
                                  .lifetime_us = context->options.lifetime_ms * 1000,
                                  .idle_us = turn->is_busy ? 0 : now_us - context->idle_since_us,
                                  .idle_limit_us = context->options.idle_ms * 1000};
    if (!has_run)
        return;
    ret->run = turn->run;
    ret->elapsed_us = now_us - turn->started_us;
    ret->wall_limit_us = turn->wall_ms * 1000;
    ret->cpu_us = cpu_used_us(context);
    ret->cpu_limit_us = turn->cpu_ms * 1000;
    ret->silent_us = now_us - turn->output_us;
    ret->fraction = turn->fraction;
    memcpy(ret->text, turn->text, sizeof ret->text);
}

void context_look(struct context *context, struct context_usage *ret)
{
    pthread_mutex_lock(&context->lock);
    int64_t until_us = clock_monotonic_us() + 10 * LOOK_MS * 1000;
    int64_t before = context->samples;
    while (context->samples == before && !context->is_over && context_wait(context, until_us))
        ;
    context_usage_fill(context, ret);
    pthread_mutex_unlock(&context->lock);
}
