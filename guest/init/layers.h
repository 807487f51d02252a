/* The layers that are put on from inside, in their order: nothing of the user's runs before the last. */
#pragma once

#include "plan.h"

struct layers_wanted {
    const struct init_plan *plan;
    char **read_paths, **write_paths, **device_paths;
    int (*await_ruleset)(void); /* the launcher's, in place of the paths, with PLAN_RULESET_COMES */
};

struct layers_state {
    int landlock_abi; /* 0: not on */
    unsigned landlock_scopes;
    int under_outer_filter; /* somebody else's filter was on before ours */
};

struct layers_fault {
    const char *layer;
    int code; /* negative errno, or 0 */
    char text[256];
};

int layers_fail(struct layers_fault *fault, const char *layer, int code, const char *text);

/* Where init is root (PLAN_TAKES_USER): init becomes a user of its own, which keeps the power to make
 * programs of another, and to signal them. gVisor's kernel protects neither the first process nor one that
 * may not be looked into from others of its user. */
int layers_take_own_user(const struct init_plan *plan, struct layers_fault *fault);

/* In the child that becomes a program: its user, and nothing of that power. */
int layers_take_program_user(const struct init_plan *plan, struct layers_fault *fault);

/* Those that a program keeps, as a bit mask: none, but for a zygote whose forks have users of their own. */
uint64_t layers_kept_capabilities(const struct init_plan *plan);

/* In a container, for the program alone: a scope inside init's own, so that it cannot even name init in a
 * signal. */
int layers_put_on_inner_scope(struct layers_fault *fault);

int layers_put_on(const struct layers_wanted *wanted, struct layers_state *state, struct layers_fault *fault);
