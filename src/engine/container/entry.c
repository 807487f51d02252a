#include "engine/container/entry.h"

#include "base/scope.h"
#include "os/hardening.h"
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The network namespace comes first, then the files to join groups by. */
enum { DESCRIPTORS = 1 + CGROUP_CONTROLLERS };
_Static_assert(DESCRIPTORS <= (int)PROCESS_DESCRIPTORS_MAX, "they go in one message");

struct entry_order {
    char order;
    char has_network;
};

bool entry_brings_network(const struct box *box)
{
    return box->identity->has_uid && !hardening_removed(network_namespace);
}

static int open_own_network(void *data)
{
    int *ret_fd = data;
    *ret_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (*ret_fd < 0)
        *ret_fd = -errno;
    syscall(SYS_exit_group, 0);
    return 0;
}

/* A namespace is made with a process, which leaves it open for us. */
static int make_network(void)
{
    int fd = -EIO;
    int status = process_call_apart_with(CLONE_NEWNET, open_own_network, &fd);
    return status < 0 ? status : fd;
}

int entry_give(const struct box *box, struct error *err)
{
    int fds[DESCRIPTORS];
    size_t count = 0;
    scope_fd network = -1;
    struct entry_order order = {.order = INIT_ENTER, .has_network = entry_brings_network(box)};
    if (order.has_network) {
        network = make_network();
        if (network < 0)
            return error_layer(err, "namespaces", network, "cannot make a network namespace");
        fds[count++] = network;
    }
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        if (box->group.join_fd[i] >= 0)
            fds[count++] = box->group.join_fd[i];
    int status = process_send_many(box->control_fd, &order, sizeof order, fds, count);
    /* A child that has failed meanwhile says why itself. */
    return status < 0 && status != -EPIPE ? error_host(err, status, "cannot let the box in") : 0;
}

int entry_take(const struct launch *launch, struct error *err)
{
    int fds[DESCRIPTORS];
    struct entry_order order = {0};
    int length = process_receive_many(launch->child_control, &order, sizeof order, fds, DESCRIPTORS);
    if (length != (int)sizeof order || order.order != INIT_ENTER)
        _exit(71); /* the launcher is gone, or changed its mind */
    if (order.has_network && setns(fds[0], CLONE_NEWNET) < 0)
        return error_layer(err, "namespaces", -errno, "cannot enter the network namespace");
    struct cgroup group = CGROUP_UNSET;
    for (int i = order.has_network; i < DESCRIPTORS; i++)
        if (fds[i] >= 0)
            group.join_fd[i - order.has_network] = fds[i];
    int status = cgroup_join_self(&group);
    if (status < 0)
        return error_layer(err, "cgroup", status, "cannot join the control group");
    for (int i = 0; i < DESCRIPTORS; i++)
        scope_close_fd(&fds[i]);
    return 0;
}
