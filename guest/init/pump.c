#include "pump.h"

#include "os/capabilities.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CHUNK = 65536 };

struct pump {
    int from, to; /* 0: the place is free */
    int length, sent;
};
static struct pump pumps[PUMPS_MAX];
/* Beside them: to look at all pumps must not touch a page of memory for each. */
static char held[PUMPS_MAX][CHUNK];

static char *held_by(const struct pump *pump)
{
    return held[pump - pumps];
}

/* Of the program's user, or it could not open it as /dev/stdout. */
static int make_pipe(int *ends, uid_t owner)
{
    uid_t own = geteuid();
    if (own == owner)
        return pipe2(ends, O_CLOEXEC) < 0 ? -errno : 0;
    if (syscall(SYS_setresuid, -1, owner, -1) < 0)
        return -errno;
    int status = pipe2(ends, O_CLOEXEC) < 0 ? -errno : 0;
    if (syscall(SYS_setresuid, -1, own, -1) < 0)
        _exit(70);        /* never as another than we are */
    capabilities_raise(); /* leaving root takes them out of effect */
    return status;
}

int pump_open(int to, uid_t owner)
{
    struct pump *pump = pumps;
    while (pump < pumps + PUMPS_MAX && pump->to)
        pump++;
    int ends[2];
    if (pump == pumps + PUMPS_MAX)
        return -EAGAIN;
    int status = make_pipe(ends, owner);
    if (status < 0)
        return status;
    fcntl(ends[0], F_SETFL, O_NONBLOCK); /* our end: the program's blocks, as it expects */
    fcntl(to, F_SETFL, O_NONBLOCK);
    fcntl(to, F_SETFD, FD_CLOEXEC);
    *pump = (struct pump){.from = ends[0], .to = to};
    return ends[1];
}

static void end(struct pump *pump)
{
    close(pump->from);
    close(pump->to);
    pump->to = pump->from = 0;
    pump->length = pump->sent = 0;
}

static void give(struct pump *pump)
{
    ssize_t written = write(pump->to, held_by(pump) + pump->sent, (size_t)(pump->length - pump->sent));
    if (written > 0)
        pump->sent += (int)written;
    else if (written < 0 && errno != EAGAIN && errno != EINTR)
        end(pump); /* nobody is there to read: the program is told when it writes */
    if (pump->sent == pump->length)
        pump->sent = pump->length = 0;
}

/* False: there is nothing now, or there will be nothing more. */
static bool take(struct pump *pump)
{
    ssize_t length = read(pump->from, held_by(pump), CHUNK);
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (length <= 0) {
        end(pump);
        return false;
    }
    pump->length = (int)length;
    pump->sent = 0;
    return true;
}

int pump_watched(struct pollfd *into)
{
    int count = 0;
    for (struct pump *pump = pumps; pump < pumps + PUMPS_MAX; pump++)
        if (pump->to)
            into[count++] = pump->length ? (struct pollfd){.fd = pump->to, .events = POLLOUT}
                                         : (struct pollfd){.fd = pump->from, .events = POLLIN};
    return count;
}

void pump_look(const struct pollfd *polled, int count)
{
    for (int i = 0; i < count; i++)
        for (struct pump *pump = pumps; polled[i].revents && pump < pumps + PUMPS_MAX; pump++) {
            if (pump->to && pump->to == polled[i].fd && pump->length)
                give(pump);
            else if (pump->to && pump->from == polled[i].fd && !pump->length && take(pump))
                give(pump);
        }
}

void pump_drain(int control_fd)
{
    for (struct pump *pump = pumps; pump < pumps + PUMPS_MAX; pump++)
        while (pump->to && (pump->length || take(pump))) {
            struct pollfd polled[] = {{.fd = pump->to, .events = POLLOUT}, {.fd = control_fd}};
            if (poll(polled, 2, -1) < 0 && errno != EINTR)
                return;
            if (polled[1].revents) /* the launcher is gone */
                return;
            give(pump);
        }
}
