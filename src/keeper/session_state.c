/* What is told of sessions: their state, and what happens in them. */
#include "keeper/session_inside.h"

#include "base/condition.h"
#include "base/json_text.h"
#include "base/scope.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void session_tell(struct session *session, const char *what, json_t *more)
{
    json_t *event = more ? more : json_object();
    json_object_set_new(event, "number", json_integer(session->event_count + 1));
    json_object_set_new(event, "at_ms", json_integer(clock_unix_ms()));
    json_object_set_new(event, "event", json_string(what));
    char *text = json_text(event, JSON_COMPACT);
    json_decref(event);
    if (!text)
        return;
    char **place = &session->events[session->event_count % SESSION_EVENTS_KEPT];
    free(*place);
    *place = text;
    session->event_count++;
    pthread_cond_broadcast(&session->table->changed);
}

int session_await_events(struct session *session, int64_t since, int64_t wait_ms, struct buffer *into,
                         int64_t *ret_last)
{
    struct session_table *table = session->table;
    int64_t until_us = clock_monotonic_us() + wait_ms * 1000;
    pthread_mutex_lock(&table->lock);
    while (session->event_count <= since && !session->is_over) {
        int64_t left_ms = (until_us - clock_monotonic_us()) / 1000;
        if (left_ms <= 0)
            break;
        clock_wait(&table->changed, &table->lock, left_ms);
    }
    int64_t first = session->event_count - SESSION_EVENTS_KEPT;
    for (int64_t i = since > first ? since : first; i < session->event_count; i++)
        if (i >= 0)
            buffer_print(into, "%s\n", session->events[i % SESSION_EVENTS_KEPT]);
    *ret_last = session->event_count;
    int status = !session->is_over;
    pthread_mutex_unlock(&table->lock);
    return status;
}

static json_t *usage_to_json(const struct context_usage *usage)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "memory_bytes", (json_int_t)usage->memory_bytes,
                     "peak_memory_bytes", (json_int_t)usage->peak_memory_bytes, "pids",
                     (json_int_t)usage->pids, "disk_bytes", (json_int_t)usage->disk_bytes, "elapsed_ms",
                     (json_int_t)(usage->elapsed_us / 1000), "cpu_ms", (json_int_t)(usage->cpu_us / 1000));
}

/* With the lock held. */
static json_t *slot_to_json(const struct slot *slot)
{
    const struct result *result = slot->context ? context_result(slot->context) : NULL;
    const char *state = result ? "ended" : slot->is_claimed ? "busy" : slot->context ? "idle" : "ended";
    json_t *object = json_pack("{s:s, s:s, s:s, s:i, s:b}", "id", slot->id, "language", slot->language,
                               "state", state, "runs", slot->runs, "warm", slot->is_warm);
    if (result) {
        json_object_set_new(object, "cause", json_string(cause_names[result->cause]));
        json_object_set_new(object, "detail",
                            json_string(result->detail[0] ? result->detail : cause_meanings[result->cause]));
    }
    return object;
}

static int64_t count_slots(const struct session *session)
{
    int64_t count = 0;
    for (const struct slot *slot = session->slots; slot; slot = slot->next)
        count++;
    return count ? count : 1; /* it is on its way */
}

/* With the lock held. */
struct session_sum session_sum(const struct session *session)
{
    int64_t boxes = session->is_over ? 0 : count_slots(session);
    for (const struct point *point = session->points; boxes && point; point = point->next)
        boxes += (int64_t)point->part_count;
    return (struct session_sum){.boxes = boxes,
                                .disk_bytes = boxes * session->limits.value[LIMIT_disk],
                                .memory_bytes = boxes * session->limits.value[LIMIT_memory]};
}

struct session_sum session_sum_of_owner(struct session_table *table, const char *owner)
{
    struct session_sum sum = {0};
    pthread_mutex_lock(&table->lock);
    for (const struct session *at = table->sessions; at; at = at->next) {
        if (strcmp(at->owner, owner) != 0)
            continue;
        struct session_sum one = session_sum(at);
        sum.boxes += one.boxes;
        sum.disk_bytes += one.disk_bytes;
        sum.memory_bytes += one.memory_bytes;
    }
    pthread_mutex_unlock(&table->lock);
    return sum;
}

void session_limits(struct session *session, struct limits *ret, int64_t *ret_boxes)
{
    pthread_mutex_lock(&session->table->lock);
    *ret = session->limits;
    *ret_boxes = count_slots(session);
    pthread_mutex_unlock(&session->table->lock);
}

/* A copy: the original's count of holders is the session's own business. */
json_t *session_spec(const struct session *session)
{
    return json_deep_copy(session->spec);
}

static json_t *point_to_json(const struct point *point)
{
    return json_pack("{s:s, s:s?, s:I}", "id", point->id, "name", point->name, "created_ms",
                     (json_int_t)point->created_ms);
}

json_t *limits_to_json(const struct limits *limits)
{
    json_t *values = json_object();
    for (int i = 0; i < LIMIT_FIELDS; i++)
        json_object_set_new(values, limit_rows[i].name, json_integer(limits->value[i]));
    return values;
}

/* With the lock held. */
static json_t *to_json(const struct session *session)
{
    json_t *slots = json_array(), *points = json_array();
    for (const struct slot *slot = session->slots; slot; slot = slot->next)
        json_array_append_new(slots, slot_to_json(slot));
    for (const struct point *point = session->points; point; point = point->next)
        json_array_append_new(points, point_to_json(point));
    json_t *object = json_pack(
        "{s:s, s:s, s:s?, s:I, s:I, s:I, s:I, s:i, s:i, s:o, s:o, s:O}", "id", session->id, "state",
        session->is_ending ? "ended" : "running", "parent", session->parent[0] ? session->parent : NULL,
        "created_ms", (json_int_t)session->created_ms, "expires_ms",
        (json_int_t)(session->created_ms + (session->until_us - session->opened_us) / 1000), "ttl_ms",
        (json_int_t)session->ttl_ms, "idle_ms", (json_int_t)session->idle_ms, "runs", session->runs,
        "runs_max", session->runs_max, "contexts", slots, "checkpoints", points, "spec", session->spec);
    if (object)
        json_object_set_new(object, "limits", limits_to_json(&session->limits));
    if (object && session->about)
        json_object_set_new(object, "about", json_loads(session->about, JSON_DECODE_ANY, NULL));
    if (object && session->is_ending) {
        json_object_set_new(object, "cause", json_string(cause_names[session->cause]));
        json_object_set_new(object, "detail", json_string(session->detail));
    }
    return object;
}

/* Visitors one by one: to look takes until the next measurement. */
static void add_usage(struct session *session, json_t *object)
{
    size_t index;
    json_t *item;
    json_array_foreach(json_object_get(object, "contexts"), index, item)
    {
        struct session_visit visit;
        struct context_usage usage;
        if (session_visit(session, json_string_value(json_object_get(item, "id")), false, &visit, NULL) < 0)
            continue;
        context_look(visit.context, &usage);
        session_leave(&visit);
        json_object_set_new(item, "usage", usage_to_json(&usage));
    }
}

json_t *session_to_json(struct session *session, bool with_usage)
{
    pthread_mutex_lock(&session->table->lock);
    json_t *object = to_json(session);
    pthread_mutex_unlock(&session->table->lock);
    if (object && with_usage)
        add_usage(session, object);
    return object;
}

json_t *session_rooms(struct session_table *table)
{
    json_t *rooms = json_object();
    pthread_mutex_lock(&table->lock);
    for (const struct session *at = table->sessions; at; at = at->next)
        if (!at->is_over && at->room[0])
            json_object_set_new(rooms, at->room, json_true());
    pthread_mutex_unlock(&table->lock);
    return rooms;
}

const char *session_empty_room(const struct session *session)
{
    bool is_empty = session->room[0];
    pthread_mutex_lock(&session->table->lock);
    for (const struct session *at = session->table->sessions; at && is_empty; at = at->next)
        is_empty = at->is_over || strcmp(at->room, session->room) != 0;
    pthread_mutex_unlock(&session->table->lock);
    return is_empty ? session->room : NULL;
}

json_t *session_cause(struct session_table *table, const char *owner, const char *id)
{
    struct session *session = NULL;
    json_t *cause = NULL;
    if (id && session_find(table, owner, id, true, &session, NULL) == 0) {
        pthread_mutex_lock(&table->lock);
        cause = session->is_ending ? json_string(cause_names[session->cause]) : NULL;
        pthread_mutex_unlock(&table->lock);
    }
    session_put(session);
    return cause ? cause : json_null();
}

json_t *session_list(struct session_table *table, const char *owner, int64_t after, size_t limit,
                     bool (*wanted)(void *data, const json_t *session), void *data, int64_t *ret_next)
{
    json_t *list = json_array();
    int64_t last = 0;
    *ret_next = 0;
    pthread_mutex_lock(&table->lock);
    for (const struct session *at = table->sessions; at && !*ret_next; at = at->next) {
        bool is_there = at->is_over || at->slots; /* not one that is being opened or ended */
        if (at->number <= after || at->is_forgotten || !is_there || strcmp(at->owner, owner) != 0)
            continue;
        json_t *object = to_json(at);
        if (!object || !wanted(data, object)) {
            json_decref(object);
        } else if (json_array_size(list) == limit) {
            *ret_next = last;
            json_decref(object);
        } else {
            json_array_append_new(list, object);
            last = at->number;
        }
    }
    pthread_mutex_unlock(&table->lock);
    return list;
}
