#include "engine/beside.h"

#include "base/scope.h"
#include "engine/launch.h"
#include "os/process.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

int beside_start(int control_fd, const struct beside_order *order, struct error *err)
{
    int ends[2];
    uint32_t flags =
        (order->has_terminal ? PLAN_TERMINAL : 0u) | (order->file.length ? PLAN_PROGRAM_COMES : 0u);
    scope_fd plan = launch_pack_program(order->program, flags, err);
    scope_fd file = order->file.length ? launch_pack_file("program", order->file, err) : -1;
    if (plan < 0 || (order->file.length && file < 0))
        return plan < 0 ? plan : file;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return error_host(err, -errno, "cannot make a socket");
    scope_fd ours = ends[0], theirs = ends[1];
    const char word = INIT_START_BESIDE;
    const int sent[] = {plan, theirs, order->fds[0], order->fds[1], order->fds[2], file};
    int status = process_send_many(control_fd, &word, 1, sent, 5 + (file >= 0));
    return status < 0 ? error_host(err, status, "the box takes no orders") : take_fd(&ours);
}

int beside_signal(int socket_fd, int number)
{
    const unsigned char byte = (unsigned char)number;
    return process_send(socket_fd, &byte, 1, -1);
}

bool beside_take_end(int socket_fd, struct beside_end *ret)
{
    struct init_message message = {0};
    scope_fd unexpected = -1; /* init has none to give */
    int length = process_receive(socket_fd, &message, sizeof message, &unexpected);
    if (length == -EAGAIN || length == -EINTR)
        return false;
    if (length != (int)sizeof message) {
        ret->is_lost = ret->failure == 0;
        return true;
    }
    if (message.kind == INIT_EXEC_FAILED || message.kind == INIT_CHDIR_FAILED)
        ret->failure = message.code < 0 ? message.code : -EIO;
    ret->wait_status = message.kind == INIT_ENDED ? message.wait_status : 0;
    return message.kind == INIT_ENDED;
}
