/* Live sandboxes at the gate: runs in them, and how many boxes a tenant has. The keeper knows what there is;
 * it is asked. */
#pragma once

#include "server/exchange.h"
#include "server/tenant.h"

struct gate_pass;

/* Runs in the sandbox that the path names: one, or one for each length in `lengths` (borrowed), whose codes
 * follow each other in `codes`. `id_of` gives the runs their ids. 0, or negative and the answer is set. */
int sandbox_gate_enter(struct exchange *exchange, const json_t *lengths, struct slice codes,
                       const char *(*id_of)(const void *data, size_t number), const void *data,
                       struct gate_pass **ret);

/* The end of a run, by the keeper's outcome. */
void sandbox_gate_end(struct gate_pass *pass, size_t number, const json_t *outcome);

enum sandbox_growth {
    SANDBOX_OPEN,       /* a new sandbox: one box, with the limits of the body */
    SANDBOX_FORK,       /* copies of the one that the path names */
    SANDBOX_CONTEXT,    /* one box more in it */
    SANDBOX_CHECKPOINT, /* a sleeping copy of it */
};

/* May there be so many boxes more? The claim is held while they are made, and released when the keeper counts
 * them. 0, or negative and the answer is set. */
int sandbox_gate_grow(struct exchange *exchange, enum sandbox_growth growth, int64_t count,
                      const json_t *limits, struct tenant_claim *ret);
