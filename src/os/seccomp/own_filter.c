#include "os/seccomp/own_filter.h"

#include <errno.h>
#include <seccomp.h>
#include <signal.h>
#include <unistd.h>

static int add(scmp_filter_ctx filter, uint32_t action, const char *name)
{
    int number = seccomp_syscall_resolve_name(name);
    return number < 0 ? 0 : seccomp_rule_add(filter, action, number, 0);
}

static int add_condition(scmp_filter_ctx filter, const struct own_filter_condition *row)
{
    struct scmp_arg_cmp compared[OWN_FILTER_ARGUMENTS];
    unsigned count = 0;
    for (; count < OWN_FILTER_ARGUMENTS && row->bits[count].mask; count++)
        compared[count] = (struct scmp_arg_cmp){.arg = row->bits[count].argument,
                                                .op = SCMP_CMP_MASKED_EQ,
                                                .datum_a = row->bits[count].mask,
                                                .datum_b = row->bits[count].value};
    int number = seccomp_syscall_resolve_name(row->name);
    uint32_t action = row->code ? SCMP_ACT_ERRNO((uint32_t)row->code) : SCMP_ACT_ALLOW;
    return number < 0 ? 0 : seccomp_rule_add_array(filter, action, number, count, compared);
}

/* To this process alone: there are others of the same user. */
static int add_abort(scmp_filter_ctx filter)
{
    const struct own_filter_condition row = {
        "tgkill", 0, {OWN_FILTER_IS(0, (uint64_t)getpid()), OWN_FILTER_IS(2, SIGABRT)}};
    return add_condition(filter, &row);
}

int own_filter_install(const struct own_filter *table)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    int status = filter ? seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2) : -ENOMEM;
    for (size_t i = 0; status == 0 && i < table->allowed_count; i++)
        status = add(filter, SCMP_ACT_ALLOW, table->allowed[i]);
    for (size_t i = 0; status == 0 && i < table->fatal_count; i++)
        status = add(filter, SCMP_ACT_KILL_PROCESS, table->fatal[i]);
    for (size_t i = 0; status == 0 && i < table->condition_count; i++)
        status = add_condition(filter, &table->conditions[i]);
    if (status == 0)
        status = add_abort(filter);
    if (status == 0)
        status = seccomp_load(filter);
    seccomp_release(filter);
    return status;
}
