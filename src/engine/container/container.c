/* The container engine: namespaces, own root, control groups, and all layers of init on top. */
#include "engine/engine.h"

#include "base/file.h"
#include "base/scope.h"
#include "engine/container/entry.h"
#include "engine/container/forking.h"
#include "engine/container/identity.h"
#include "engine/container/inspect.h"
#include "engine/container/room.h"
#include "engine/furnish.h"
#include "engine/group.h"
#include "engine/launch.h"
#include "engine/layers.h"
#include "engine/watchdog.h"
#include "os/hardening.h"
#include "os/landlock.h"
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int write_plan(struct box *box, struct launch *launch, struct error *err)
{
    scope_plan_lists lists = {.flags = PLAN_CONTAINER | PLAN_LISTENER | PLAN_OWN_UID | PLAN_HELPED |
                                       PLAN_MOUNTED_ROOT};
    if (box->landlock_abi > 0)
        lists.flags |= PLAN_LANDLOCK;
    if (box->landlock_abi >= 6)
        lists.flags |= PLAN_SIGNAL_SCOPE;
    if (box->is_forkable)
        lists.flags |= PLAN_SCOPES_ONLY;
    box->init_stays = box->is_forkable && !box->is_for_others && box->cgroups->version != CGROUP_NONE;
    if (box->init_stays)
        lists.flags |= PLAN_STAYS;
    if (box->image->is_host &&
        box->spec->grant_count == 0) /* a grant may lie below what the view leaves out */
        lists.flags |= PLAN_HOST_VIEW;
    int status = string_list_add(&lists.read_paths, "/");
    for (size_t i = 0; status == 0 && room_writable_places[i]; i++)
        status = string_list_add(&lists.write_paths, room_writable_places[i]);
    for (size_t i = 0; status == 0 && i < box->spec->grant_count; i++)
        if (box->spec->grants[i].kind == GRANT_WRITE)
            status = string_list_add(&lists.write_paths, box->spec->grants[i].host_path);
    if (status == 0)
        status = string_list_add(&lists.device_paths, "/dev");
    if (status < 0)
        return error_host(err, status, "cannot write the plan");
    return launch_write_plan(box, &lists, launch, err);
}

static uint64_t namespace_flags(const struct box *box)
{
    uint64_t flags = CLONE_NEWNS;
    if (!hardening_removed(pid_namespace))
        flags |= CLONE_NEWPID;
    if (!hardening_removed(network_namespace) && !entry_brings_network(box))
        flags |= CLONE_NEWNET;
    if (!hardening_removed(ipc_namespace))
        flags |= CLONE_NEWIPC;
    if (!hardening_removed(uts_namespace))
        flags |= CLONE_NEWUTS;
    if (!box->identity->has_uid)
        flags |= CLONE_NEWUSER;
    return flags;
}

/* The clock since boot starts at zero in the box: how long the host has been up is nobody's business. The
 * namespace takes effect for what is executed or forked after this. */
static int hide_uptime(void)
{
    if (unshare(CLONE_NEWTIME) < 0)
        return errno == EINVAL ? 0 : -errno; /* kernels without time namespaces: nothing to hide behind */
    struct timespec boot;
    clock_gettime(CLOCK_BOOTTIME, &boot);
    char offsets[64];
    snprintf(offsets, sizeof offsets, "boottime -%lld 0\n", (long long)boot.tv_sec);
    return file_write_attribute(AT_FDCWD, "/proc/self/timens_offsets", offsets);
}

static int enter_profile(const struct box *box)
{
    int status = file_write_attribute(AT_FDCWD, "/proc/self/attr/apparmor/current",
                                      box->is_forkable ? "changeprofile cloche-box-forkable"
                                                       : "changeprofile cloche-box");
    /* Not loaded, or no AppArmor: the launcher looks at what came of it. */
    return status == -ENOENT || status == -EINVAL || status == -EACCES || status == -EPERM ? 0 : status;
}

static int child_enter(struct box *box, const struct room *room, uid_t caller_uid, gid_t caller_gid,
                       struct error *err)
{
    int status;
    if (!box->identity->has_uid && (status = identity_map_self(caller_uid, caller_gid, err)) < 0)
        return status;
    /* The host's root is detached while we wait for the groups: that takes as long as half of all the rest.
     * Only code that counts for the box has to be written inside of its group first. */
    bool is_closed_late = room_code_counts(room);
    if ((status = room_furnish(room, err)) < 0 ||
        (!is_closed_late && (status = room_close_off(room, err)) < 0) ||
        (status = entry_take(room->launch, err)) < 0)
        return status;
    if (!hardening_removed(cgroup_namespace) && unshare(CLONE_NEWCGROUP) < 0)
        return error_layer(err, "namespaces", -errno, "cannot make a cgroup namespace");
    if (is_closed_late && (status = room_close_off(room, err)) < 0)
        return status;
    /* Not before: with a time namespace in waiting the kernel refuses children that share memory, as the
     * room's does. */
    if (!hardening_removed(time_namespace) && (status = hide_uptime()) < 0)
        return error_layer(err, "namespaces", status, "cannot make a time namespace");
    if (!hardening_removed(uts_namespace) && (sethostname("cloche", 6) < 0 || setdomainname("", 0) < 0))
        return error_layer(err, "namespaces", -errno, "cannot set the host name");
    if (box->identity->has_uid && (status = identity_leave_root(box, err)) < 0)
        return status;
    if ((status = identity_drop_capabilities(err)) < 0)
        return status;
    /* Last, so that the profile need not allow any of the above. */
    if (!hardening_removed(apparmor) && (status = enter_profile(box)) < 0)
        return error_layer(err, "apparmor", status, "cannot enter the profile");
    return 0;
}

/* The launcher's end of the control socket above all: we must see when it is gone. And all that a caller with
 * several threads has open for its other boxes, which would outlive it with us. */
static int keep_own_descriptors(const struct room *room, const struct launch *launch)
{
    int kept[1 + SPEC_GRANTS_MAX] = {launch->child_control};
    size_t count = 1;
    for (size_t i = 0; i < room->grants.count; i++)
        kept[count++] = room->grants.shown[i].userns_fd;
    return hardening_removed(close_descriptors) ? 0 : process_close_all_but(kept, count);
}

__attribute__((noreturn)) static void child_main(struct box *box, const struct room *room,
                                                 struct launch *launch, uid_t caller_uid, gid_t caller_gid)
{
    struct error err = {0};
    if (!hardening_removed(new_session))
        setsid(); /* at once: a Ctrl-C at the launcher's terminal is not for us, nor for what we become */
    signal(SIGCHLD, SIG_DFL); /* or the kernel would reap for us, and we could not ask how it went */
    if (keep_own_descriptors(room, launch) < 0)
        _exit(70);
    struct init_message entered = {.kind = INIT_ENTERED};
    if (child_enter(box, room, caller_uid, caller_gid, &err) < 0)
        launch_child_fail(launch, &err);
    int status = process_send(launch->child_control, &entered, sizeof entered, -1);
    if (status == 0)
        status = launch_take(launch);
    if (status == 0)
        status = launch_exec_init(launch);
    error_host(&err, status, "cannot start init");
    launch_child_fail(launch, &err);
}

/* A refusal by the kernel on the way into the box is most often somebody else's filter or missing capability:
 * says what grants it. */
static int explain_refusal(struct error *err)
{
    bool refused = err->code == -EPERM || err->code == -EACCES || err->code == -ENOSYS ||
                   err->code == -ENOSPC || err->code == -EUSERS;
    if (!refused || strstr(err->text, "--isolation process"))
        return err->code;
    size_t length = strlen(err->text);
    const char *hint = geteuid() == 0
                           ? "Inside a "
                             "container, start that with --cap-add SYS_ADMIN --cap-add "
                             "SYS_TIME --cap-add SYS_PTRACE --cap-add SETFCAP "
                             "--security-opt seccomp=unconfined --security-opt unmask=ALL "
                             "(podman, docker); or use --isolation process"
                           : "Possible reasons: an outer container's filter (podman, docker: "
                             "--security-opt seccomp=unconfined "
                             "--security-opt unmask=ALL), AppArmor's restriction of user "
                             "namespaces (Ubuntu 24.04: load Cloche's "
                             "profile with `make install`), a chroot, kernel.unprivileged_userns_clone=0, "
                             "or user.max_user_namespaces=0. "
                             "--isolation process needs none of it";
    bool may_be_a_chroot =
        geteuid() == 0 && err->code == -EPERM && strcmp(err->subject, layer_names[LAYER_namespaces]) == 0;
    snprintf(err->text + length, sizeof err->text - length, ".%s %s",
             may_be_a_chroot ? " The kernel allows no user namespace in a chroot." : "", hint);
    err->kind = ERROR_LAYER;
    return err->code;
}

static int start_child(struct box *box, struct room *room, struct launch *launch, struct error *err)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    int cgroup_fd = box->group.version == CGROUP_V2 ? box->group.dir_fd[CGROUP_MEMORY] : -1;
    pid_t pid = process_clone(namespace_flags(box), cgroup_fd, &box->pidfd);
    if (pid < 0)
        return error_layer(err, "namespaces", pid, "cannot make the namespaces of a box");
    if (pid == 0)
        child_main(box, room, launch, uid, gid);
    process_stay_apart(&box->apart, pid); /* it builds the room while we make groups and network */
    box->pid = pid;
    if (box->is_watched)
        ((struct watchdog *)box->engine_data)->init = pid;
    return 0;
}

struct inspection {
    const struct box *box;
    const struct cgroup_limits *group_limits;
};

static int inspect(void *data, struct error *err)
{
    const struct inspection *inspection = data;
    return inspect_container(inspection->box, inspection->group_limits, err);
}

static int make_group(struct box *box, const struct cgroup_limits *limits, struct error *err)
{
    return cgroup_create(box->cgroups, box->identity->name, limits, &box->group, err);
}

/* The child is on its way before the groups of v1 and its streams are made, and inside before the limits are
 * written, since it would only wait for us: see entry.h. */
static int start_box(struct box *box, const struct cgroup_limits *group_limits, struct error *err)
{
    scope_launch launch = LAUNCH_UNSET;
    struct room room __attribute__((cleanup(room_close))) = {.box = box, .launch = &launch};
    int status = room_open(&room, err);
    if (status == 0)
        status = launch_open(box, &launch, err);
    if (status == 0 && box->cgroups->version == CGROUP_V2)
        status = make_group(box, group_limits, err);
    if (status == 0)
        status = start_child(box, &room, &launch, err);
    scope_close_fd(&launch.child_control);
    bool is_v1 = box->cgroups->version == CGROUP_V1;
    bool limits_later = !room_code_counts(&room);
    if (status == 0 && is_v1)
        status = make_group(box, limits_later ? NULL : group_limits, err);
    if (status == 0)
        status = entry_give(box, err);
    if (status == 0)
        status = launch_prepare(box, NULL, &launch, err);
    if (status == 0)
        status = write_plan(box, &launch, err);
    if (status == 0)
        status = launch_give(box, &launch, err);
    if (status == 0 && is_v1 && limits_later)
        status = cgroup_limit(&box->group, group_limits, err);
    if (status == 0) /* now, while the child is busy, and not when everybody waits for the end */
        status = cgroup_usage_open(&box->group, err);
    return status;
}

static int container_start(struct box *box, struct result *result, struct error *err)
{
    struct cgroup_limits group_limits;
    int status = group_choose_limits(box, &group_limits, err);
    if (status < 0)
        return status;
    if (box->cgroups->version == CGROUP_NONE) { /* accepted by name: a watchdog is better than nothing */
        box->is_watched = true;
        box->engine_data = calloc(1, sizeof(struct watchdog));
        if (!box->engine_data)
            return error_host(err, -ENOMEM, "cannot start a watchdog");
    }
    launch_choose_policy(box);
    if (box->is_forkable && (status = forking_prepare(box, err)) < 0)
        return status;
    box->landlock_abi = landlock_abi();
    if (box->landlock_abi < 0)
        return error_layer(err, "landlock", box->landlock_abi, "cannot ask the kernel for Landlock");
    if (box->is_forkable && box->landlock_abi < 6)
        box->landlock_abi = 0; /* it has no scopes yet, which is all that a forkable box takes of it */
    status = start_box(box, &group_limits, err);
    struct inspection inspection = {box, &group_limits};
    if (status == 0)
        status = launch_await_verified(box, 20000, inspect, &inspection, err);
    else
        process_roam(&box->apart);
    if (status == 0)
        inspect_list_layers(box, &group_limits, result);
    return status < 0 && err ? explain_refusal(err) : status;
}

static int take_parents(const struct box *parent, struct box *child, struct error *err)
{
    if (!parent->family || parent->listener_fd < 0 || child->cgroups->version == CGROUP_NONE)
        return error_layer(err, "fork", 0, "this box cannot be forked: %s",
                           !parent->family           ? "it was not started to be"
                           : parent->listener_fd < 0 ? "an outer filter leaves it none of its own"
                                                     : "there are no control groups here for the new one");
    child->policy_variant = parent->policy_variant;
    child->landlock_abi = 0;
    return 0;
}

/* Of the layers that a fork has by now. */
static void note_rules(const struct box *parent, struct box *child)
{
    child->landlock_scoped = parent->landlock_scoped && child->uid_line.count <= FORK_SCOPES_MAX;
    if (child->ruleset_fd >= 0) { /* it has put them on, and proved it, before it goes on as an interpreter */
        scope_close_fd(&child->ruleset_fd);
        child->is_forkable = false;
        child->landlock_abi = landlock_abi();
    }
}

static int container_fork(struct box *parent, struct box *child, const struct fork_request *request,
                          struct result *result, struct error *err)
{
    struct cgroup_limits group_limits;
    int status = group_choose_limits(child, &group_limits, err);
    if (status == 0)
        status = take_parents(parent, child, err);
    if (status < 0)
        return status;
    status = forking_fork(parent, child, request, &group_limits, err);
    note_rules(parent, child);
    if (status == 0)
        inspect_list_layers(child, &group_limits, result);
    return status;
}

static int container_fork_place(struct box *parent, struct box *child, const struct fork_request *request,
                                struct error *err)
{
    struct cgroup_limits group_limits;
    int status = group_choose_limits(child, &group_limits, err);
    if (status == 0)
        status = take_parents(parent, child, err);
    return status < 0 ? status : forking_make_place(parent, child, request, &group_limits, err);
}

static int container_fork_into(struct box *parent, struct box *child, const struct fork_request *request,
                               struct result *result, struct error *err)
{
    struct cgroup_limits group_limits;
    int status = group_choose_limits(child, &group_limits, err);
    if (status == 0)
        status = forking_fill_place(parent, child, request, err);
    note_rules(parent, child);
    if (status == 0)
        inspect_list_layers(child, &group_limits, result);
    return status;
}

static int container_limit(struct box *box, struct error *err)
{
    const int64_t *limit = box->limits->value;
    const struct cgroup_limits limits = {
        .memory_bytes = limit[LIMIT_memory], .pids = limit[LIMIT_pids] + 1, .millicpus = limit[LIMIT_cpus]};
    int status = cgroup_limit(&box->group, &limits, err);
    return status == 0 ? cgroup_verify(&box->group, &limits, box->program_pid, err) : status;
}

static void container_measure(struct box *box, struct measurement *now)
{
    if (box->is_watched)
        watchdog_measure(box->engine_data, box, now);
    else
        group_measure(box, now);
    group_measure_disk(box, now);
}

static void container_stop(struct box *box)
{
    box->stops++;
    if (atomic_load(&box->forks) > 0 && box->group.version != CGROUP_NONE) {
        cgroup_kill_all_but(&box->group, box->pid);
        return;
    }
    if (box->pidfd >= 0)
        process_pidfd_kill(box->pidfd, SIGKILL);
    if (hardening_removed(pid_namespace))
        cgroup_kill(&box->group);
}

static int container_destroy(struct box *box)
{
    free(box->engine_data);
    box->engine_data = NULL;
    forking_leave(box);
    return cgroup_destroy(&box->group);
}

const struct engine engine_container = {
    .isolation = ISOLATION_CONTAINER,
    .name = "container",
    .uses_groups = true,
    .path_of = furnish_path_of,
    .start = container_start,
    .fork = container_fork,
    .fork_place = container_fork_place,
    .fork_into = container_fork_into,
    .show_inputs = forking_show_inputs,
    .limit = container_limit,
    .measure = container_measure,
    .answer = forking_answer,
    .stop = container_stop,
    .destroy = container_destroy,
};
