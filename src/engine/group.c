#include "engine/group.h"

#include "engine/layers.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/statfs.h>

int group_choose_limits(const struct box *box, struct cgroup_limits *ret, struct error *err)
{
    static const struct {
        enum cgroup_controller controller;
        const char *name;
    } needed[] = {{CGROUP_MEMORY, "memory"}, {CGROUP_CPU, "cpus"}};
    char limits[64] = "", options[64] = "";
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        if (cgroup_layout_has(box->cgroups, needed[i].controller) || spec_accepts(box->spec, needed[i].name))
            continue;
        size_t limits_end = strlen(limits), options_end = strlen(options);
        snprintf(limits + limits_end, sizeof limits - limits_end, "%sthe %s limit", limits_end ? " and " : "",
                 needed[i].name);
        snprintf(options + options_end, sizeof options - options_end, " --accept %s", needed[i].name);
    }
    if (limits[0])
        return error_layer(
            err, "cgroup", 0,
            "%s cannot be enforced here: %s. To run all the same:%s (or accept = … in the "
            "operator's file), or --isolation process, which needs no groups",
            limits, box->cgroups->why_not[0] ? box->cgroups->why_not : "the controller is not available",
            options);
    const int64_t *limit = box->limits->value;
    *ret = (struct cgroup_limits){
        .memory_bytes = cgroup_layout_has(box->cgroups, CGROUP_MEMORY) ? limit[LIMIT_memory] : 0,
        .pids = cgroup_layout_has(box->cgroups, CGROUP_PIDS) ? limit[LIMIT_pids] + 1 : 0, /* init is one */
        .millicpus = cgroup_layout_has(box->cgroups, CGROUP_CPU) ? limit[LIMIT_cpus] : 0,
    };
    return 0;
}

void group_measure(const struct box *box, struct measurement *now)
{
    struct cgroup_usage usage;
    cgroup_usage_read(&box->group, &usage);
    now->memory_bytes = usage.memory_bytes;
    now->peak_memory_bytes = usage.memory_peak_bytes;
    now->cpu_user_us = usage.cpu_user_us;
    now->cpu_system_us = usage.cpu_system_us;
    now->pids = usage.pids_now > 0 ? usage.pids_now - 1 : 0;
    now->peak_pids = usage.pids_peak > 0 ? usage.pids_peak - 1 : usage.pids_peak;
    now->pids_refused = usage.pids_refused;
    now->oom_kills = usage.oom_kills;
}

void group_measure_disk(const struct box *box, struct measurement *now)
{
    struct statfs space;
    if (box->scratch_fd >= 0 && fstatfs(box->scratch_fd, &space) == 0) {
        now->disk_bytes = (int64_t)(space.f_blocks - space.f_bfree) * space.f_bsize;
        now->inodes_are_full = space.f_ffree == 0;
        now->disk_is_full = space.f_bfree == 0 || now->inodes_are_full;
    }
}

void group_list_layer(const struct box *box, const struct cgroup_limits *limits, struct result *result)
{
    if (box->group.version != CGROUP_NONE)
        result_add_layer(result, layer_names[LAYER_cgroup], true, "v%d:%s%s%s",
                         box->group.version == CGROUP_V1 ? 1 : 2, limits->memory_bytes ? " memory" : "",
                         limits->pids ? " pids" : "", limits->millicpus ? " cpu" : "");
    else
        result_add_layer(result, layer_names[LAYER_cgroup], false, "%s", box->cgroups->why_not);
    if (box->is_watched)
        result_add_layer(result, layer_names[LAYER_watchdog], true,
                         "in place of groups, every 10 ms: memory pids cpu");
}
