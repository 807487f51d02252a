/* The list of sessions, their deadlines and their ends. */
#include "keeper/session_inside.h"

#include "base/condition.h"
#include "base/json_text.h"
#include "base/scope.h"
#include "base/text.h"
#include "base/thread.h"
#include "keeper/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOOK_MS = 1000,
    GRACE_MS = 1000,             /* for what runs in a session that is ended */
    REMEMBER_US = 600 * 1000000, /* how long one that has ended can be asked why */
    ENDER_STACK_BYTES = 256 << 10,
};

int64_t clock_unix_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void session_free(struct session *session)
{
    while (session->slots) {
        struct slot *slot = session->slots;
        session->slots = slot->next;
        slot_free(slot);
    }
    for (int i = 0; i < SESSION_EVENTS_KEPT; i++)
        free(session->events[i]);
    json_decref(session->spec);
    json_decref(session->inputs);
    for (int i = 0; session->input_fds && i < WIRE_DESCRIPTORS; i++)
        scope_close_fd(&session->input_fds[i]);
    free(session->input_fds);
    free(session->about);
    free(session->owner);
    free(session);
}

/* What is over, and nobody holds or will ask for. With the lock held; returns them for session_free. */
static struct session *take_forgotten(struct session_table *table)
{
    struct session *forgotten = NULL;
    int64_t now_us = clock_monotonic_us();
    for (struct session **at = &table->sessions; *at;) {
        struct session *session = *at;
        bool goes = session->is_over && session->users == 0 &&
                    (session->is_forgotten || now_us - session->over_us > REMEMBER_US);
        if (!goes) {
            at = &session->next;
            continue;
        }
        *at = session->next;
        session->next = forgotten;
        forgotten = session;
    }
    table->last = &table->sessions;
    while (*table->last)
        table->last = &(*table->last)->next;
    return forgotten;
}

static void free_all(struct session *list)
{
    while (list) {
        struct session *next = list->next;
        session_free(list);
        list = next;
    }
}

void session_put(struct session *session)
{
    if (!session)
        return;
    struct session_table *table = session->table;
    pthread_mutex_lock(&table->lock);
    session->users--;
    struct session *forgotten = session->users == 0 && session->is_forgotten ? take_forgotten(table) : NULL;
    pthread_cond_broadcast(&table->changed);
    pthread_mutex_unlock(&table->lock);
    free_all(forgotten);
}

/* They are needed again for every context that is opened or restarted. */
static int copy_inputs(struct session *session, const struct session_terms *terms)
{
    if (json_array_size(terms->inputs) == 0)
        return 0;
    session->inputs = json_deep_copy(terms->inputs);
    session->input_fds = malloc(WIRE_DESCRIPTORS * sizeof *session->input_fds);
    for (int i = 0; session->input_fds && i < WIRE_DESCRIPTORS; i++)
        session->input_fds[i] = terms->fds[i] < 0 ? -1 : fcntl(terms->fds[i], F_DUPFD_CLOEXEC, 0);
    return session->inputs && session->input_fds ? 0 : -ENOMEM;
}

/* Of a sandbox that leaves its engine open: the usual one, as nobody knows what code will come; and it says
 * which that is. */
static int settle_isolation(struct session *session)
{
    const struct policy *policy = session->table->policy;
    const char *asked = json_string_value(json_object_get(session->spec, "isolation"));
    if (asked ? strcmp(asked, "auto") != 0 : !policy->is_auto)
        return 0;
    return json_object_set_new(session->spec, "isolation", json_string(isolation_names[policy->isolation]));
}

static int copy_terms(struct session *session, const struct session_terms *terms)
{
    session->owner = strdup(terms->owner);
    session->spec = json_deep_copy(terms->spec);
    session->about = terms->about ? json_text(terms->about, JSON_COMPACT) : NULL;
    session->ttl_ms = terms->ttl_ms ? terms->ttl_ms : SESSION_TTL_DEFAULT_MS;
    session->idle_ms = terms->idle_ms ? terms->idle_ms : SESSION_IDLE_DEFAULT_MS;
    session->runs_max = terms->runs_max ? terms->runs_max : CONTEXT_RUNS_DEFAULT;
    session->is_cold = terms->is_cold;
    snprintf(session->room, sizeof session->room, "%s", terms->room ? terms->room : "");
    identifier_make("sbx_", session->id);
    bool is_whole = session->owner && session->spec && (session->about || !terms->about) &&
                    copy_inputs(session, terms) == 0 && settle_isolation(session) == 0;
    return is_whole ? 0 : -ENOMEM;
}

/* As they will be when the spec is read for a box; what cannot be read is told then. */
static void take_limits(struct session *session)
{
    session->limits = session->table->policy->defaults;
    scope_free char *text = json_text(session->spec, JSON_COMPACT);
    scope_spec *spec = spec_new();
    if (!text || !spec || spec_read_json(spec, text, strlen(text), NULL) < 0)
        return;
    for (int i = 0; i < LIMIT_FIELDS; i++)
        if (spec->limit_set[i])
            session->limits.value[i] = spec->limits.value[i];
}

struct session *session_add(struct session_table *table, const struct session_terms *terms, struct error *err)
{
    if (table->is_closing || table->alive >= SESSIONS_MAX) {
        error_host(err, -EAGAIN, "there are %d sandboxes already, and no more are possible", SESSIONS_MAX);
        return NULL;
    }
    struct session_owner *owner = owner_find(table, terms->owner);
    struct session *session = owner ? calloc(1, sizeof *session) : NULL;
    if (session)
        session->table = table;
    if (!session || copy_terms(session, terms) < 0) {
        if (session)
            session_free(session);
        error_host(err, -ENOMEM, "no memory for a sandbox");
        return NULL;
    }
    take_limits(session);
    session->bill = owner->bill;
    session->number = ++owner->made;
    session->created_ms = clock_unix_ms();
    session->opened_us = session->idle_since_us = clock_monotonic_us();
    session->until_us = session->most_us = session->opened_us + (int64_t)SESSION_TTL_MAX_MS * 1000;
    session->users = session->working = 1;
    *table->last = session;
    table->last = &session->next;
    table->alive++;
    return session;
}

void session_begin(struct session *session)
{
    session->created_ms = clock_unix_ms();
    session->opened_us = session->idle_since_us = clock_monotonic_us();
    session->until_us = session->opened_us + session->ttl_ms * 1000;
    if (session->until_us > session->most_us)
        session->until_us = session->most_us;
}

int session_check_alive(const struct session *session, struct error *err)
{
    if (!session->is_ending)
        return 0;
    error_spec(err, "sandbox", "the sandbox has ended: %s",
               session->detail[0] ? session->detail : cause_meanings[session->cause]);
    if (err)
        err->code = -ESTALE;
    return -ESTALE;
}

int session_find(struct session_table *table, const char *owner, const char *id, bool also_ended,
                 struct session **ret, struct error *err)
{
    int status = -ENOENT;
    pthread_mutex_lock(&table->lock);
    for (struct session *at = table->sessions; at && status == -ENOENT; at = at->next) {
        if (at->is_forgotten || strcmp(at->id, id) != 0 || strcmp(at->owner, owner) != 0)
            continue;
        status = also_ended ? 0 : session_check_alive(at, err);
        if (status == 0) {
            at->users++;
            *ret = at;
        }
    }
    pthread_mutex_unlock(&table->lock);
    if (status == -ENOENT) {
        error_spec(err, "sandbox", "there is no such sandbox");
        if (err)
            err->code = status;
    }
    return status;
}

void session_work_done(struct session *session)
{
    pthread_mutex_lock(&session->table->lock);
    session->working--;
    session->idle_since_us = clock_monotonic_us();
    pthread_cond_broadcast(&session->table->changed);
    pthread_mutex_unlock(&session->table->lock);
}

static bool has_visitors(const struct session *session)
{
    for (const struct slot *slot = session->slots; slot; slot = slot->next)
        if (slot->visitors)
            return true;
    return false;
}

/* With the lock held. Forks in other sessions live on. */
static void stop_work(struct session *session, const char *why)
{
    struct session_table *table = session->table;
    int64_t until_us = clock_monotonic_us() + GRACE_MS * 1000;
    bool is_killed = false;
    for (struct slot *slot = session->slots; session->working && slot; slot = slot->next)
        if (slot->context)
            context_cancel(slot->context, why);
    while (session->working || has_visitors(session)) {
        clock_wait(&table->changed, &table->lock, LOOK_MS / 10);
        if (is_killed || clock_monotonic_us() < until_us)
            continue;
        is_killed = true;
        for (struct slot *slot = session->slots; slot; slot = slot->next)
            if (slot->context)
                context_cancel(slot->context, why);
    }
}

/* With the lock held, which it lets go of meanwhile. */
static void end_locked(struct session *session, enum cause cause, const char *why)
{
    struct session_table *table = session->table;
    if (session->is_ending) {
        while (!session->is_over)
            pthread_cond_wait(&table->changed, &table->lock);
        return;
    }
    session->is_ending = true;
    session->cause = cause;
    snprintf(session->detail, sizeof session->detail, "%s", why);
    stop_work(session, why);
    struct slot *slots = session->slots;
    struct point *points = session->points;
    session->slots = NULL;
    session->points = NULL;
    pthread_mutex_unlock(&table->lock);
    while (points) { /* forks of the contexts: first */
        struct point *next = points->next;
        point_free(points);
        points = next;
    }
    while (slots) {
        struct slot *next = slots->next;
        slot_free(slots);
        slots = next;
    }
    pthread_mutex_lock(&table->lock);
    session_tell(session, "ended", json_pack("{s:s, s:s}", "cause", cause_names[cause], "detail", why));
    session->is_over = true;
    session->over_us = clock_monotonic_us();
    table->alive--;
    pthread_cond_broadcast(&table->changed);
}

void session_close(struct session *session)
{
    pthread_mutex_lock(&session->table->lock);
    session->is_forgotten = true;
    end_locked(session, CAUSE_cancelled, "it was deleted");
    pthread_mutex_unlock(&session->table->lock);
}

void session_abandon(struct session *session)
{
    session_work_done(session);
    session_close(session);
    session_put(session);
}

int session_check_runs(const struct session_table *table, int64_t runs_max, struct error *err)
{
    int64_t most =
        table->policy->server.sandbox_runs < INT_MAX ? table->policy->server.sandbox_runs : INT_MAX;
    if (runs_max >= 0 && runs_max <= most)
        return 0;
    return error_spec(err, "runs_max", "runs_max: must be between 1 and %lld (%s)", (long long)most,
                      table->policy->source);
}

/* With the lock held. */
static int check_extension(const struct session *session, const struct session_extension *more,
                           int64_t until_us, struct error *err)
{
    int status = session_check_alive(session, err);
    if (status == 0 && more->ttl_ms && (more->ttl_ms > SESSION_TTL_MAX_MS || until_us > session->most_us)) {
        char most[32];
        status = error_spec(
            err, "ttl", "ttl: a sandbox lives %s at most",
            text_format_duration((session->most_us - session->opened_us) / 1000, most, sizeof most));
    }
    return status < 0 ? status : session_check_runs(session->table, more->runs_max, err);
}

int session_extend(struct session *session, const struct session_extension *more, struct error *err)
{
    int64_t until_us = clock_monotonic_us() + more->ttl_ms * 1000;
    json_t *event = json_object();
    pthread_mutex_lock(&session->table->lock);
    int status = check_extension(session, more, until_us, err);
    if (status == 0 && more->ttl_ms) {
        session->until_us = until_us;
        session->ttl_ms = more->ttl_ms; /* of its forks, too */
        json_object_set_new(event, "ttl_ms", json_integer(more->ttl_ms));
    }
    if (status == 0 && more->idle_ms) {
        session->idle_ms = more->idle_ms;
        json_object_set_new(event, "idle_ms", json_integer(more->idle_ms));
    }
    if (status == 0 && more->runs_max) {
        session->runs_max = (int)more->runs_max;
        json_object_set_new(event, "runs_max", json_integer(more->runs_max));
    }
    if (status == 0)
        session_tell(session, "extended", event);
    else
        json_decref(event);
    pthread_cond_broadcast(&session->table->changed); /* the clock has other deadlines */
    pthread_mutex_unlock(&session->table->lock);
    return status;
}

/* Of one that is due: why, or NULL. Otherwise *next_us becomes the moment at which it will be, if sooner. */
static const char *is_due(const struct session *session, int64_t now_us, enum cause *ret_cause, char *into,
                          size_t size, int64_t *next_us)
{
    char value[32];
    int64_t idle_until_us = session->working ? INT64_MAX : session->idle_since_us + session->idle_ms * 1000;
    if (now_us >= session->until_us) {
        *ret_cause = CAUSE_wall_time;
        snprintf(into, size, "its time is over");
        return into;
    }
    if (now_us >= idle_until_us) {
        *ret_cause = CAUSE_cancelled;
        snprintf(into, size, "it was idle for %s",
                 text_format_duration(session->idle_ms, value, sizeof value));
        return into;
    }
    int64_t soonest_us = session->until_us < idle_until_us ? session->until_us : idle_until_us;
    *next_us = soonest_us < *next_us ? soonest_us : *next_us;
    return NULL;
}

struct ending {
    struct session *session;
    enum cause cause;
    char why[128];
};

static void *ender_main(void *data)
{
    struct ending *ending = data;
    struct session_table *table = ending->session->table;
    pthread_mutex_lock(&table->lock);
    end_locked(ending->session, ending->cause, ending->why);
    ending->session->users--;
    table->enders--;
    pthread_cond_broadcast(&table->changed);
    pthread_mutex_unlock(&table->lock);
    free(ending);
    return NULL;
}

/* Beside, because one that does not go must not be in the way of the others. With the lock held. */
static void end_beside(struct session *session, const struct ending *how)
{
    struct ending *ending = malloc(sizeof *ending);
    if (session->is_condemned || !ending) {
        free(ending);
        return; /* without memory it is due at the next look, too */
    }
    *ending = *how;
    session->is_condemned = true;
    session->users++;
    session->table->enders++;
    if (thread_start(NULL, ENDER_STACK_BYTES, ender_main, ending) < 0) {
        session->is_condemned = false;
        session->users--;
        session->table->enders--;
        free(ending);
    }
}

static void *clock_main(void *data)
{
    struct session_table *table = data;
    pthread_mutex_lock(&table->lock);
    while (!table->is_closing) {
        int64_t now_us = clock_monotonic_us(), next_us = now_us + LOOK_MS * 1000;
        for (struct session *at = table->sessions; at; at = at->next) {
            struct ending ending = {.session = at};
            if (!at->is_ending && is_due(at, now_us, &ending.cause, ending.why, sizeof ending.why, &next_us))
                end_beside(at, &ending);
        }
        struct session *forgotten = take_forgotten(table);
        if (forgotten) {
            pthread_mutex_unlock(&table->lock);
            free_all(forgotten);
            pthread_mutex_lock(&table->lock);
            continue;
        }
        int64_t wait_ms = (next_us - clock_monotonic_us()) / 1000 + 1;
        clock_wait(&table->changed, &table->lock, wait_ms > 1 ? wait_ms : 1);
    }
    pthread_mutex_unlock(&table->lock);
    return NULL;
}

int session_table_open(const struct policy *policy, const struct string_list *preload,
                       struct session_table **ret, struct error *err)
{
    struct session_table *table = calloc(1, sizeof *table);
    if (!table)
        return error_host(err, -ENOMEM, "no memory for sandboxes");
    *table = (struct session_table){
        .policy = policy, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    table->last = &table->sessions;
    int status = warm_open(policy, preload, &table->warm, err);
    if (status == 0) {
        status = thread_start(&table->clock, 0, clock_main, table);
        table->has_clock = status == 0;
        if (status < 0)
            error_host(err, status, "cannot start the clock of sandboxes");
    }
    if (status < 0) {
        session_table_close(table);
        return status;
    }
    *ret = table;
    return 0;
}

void session_table_end_all(struct session_table *table)
{
    pthread_mutex_lock(&table->lock);
    for (struct session *at = table->sessions; at; at = at->next) {
        struct ending ending = {.session = at, .cause = CAUSE_cancelled, .why = "its server is gone"};
        at->is_forgotten = true;
        if (!at->is_ending)
            end_beside(at, &ending);
    }
    while (table->alive > 0 && table->enders > 0)
        clock_wait(&table->changed, &table->lock, LOOK_MS);
    pthread_mutex_unlock(&table->lock);
}

void session_table_close(struct session_table *table)
{
    if (!table)
        return;
    session_table_end_all(table);
    pthread_mutex_lock(&table->lock);
    table->is_closing = true;
    pthread_cond_broadcast(&table->changed);
    pthread_mutex_unlock(&table->lock);
    if (table->has_clock)
        pthread_join(table->clock, NULL);
    pthread_mutex_lock(&table->lock);
    while (table->enders > 0)
        clock_wait(&table->changed, &table->lock, LOOK_MS);
    pthread_mutex_unlock(&table->lock);
    warm_close(table->warm);
    free_all(table->sessions);
    owners_free(table);
    pthread_mutex_destroy(&table->lock);
    pthread_cond_destroy(&table->changed);
    free(table);
}
