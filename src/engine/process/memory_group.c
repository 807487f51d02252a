#include "engine/process/memory_group.h"

#include "engine/layers.h"
#include "os/hardening.h"

#include <string.h>

bool memory_group_can_be_had(const struct box *box)
{
    return box->engine->uses_groups && box->cgroups && cgroup_layout_has(box->cgroups, CGROUP_MEMORY) &&
           hardening_verified(cgroup_memory);
}

bool memory_group_comes_first(const struct box *box)
{
    return memory_group_can_be_had(box) && box->cgroups->version == CGROUP_V2;
}

static struct cgroup_limits limits_of(const struct box *box)
{
    return (struct cgroup_limits){.memory_bytes = box->limits->value[LIMIT_memory]};
}

int memory_group_make(struct box *box, struct error *err)
{
    struct cgroup_layout memory;
    if (!memory_group_can_be_had(box))
        return 0;
    const struct cgroup_limits limits = limits_of(box);
    cgroup_layout_for_memory(box->cgroups, &memory);
    int status = cgroup_create(&memory, box->identity->name, &limits, &box->group, err);
    return status < 0 ? status : cgroup_usage_open(&box->group, err);
}

int memory_group_make_for_fork(struct box *box, struct error *err)
{
    int status = memory_group_make(box, err);
    return status < 0 || box->group.version == CGROUP_NONE ? status : cgroup_join_open(&box->group, err);
}

int memory_group_join_fd(const struct box *box)
{
    return box->group.join_fd[CGROUP_MEMORY];
}

int memory_group_verify(const struct box *box, struct error *err)
{
    const struct cgroup_limits limits = limits_of(box);
    return box->group.version == CGROUP_NONE ? 0 : cgroup_verify_limits(&box->group, &limits, err);
}

int memory_group_limit(struct box *box, struct error *err)
{
    const struct cgroup_limits limits = limits_of(box);
    int status = box->group.version == CGROUP_NONE ? 0 : cgroup_limit(&box->group, &limits, err);
    return status < 0 ? status : memory_group_verify(box, err);
}

void memory_group_measure(const struct box *box, struct measurement *now)
{
    struct cgroup_usage usage;
    if (box->group.version == CGROUP_NONE)
        return;
    cgroup_usage_read(&box->group, &usage);
    now->memory_bytes = usage.memory_bytes;
    now->peak_memory_bytes = usage.memory_peak_bytes;
    now->oom_kills = usage.oom_kills;
}

void memory_group_list_layer(const struct box *box, struct result *result)
{
    bool has_group = box->group.version != CGROUP_NONE;
    if (has_group)
        result_add_layer(result, layer_names[LAYER_cgroup], true, "v%d: memory",
                         box->group.version == CGROUP_V1 ? 1 : 2);
    result_add_layer(result, layer_names[LAYER_watchdog], true, "every 10 ms:%s pids cpu disk",
                     has_group ? "" : " memory");
}
