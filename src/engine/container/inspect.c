#include "engine/container/inspect.h"

#include "base/file.h"
#include "base/scope.h"
#include "engine/group.h"
#include "engine/layers.h"
#include "engine/look.h"
#include "engine/outside.h"
#include "os/hardening.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* `other` is the host's, that is our own, or the box's that this one was forked from. */
static int inspect_namespaces(int process_fd, pid_t other, bool is_parent, struct error *err)
{
    scope_fd other_fd = look_open_process(other);
    if (other_fd < 0)
        return error_layer(err, "namespaces", -errno, "cannot look at process %d", (int)other);
    const struct {
        const char *kind;
        bool wanted;
    } kinds[] = {
        {"user", hardening_verified(user_namespace) && hardening_verified(box_uid)},
        {"pid", hardening_verified(pid_namespace)},
        {"mnt", true},
        {"net", hardening_verified(network_namespace)},
        {"ipc", hardening_verified(ipc_namespace)},
        {"uts", hardening_verified(uts_namespace)},
        {"cgroup", hardening_verified(cgroup_namespace)},
        /* Kernels before 6.1 change it at fork, not at exec: what the program will have is decisive. */
        {"time_for_children", !is_parent /* the clock is no secret between them */ &&
                                  hardening_verified(time_namespace) &&
                                  access("/proc/self/ns/time", F_OK) == 0},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        int differs = kinds[i].wanted ? look_namespace_differs(process_fd, other_fd, kinds[i].kind) : 1;
        if (differs < 0)
            return error_layer(err, "namespaces", differs, "cannot inspect the box's %s namespace",
                               kinds[i].kind);
        if (!differs)
            return error_layer(err, "namespaces", 0, "the box shares the %s's %s namespace",
                               is_parent ? "parent" : "host", kinds[i].kind);
    }
    return 0;
}

static bool profile_is_active(int process_fd)
{
    char label[128];
    return file_read_attribute(process_fd, "attr/apparmor/current", label, sizeof label) > 0 &&
           strncmp(label, "cloche-box", 10) == 0;
}

void inspect_list_layers(const struct box *box, const struct cgroup_limits *limits, struct result *result)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d", (int)box->pid);
    scope_fd process_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool profile = process_fd >= 0 && profile_is_active(process_fd);
    result_add_layer(result, layer_names[LAYER_namespaces], true, "user pid mount net ipc uts cgroup time%s",
                     box->identity->has_uid ? "" : " (rootless)");
    result_add_layer(result, layer_names[LAYER_box_uid], box->identity->has_uid, "%s",
                     box->identity->has_uid ? "own uid on the host"
                                            : "the caller's uid, alone in its namespace");
    result_add_layer(result, layer_names[LAYER_root], true, "read-only %s", box->image->name);
    group_list_layer(box, limits, result);
    result_add_layer(result, layer_names[LAYER_capabilities], true, "none");
    result_add_layer(result, layer_names[LAYER_no_new_privs], true, "on");
    result_add_layer(result, layer_names[LAYER_seccomp], true, "container%s%s",
                     box->policy_variant == POLICY_CONTAINER ? "" : ", no named sockets",
                     box->listener_fd >= 0 ? "" : ", no listener");
    if (box->is_forkable) /* rules for files name the files of one box */
        result_add_layer(result, layer_names[LAYER_landlock], false, "scopes only: the box can be forked");
    else
        result_add_layer(result, layer_names[LAYER_landlock], box->landlock_abi > 0, "abi %d",
                         box->landlock_abi);
    result_add_layer(result, layer_names[LAYER_landlock_scope], box->landlock_scoped, "%s",
                     box->landlock_scoped ? "on" : "not in this kernel; namespaces do it");
    result_add_layer(result, layer_names[LAYER_apparmor], profile, "%s",
                     profile ? "cloche-box" : "not active here");
    result_add_layer(result, layer_names[LAYER_rlimits], true, "on");
}

int inspect_container(const struct box *box, const struct cgroup_limits *group_limits, struct error *err)
{
    scope_fd process_fd = look_open_process(box->pid);
    if (process_fd < 0)
        return error_layer(err, "namespaces", 0, "the box cannot be inspected");
    int status = inspect_namespaces(process_fd, getpid(), false, err);
    if (status == 0)
        status = outside_check_identity(box, process_fd, err);
    if (status == 0)
        status = look_at_scratch(box, err);
    if (status == 0 && box->group.version != CGROUP_NONE)
        status = cgroup_verify(&box->group, group_limits, box->pid, err);
    return status;
}

/* No root, working directory or program file of the parent's scratch space. */
static int inspect_directory(const struct box *child, int process_fd, struct error *err)
{
    struct stat now, own;
    if (fstatat(process_fd, "cwd", &now, 0) < 0 || fstat(child->scratch_fd, &own) < 0 ||
        now.st_dev != own.st_dev)
        return error_layer(err, "root", 0, "a forked process is not in a directory of its own");
    return 0;
}

int inspect_fork(const struct box *parent, struct box *child, const struct cgroup_limits *limits,
                 struct error *err)
{
    int status = look_at_scratch(child, err);
    const pid_t processes[] = {child->program_pid, child->pid};
    for (size_t i = 0; status == 0 && i < sizeof processes / sizeof *processes; i++) {
        scope_fd process_fd = look_open_process(processes[i]);
        bool is_program = i == 0;
        if (process_fd < 0)
            return error_layer(err, "namespaces", -errno, "the forked box cannot be inspected");
        if (is_program)
            status = inspect_namespaces(process_fd, getpid(), false, err);
        if (status == 0 && is_program)
            status = inspect_namespaces(process_fd, parent->program_pid, true, err);
        if (status == 0)
            status = outside_check_identity(child, process_fd, err);
        if (status == 0)
            status = outside_check_worn(process_fd, true, err);
        if (status == 0 && is_program)
            status = outside_check_descriptors(process_fd, err);
        if (status == 0 && is_program)
            status = inspect_directory(child, process_fd, err);
        if (status == 0)
            status = cgroup_verify(&child->group, limits, processes[i], err);
        if (status == 0 && is_program && child->ruleset_fd >= 0)
            child->program_fd = take_fd(&process_fd);
    }
    return status;
}

int inspect_alone(const struct box *child, const struct stat *init_program, struct error *err)
{
    char path[64], program[16];
    struct stat now;
    snprintf(path, sizeof path, "/proc/%d/exe", (int)child->pid);
    if (stat(path, &now) < 0 || now.st_dev != init_program->st_dev || now.st_ino != init_program->st_ino)
        return error_layer(err, "namespaces", 0, "the first process of a forked box is not its init");
    snprintf(program, sizeof program, "%d", (int)child->program_pid);
    /* The program before init: an orphan goes from below the one to the other, and not back. */
    if (!outside_is_single(child->program_pid, "") || !outside_is_single(child->pid, program))
        return error_layer(err, "namespaces", 0, "somebody else is in the forked box");
    return 0;
}
