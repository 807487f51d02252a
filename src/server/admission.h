/* Admission: which run may start now, which waits, which is sent away.
 *
 * Theory of operation. The machine has a budget of memory and of CPUs. A run takes its limits out of it when
 * it starts and gives them back at its end; one that asks for more than there is at all takes the whole, and
 * so runs alone. Live boxes do not take their limits out of it, for most of them wait most of the time; but
 * what they hold at the moment is missing in it. When there is not enough, runs wait: each tenant has a line
 * of its own, first come first served, and the lines take turns, so who sends a thousand runs makes nobody
 * wait but himself. A big run whose turn it is may be passed by small ones of others that fit, but only so
 * often; then the machine is emptied for it. The waiting has a depth (of all lines together, of which each
 * has its share) and a deadline; past either the answer is 503 with Retry-After.
 *
 * What a tenant may have at one time is claimed first (tenant.h), for those that wait too: one tenant cannot
 * fill the waiting room. */
#pragma once

#include "server/tenant.h"
#include "spec/policy.h"

/* The budget as the operator set it. Where nothing is set: three quarters of the machine's memory; four times
 * its CPUs, for a run that waits or prints needs no whole one. */
struct admission;

struct admission *admission_new(const struct policy_server *options);
void admission_free(struct admission *admission);

struct admission_need {
    int runs; /* that start at once; 0 is 1. What follows is of all together */
    int64_t memory_bytes;
    int64_t millicpus;
    /* Only of the tenant's quota. */
    int64_t
        claimed_memory_bytes; /* as memory_bytes; 0 for a run in a live sandbox, which has claimed its own */
    int64_t disk_bytes;       /* 0 for a run in a live sandbox, which has claimed its own */
    int64_t kept_bytes;       /* of files that may be kept after it */
};

/* What admission_enter gave; opaque, the caller keeps it. */
struct admission_ticket {
    const struct tenant *tenant;
    struct tenant_claim claim;
    int64_t memory_bytes, millicpus;
    struct admission_ticket *next;
    struct admission_line *line;
    int passes;
    bool admitted;
    void *wake;
};

/* Blocks until the run may start. 0; -EBUSY: refused, and `ret_refusal` says how; -ECANCELED: `client_fd`
 * (-1: none) hung up.
 */
int admission_enter(struct admission *admission, const struct tenant *tenant,
                    const struct admission_need *need, int client_fd, struct admission_ticket *ret,
                    struct refusal *ret_refusal);

/* What live boxes hold in which nothing runs, as it was seen last. Runs find so much less room; one is always
 * let in when no other runs, or boxes that do nothing could keep everybody out. */
void admission_note_held(struct admission *admission, int64_t bytes);

/* May there be another live box? Not when those that there are hold the whole budget. */
bool admission_has_room(struct admission *admission, struct refusal *ret);

/* The end of the run, with the CPU time that it used. */
void admission_leave(struct admission *admission, struct admission_ticket *ticket, int64_t cpu_us);

struct admission_state {
    int64_t memory_bytes, memory_total_bytes, held_bytes;
    int64_t millicpus, millicpus_total;
    int64_t running, waiting, queue_depth;
    int64_t admitted, refused_quota, refused_full, refused_late; /* since the start */
};

void admission_get_state(struct admission *admission, struct admission_state *ret);
