#include "wait.h"

#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* A limit that is lower already stays, as when a box is started. */
static void put_on_limits(const struct order *order)
{
    for (size_t i = 0; i < order->rlimit_count; i++) {
        struct rlimit now, wanted = {order->rlimits[i].value, order->rlimits[i].value};
        if (getrlimit(order->rlimits[i].resource, &now) == 0 && now.rlim_max < wanted.rlim_max)
            continue;
        if (setrlimit(order->rlimits[i].resource, &wanted) < 0)
            _exit(70);
    }
}

void wait_for_program(int channel_fd)
{
    struct order order;
    if (fcntl(channel_fd, F_SETFD, FD_CLOEXEC) < 0)
        _exit(70);
    frame_write(channel_fd, "ready", -1, ",\"protocol\":1,\"language\":\"bash\",\"version\":\"\"", "", 0);
    if (!order_read(channel_fd, &order) || order.kind != ORDER_MAIN || !order.command.count)
        _exit(0);
    put_on_limits(&order);
    execve(order.command.items[0], order.command.items, order.environment.items);
    dprintf(STDERR_FILENO, "cannot execute %s: %s\n", order.command.items[0], strerror(errno));
    _exit(127);
}
