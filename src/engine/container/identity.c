#include "engine/container/identity.h"

#include "base/scope.h"
#include "os/capabilities.h"
#include "os/hardening.h"
#include "os/process.h"
#include "os/user_namespace.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int identity_map_self(uid_t outside_uid, gid_t outside_gid, struct error *err)
{
    int status = user_namespace_map_self(BOX_UID_INSIDE, outside_uid, BOX_GID_INSIDE, outside_gid);
    return status < 0 ? error_layer(err, "namespaces", status, "cannot map the user of the box") : 0;
}

int identity_continue_line(const struct uid_line *parent, struct box *box, struct error *err)
{
    struct uid_line line = parent ? *parent : (struct uid_line){0};
    if (line.count > FORK_GENERATIONS_MAX - 1)
        return error_spec(err, "fork", "fork: there are %d generations of forks already",
                          FORK_GENERATIONS_MAX);
    unsigned own = (unsigned)(box->identity->uid - box->identity->first_uid);
    unsigned at = line.count++;
    for (; at > 0 && line.taken[at - 1] > own; at--)
        line.taken[at] = line.taken[at - 1];
    line.taken[at] = own;
    box->uid_line = line;
    return 0;
}

/* The box's own user, and around the uids that are taken in its line, the rest of the range. `outside` is
 * where the range begins in the namespace above. */
static int range_lines(const struct box *box, unsigned outside, char *into, size_t size)
{
    const struct box_identity *identity = box->identity;
    unsigned own = (unsigned)(identity->uid - identity->first_uid), from = 0;
    int length = snprintf(into, size, "%u %u 1\n", BOX_UID_INSIDE, outside + own);
    for (unsigned i = 0; i <= box->uid_line.count; i++) {
        unsigned until = i < box->uid_line.count ? box->uid_line.taken[i] : identity->uid_count;
        if (until > from)
            length += snprintf(into + length, size - (size_t)length, "%u %u %u\n", BOX_RANGE_INSIDE + from,
                               outside + from, until - from);
        from = until + 1;
    }
    return length;
}

struct mapping {
    pid_t parent, pid;
    const char *lines;
    int status;
};

/* Maps can be written only by who is in the namespace itself or in the one above. */
static int map_from_above(void *data)
{
    struct mapping *mapping = data;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/user", (int)mapping->parent);
    int above = open(path, O_RDONLY | O_CLOEXEC);
    if (above < 0 || setns(above, CLONE_NEWUSER) < 0)
        mapping->status = -errno;
    else
        mapping->status = user_namespace_map(mapping->pid, mapping->lines);
    scope_close_fd(&above);
    syscall(SYS_exit_group, 0);
    return 0;
}

int identity_map_fork(const struct box *box, pid_t parent, pid_t pid, struct error *err)
{
    char lines[(FORK_GENERATIONS_MAX + 3) * 40];
    if (box->identity->has_uid)
        range_lines(box, BOX_RANGE_INSIDE, lines, sizeof lines);
    else
        snprintf(lines, sizeof lines, "%u %u 1\n", BOX_UID_INSIDE, BOX_UID_INSIDE);
    struct mapping mapping = {.parent = parent, .pid = pid, .lines = lines, .status = -EIO};
    int status = process_call_apart(map_from_above, &mapping);
    if (status == 0)
        status = mapping.status;
    return status < 0 ? error_layer(err, "namespaces", status, "cannot map the user of a forked box") : 0;
}

/* Makes a user namespace with the whole range in it. */
static int enter_forkable_namespace(const struct box *box, struct error *err)
{
    char lines[160];
    range_lines(box, box->identity->first_uid, lines, sizeof lines);
    int status = user_namespace_enter(lines);
    return status < 0 ? error_layer(err, "namespaces", status, "cannot make a user namespace") : 0;
}

int identity_leave_root(const struct box *box, struct error *err)
{
    const struct box_identity *identity = box->identity;
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
    if (box->is_forkable)
        return enter_forkable_namespace(box, err);
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
