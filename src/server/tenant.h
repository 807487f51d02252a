/* Tenants: who asks, what they may use at one time and how fast, and what they use now.
 *
 * A tenant is found by a key (keys.h) and lives as long as the server. On loopback, and without any key when
 * `cloche serve` began, the server has a single user, the tenant `local`, who needs no key and has no quotas;
 * the machine's own budget (admission.h) holds for all. The first key that is added ends that mode at once,
 * and only a new start of `cloche serve` brings it back: neither a keys file that goes away nor a server that
 * died and was started again opens the door.
 *
 * Quotas are of two kinds. Levels (boxes, runs, memory, disk, uploads) are claimed and released. Rates (runs
 * a minute, CPU time an hour) are buckets that fill all the time: a run takes one token, and the CPU time
 * that it turns out to have used. What CPU time a run will use is not known before; so it starts when there
 * is any left, and the debt of many is paid off before the next. */
#pragma once

#include "server/keys.h"
#include "server/metrics.h"
#include "server/refusal.h"

#include <jansson.h>

struct tenant {
    char name[TENANT_NAME_SIZE];
    struct tenant_usage *usage; /* has its own lock: who holds a tenant may claim */
    struct metrics *metrics;    /* of its runs; answers and connections are not counted here */
};

struct tenants;

/* `may_be_single`: what the keeper says (keeper/front.h). Without it and without keys nobody is let in. */
int tenants_open(int data_fd, bool may_be_single, struct tenants **ret, struct error *err);
void tenants_close(struct tenants *book);

/* Does it answer without keys? */
bool tenants_is_single_user(struct tenants *book);

/* Whose key this is; NULL: nobody's. `key` NULL: none was given. The file of keys is read anew when it has
 * changed. `ret_is_operator` (may be NULL): may it see the figures of all tenants? The single user may. */
const struct tenant *tenants_find(struct tenants *book, const char *key, char ret_key_id[KEY_ID_SIZE],
                                  bool *ret_is_operator);

/* By name, for what was stored under it before the start; made if need be. NULL without memory. */
const struct tenant *tenants_name(struct tenants *book, const char *name);

/* Amounts by quota; for rates, tokens. A claim with `runs` also needs CPU time to be left. */
struct tenant_claim {
    int64_t amount[QUOTA_FIELDS];
};

/* All of it or nothing: false, and why. Less than nothing is refused. */
bool tenant_claim(const struct tenant *tenant, const struct tenant_claim *claim, struct refusal *ret);

/* What live sandboxes take up is counted by the keeper, beside the claims: `there`, which is noted whenever
 * the keeper told it. Runs are let in by what it told last. */
void tenant_note_boxes(const struct tenant *tenant, const struct tenant_claim *there);

/* Who makes boxes asks for it anew. The claim is released when the keeper counts the box; one that was
 * released after the question, and before the answer was used, would be in neither. So: take a number, ask,
 * claim. 0; -EBUSY: refused; -EAGAIN: once more. */
int64_t tenant_boxes_number(const struct tenant *tenant);
int tenant_claim_boxes(const struct tenant *tenant, int64_t number, const struct tenant_claim *there,
                       const struct tenant_claim *claim, struct refusal *ret);
/* Levels go back; tokens only if nothing was done for them (`refund`). */
void tenant_release(const struct tenant *tenant, const struct tenant_claim *claim, bool refund);
/* So much more of a level, or less, that is there whatever the quota says. */
void tenant_adjust(const struct tenant *tenant, enum quota_field field, int64_t amount);
void tenant_charge_cpu(const struct tenant *tenant, int64_t cpu_us);

/* Its limit (QUOTA_NONE: none), and what is used of it. */
int64_t tenant_quota(const struct tenant *tenant, enum quota_field field, int64_t *ret_used);

/* {"name", "quotas": {NAME: {"used", "limit"}}}; limit null: none. NULL without memory. */
json_t *tenant_to_json(const struct tenant *tenant);
