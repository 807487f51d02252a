/* Copies of sessions: forks, branches, checkpoints. */
#include "keeper/session_inside.h"

#include "base/clock.h"
#include "base/scope.h"
#include "base/thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BRANCH_STACK_BYTES = 512 << 10 };

typedef int context_forker(struct context *context, const struct context_options *options,
                           struct context **ret, struct error *err);

static int fork_context_by(context_forker *forker, struct context *context,
                           const struct context_options *options, struct context **ret, struct error *err)
{
    if (!context)
        return error_spec(err, "context", "a context that could not be started cannot be forked");
    int status = forker(context, options, ret, err);
    if (status < 0 && err && err->kind == ERROR_SPEC)
        err->code = status;
    return status;
}

static int fork_context(struct context *context, const struct context_options *options, struct context **ret,
                        struct error *err)
{
    return fork_context_by(context_fork, context, options, ret, err);
}

/* The same state in a slot of its own. */
static int fork_slot(const struct slot *from, struct slot *into, struct error *err)
{
    struct context_options options = slot_options(into);
    into->is_warm = from->is_warm;
    return fork_context(from->context, &options, &into->context, err);
}

/* A session like this one, without contexts yet. */
static struct session *add_alike(struct session *session, struct error *err)
{
    struct session_table *table = session->table;
    json_t *about = session->about ? json_loads(session->about, JSON_DECODE_ANY, NULL) : NULL;
    const struct session_terms terms = {.owner = session->owner,
                                        .spec = session->spec,
                                        .about = about,
                                        .ttl_ms = session->ttl_ms,
                                        .idle_ms = session->idle_ms,
                                        .runs_max = session->runs_max,
                                        .inputs = session->inputs,
                                        .fds = session->input_fds,
                                        .room = session->room,
                                        .is_cold = session->is_cold};
    pthread_mutex_lock(&table->lock);
    struct session *fork = session_add(table, &terms, err);
    if (fork) {
        snprintf(fork->parent, sizeof fork->parent, "%s", session->id);
        fork->until_us = fork->most_us = session->most_us; /* its boxes end with those that they come from */
    }
    pthread_mutex_unlock(&table->lock);
    json_decref(about);
    return fork;
}

static int fork_slots(const struct session *from, struct session *into, struct error *err)
{
    int status = 0;
    /* Nobody adds or takes away contexts of a session that is claimed as a whole, but one may be in the
     * making: it is claimed, and the claim would have been refused. */
    for (const struct slot *at = from->slots; status == 0 && at; at = at->next) {
        struct slot *slot = slot_new(into, at->language);
        status = slot ? fork_slot(at, slot, err) : error_host(err, -ENOMEM, "no memory for a fork");
        if (status < 0) {
            slot_free(slot);
            break;
        }
        pthread_mutex_lock(&into->table->lock);
        slot_add(into, slot);
        pthread_mutex_unlock(&into->table->lock);
    }
    return status;
}

/* With the lock held. */
static struct point **find_point(struct session *session, const char *id, struct error *err)
{
    for (struct point **at = &session->points; *at; at = &(*at)->next)
        if (strcmp((*at)->id, id) == 0)
            return at;
    error_spec(err, "checkpoint", "there is no such checkpoint in this sandbox");
    err->code = -ENOENT;
    return NULL;
}

/* The contexts of a checkpoint, which stay asleep, in slots of another session. */
static int fork_point(struct session *from, const char *id, struct session *into, struct error *err)
{
    struct session_table *table = from->table;
    int status = 0;
    pthread_mutex_lock(&table->lock);
    struct point **point = find_point(from, id, err);
    pthread_mutex_unlock(&table->lock);
    if (!point)
        return err->code;
    for (size_t i = 0; status == 0 && i < (*point)->part_count; i++) {
        const struct point_part *part = &(*point)->parts[i];
        struct slot *slot = slot_new(into, part->language);
        if (!slot)
            return error_host(err, -ENOMEM, "no memory for a fork");
        struct context_options options = slot_options(slot);
        status = fork_context(part->context, &options, &slot->context, err);
        if (status < 0) {
            slot_free(slot);
            break;
        }
        pthread_mutex_lock(&table->lock);
        slot_add(into, slot);
        pthread_mutex_unlock(&table->lock);
    }
    return status;
}

int session_fork(struct session *session, const char *checkpoint, struct session **ret, struct error *err)
{
    int status = slots_claim(session, NULL, NULL, err); /* a checkpoint goes only when it is claimed, too */
    if (status < 0)
        return status;
    struct session *fork = add_alike(session, err);
    if (!fork)
        status = err->code;
    else
        status = checkpoint ? fork_point(session, checkpoint, fork, err) : fork_slots(session, fork, err);
    slots_release(session, NULL);
    if (!fork)
        return status;
    pthread_mutex_lock(&session->table->lock);
    if (status == 0)
        status = session_check_alive(fork, err);
    if (status == 0) {
        session_begin(fork);
        session_tell(session, "forked", json_pack("{s:s}", "sandbox", fork->id));
        session_tell(fork, "opened", json_pack("{s:s}", "parent", session->id));
    }
    pthread_mutex_unlock(&session->table->lock);
    if (status < 0) {
        session_abandon(fork);
        return status;
    }
    session_work_done(fork);
    *ret = fork;
    return 0;
}

/* ---- branches ---- */

struct branch {
    struct session_branch *is;
    struct slot *slot; /* in no list */
    pthread_t thread;
    bool has_thread;
};

static void *branch_main(void *data)
{
    struct branch *branch = data;
    struct session_branch *is = branch->is;
    is->status = slot_run(branch->slot, &is->order, &is->listener, &is->outcome, &is->error);
    slot_free(branch->slot); /* at once: what it holds is for those that still run */
    branch->slot = NULL;
    is->ended(is->listener.data, is);
    return NULL;
}

static int start_branch(struct branch *branch, struct slot *from)
{
    struct session_branch *is = branch->is;
    branch->slot = slot_new(from->session, from->language);
    int status = branch->slot ? fork_slot(from, branch->slot, &is->error)
                              : error_host(&is->error, -ENOMEM, "no memory for a branch");
    if (status < 0)
        return status;
    status = thread_start(&branch->thread, BRANCH_STACK_BYTES, branch_main, branch);
    branch->has_thread = status == 0;
    return status < 0 ? error_host(&is->error, status, "cannot start the thread of a branch") : 0;
}

/* Enough runs for all of them, or none is begun. */
static int take_runs(struct session *session, const struct session_branch *branches, size_t count,
                     struct error *err)
{
    int status = 0;
    json_t *runs = json_array();
    for (size_t i = 0; i < count; i++)
        if (branches[i].order.id)
            json_array_append_new(runs, json_string(branches[i].order.id));
    pthread_mutex_lock(&session->table->lock);
    if (session->runs_max - session->runs < (int)count) {
        error_spec(err, "runs_max", "the sandbox has %d of its %d runs left",
                   session->runs_max - session->runs, session->runs_max);
        status = err->code = -EBUSY;
    } else {
        session->runs += (int)count;
        session_tell(session, "branches_started", json_pack("{s:i, s:O}", "count", (int)count, "runs", runs));
    }
    pthread_mutex_unlock(&session->table->lock);
    json_decref(runs);
    return status;
}

int session_run_branches(struct session *session, struct session_branch *branches, size_t count,
                         struct error *err)
{
    struct slot *slot = NULL;
    int status = slots_claim(session, branches[0].order.context, &slot, err);
    if (status < 0)
        return status;
    scope_free struct branch *list = calloc(count, sizeof *list);
    status =
        list ? take_runs(session, branches, count, err) : error_host(err, -ENOMEM, "no memory for branches");
    for (size_t i = 0; status == 0 && i < count; i++) {
        list[i].is = &branches[i];
        branches[i].status = start_branch(&list[i], slot);
        if (branches[i].status < 0) {
            slot_free(list[i].slot);
            branches[i].ended(branches[i].listener.data, &branches[i]);
        }
    }
    for (size_t i = 0; status == 0 && i < count; i++)
        if (list[i].has_thread)
            pthread_join(list[i].thread, NULL);
    pthread_mutex_lock(&session->table->lock);
    if (status == 0)
        session_tell(session, "branches_ended", json_pack("{s:i}", "count", (int)count));
    pthread_mutex_unlock(&session->table->lock);
    slots_release(session, slot);
    return status;
}

/* ---- checkpoints ---- */

void point_free(struct point *point)
{
    if (!point)
        return;
    for (size_t i = 0; i < point->part_count; i++)
        context_close(point->parts[i].context);
    free(point->name);
    free(point);
}

static int fill_point(const struct session *session, struct point *point, struct error *err)
{
    const struct context_options options = slot_sleeping_options();
    int status = 0;
    for (const struct slot *slot = session->slots; status == 0 && slot; slot = slot->next) {
        struct point_part *part = &point->parts[point->part_count];
        snprintf(part->slot, sizeof part->slot, "%s", slot->id);
        snprintf(part->language, sizeof part->language, "%s", slot->language);
        status = fork_context_by(context_fork_point, slot->context, &options, &part->context, err);
        point->part_count += status == 0;
    }
    return status;
}

/* Puts it into the list, if there is room. */
static int add_point(struct session *session, struct point *point, struct error *err)
{
    size_t count = 0;
    struct point **at = &session->points;
    pthread_mutex_lock(&session->table->lock);
    int status = session_check_alive(session, err);
    for (; *at; at = &(*at)->next)
        count++;
    if (status == 0 && count >= SESSION_POINTS_MAX) {
        error_spec(err, "checkpoints", "a sandbox has at most %d checkpoints: delete one",
                   SESSION_POINTS_MAX);
        status = err->code = -EBUSY;
    }
    if (status == 0) {
        *at = point;
        session_tell(session, "checkpoint", json_pack("{s:s}", "checkpoint", point->id));
    }
    pthread_mutex_unlock(&session->table->lock);
    return status;
}

int session_checkpoint(struct session *session, const char *name, char *ret_id, struct error *err)
{
    int status = slots_claim(session, NULL, NULL, err);
    if (status < 0)
        return status;
    struct point *point = calloc(1, sizeof *point);
    if (point)
        identifier_make("cp_", point->id);
    if (!point || (name && !(point->name = strdup(name))))
        status = error_host(err, -ENOMEM, "no memory for a checkpoint");
    if (status == 0) {
        point->created_ms = clock_unix_ms();
        status = fill_point(session, point, err);
    }
    if (status == 0)
        status = add_point(session, point, err);
    if (status == 0)
        snprintf(ret_id, IDENTIFIER_SIZE, "%s", point->id);
    else
        point_free(point);
    slots_release(session, NULL);
    return status;
}

/* A fork of every sleeping context, in slots of their own; those of contexts that are there keep their names.
 */
static int wake_point(struct session *session, const struct point *point, struct slot **ret,
                      struct error *err)
{
    int status = 0;
    for (size_t i = 0; status == 0 && i < point->part_count; i++) {
        const struct point_part *part = &point->parts[i];
        struct slot *slot = slot_new(session, part->language);
        if (!slot)
            return error_host(err, -ENOMEM, "no memory for a context");
        snprintf(slot->id, sizeof slot->id, "%s", part->slot);
        slot->is_claimed = true;
        *ret = slot;
        ret = &slot->next;
        struct context_options options = slot_options(slot);
        status = fork_context(part->context, &options, &slot->context, err);
    }
    return status;
}

static void free_slots(struct slot *list)
{
    while (list) {
        struct slot *next = list->next;
        slot_free(list);
        list = next;
    }
}

/* The contexts become those of that moment: all at once, or none when one cannot be had. */
int session_rollback(struct session *session, const char *id, struct error *err)
{
    struct session_table *table = session->table;
    struct slot *slots = NULL;
    int status = slots_claim(session, NULL, NULL, err);
    if (status < 0)
        return status;
    /* A checkpoint goes only when the session is claimed, as it is now. */
    pthread_mutex_lock(&table->lock);
    struct point **point = find_point(session, id, err);
    pthread_mutex_unlock(&table->lock);
    status = point ? wake_point(session, *point, &slots, err) : err->code;
    pthread_mutex_lock(&table->lock);
    for (struct slot *slot = session->slots; status == 0 && slot; slot = slot->next)
        slot_await_visitors(slot); /* none of them comes or goes: all are claimed */
    if (status == 0) {
        struct slot *former = session->slots;
        session->slots = slots;
        slots = former;
        session_tell(session, "rolled_back", json_pack("{s:s}", "checkpoint", id));
    }
    pthread_mutex_unlock(&table->lock);
    free_slots(slots);
    slots_release(session, NULL);
    return status;
}

int session_checkpoint_drop(struct session *session, const char *id, struct error *err)
{
    int status = slots_claim(session, NULL, NULL, err);
    if (status < 0)
        return status;
    struct point *dropped = NULL;
    pthread_mutex_lock(&session->table->lock);
    struct point **point = find_point(session, id, err);
    if (point) {
        dropped = *point;
        *point = dropped->next;
    }
    pthread_mutex_unlock(&session->table->lock);
    point_free(dropped);
    slots_release(session, NULL);
    return dropped ? 0 : err->code;
}
