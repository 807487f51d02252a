#include "server/command_link.h"

#include "base/scope.h"
#include "keeper/wire.h"
#include "server/keeper_link.h"
#include "server/sandbox_request.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>

enum { BLOCK = 64 << 10, KILL_MS = 2000 };

json_t *command_request(struct exchange *exchange, const char *context, const char *const *words)
{
    json_t *request = sandbox_request(exchange, "exec");
    json_t *list = json_array(), *name = context ? json_string(context) : NULL;
    if (request && context)
        json_object_set_new(request, "context", name ? name : json_string(""));
    for (; request && *words; words++) {
        json_t *word = json_string(*words);
        if (!word) /* not UTF-8, which no field of a request is; a query may be */
            word = json_string("");
        json_array_append_new(list, word);
    }
    if (!request)
        json_decref(list);
    else
        json_object_set_new(request, "command", list);
    return request;
}

json_t *command_request_files(struct exchange *exchange, const char *context, const char *const *words)
{
    json_t *request = command_request(exchange, context, words);
    if (request)
        json_object_set_new(request, "about_files", json_true());
    return request;
}

/* The first end is ours and does not block. */
static int make_pipe(int *ret_ours, int *ret_theirs, bool we_write)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    *ret_ours = ends[we_write];
    *ret_theirs = ends[!we_write];
    return fcntl(*ret_ours, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
}

/* The first frame: it has begun, with a terminal if one was asked for; or why not. */
static int take_start(struct command_link *command, json_t **ret_refusal, struct error *err)
{
    json_t *frame = NULL;
    scope_buffer body = {0};
    int fds[WIRE_DESCRIPTORS] = {-1, -1, -1};
    int status = wire_receive(command->link, &frame, &body, fds);
    if (status < 0)
        return error_host(err, status, "the keeper went away");
    json_t *refusal = json_object_get(frame, "error");
    if (refusal) {
        *ret_refusal = json_incref(refusal);
        status = -EREMOTEIO;
    } else if (fds[0] >= 0) {
        command->has_terminal = true;
        command->stdin_fd = fds[0];
        command->stdout_fd = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
        fcntl(fds[0], F_SETFL, O_NONBLOCK); /* of both: they are one open file */
    }
    for (int i = 1; i < WIRE_DESCRIPTORS; i++)
        scope_close_fd(&fds[i]);
    json_decref(frame);
    return status;
}

int command_link_start(struct exchange *exchange, json_t *request, struct command_link *ret,
                       json_t **ret_refusal, struct error *err)
{
    *ret = (struct command_link)COMMAND_LINK_UNSET;
    bool has_terminal = json_object_get(request, "terminal") != NULL;
    scope_fd in = -1, out = -1, errors = -1;
    int status = request ? 0 : -ENOMEM;
    if (status == 0 && !has_terminal && (status = make_pipe(&ret->stdin_fd, &in, true)) == 0 &&
        (status = make_pipe(&ret->stdout_fd, &out, false)) == 0)
        status = make_pipe(&ret->stderr_fd, &errors, false);
    if (status < 0)
        error_host(err, status, "no pipes for a command");
    else
        status = ret->link = keeper_link_take(exchange_server(exchange), err);
    if (status >= 0) {
        const int fds[] = {in, out, errors};
        status = wire_send(ret->link, request, (struct slice){"", 0}, fds, has_terminal ? 0 : 3);
        if (status < 0)
            error_host(err, status, "the keeper went away");
    } else {
        json_decref(request);
    }
    if (status == 0)
        status = take_start(ret, ret_refusal, err);
    if (status < 0)
        command_link_close(ret);
    return status;
}

int command_link_open(struct exchange *exchange, json_t *request, struct command_link *ret)
{
    struct error err = {0};
    json_t *refusal = NULL;
    *ret = (struct command_link)COMMAND_LINK_UNSET;
    if (request && !sandbox_request_is_text(exchange, request)) {
        json_decref(request);
        return -EINVAL;
    }
    int status = command_link_start(exchange, request, ret, &refusal, &err);
    if (refusal)
        sandbox_reply_refusal(exchange, refusal);
    else if (status < 0)
        exchange_reply_problem(exchange, &err);
    json_decref(refusal);
    return status;
}

json_t *command_link_end(struct command_link *command)
{
    json_t *frame = NULL;
    scope_buffer body = {0};
    wire_receive(command->link, &frame, &body, NULL);
    json_t *end = json_incref(json_object_get(frame, "ended"));
    const json_t *charge = json_object_get(frame, "charge_us");
    command->charge_us = json_is_integer(charge) ? json_integer_value(charge) : -1;
    json_decref(frame);
    return end ? end : json_pack("{s:n, s:n, s:b, s:b}", "exit_code", "signal", "timed_out", 0, "lost", 1);
}

const char *command_cause(const json_t *end)
{
    return json_is_true(json_object_get(end, "lost"))                ? "host_failure"
           : json_is_true(json_object_get(end, "timed_out"))         ? "wall_time"
           : json_integer_value(json_object_get(end, "signal")) != 0 ? "signal"
                                                                     : "exit";
}

/* As by a key of the terminal: the kernel sends these to whatever is in the foreground. A terminal that has
 * no foreground here is one whose processes another kernel has. */
static bool signal_foreground(const struct command_link *command, int number)
{
    pid_t front = 0;
    bool has_key = number == SIGINT || number == SIGQUIT || number == SIGTSTP;
    return command->has_terminal && has_key && ioctl(command->stdin_fd, TIOCGPGRP, &front) == 0 &&
           front > 0 && ioctl(command->stdin_fd, TIOCSIG, number) == 0;
}

int command_link_signal(struct command_link *command, int number)
{
    if (signal_foreground(command, number))
        return 0;
    return wire_send(command->link, json_pack("{s:i}", "signal", number), (struct slice){"", 0}, NULL, 0);
}

json_t *command_link_kill(struct command_link *command)
{
    struct pollfd polled = {.fd = command->link, .events = POLLIN};
    if (command->link < 0 || command_link_signal(command, SIGKILL) < 0 || poll(&polled, 1, KILL_MS) <= 0)
        return NULL;
    return command_link_end(command);
}

int command_link_read(int *fd, struct buffer *into)
{
    char block[BLOCK];
    ssize_t length;
    do
        length = read(*fd, block, sizeof block);
    while (length < 0 && errno == EINTR);
    if (length > 0)
        return buffer_append(into, block, (size_t)length) < 0 ? -ENOMEM : 1;
    if (length < 0 && errno == EAGAIN)
        return 0;
    scope_close_fd(fd); /* a terminal ends with EIO */
    return -EPIPE;
}

int64_t command_link_write(struct command_link *command, struct slice bytes)
{
    ssize_t length;
    do
        length = write(command->stdin_fd, bytes.data, bytes.length);
    while (length < 0 && errno == EINTR);
    return length >= 0 ? length : errno == EAGAIN ? 0 : -EPIPE;
}

void command_link_close(struct command_link *command)
{
    scope_close_fd(&command->stdin_fd);
    scope_close_fd(&command->stdout_fd);
    scope_close_fd(&command->stderr_fd);
    scope_close_fd(&command->link);
}
