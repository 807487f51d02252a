#include "server/admission.h"

#include "base/condition.h"
#include "server/hangup.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysinfo.h>

enum {
    PASSES_MAX = 16, /* how often a big run is passed before the machine is emptied for it */
};

/* One tenant's waiting runs; exists only while there are any. In a ring: who was served goes to its end. */
struct admission_line {
    const struct tenant *tenant;
    struct admission_ticket *first, *last;
    int64_t waiting;
    struct admission_line *next;
};

struct admission {
    pthread_mutex_t lock;
    struct policy_server options;
    struct admission_line *lines, *lines_last; /* the first has its turn */
    struct admission_state state;
};

static void take_from_machine(struct policy_server *options)
{
    struct sysinfo machine = {.mem_unit = 1};
    cpu_set_t cpus;
    sysinfo(&machine);
    if (!options->memory_bytes)
        options->memory_bytes = (int64_t)machine.totalram * machine.mem_unit / 4 * 3;
    if (!options->millicpus)
        options->millicpus =
            (sched_getaffinity(0, sizeof cpus, &cpus) < 0 ? 1 : CPU_COUNT(&cpus)) * INT64_C(4000);
}

struct admission *admission_new(const struct policy_server *options)
{
    struct admission *admission = calloc(1, sizeof *admission);
    if (!admission)
        return NULL;
    pthread_mutex_init(&admission->lock, NULL);
    admission->options = *options;
    take_from_machine(&admission->options);
    admission->state.memory_total_bytes = admission->options.memory_bytes;
    admission->state.millicpus_total = admission->options.millicpus;
    admission->state.queue_depth = options->queue_depth;
    return admission;
}

void admission_free(struct admission *admission)
{
    if (!admission)
        return;
    pthread_mutex_destroy(&admission->lock);
    free(admission);
}

/* ---- lines ---- */

static void line_push(struct admission *admission, struct admission_line *line)
{
    line->next = NULL;
    if (admission->lines_last)
        admission->lines_last->next = line;
    else
        admission->lines = line;
    admission->lines_last = line;
}

static void line_unlink(struct admission *admission, struct admission_line *line)
{
    struct admission_line **at = &admission->lines, *before = NULL;
    while (*at != line) {
        before = *at;
        at = &(*at)->next;
    }
    *at = line->next;
    if (admission->lines_last == line)
        admission->lines_last = before;
}

static struct admission_line *line_of(struct admission *admission, const struct tenant *tenant)
{
    for (struct admission_line *line = admission->lines; line; line = line->next)
        if (line->tenant == tenant)
            return line;
    struct admission_line *line = calloc(1, sizeof *line);
    if (line) {
        line->tenant = tenant;
        line_push(admission, line);
    }
    return line;
}

static bool line_add(struct admission *admission, struct admission_ticket *ticket)
{
    struct admission_line *line = line_of(admission, ticket->tenant);
    if (!line)
        return false;
    ticket->line = line;
    ticket->next = NULL;
    if (line->last)
        line->last->next = ticket;
    else
        line->first = ticket;
    line->last = ticket;
    line->waiting++;
    admission->state.waiting++;
    return true;
}

/* Takes a ticket out of its line; the line goes to the end of the ring if it was served, or away if it is
 * empty. */
static void line_remove(struct admission *admission, struct admission_ticket *ticket, bool served)
{
    struct admission_line *line = ticket->line;
    struct admission_ticket **at = &line->first, *before = NULL;
    while (*at != ticket) {
        before = *at;
        at = &(*at)->next;
    }
    *at = ticket->next;
    if (line->last == ticket)
        line->last = before;
    ticket->line = NULL;
    line->waiting--;
    admission->state.waiting--;
    if (!line->first || served)
        line_unlink(admission, line);
    if (!line->first)
        free(line);
    else if (served)
        line_push(admission, line);
}

/* ---- who may start ---- */

static bool fits(const struct admission *admission, const struct admission_ticket *ticket)
{
    const struct admission_state *state = &admission->state;
    bool has_memory = state->running == 0 || state->memory_bytes + state->held_bytes + ticket->memory_bytes <=
                                                 state->memory_total_bytes;
    return has_memory && state->millicpus + ticket->millicpus <= state->millicpus_total;
}

static void start(struct admission *admission, struct admission_ticket *ticket)
{
    admission->state.memory_bytes += ticket->memory_bytes;
    admission->state.millicpus += ticket->millicpus;
    admission->state.running++;
    admission->state.admitted++;
    ticket->admitted = true;
}

/* The first line in turn whose head fits. One that was passed too often lets nobody by any more. */
static struct admission_ticket *choose(struct admission *admission)
{
    struct admission_ticket *chosen = NULL;
    for (struct admission_line *line = admission->lines; line && !chosen; line = line->next) {
        if (fits(admission, line->first))
            chosen = line->first;
        else if (line->first->passes >= PASSES_MAX)
            return NULL;
    }
    for (struct admission_line *line = admission->lines; chosen && line->first != chosen; line = line->next)
        line->first->passes++;
    return chosen;
}

static void pump(struct admission *admission)
{
    for (struct admission_ticket *ticket; (ticket = choose(admission));) {
        line_remove(admission, ticket, true);
        start(admission, ticket);
        pthread_cond_signal(ticket->wake);
    }
}

/* ---- entering ---- */

static int refuse_full(struct refusal *ret, const char *why)
{
    *ret = (struct refusal){.status = 503, .code = "overloaded", .retry_after_ms = 1000};
    snprintf(ret->message, sizeof ret->message, "%s", why);
    snprintf(ret->hint, sizeof ret->hint, "try again after the time that Retry-After says");
    return -EBUSY;
}

/* With the lock held, which is let go while waiting. */
static int wait_for_turn(struct admission *admission, struct admission_ticket *ticket, int client_fd,
                         struct refusal *ret)
{
    pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
    int64_t deadline_us = clock_monotonic_us() + admission->options.queue_wait_ms * 1000;
    ticket->wake = &wake;
    if (!line_add(admission, ticket))
        return refuse_full(ret, "there is no memory for one more that waits");
    pump(admission); /* a fresh line may have its turn: what stands before it may be too big for now */
    int status = 0;
    while (!ticket->admitted && status == 0) {
        int64_t left_ms = (deadline_us - clock_monotonic_us()) / 1000;
        if (left_ms > 0)
            clock_wait(&wake, &admission->lock, left_ms < HANGUP_LOOK_MS ? left_ms : HANGUP_LOOK_MS);
        if (ticket->admitted)
            break;
        if (left_ms <= 0) {
            admission->state.refused_late++;
            status = refuse_full(ret, "the machine is busy, and the run waited as long as it may");
        } else if (hangup_is_seen(client_fd)) {
            status = -ECANCELED;
        }
    }
    if (status < 0) {
        line_remove(admission, ticket, false);
        pump(admission); /* it may have been what stood in the way */
    }
    pthread_cond_destroy(&wake);
    return status;
}

/* As long as the room is not full, everybody. When it is: who has less of it than his share, or one tenant
 * who was first would have it all. So there may be up to twice as many as its depth, and no more. */
static bool may_wait(const struct admission *admission, const struct tenant *tenant)
{
    int64_t depth = admission->options.queue_depth, lines = 0, own = -1;
    for (const struct admission_line *line = admission->lines; line; line = line->next, lines++)
        if (line->tenant == tenant)
            own = line->waiting;
    if (admission->state.waiting < depth || own < 0)
        return admission->state.waiting < 2 * depth;
    return own < depth / lines && admission->state.waiting < 2 * depth;
}

static int64_t at_most(int64_t value, int64_t most)
{
    return value < most ? value : most;
}

int admission_enter(struct admission *admission, const struct tenant *tenant,
                    const struct admission_need *need, int client_fd, struct admission_ticket *ret,
                    struct refusal *ret_refusal)
{
    *ret = (struct admission_ticket){.tenant = tenant};
    ret->claim.amount[QUOTA_runs] = need->runs ? need->runs : 1;
    ret->claim.amount[QUOTA_runs_minute] = ret->claim.amount[QUOTA_runs];
    ret->claim.amount[QUOTA_memory] = need->claimed_memory_bytes;
    ret->claim.amount[QUOTA_disk] = need->disk_bytes;
    ret->claim.amount[QUOTA_kept] = need->kept_bytes;
    ret->memory_bytes = at_most(need->memory_bytes, admission->options.memory_bytes);
    ret->millicpus = at_most(need->millicpus, admission->options.millicpus);
    bool claimed = tenant_claim(tenant, &ret->claim, ret_refusal);
    int status = claimed ? 0 : -EBUSY;
    pthread_mutex_lock(&admission->lock);
    if (!claimed) {
        admission->state.refused_quota++;
    } else if (!admission->lines && fits(admission, ret)) {
        start(admission, ret);
    } else if (!may_wait(admission, tenant)) {
        admission->state.refused_full++;
        status = refuse_full(ret_refusal, "the machine is busy, and as many runs as may are waiting");
    } else {
        status = wait_for_turn(admission, ret, client_fd, ret_refusal);
    }
    pthread_mutex_unlock(&admission->lock);
    if (claimed && status < 0)
        tenant_release(tenant, &ret->claim, true);
    return status;
}

void admission_note_held(struct admission *admission, int64_t bytes)
{
    pthread_mutex_lock(&admission->lock);
    admission->state.held_bytes = bytes;
    pump(admission);
    pthread_mutex_unlock(&admission->lock);
}

bool admission_has_room(struct admission *admission, struct refusal *ret)
{
    pthread_mutex_lock(&admission->lock);
    bool has_room = admission->state.held_bytes < admission->state.memory_total_bytes;
    admission->state.refused_full += !has_room;
    pthread_mutex_unlock(&admission->lock);
    if (!has_room)
        refuse_full(ret, "the machine is full: live sandboxes hold all the memory that there is for runs");
    return has_room;
}

void admission_leave(struct admission *admission, struct admission_ticket *ticket, int64_t cpu_us)
{
    if (!ticket->admitted)
        return;
    pthread_mutex_lock(&admission->lock);
    admission->state.memory_bytes -= ticket->memory_bytes;
    admission->state.millicpus -= ticket->millicpus;
    admission->state.running--;
    pump(admission);
    pthread_mutex_unlock(&admission->lock);
    tenant_release(ticket->tenant, &ticket->claim, false);
    tenant_charge_cpu(ticket->tenant, cpu_us);
    ticket->admitted = false;
}

void admission_get_state(struct admission *admission, struct admission_state *ret)
{
    pthread_mutex_lock(&admission->lock);
    *ret = admission->state;
    pthread_mutex_unlock(&admission->lock);
}
