/* Live sandboxes at the gate: runs in them, and how many boxes a tenant has. The keeper knows what there is;
 * it is asked. */
#pragma once

#include "server/exchange.h"
#include "server/tenant.h"

struct gate_pass;

/* Runs in the sandbox that the path names, so many at once. `is_idle`: a terminal, which mostly waits and
 * needs no room of its own. *ret_terms, what the keeper says of the sandbox, is to be freed. 0, or negative
 * and the answer is set. */
int sandbox_gate_enter(struct exchange *exchange, size_t count, bool is_idle, json_t **ret_terms,
                       struct gate_pass **ret);

/* The same in copies of it, each of which is a box more as long as it runs. */
int sandbox_gate_enter_copies(struct exchange *exchange, size_t count, json_t **ret_terms,
                              struct gate_pass **ret);

/* One of them begins. */
void sandbox_gate_note(struct exchange *exchange, struct gate_pass *pass, const json_t *terms, const char *id,
                       struct slice code);

/* The end of a run, by the keeper's outcome. */
void sandbox_gate_end(struct gate_pass *pass, size_t number, const json_t *outcome);

/* The keeper refused it after all, and it did not run. */
void sandbox_gate_refuse(struct gate_pass *pass, size_t number, const json_t *refusal);

/* The end of a command that was let in at `started_us`, by the keeper's last word: NULL if there was none,
 * and charge_us -1. */
void sandbox_gate_leave_command(struct gate_pass **pass, const json_t *end, int64_t charge_us,
                                int64_t started_us);

enum sandbox_growth {
    SANDBOX_OPEN,       /* a new sandbox: one box, with the limits of the body */
    SANDBOX_FORK,       /* copies of the one that the path names */
    SANDBOX_CONTEXT,    /* one box more in it */
    SANDBOX_CHECKPOINT, /* a sleeping copy of it */
};

/* May there be so many boxes more? The claim is held while they are made, and released when the keeper counts
 * them; nothing is claimed when it fails, and releasing that does nothing. 0, or negative and the answer is
 * set. */
int sandbox_gate_grow(struct exchange *exchange, enum sandbox_growth growth, int64_t count,
                      const json_t *limits, struct tenant_claim *ret);

/* What live sandboxes use while nothing runs in them, as the keeper says: CPU time is charged to their
 * tenants, memory is noted. To be called once a second. */
struct server;
void sandbox_gate_toll(struct server *server);
