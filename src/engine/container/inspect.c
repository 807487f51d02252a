#include "engine/container/inspect.h"

#include "base/file.h"
#include "base/scope.h"
#include "engine/layers.h"
#include "os/hardening.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

/* Does the box have a namespace of this kind that is not ours? 1, 0, or a negative errno. */
static int namespace_differs(int process_fd, const char *kind)
{
    char theirs[48], ours[64];
    struct stat their_status, our_status;
    snprintf(theirs, sizeof theirs, "ns/%s", kind);
    snprintf(ours, sizeof ours, "/proc/self/ns/%s", kind);
    if (fstatat(process_fd, theirs, &their_status, 0) < 0 || stat(ours, &our_status) < 0)
        return -errno;
    return their_status.st_ino != our_status.st_ino || their_status.st_dev != our_status.st_dev;
}

static int inspect_namespaces(int process_fd, struct error *err)
{
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
        {"time_for_children", hardening_verified(time_namespace) && access("/proc/self/ns/time", F_OK) == 0},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        int differs = kinds[i].wanted ? namespace_differs(process_fd, kinds[i].kind) : 1;
        if (differs < 0)
            return error_layer(err, "namespaces", differs, "cannot inspect the box's %s namespace",
                               kinds[i].kind);
        if (!differs)
            return error_layer(err, "namespaces", 0, "the box shares the host's %s namespace", kinds[i].kind);
    }
    return 0;
}

static bool status_line(const char *text, const char *key, char *into, size_t size)
{
    const char *line = strstr(text, key);
    if (!line)
        return false;
    line += strlen(key);
    size_t length = strcspn(line, "\n");
    snprintf(into, size, "%.*s", (int)length, line);
    return true;
}

static int inspect_identity(const struct box *box, int process_fd, struct error *err)
{
    char text[8192], line[128];
    if (file_read_attribute(process_fd, "status", text, sizeof text) <= 0 ||
        !status_line(text, "\nUid:", line, sizeof line))
        return error_layer(err, "box_uid", 0, "cannot see who the box is");
    unsigned uids[4] = {0};
    uid_t wanted = box->identity->has_uid ? box->identity->uid : geteuid();
    if (hardening_verified(box_uid) &&
        (sscanf(line, "%u %u %u %u", &uids[0], &uids[1], &uids[2], &uids[3]) != 4 || uids[0] != wanted ||
         uids[1] != wanted || uids[2] != wanted || uids[3] != wanted ||
         (box->identity->has_uid && wanted == 0)))
        return error_layer(err, "box_uid", 0, "the box runs as uid %u, not as %u", uids[1], wanted);
    static const char *const sets[] = {"\nCapEff:", "\nCapPrm:", "\nCapInh:", "\nCapAmb:"};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (hardening_verified(capabilities) &&
            (!status_line(text, sets[i], line, sizeof line) || strtoull(line, NULL, 16) != 0))
            return error_layer(err, "capabilities", 0, "the box still has capabilities (%s%s)", sets[i] + 1,
                               line);
    return 0;
}

static bool profile_is_active(int process_fd)
{
    char label[128];
    return file_read_attribute(process_fd, "attr/apparmor/current", label, sizeof label) > 0 &&
           strncmp(label, "cloche-box", 10) == 0;
}

static int inspect_scratch(const struct box *box, struct error *err)
{
    /* The scratch was made by our own child and came to us over its socket; what it is can be asked again. */
    struct stat status;
    struct statfs space;
    if (box->scratch_fd < 0 || fstat(box->scratch_fd, &status) < 0 || !S_ISDIR(status.st_mode) ||
        fstatfs(box->scratch_fd, &space) < 0)
        return error_layer(err, "root", 0, "the scratch space is not there");
    int64_t size = (int64_t)space.f_blocks * space.f_bsize, wanted = box->limits->value[LIMIT_disk];
    if (hardening_verified(scratch_size) && (size == 0 || size > wanted + space.f_bsize))
        return error_layer(err, "scratch_size", 0, "the scratch space holds %lld bytes instead of %lld",
                           (long long)size, (long long)wanted);
    if (hardening_verified(scratch_inodes) &&
        (space.f_files == 0 || (int64_t)space.f_files > box->limits->value[LIMIT_inodes]))
        return error_layer(err, "scratch_inodes", 0, "the scratch space holds %lld files",
                           (long long)space.f_files);
    return 0;
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
    if (box->group.version != CGROUP_NONE)
        result_add_layer(result, layer_names[LAYER_cgroup], true, "v%d:%s%s%s",
                         box->group.version == CGROUP_V1 ? 1 : 2, limits->memory_bytes ? " memory" : "",
                         limits->pids ? " pids" : "", limits->millicpus ? " cpu" : "");
    else
        result_add_layer(result, layer_names[LAYER_cgroup], false, "%s", box->cgroups->why_not);
    if (box->is_watched)
        result_add_layer(result, layer_names[LAYER_watchdog], true,
                         "in place of groups, every 10 ms: memory pids cpu");
    result_add_layer(result, layer_names[LAYER_capabilities], true, "none");
    result_add_layer(result, layer_names[LAYER_no_new_privs], true, "on");
    result_add_layer(result, layer_names[LAYER_seccomp], true, "container%s%s",
                     box->policy_variant == POLICY_CONTAINER ? "" : ", no named sockets",
                     box->listener_fd >= 0 ? "" : ", no listener");
    result_add_layer(result, layer_names[LAYER_landlock], box->landlock_abi > 0, "abi %d", box->landlock_abi);
    result_add_layer(result, layer_names[LAYER_landlock_scope], box->landlock_scoped, "%s",
                     box->landlock_scoped ? "on" : "not in this kernel; namespaces do it");
    result_add_layer(result, layer_names[LAYER_apparmor], profile, "%s",
                     profile ? "cloche-box" : "not active here");
    result_add_layer(result, layer_names[LAYER_rlimits], true, "on");
}

int inspect_container(const struct box *box, const struct cgroup_limits *group_limits, struct error *err)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d", (int)box->pid);
    scope_fd process_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (process_fd < 0)
        return error_layer(err, "namespaces", 0, "the box cannot be inspected");
    int status = inspect_namespaces(process_fd, err);
    if (status == 0)
        status = inspect_identity(box, process_fd, err);
    if (status == 0)
        status = inspect_scratch(box, err);
    if (status == 0 && box->group.version != CGROUP_NONE)
        status = cgroup_verify(&box->group, group_limits, box->pid, err);
    return status;
}
