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

/* `others` are the host's, that is our own, or those of the box that this one was forked from. */
static int check_namespaces(const struct look_namespaces *own, const struct look_namespaces *others,
                            bool are_parents, struct error *err)
{
    const bool wanted[LOOK_NAMESPACES] = {
        [LOOK_USER] = hardening_verified(user_namespace) && hardening_verified(box_uid),
        [LOOK_PID] = hardening_verified(pid_namespace),
        [LOOK_MOUNT] = true,
        [LOOK_NETWORK] = hardening_verified(network_namespace),
        [LOOK_IPC] = hardening_verified(ipc_namespace),
        [LOOK_UTS] = hardening_verified(uts_namespace),
        [LOOK_CGROUP] = hardening_verified(cgroup_namespace),
        [LOOK_TIME_FOR_CHILDREN] = !are_parents /* the clock is no secret between them */ &&
                                   hardening_verified(time_namespace) &&
                                   others->of[LOOK_TIME_FOR_CHILDREN].number != 0,
    };
    for (int i = 0; i < LOOK_NAMESPACES; i++)
        if (wanted[i] && !look_namespace_differs(own, others, (enum look_namespace)i))
            return error_layer(err, "namespaces", 0, "the box shares the %s's %s namespace",
                               are_parents ? "parent" : "host", look_namespace_names[i]);
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
                     box->landlock_scoped ? "on"
                     : box->uid_line.count > FORK_SCOPES_MAX
                         ? "its parent's: the kernel nests no more; namespaces do it"
                         : "not in this kernel; namespaces do it");
    result_add_layer(result, layer_names[LAYER_apparmor], profile, "%s",
                     profile ? "cloche-box" : "not active here");
    result_add_layer(result, layer_names[LAYER_rlimits], true, "on");
}

int inspect_namespaces_of(pid_t pid, struct look_namespaces *ret, struct error *err)
{
    scope_fd process_fd = look_open_process(pid);
    if (process_fd < 0)
        return error_layer(err, "namespaces", -errno, "cannot look at process %d", (int)pid);
    return look_at_namespaces(process_fd, ret, err);
}

int inspect_container(const struct box *box, const struct cgroup_limits *group_limits, struct error *err)
{
    scope_fd process_fd = look_open_process(box->pid);
    if (process_fd < 0)
        return error_layer(err, "namespaces", 0, "the box cannot be inspected");
    char text[LOOK_STATUS_SIZE];
    struct look_namespaces host, own;
    int status = inspect_namespaces_of(getpid(), &host, err);
    if (status == 0)
        status = look_at_namespaces(process_fd, &own, err);
    if (status == 0)
        status = check_namespaces(&own, &host, false, err);
    if (status == 0)
        status = look_read_status(process_fd, text, err);
    if (status == 0)
        status = outside_check_identity(box, text, err);
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

/* What only the program of a fork can have brought along from where it comes from. */
static int inspect_program(const struct inspect_kin *kin, int process_fd, struct error *err)
{
    struct look_namespaces own;
    int status = look_at_namespaces(process_fd, &own, err);
    if (status == 0)
        status = check_namespaces(&own, &kin->host, false, err);
    return status < 0 ? status : check_namespaces(&own, &kin->parent, true, err);
}

static int inspect_process(const struct box *child, pid_t pid, int process_fd, const char *children,
                           struct error *err)
{
    char text[LOOK_STATUS_SIZE];
    int status = look_read_status(process_fd, text, err);
    if (status == 0)
        status = outside_check_identity(child, text, err);
    if (status == 0)
        status = outside_check_worn(text, true, err);
    if (status == 0 && !outside_is_single(pid, process_fd, text, children))
        return error_layer(err, "namespaces", 0, "somebody else is in the forked box");
    return status;
}

static int inspect_init(const struct box *child, int process_fd, const struct stat *init_program,
                        struct error *err)
{
    struct stat now;
    if (fstatat(process_fd, "exe", &now, 0) < 0 || now.st_dev != init_program->st_dev ||
        now.st_ino != init_program->st_ino)
        return error_layer(err, "namespaces", 0, "the first process of a forked box is not its init");
    return cgroup_verify_member(&child->group, child->pid, err);
}

int inspect_fork_alone(const struct box *child, struct error *err)
{
    scope_fd program_fd = look_open_process(child->program_pid);
    if (program_fd < 0)
        return error_layer(err, "namespaces", -errno, "the forked box cannot be inspected");
    int status = outside_check_descriptors(program_fd, err);
    if (status == 0)
        status = inspect_directory(child, program_fd, err);
    return status < 0 ? status : inspect_process(child, child->program_pid, program_fd, "", err);
}

int inspect_fork(const struct inspect_kin *kin, struct box *child, const struct stat *init_program,
                 struct error *err)
{
    char program[16];
    snprintf(program, sizeof program, "%d", (int)child->program_pid);
    scope_fd program_fd = look_open_process(child->program_pid);
    scope_fd init_fd = look_open_process(child->pid);
    if (program_fd < 0 || init_fd < 0)
        return error_layer(err, "namespaces", -errno, "the forked box cannot be inspected");
    int status = look_at_scratch(child, err);
    if (status == 0)
        status = inspect_program(kin, program_fd, err);
    if (status == 0)
        status = cgroup_verify_member(&child->group, child->program_pid, err);
    if (status == 0)
        status = inspect_init(child, init_fd, init_program, err);
    if (status == 0)
        status = inspect_process(child, child->pid, init_fd, program, err);
    if (status == 0 && child->ruleset_fd >= 0)
        child->program_fd = take_fd(&program_fd);
    return status;
}
