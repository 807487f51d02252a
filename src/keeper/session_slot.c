/* The contexts of a session: opened, claimed, run, replaced. */
#include "keeper/session_inside.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/scope.h"
#include "keeper/handed.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOSE_MAX = 1 << 20 /* of a stream, that waits to be told */ };

struct slot *slot_new(struct session *session, const char *language)
{
    struct slot *slot = calloc(1, sizeof *slot);
    if (!slot)
        return NULL;
    identifier_make("ctx_", slot->id);
    slot->session = session;
    snprintf(slot->language, sizeof slot->language, "%s", language);
    pthread_mutex_init(&slot->loose_lock, NULL);
    return slot;
}

void slot_free(struct slot *slot)
{
    if (!slot)
        return;
    context_close(slot->context);
    for (int i = 0; i < STREAM_COUNT; i++)
        buffer_free(&slot->loose[i]);
    pthread_mutex_destroy(&slot->loose_lock);
    free(slot);
}

void slot_add(struct session *session, struct slot *slot)
{
    struct slot **at = &session->slots;
    while (*at)
        at = &(*at)->next;
    *at = slot;
}

struct slot *slot_find(const struct session *session, const char *id)
{
    for (struct slot *slot = session->slots; slot; slot = slot->next)
        if (!id || strcmp(slot->id, id) == 0)
            return slot;
    return NULL;
}

/* By the thread that supervises the box, which must not wait for anybody: it is kept, and told by the next
 * one that runs. */
static void keep_output(struct slot *slot, enum supervise_stream stream, struct slice bytes)
{
    pthread_mutex_lock(&slot->loose_lock);
    size_t held = slot->loose[stream].length, room = held < LOOSE_MAX ? LOOSE_MAX - held : 0;
    size_t taken = bytes.length < room ? bytes.length : room;
    if (taken && buffer_append(&slot->loose[stream], bytes.data, taken) < 0)
        taken = 0;
    slot->loose_dropped[stream] += (int64_t)(bytes.length - taken);
    pthread_mutex_unlock(&slot->loose_lock);
}

static void tell_output(struct slot *slot)
{
    const struct session_listener *listener = slot->listener;
    int64_t most = context_limits(slot->context)->value[LIMIT_output_limit];
    for (int i = 0; i < STREAM_COUNT; i++) {
        pthread_mutex_lock(&slot->loose_lock);
        scope_buffer bytes = slot->loose[i];
        slot->loose[i] = (struct buffer){0};
        slot->dropped_bytes[i] += slot->loose_dropped[i];
        slot->loose_dropped[i] = 0;
        pthread_mutex_unlock(&slot->loose_lock);
        int64_t room = most - slot->loose_taken, length = (int64_t)bytes.length;
        int64_t told = length < room ? length : room;
        slot->loose_taken += told;
        slot->dropped_bytes[i] += length - told;
        if (told > 0 && listener)
            listener->output(listener->data, (enum supervise_stream)i,
                             (struct slice){bytes.data, (size_t)told});
    }
}

static void take_output(void *data, enum supervise_stream stream, struct slice bytes, bool is_runs)
{
    struct slot *slot = data;
    const struct session_listener *listener = is_runs ? slot->listener : NULL;
    if (!listener) {
        keep_output(slot, stream, bytes);
        return;
    }
    tell_output(slot);
    listener->output(listener->data, stream, bytes);
}

/* Five times a second in the thread that runs. */
static void look_around(void *data, const struct context_usage *usage)
{
    struct slot *slot = data;
    const struct session_listener *listener = slot->listener;
    if (!listener)
        return;
    tell_output(slot);
    if (listener->watch)
        listener->watch(listener->data, usage);
    if (listener->is_gone(listener->data))
        context_interrupt(slot->context); /* and again: from a second later on it does not ask any more */
}

static void hear(void *data, const struct runner_event *event)
{
    struct slot *slot = data;
    tell_output(slot);
    slot->listener->event(slot->listener->data, event);
}

/* Number of runs, idleness and lifetime are the session's to watch. */
struct context_options slot_options(struct slot *slot)
{
    return (struct context_options){.lifetime_ms = LIFETIME_MS,
                                    .idle_ms = LIFETIME_MS,
                                    .runs_max = INT_MAX,
                                    .output = take_output,
                                    .watch = look_around,
                                    .data = slot,
                                    .bill = slot->session->bill};
}

struct context_options slot_sleeping_options(void)
{
    return (struct context_options){.lifetime_ms = LIFETIME_MS, .idle_ms = LIFETIME_MS, .runs_max = INT_MAX};
}

static int make_spec(const struct slot *slot, struct spec **ret, struct error *err)
{
    json_t *fields = json_copy(slot->session->spec);
    if (fields)
        json_object_set_new(fields, "language", json_string(slot->language));
    scope_free char *text = fields ? json_text(fields, JSON_COMPACT) : NULL;
    json_decref(fields);
    scope_spec *spec = spec_new();
    if (!text || !spec)
        return error_host(err, -ENOMEM, "no memory for a context");
    int status = spec_read_json(spec, text, strlen(text), err);
    if (status == 0 && slot->session->inputs)
        status = handed_take_inputs(slot->session->inputs, slot->session->input_fds, spec, err);
    if (status == 0)
        *ret = take_pointer(spec);
    return status;
}

int slot_fill(struct slot *slot, struct error *err)
{
    struct session_table *table = slot->session->table;
    struct context_options options = slot_options(slot);
    struct context *context = NULL;
    struct spec *spec = NULL;
    bool is_warm = false;
    int status = 0;
    if (!slot->session->is_cold && (status = make_spec(slot, &spec, err)) == 0)
        is_warm = warm_take(table->warm, spec, &options, &context, NULL) == 0;
    if (!is_warm && status == 0)
        status = make_spec(slot, &spec, err);
    if (!is_warm && status == 0)
        status = context_open(spec, table->policy, &options, &context, err);
    if (status < 0)
        return status;
    pthread_mutex_lock(&table->lock);
    slot->context = context;
    slot->is_warm = is_warm;
    slot->runs = 0;
    pthread_mutex_unlock(&table->lock);
    return 0;
}

static int refuse(struct error *err, int code, const char *field, const char *text)
{
    error_spec(err, field, "%s", text);
    if (err)
        err->code = code;
    return code;
}

static int claim_locked(struct session *session, const char *id, struct slot **ret_one, struct error *err)
{
    int status = session_check_alive(session, err);
    if (status < 0)
        return status;
    struct slot *one = ret_one ? slot_find(session, id) : NULL;
    if (ret_one && !one)
        return refuse(err, -ENOENT, "context", "there is no such context in this sandbox");
    for (struct slot *slot = session->slots; slot; slot = slot->next)
        if ((!one || slot == one) && slot->is_claimed)
            return refuse(err, -EBUSY, "context",
                          "the context is busy: a run, a fork or a restart is under way");
    for (struct slot *slot = session->slots; slot; slot = slot->next)
        if (!one || slot == one)
            slot->is_claimed = true;
    session->working++;
    if (ret_one)
        *ret_one = one;
    return 0;
}

int slots_claim(struct session *session, const char *id, struct slot **ret_one, struct error *err)
{
    pthread_mutex_lock(&session->table->lock);
    int status = claim_locked(session, id, ret_one, err);
    pthread_mutex_unlock(&session->table->lock);
    return status;
}

void slots_release(struct session *session, struct slot *one)
{
    pthread_mutex_lock(&session->table->lock);
    for (struct slot *slot = session->slots; slot; slot = slot->next)
        if (!one || slot == one)
            slot->is_claimed = false;
    pthread_mutex_unlock(&session->table->lock);
    session_work_done(session);
}

void slot_await_visitors(struct slot *slot)
{
    struct session_table *table = slot->session->table;
    while (slot->visitors)
        pthread_cond_wait(&table->changed, &table->lock);
}

struct context *slot_exchange(struct slot *slot, struct context *context)
{
    struct session_table *table = slot->session->table;
    pthread_mutex_lock(&table->lock);
    slot_await_visitors(slot);
    struct context *former = slot->context;
    slot->context = context;
    pthread_mutex_unlock(&table->lock);
    return former;
}

int session_open(struct session_table *table, const struct session_terms *terms, struct session **ret,
                 struct error *err)
{
    const char *language = json_string_value(json_object_get(terms->spec, "language"));
    pthread_mutex_lock(&table->lock);
    struct session *session = session_add(table, terms, err);
    struct slot *slot = session ? slot_new(session, language ? language : "python") : NULL;
    pthread_mutex_unlock(&table->lock);
    if (!session)
        return err && err->code ? err->code : -ENOMEM;
    int status = slot ? slot_fill(slot, err) : error_host(err, -ENOMEM, "no memory for a sandbox");
    pthread_mutex_lock(&table->lock);
    if (status == 0)
        status = session_check_alive(session, err);
    if (status == 0) {
        slot_add(session, slot);
        session_begin(session);
        session_tell(session, "opened", NULL);
    }
    pthread_mutex_unlock(&table->lock);
    if (status < 0) {
        slot_free(slot);
        session_abandon(session);
        return status;
    }
    session_work_done(session);
    *ret = session;
    return 0;
}

int session_context_open(struct session *session, const char *language, char *ret_id, struct error *err)
{
    struct session_table *table = session->table;
    size_t count = 0;
    pthread_mutex_lock(&table->lock);
    int status = session_check_alive(session, err);
    for (const struct slot *at = session->slots; at; at = at->next)
        count++;
    if (status == 0 && count >= SESSION_CONTEXTS_MAX)
        status = refuse(err, -EBUSY, "contexts", "the sandbox has as many contexts as it may have");
    struct slot *slot = status == 0 ? slot_new(session, language) : NULL;
    if (status == 0 && !slot)
        status = error_host(err, -ENOMEM, "no memory for a context");
    if (status == 0) {
        session->working++;
        slot->is_claimed = true; /* in the list, so that it is counted */
        slot_add(session, slot);
    }
    pthread_mutex_unlock(&table->lock);
    if (status < 0)
        return status;
    snprintf(ret_id, IDENTIFIER_SIZE, "%s", slot->id);
    status = slot_fill(slot, err);
    pthread_mutex_lock(&table->lock);
    if (status == 0) {
        slot->is_claimed = false;
        session_tell(session, "context_opened", json_pack("{s:s}", "context", slot->id));
    }
    for (struct slot **at = &session->slots; status < 0 && *at; at = &(*at)->next)
        if (*at == slot) {
            *at = slot->next;
            break;
        }
    pthread_mutex_unlock(&table->lock);
    if (status < 0)
        slot_free(slot);
    session_work_done(session);
    return status;
}

int session_context_close(struct session *session, const char *id, struct error *err)
{
    struct session_table *table = session->table;
    struct slot *slot = NULL;
    int status = slots_claim(session, id, &slot, err);
    if (status < 0)
        return status;
    pthread_mutex_lock(&table->lock);
    if (session->slots == slot && !slot->next)
        status = refuse(err, -EBUSY, "context", "it is the sandbox's only context: delete the sandbox");
    if (status == 0)
        slot_await_visitors(slot);
    for (struct slot **at = &session->slots; status == 0 && *at; at = &(*at)->next)
        if (*at == slot) {
            *at = slot->next;
            session_tell(session, "context_closed", json_pack("{s:s}", "context", slot->id));
            break;
        }
    slot->is_claimed = status == 0;
    pthread_mutex_unlock(&table->lock);
    if (status == 0)
        slot_free(slot);
    session_work_done(session);
    return status;
}

int session_context_restart(struct session *session, const char *id, struct error *err)
{
    struct slot *slot = NULL;
    int status = slots_claim(session, id, &slot, err);
    if (status < 0)
        return status;
    context_close(slot_exchange(slot, NULL));
    status = slot_fill(slot, err);
    pthread_mutex_lock(&session->table->lock);
    session_tell(session, "restarted", json_pack("{s:s, s:b}", "context", slot->id, "ok", status == 0));
    pthread_mutex_unlock(&session->table->lock);
    slots_release(session, slot);
    return status;
}

int session_visit(struct session *session, const char *id, bool is_work, struct session_visit *ret,
                  struct error *err)
{
    pthread_mutex_lock(&session->table->lock);
    int status = session_check_alive(session, err);
    struct slot *slot = status == 0 ? slot_find(session, id) : NULL;
    if (status == 0 && !slot)
        status = refuse(err, -ENOENT, "context", "there is no such context in this sandbox");
    else if (status == 0 && !slot->context)
        status = refuse(err, -EBUSY, "context", "the context is not there now: it is being started");
    if (status == 0) {
        slot->visitors++;
        session->working += is_work;
        *ret = (struct session_visit){slot->context, slot, is_work};
    }
    pthread_mutex_unlock(&session->table->lock);
    return status;
}

void session_leave(struct session_visit *visit)
{
    struct session *session = visit->slot->session;
    pthread_mutex_lock(&session->table->lock);
    visit->slot->visitors--;
    pthread_cond_broadcast(&session->table->changed);
    pthread_mutex_unlock(&session->table->lock);
    if (visit->is_work)
        session_work_done(session);
}

int session_context_interrupt(struct session *session, const char *id, struct error *err)
{
    struct session_visit visit;
    int status = session_visit(session, id, false, &visit, err);
    if (status < 0)
        return status;
    status = context_interrupt(visit.context);
    if (status < 0) {
        error_host(err, status, "the context cannot be interrupted");
    } else if (status == 0) {
        error_spec(err, "run", "no run is under way that could be interrupted");
        status = err->code = -ESRCH;
    }
    session_leave(&visit);
    return status < 0 ? status : 0;
}

int session_context_extend(struct session *session, const char *id, int64_t extra_ms, struct error *err)
{
    struct session_visit visit;
    int status = session_visit(session, id, false, &visit, err);
    if (status < 0)
        return status;
    status = context_extend(visit.context, extra_ms, err);
    if (status < 0)
        err->code = status;
    session_leave(&visit);
    return status;
}

int session_command_start(struct session *session, const char *context, const struct context_command *command,
                          int *ret_socket, int64_t *ret_wall_ms, struct error *err)
{
    struct session_visit visit;
    int status = session_visit(session, context, false, &visit, err);
    if (status < 0)
        return status;
    status = context_exec(visit.context, command, ret_socket, err);
    *ret_wall_ms = context_limits(visit.context)->value[LIMIT_wall];
    if (status == 0) {
        pthread_mutex_lock(&session->table->lock);
        session->working++;
        if (command->id)
            session_tell(session, "exec_started",
                         json_pack("{s:s, s:s, s:s, s:b}", "exec", command->id, "context", visit.slot->id,
                                   "command", command->words.items[0], "terminal", command->window != NULL));
        pthread_mutex_unlock(&session->table->lock);
    }
    session_leave(&visit);
    return status;
}

struct cpu_account *session_cpu_account(struct session *session, const char *context)
{
    struct session_visit visit;
    if (session_visit(session, context, false, &visit, &(struct error){0}) < 0)
        return NULL;
    struct cpu_account *account = context_cpu_account(visit.context);
    session_leave(&visit);
    return account;
}

void session_command_over(struct session *session, json_t *end)
{
    pthread_mutex_lock(&session->table->lock);
    if (end)
        session_tell(session, "exec_ended", end);
    pthread_mutex_unlock(&session->table->lock);
    session_work_done(session);
}

int session_check_wall(const struct session *session, int64_t wall_ms, struct error *err)
{
    return policy_check_limit(session->table->policy, LIMIT_wall, wall_ms, err);
}

static void describe_death(struct slot *slot, struct session_outcome *outcome)
{
    const struct result *result = context_result(slot->context);
    if (!outcome->is.died)
        return;
    outcome->is.exit_code = result ? result->exit_code : -1;
    outcome->signal = result ? result->signal : 0;
    if (result)
        snprintf(outcome->detail, sizeof outcome->detail, "%s",
                 result->detail[0] ? result->detail : cause_meanings[result->cause]);
}

int slot_run(struct slot *slot, const struct session_order *order, const struct session_listener *listener,
             struct session_outcome *ret, struct error *err)
{
    *ret = (struct session_outcome){0};
    if (!slot->context)
        return refuse(err, -EPIPE, "context", "the context could not be started: restart it");
    snprintf(ret->language, sizeof ret->language, "%s", slot->language);
    ret->isolation = context_isolation(slot->context);
    if (order->code.length > SPEC_CODE_MAX)
        return error_spec(err, "code", "code: %zu bytes are more than the %d that are allowed",
                          order->code.length, SPEC_CODE_MAX);
    int status = context_limit_next(slot->context, order->wall_ms, order->cpu_ms, err);
    if (status < 0)
        return status;
    slot->listener = listener;
    slot->dropped_bytes[STREAM_STDOUT] = slot->dropped_bytes[STREAM_STDERR] = slot->loose_taken = 0;
    const struct runner_order run = {.code = order->code, .stdin_text = order->stdin_text};
    status = context_run(slot->context, &run, hear, slot, &ret->is, err);
    if (status < 0 && err && err->kind == ERROR_SPEC)
        err->code = status;
    if (status == 0) {
        tell_output(slot);
        ret->is.truncated_stdout_bytes += slot->dropped_bytes[STREAM_STDOUT];
        ret->is.truncated_stderr_bytes += slot->dropped_bytes[STREAM_STDERR];
        ret->is.truncated_bytes += slot->dropped_bytes[STREAM_STDOUT] + slot->dropped_bytes[STREAM_STDERR];
        describe_death(slot, ret);
    }
    slot->listener = NULL;
    return status;
}

/* Counts it, if there is one left. */
static int take_run(struct session *session, struct slot *slot, const char *id, struct error *err)
{
    int status = 0;
    pthread_mutex_lock(&session->table->lock);
    if (session->runs >= session->runs_max) {
        error_spec(err, "runs_max", "the sandbox has had all its %d runs", session->runs_max);
        status = err->code = -EBUSY;
    } else {
        session->runs++;
        slot->runs++;
        session_tell(session, "run_started",
                     json_pack("{s:s, s:s*, s:i}", "context", slot->id, "run", id, "runs", session->runs));
    }
    pthread_mutex_unlock(&session->table->lock);
    return status;
}

int session_run(struct session *session, const struct session_order *order,
                const struct session_listener *listener, struct session_outcome *ret, struct error *err)
{
    struct slot *slot = NULL;
    int status = slots_claim(session, order->context, &slot, err);
    if (status < 0)
        return status;
    status = take_run(session, slot, order->id, err);
    if (status == 0) {
        status = slot_run(slot, order, listener, ret, err);
        pthread_mutex_lock(&session->table->lock);
        session_tell(
            session, "run_ended",
            status < 0
                ? json_pack("{s:s, s:s*, s:s}", "context", slot->id, "run", order->id, "error", err->text)
                : json_pack("{s:s, s:s*, s:s, s:s, s:I}", "context", slot->id, "run", order->id, "status",
                            runner_status_names[ret->is.status], "cause", cause_names[ret->is.cause],
                            "duration_ms", (json_int_t)(ret->is.duration_us / 1000)));
        pthread_mutex_unlock(&session->table->lock);
    }
    slots_release(session, slot);
    return status;
}
