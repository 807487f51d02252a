/* What sessions use behind their runs, for who keeps the quotas. A thread that a run left spins on, and
 * memory that it filled stays filled: neither is in the account of any run. So the server asks now and then.
 */
#include "keeper/session_inside.h"

#include <stdlib.h>
#include <string.h>

struct session_owner *owner_find(struct session_table *table, const char *name)
{
    for (struct session_owner *owner = table->owners; owner; owner = owner->next)
        if (strcmp(owner->name, name) == 0)
            return owner;
    size_t size = strlen(name) + 1;
    struct session_owner *owner = calloc(1, sizeof *owner + size);
    if (!owner || !(owner->bill = cpu_bill_new())) {
        free(owner);
        return NULL;
    }
    memcpy(owner->name, name, size);
    owner->next = table->owners;
    table->owners = owner;
    return owner;
}

void owners_free(struct session_table *table)
{
    while (table->owners) {
        struct session_owner *owner = table->owners;
        table->owners = owner->next;
        cpu_bill_put(owner->bill);
        free(owner);
    }
}

/* The lock is let go for each box: to look into its group takes a while, and there may be a thousand. Whoever
 * would take a slot away waits for its visitors. */
static int64_t settle_slots(struct session *session)
{
    struct session_table *table = session->table;
    int64_t held_bytes = 0;
    for (struct slot *slot = session->slots; slot; slot = slot->next) {
        if (!slot->context)
            continue;
        bool is_idle = !slot->is_claimed; /* else its memory is in the account of what runs in it */
        slot->visitors++;
        pthread_mutex_unlock(&table->lock);
        int64_t bytes = context_settle(slot->context);
        pthread_mutex_lock(&table->lock);
        slot->visitors--;
        if (session->is_ending || slot->is_claimed) /* somebody may wait for that */
            pthread_cond_broadcast(&table->changed);
        held_bytes += is_idle ? bytes : 0;
    }
    return held_bytes;
}

static int64_t settle_points(const struct session *session)
{
    int64_t held_bytes = 0;
    for (const struct point *point = session->points; point; point = point->next)
        for (size_t i = 0; i < point->part_count; i++)
            held_bytes += point->parts[i].context ? context_settle(point->parts[i].context) : 0;
    return held_bytes;
}

static void add(json_t *object, const char *name, int64_t amount)
{
    json_object_set_new(object, name,
                        json_integer(json_integer_value(json_object_get(object, name)) + amount));
}

static json_t *object_of(json_t *owners, const char *name)
{
    json_t *object = json_object_get(owners, name);
    if (object)
        return object;
    json_object_set_new(owners, name, json_object());
    return json_object_get(owners, name);
}

static void add_sum(json_t *owners, const struct session *session)
{
    struct session_sum sum = session_sum(session);
    json_t *object = object_of(owners, session->owner);
    add(object, "boxes", sum.boxes);
    add(object, "disk_bytes", sum.disk_bytes);
    add(object, "memory_bytes", sum.memory_bytes);
}

json_t *session_toll(struct session_table *table)
{
    json_t *owners = json_object();
    int64_t held_bytes = 0;
    pthread_mutex_lock(&table->lock);
    for (struct session *at = table->sessions; at; at = at->next) {
        if (at->is_ending)
            continue;
        at->users++; /* stays in the list */
        held_bytes += settle_slots(at) + settle_points(at);
        at->users--;
    }
    for (const struct session *at = table->sessions; at; at = at->next)
        add_sum(owners, at);
    for (struct session_owner *owner = table->owners; owner; owner = owner->next)
        add(object_of(owners, owner->name), "cpu_us", cpu_bill_take_us(owner->bill));
    pthread_mutex_unlock(&table->lock);
    return json_pack("{s:I, s:o}", "held_bytes", (json_int_t)held_bytes, "owners", owners);
}
