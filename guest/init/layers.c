#include "layers.h"

#include "os/capabilities.h"
#include "os/hardening.h"
#include "os/landlock.h"
#include "os/process.h"
#include "os/seccomp/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

int layers_fail(struct layers_fault *fault, const char *layer, int code, const char *text)
{
    fault->layer = layer;
    fault->code = code;
    snprintf(fault->text, sizeof fault->text, "%s", text);
    return -1;
}

static int put_on_rlimits(const struct init_plan *plan, struct layers_fault *fault)
{
    for (uint32_t i = 0; i < plan->rlimit_count && i < PLAN_RLIMITS; i++) {
        struct rlimit limit, now;
        limit.rlim_cur = limit.rlim_max = plan->rlimits[i].value;
        /* A limit that is lower already stays: raising it needs a privilege that a box does not have. */
        if (getrlimit((int)plan->rlimits[i].resource, &now) == 0 && now.rlim_max < limit.rlim_max)
            limit.rlim_cur = limit.rlim_max = now.rlim_max;
        if (setrlimit((int)plan->rlimits[i].resource, &limit) < 0)
            return layers_fail(fault, "rlimits", -errno, "cannot set a resource limit");
    }
    return 0;
}

/* abi: of the kernel, asked before there was a filter. ruleset: the launcher's; -1: it is made of the paths.
 */
static int put_on_landlock(const struct layers_wanted *wanted, int abi, int ruleset,
                           struct layers_state *state, struct layers_fault *fault)
{
    const struct init_plan *plan = wanted->plan;
    if (abi <= 0)
        return layers_fail(fault, "landlock", abi, "the kernel has no Landlock");
    const struct landlock_paths groups[] = {
        {wanted->read_paths, plan->read_count, LANDLOCK_READ_EXEC},
        {wanted->write_paths, plan->write_count, LANDLOCK_READ_WRITE},
        {wanted->device_paths, plan->device_count, LANDLOCK_DEVICE},
    };
    const char *path = NULL;
    bool scopes_only = plan->flags & PLAN_SCOPES_ONLY;
    if (scopes_only && (abi < 6 || hardening_removed(landlock_scope)))
        return 0;
    if (scopes_only)
        ruleset = landlock_ruleset_new(abi, false, LANDLOCK_SCOPE_SIGNALS | LANDLOCK_SCOPE_ABSTRACT_SOCKETS);
    else if (ruleset < 0)
        ruleset = landlock_ruleset_build(abi, groups, sizeof groups / sizeof *groups, &path);
    if (ruleset < 0)
        return layers_fail(fault, "landlock", ruleset, path ? path : "cannot make a Landlock ruleset");
    int status = landlock_ruleset_enforce(ruleset);
    close(ruleset);
    if (status < 0)
        return layers_fail(fault, "landlock", status, "cannot enforce the Landlock ruleset");
    state->landlock_abi = abi;
    state->landlock_scopes = abi >= 6 && !hardening_removed(landlock_scope);
    return 0;
}

static int put_on_seccomp(const struct init_plan *plan, struct layers_fault *fault)
{
    int listener = -1;
    int status = seccomp_filter_install((enum policy_variant)plan->policy_variant,
                                        plan->flags & PLAN_LISTENER ? &listener : NULL);
    if (status == -EBUSY && plan->policy_variant != POLICY_PROCESS_SHARED_UID)
        status = seccomp_filter_install((enum policy_variant)plan->policy_variant, NULL);
    if (status < 0)
        return layers_fail(fault, "seccomp", status, "cannot install the system-call filter");
    if (listener >= 0) {
        struct init_message message = {.kind = INIT_LISTENER};
        status = process_send(INIT_CONTROL_FD, &message, sizeof message, listener);
        close(listener);
        if (status < 0)
            return layers_fail(fault, "seccomp", status, "cannot hand the filter's listener over");
    }
    return 0;
}

enum { INIT_UID = 65533 };

int layers_take_own_user(const struct init_plan *plan, struct layers_fault *fault)
{
    static const int kept[] = {CAP_SETUID, CAP_SETGID, CAP_KILL};
    if (!(plan->flags & PLAN_TAKES_USER))
        return 0;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}, {0}};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        data[0].effective |= 1u << kept[i];
    data[0].permitted = data[0].effective;
    int status = prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 ? -errno : process_take_ids(INIT_UID, INIT_UID);
    if (status == 0 && syscall(SYS_capset, &header, data) < 0)
        status = -errno;
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* a change of uid may have set it */
    return status < 0 ? layers_fail(fault, "capabilities", status, "init cannot take a user of its own") : 0;
}

int layers_take_program_user(const struct init_plan *plan, struct layers_fault *fault)
{
    if (!(plan->flags & PLAN_TAKES_USER))
        return 0;
    int status = process_take_ids(plan->program_uid, plan->program_uid);
    if (status == 0)
        status = capabilities_drop_all();
    /* The bundle gives an empty bounding set, and no power to fill or empty one: here it is only proved. */
    if (status == 0 && (!capabilities_are_none() || !capabilities_bounding_is_empty()))
        status = -EPERM;
    return status < 0 ? layers_fail(fault, "capabilities", status, "the program cannot be given its user")
                      : 0;
}

int layers_put_on_inner_scope(struct layers_fault *fault)
{
    int abi = landlock_abi();
    if (abi < 0)
        return layers_fail(fault, "landlock_scope", abi, "cannot ask for Landlock");
    if (abi < 6 || hardening_removed(landlock_scope))
        return 0;
    int ruleset = landlock_ruleset_new(abi, false, LANDLOCK_SCOPE_SIGNALS);
    int status = ruleset < 0 ? ruleset : landlock_ruleset_enforce(ruleset);
    if (ruleset >= 0)
        close(ruleset);
    return status < 0 ? layers_fail(fault, "landlock_scope", status, "cannot keep signals from init") : 1;
}

uint64_t layers_kept_capabilities(const struct init_plan *plan)
{
    return plan->uid_count ? UINT64_C(1) << CAP_SETUID | UINT64_C(1) << CAP_SETGID : 0;
}

int layers_put_on(const struct layers_wanted *wanted, struct layers_state *state, struct layers_fault *fault)
{
    const struct init_plan *plan = wanted->plan;
    if (!hardening_removed(no_new_privs) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return layers_fail(fault, "no_new_privs", -errno, "cannot set no_new_privs");
    /* Given up already by whoever executed us, unless that was root, whom exec gives them back. */
    uint64_t kept = layers_kept_capabilities(plan);
    int dropped = hardening_removed(capabilities) || plan->flags & PLAN_TAKES_USER ? 0
                  : kept                                                           ? capabilities_keep(kept)
                                                                                   : capabilities_drop_all();
    if (dropped < 0)
        return layers_fail(fault, "capabilities", dropped, "cannot give up capabilities");
    if (!hardening_removed(rlimits) && put_on_rlimits(plan, fault) < 0)
        return -1;
    bool landlock =
        plan->flags & PLAN_LANDLOCK && !(hardening_removed(landlock) && hardening_removed(landlock_scope));
    state->under_outer_filter = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == 2;
    /* Rules that are still being made are waited for with the filter on, and the others made without it. */
    bool rules_come = plan->flags & PLAN_RULESET_COMES;
    int abi = landlock ? landlock_abi() : 0;
    if (landlock && !rules_come && put_on_landlock(wanted, abi, -1, state, fault) < 0)
        return -1;
    if (!hardening_removed(seccomp) && put_on_seccomp(plan, fault) < 0)
        return -1;
    int ruleset_fd = rules_come ? wanted->await_ruleset() : -1;
    if (landlock && rules_come && put_on_landlock(wanted, abi, ruleset_fd, state, fault) < 0)
        return -1;
    int bounded = kept ? seccomp_ids_install(plan->first_uid, plan->uid_count) : 0;
    return bounded < 0 ? layers_fail(fault, "box_uid", bounded, "cannot bound the users of a zygote's forks")
                       : 0;
}
