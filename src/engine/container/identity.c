#include "engine/container/identity.h"

#include "base/file.h"
#include "base/scope.h"
#include "os/capabilities.h"
#include "os/hardening.h"
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static int write_map(const char *file, unsigned inside, unsigned outside)
{
    char path[64], line[64];
    snprintf(path, sizeof path, "/proc/self/%s", file);
    snprintf(line, sizeof line, "%u %u 1", inside, outside);
    return file_write_attribute(AT_FDCWD, path, line);
}

int identity_map_self(uid_t outside_uid, gid_t outside_gid, struct error *err)
{
    int status = file_write_attribute(AT_FDCWD, "/proc/self/setgroups", "deny");
    if (status == 0)
        status = write_map("gid_map", BOX_GID_INSIDE, outside_gid);
    if (status == 0)
        status = write_map("uid_map", BOX_UID_INSIDE, outside_uid);
    return status < 0 ? error_layer(err, "namespaces", status, "cannot map the user of the box") : 0;
}

int identity_leave_root(const struct box_identity *identity, struct error *err)
{
    if (hardening_removed(box_uid))
        return 0;
    /* The capabilities are kept over the change of uid, because making a user namespace is forbidden to
     * ordinary users on some hosts; they end with the namespace and with identity_drop_capabilities. */
    int status =
        prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 ? -errno : process_take_ids(identity->uid, identity->uid);
    if (status < 0)
        return error_layer(err, "box_uid", status, "cannot take the box's own uid %u", identity->uid);
    /* The effective capabilities were cleared by the change of uid, and it is those that the making of a user
     * namespace is checked against. */
    status = capabilities_raise();
    if (status < 0)
        return error_layer(err, "namespaces", status, "cannot keep the power to make a user namespace");
    if (hardening_removed(user_namespace))
        return 0;
    prctl(PR_SET_DUMPABLE, 1, 0, 0,
          0); /* a changed uid makes /proc/self root's; the maps are written there */
    if (unshare(CLONE_NEWUSER) < 0)
        return error_layer(err, "namespaces", -errno, "cannot make a user namespace");
    return identity_map_self(identity->uid, identity->uid, err);
}

int identity_drop_capabilities(struct error *err)
{
    /* A new user namespace fills the bounding set anew, so it is emptied here, after it. */
    int status = hardening_removed(bounding_set) ? 0 : capabilities_drop_bounding();
    if (status == 0 && !hardening_removed(capabilities))
        status = capabilities_drop_all();
    return status < 0 ? error_layer(err, "capabilities", status, "cannot give up capabilities") : 0;
}

int identity_mapping_namespace(uid_t owner, gid_t owner_group, uid_t uid)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    scope_fd read_end = ends[0];
    scope_fd write_end = ends[1];
    scope_fd pidfd = -1;
    pid_t pid = process_clone(CLONE_NEWUSER, -1, &pidfd);
    if (pid < 0)
        return pid;
    if (pid == 0) {
        char byte;
        close(write_end);
        _exit(read(read_end, &byte, 1) < 0); /* until the launcher is done with us */
    }
    char path[64], line[64];
    snprintf(path, sizeof path, "/proc/%d/uid_map", (int)pid);
    snprintf(line, sizeof line, "%u %u 1", owner, uid);
    int status = file_write_attribute(AT_FDCWD, path, line);
    snprintf(path, sizeof path, "/proc/%d/gid_map", (int)pid);
    snprintf(line, sizeof line, "%u %u 1", owner_group, uid);
    if (status == 0)
        status = file_write_attribute(AT_FDCWD, path, line);
    snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
    int namespace_fd = status < 0 ? status : open(path, O_RDONLY | O_CLOEXEC);
    if (namespace_fd == -1)
        namespace_fd = -errno;
    scope_close_fd(&write_end);
    waitpid(pid, NULL, 0);
    return namespace_fd;
}
