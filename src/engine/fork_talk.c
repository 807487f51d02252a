#include "engine/fork_talk.h"

#include "base/clock.h"
#include "base/scope.h"
#include "os/process.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REFUSAL_MS = 1000 };

size_t fork_list_descriptors(const struct launch *launch, int *into)
{
    const int wanted[] = {launch->child_control, launch->plan_fd,      launch->init_fd,
                          launch->child_stdin,   launch->child_stdout, launch->child_stderr,
                          launch->child_channel};
    memcpy(into, wanted, sizeof wanted);
    return sizeof wanted / sizeof *wanted;
}

int fork_ask_who_speaks(const struct box *child, struct error *err)
{
    int on = 1;
    return setsockopt(child->control_fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0
               ? error_host(err, -errno, "cannot ask who speaks")
               : 0;
}

/* Until there is something on the new box's control socket; the program may talk meanwhile. */
static int await_word(int control_fd, const struct fork_request *request, struct error *err)
{
    struct pollfd polled[] = {{.fd = control_fd, .events = POLLIN},
                              {.fd = request->words_fd, .events = POLLIN}};
    int64_t until_us = clock_monotonic_us() + FORK_STEP_MS * 1000;
    for (;;) {
        int64_t left_ms = (until_us - clock_monotonic_us()) / 1000;
        int ready = left_ms > 0 ? poll(polled, 2, (int)left_ms) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return error_host(err, -ETIMEDOUT, "the program did not fork within %d s", FORK_STEP_MS / 1000);
        if (polled[0].revents)
            return 0;
        if (!request->refuses || request->refuses(request->data))
            return error_host(err, -ECANCELED, "the program did not fork");
    }
}

void fork_await_refusal(const struct fork_request *request)
{
    struct pollfd polled = {.fd = request->words_fd, .events = POLLIN};
    while (request->refuses && poll(&polled, 1, REFUSAL_MS) > 0 && !request->refuses(request->data))
        ;
}

pid_t fork_await_first_process(const struct box *child, const struct fork_request *request, struct error *err)
{
    union {
        char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(sizeof(int) * 4)];
        struct cmsghdr align;
    } space = {0};
    struct init_message message;
    struct iovec vector = {&message, sizeof message};
    struct msghdr header = {.msg_iov = &vector,
                            .msg_iovlen = 1,
                            .msg_control = space.bytes,
                            .msg_controllen = sizeof space.bytes};
    int control_fd = child->control_fd;
    int status = await_word(control_fd, request, err);
    if (status < 0)
        return status;
    ssize_t length = recvmsg(control_fd, &header, MSG_CMSG_CLOEXEC);
    pid_t pid = -1;
    for (struct cmsghdr *item = CMSG_FIRSTHDR(&header); item; item = CMSG_NXTHDR(&header, item)) {
        if (item->cmsg_level != SOL_SOCKET)
            continue;
        struct ucred who;
        if (item->cmsg_type == SCM_CREDENTIALS) {
            memcpy(&who, CMSG_DATA(item), sizeof who);
            pid = who.pid;
        } else if (item->cmsg_type == SCM_RIGHTS) { /* none is expected: what came must not stay */
            for (size_t i = 0; i < (item->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
                int fd;
                memcpy(&fd, CMSG_DATA(item) + i * sizeof fd, sizeof fd);
                close(fd);
            }
        }
    }
    if (length != (ssize_t)sizeof message || message.kind != INIT_ENTERED || pid <= 0)
        return error_host(err, length < 0 ? -errno : -EPROTO, "the program could not fork");
    return pid;
}

int fork_await_copied(const struct box *child, struct error *err)
{
    struct pollfd polled = {.fd = child->control_fd, .events = POLLIN};
    struct init_message message;
    scope_fd fd = -1;
    int ready;
    do
        ready = poll(&polled, 1, FORK_STEP_MS);
    while (ready < 0 && errno == EINTR);
    if (ready <= 0 ||
        process_receive(child->control_fd, &message, sizeof message, &fd) != (int)sizeof message ||
        message.kind != INIT_COPIED)
        return error_host(err, -EPROTO, "the program did not fork");
    return 0;
}

int fork_await_program(const struct box *child, struct error *err)
{
    struct pollfd polled = {.fd = child->channel_fd, .events = POLLIN};
    int ready;
    char said = 0;
    do
        ready = poll(&polled, 1, FORK_STEP_MS);
    while (ready < 0 && errno == EINTR);
    if (ready <= 0 || read(child->channel_fd, &said, 1) != 1 || said != INIT_ENTER)
        return error_host(err, -EPROTO, "the forked program did not come up");
    return 0;
}
