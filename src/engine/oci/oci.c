/* The engine for OCI runtimes: runsc (gVisor), and what is called like it.
 *
 * Theory of operation. The launcher makes the group and a child, which builds a root for the runtime
 * (stage.h) and becomes it. The runtime makes the box from our bundle and runs cloche-init in it, as the
 * container engine does without one; descriptors go all the way through, so that control socket, streams and
 * channel are the same, and init puts on and proves its layers, and says how the program ended. When it has
 * said so, everything is killed: what a runtime would still tidy up goes with its namespaces.
 *
 * What is on the host (group, uid, scratch space, namespaces) is looked at from here; that the kernel is
 * another one is proved by its name. */
#include "engine/engine.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "engine/furnish.h"
#include "engine/group.h"
#include "engine/layers.h"
#include "engine/look.h"
#include "engine/notify.h"
#include "engine/oci/bundle.h"
#include "engine/oci/stage.h"
#include "engine/watchdog.h"
#include "os/process.h"

#include <errno.h>
#include <poll.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { UP_MS = 60000 };

static void stage_close(struct stage *stage)
{
    grants_close(&stage->grants);
    buffer_free(&stage->config);
    string_list_free(&stage->arguments);
}

static int write_plan(const struct box *box, struct launch *launch, struct error *err)
{
    scope_plan_lists lists = {.flags = PLAN_CONTAINER | PLAN_OWN_UID | PLAN_RUNTIME_ROOT};
    if (box->counts_itself)
        lists.flags |= PLAN_COUNTED | PLAN_TAKES_USER;
    lists.program_uid = stage_user(box);
    if (box->image->is_host && box->spec->grant_count == 0)
        lists.flags |= PLAN_HOST_VIEW;
    return launch_write_plan(box, &lists, launch, err);
}

/* The runtime is in the group, too: what it takes to start is not the program's. How many processes the
 * program may have is a limit of its own kernel, or of its own uid (RLIMIT_NPROC); that of the group is the
 * ceiling for the whole. */
static int choose_limits(const struct box *box, const struct runtime_row *row, struct cgroup_limits *ret,
                         struct error *err)
{
    int status = group_choose_limits(box, ret, err);
    if (status < 0)
        return status;
    if (ret->memory_bytes) /* what it will take is not known before */
        ret->memory_bytes += box->debt.memory_bytes ? box->debt.memory_bytes : row->memory_bytes;
    if (ret->pids)
        ret->pids = 4 * box->limits->value[LIMIT_pids] + row->threads;
    return 0;
}

/* What the engine keeps of a box. */
struct oci_box {
    const struct runtime_row *row;
    struct watchdog watchdog; /* where there are no groups, which was accepted by name */
};

static int start_child(struct box *box, struct stage *stage, struct error *err)
{
    uint64_t flags = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                     (box->identity->has_uid ? 0 : CLONE_NEWUSER);
    int cgroup_fd = box->group.version == CGROUP_V2 ? box->group.dir_fd[CGROUP_MEMORY] : -1;
    pid_t pid = process_clone(flags, cgroup_fd, &box->pidfd);
    if (pid < 0)
        return error_layer(err, "namespaces", pid, "cannot make the namespaces of a box");
    if (pid == 0)
        stage_main(stage);
    process_place_elsewhere(pid, NULL);
    box->pid = pid;
    ((struct oci_box *)box->engine_data)->watchdog.init = pid;
    return 0;
}

static int start_box(struct box *box, const struct runtime *runtime, const struct cgroup_limits *limits,
                     struct error *err)
{
    scope_launch launch = LAUNCH_UNSET;
    struct stage stage __attribute__((cleanup(stage_close))) = {
        .box = box, .launch = &launch, .runtime = runtime, .caller_uid = geteuid(), .caller_gid = getegid()};
    int status = grants_open(box, stage_owner(box), &stage.grants, err);
    if (status == 0)
        status = launch_open(box, &launch, err);
    if (status == 0)
        status = launch_prepare(box, NULL, &launch, err);
    if (status == 0)
        status = write_plan(box, &launch, err);
    if (status == 0)
        status = bundle_write(box, &stage.grants, stage_user(box), &stage.config, err);
    if (status == 0 && runtime_arguments(runtime, box, &stage.arguments) < 0)
        status = error_host(err, -ENOMEM, "cannot start the runtime");
    if (status == 0 && !box->is_watched)
        status = cgroup_create(box->cgroups, box->identity->name, limits, &box->group, err);
    if (status == 0)
        status = start_child(box, &stage, err);
    if (status == 0 && !box->is_watched)
        status = cgroup_usage_open(&box->group, err);
    return status;
}

struct inspection {
    const struct box *box;
    const struct cgroup_limits *limits;
};

/* The process that is about to become the runtime. */
static int inspect(void *data, struct error *err)
{
    static const enum look_namespace kinds[] = {LOOK_USER,    LOOK_PID, LOOK_MOUNT,
                                                LOOK_NETWORK, LOOK_IPC, LOOK_UTS};
    const struct inspection *inspection = data;
    const struct box *box = inspection->box;
    scope_fd process_fd = look_open_process(box->pid), own_fd = look_open_process(getpid());
    if (process_fd < 0 || own_fd < 0)
        return error_layer(err, "namespaces", -errno, "the box cannot be inspected");
    struct look_namespaces its, ours;
    int status = look_at_namespaces(process_fd, &its, err);
    if (status == 0)
        status = look_at_namespaces(own_fd, &ours, err);
    for (size_t i = 0; status == 0 && i < sizeof kinds / sizeof *kinds; i++)
        if (!look_namespace_differs(&its, &ours, kinds[i]))
            return error_layer(err, "namespaces", 0, "the runtime shares the host's %s namespace",
                               look_namespace_names[kinds[i]]);
    char text[LOOK_STATUS_SIZE], line[32];
    if (status == 0)
        status = look_read_status(process_fd, text, err);
    if (status == 0)
        status = look_at_uid(box, text, err);
    if (status == 0 && (!look_status_line(text, "\nNoNewPrivs:", line, sizeof line) || atoi(line) != 1))
        status = error_layer(err, "no_new_privs", 0, "the runtime could raise its privileges");
    if (status == 0)
        status = look_at_scratch(box, err);
    return status == 0 && !box->is_watched ? cgroup_verify(&box->group, inspection->limits, box->pid, err)
                                           : status;
}

static bool has_own_kernel(const struct box *box)
{
    struct utsname host;
    char name[sizeof host.release + sizeof host.version + 2];
    if (uname(&host) < 0)
        return false;
    snprintf(name, sizeof name, "%s %s", host.release, host.version);
    return box->kernel[0] && strncmp(name, box->kernel, sizeof box->kernel - 1) != 0;
}

static int check_kernel(const struct box *box, const struct runtime *runtime, struct error *err)
{
    if (has_own_kernel(box) || spec_accepts(box->spec, "kernel"))
        return 0;
    return error_layer(err, "kernel", 0,
                       "the boxes of %s share the host's kernel (%s), and so have no more isolation than a "
                       "container. To run them all the same: accept = kernel in the operator's file",
                       runtime->path, box->kernel);
}

static void list_layers(const struct box *box, const struct runtime *runtime,
                        const struct cgroup_limits *limits, struct result *result)
{
    const bool own_uid = box->identity->has_uid, own_kernel = has_own_kernel(box);
    const struct runtime_row *row = runtime->row;
    result_add_layer(result, layer_names[LAYER_kernel], own_kernel, "%s %s%s%s: %s",
                     row->name ? row->name : runtime->path, runtime->version, row->has_platform ? ", " : "",
                     row->has_platform ? box->spec->oci_platform : "",
                     own_kernel ? box->kernel : "the host's kernel");
    result_add_layer(result, layer_names[LAYER_namespaces], true, "user pid mount net ipc uts%s",
                     own_uid ? "" : " (rootless)");
    result_add_layer(result, layer_names[LAYER_box_uid], own_uid, "%s",
                     own_uid ? "the runtime has its own uid on the host" : "the caller's uid");
    result_add_layer(result, layer_names[LAYER_root], true, "read-only %s", box->image->name);
    group_list_layer(box, limits, result);
    result_add_layer(result, layer_names[LAYER_capabilities], true, "none");
    result_add_layer(result, layer_names[LAYER_no_new_privs], true, "on, for the runtime too");
    result_add_layer(result, layer_names[LAYER_seccomp], true, "container, no listener");
    result_add_layer(result, layer_names[LAYER_rlimits], true, "on");
}

/* What the runtime printed is the best there is to say why it did not start a box. */
static void add_last_words(const struct box *box, struct error *err)
{
    char words[2048];
    ssize_t length = box->stderr_fd >= 0 && err ? read(box->stderr_fd, words, sizeof words - 1) : 0;
    /* One that has ended could not be inspected either: that is not the reason. */
    struct pollfd runtime = {.fd = box->pidfd, .events = POLLIN};
    if (length <= 0 || (err->kind != ERROR_HOST && poll(&runtime, 1, 0) <= 0))
        return;
    words[length] = '\0';
    words[strcspn(words, "\n")] = '\0';
    size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof err->text - used, "; the runtime said: %s", words);
    err->kind = ERROR_LAYER;
    snprintf(err->subject, sizeof err->subject, "oci_runtime");
}

static void oci_measure(struct box *box, struct measurement *now)
{
    if (box->is_watched)
        watchdog_measure(&((struct oci_box *)box->engine_data)->watchdog, box, now);
    else
        group_measure(box, now);
    if (box->counts_itself) {
        now->pids = now->peak_pids = box->counted_pids;
        now->pids_refused = 0;
    }
    group_measure_disk(box, now);
}

/* What making the box took is not the program's. */
static void note_debt(struct box *box)
{
    struct measurement now = {0};
    oci_measure(box, &now);
    box->debt = (struct box_debt){
        .cpu_user_us = now.cpu_user_us, .cpu_system_us = now.cpu_system_us, .memory_bytes = now.memory_bytes};
}

static int oci_limit(struct box *box, struct error *err)
{
    struct cgroup_limits limits;
    const struct oci_box *own = box->engine_data;
    int status = choose_limits(box, own->row, &limits, err);
    if (status < 0 || box->is_watched)
        return status;
    if (status == 0)
        status = cgroup_limit(&box->group, &limits, err);
    return status == 0 ? cgroup_verify(&box->group, &limits, box->pid, err) : status;
}

static int oci_start(struct box *box, struct result *result, struct error *err)
{
    struct runtime runtime = {0};
    struct cgroup_limits limits;
    int status = runtime_find(box, &runtime, err);
    if (status == 0)
        status = choose_limits(box, runtime.row, &limits, err);
    if (status < 0)
        return status;
    if (box->is_forkable)
        return error_layer(err, "fork", 0, "boxes of the engine %s cannot be forked", box->engine->name);
    struct oci_box *own = calloc(1, sizeof *own);
    if (!own)
        return error_host(err, -ENOMEM, "no memory for a box");
    own->row = runtime.row;
    box->engine_data = own;
    box->is_watched = box->cgroups->version == CGROUP_NONE;
    box->waits_for_word = true;
    box->counts_itself = runtime.row->counts_itself;
    launch_choose_policy(box);
    /* The share of the CPUs is the program's: until it runs, the runtime may have all of them. */
    struct cgroup_limits at_start = limits;
    at_start.millicpus = 0;
    status = start_box(box, &runtime, &at_start, err);
    struct inspection inspection = {box, &at_start};
    if (status == 0)
        status = launch_await_verified(box, UP_MS, inspect, &inspection, err);
    if (status < 0) {
        add_last_words(box, err);
        return status;
    }
    status = check_kernel(box, &runtime, err);
    note_debt(box); /* from here on what is taken is taken for the program */
    if (status == 0)
        status = oci_limit(box, err);
    if (status < 0)
        return status;
    list_layers(box, &runtime, &limits, result);
    return launch_give_the_word(box, err);
}

static void oci_stop(struct box *box)
{
    box->stops++;
    if (box->pidfd >= 0)
        process_pidfd_kill(box->pidfd, SIGKILL);
}

static int oci_destroy(struct box *box)
{
    free(box->engine_data);
    box->engine_data = NULL;
    return cgroup_destroy(&box->group);
}

const struct engine engine_oci = {
    .isolation = ISOLATION_GVISOR,
    .name = "gvisor",
    .uses_groups = true,
    .ends_at_last_word = true,
    .path_of = furnish_path_of,
    .start = oci_start,
    .limit = oci_limit,
    .measure = oci_measure,
    .answer = notify_end_box,
    .stop = oci_stop,
    .destroy = oci_destroy,
};
