#include "keeper/runner_link.h"

#include "base/clock.h"
#include "base/scope.h"
#include "os/process.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void runner_link_close(struct runner_link *link)
{
    scope_close_fd(&link->fd);
    runner_reader_free(&link->reader);
    link->reader = (struct runner_reader){0};
}

/* The descriptors go with the first byte. */
int runner_link_send(struct runner_link *link, const struct buffer *frame, const int *fds, size_t count)
{
    size_t sent = 0;
    if (count > 0) {
        int status = process_send_many(link->fd, frame->data, 1, fds, count);
        if (status < 0)
            return status;
        sent = 1;
    }
    while (sent < frame->length) {
        ssize_t length = send(link->fd, frame->data + sent, frame->length - sent, MSG_NOSIGNAL);
        if (length < 0 && errno == EAGAIN) {
            struct pollfd polled = {.fd = link->fd, .events = POLLOUT};
            poll(&polled, 1, -1);
        } else if (length < 0 && errno != EINTR) {
            return -errno;
        }
        sent += length > 0 ? (size_t)length : 0;
    }
    return 0;
}

int runner_link_next(struct runner_link *link, int timeout_ms, struct runner_event *ret, struct error *err)
{
    int64_t deadline_us = clock_monotonic_us() + (int64_t)timeout_ms * 1000;
    for (;;) {
        int status = runner_reader_next(&link->reader, ret, err);
        if (status != 0)
            return status < 0 ? status : 0;
        int64_t left_ms = (deadline_us - clock_monotonic_us() + 999) / 1000;
        struct pollfd polled = {.fd = link->fd, .events = POLLIN};
        int ready = left_ms > 0 ? poll(&polled, 1, (int)left_ms) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return error_host(err, ready < 0 ? -errno : -ETIMEDOUT, "the interpreter does not answer");
        char chunk[65536];
        ssize_t length = read(link->fd, chunk, sizeof chunk);
        if (length < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (length <= 0)
            return error_host(err, -EPIPE, "the interpreter is gone");
        if ((status = runner_reader_feed(&link->reader, chunk, (size_t)length, err)) < 0)
            return status;
    }
}

int runner_link_hear(struct runner_link *link, struct runner_event *ret, struct error *err)
{
    for (;;) {
        int status = runner_reader_next(&link->reader, ret, err);
        if (status != 0)
            return status;
        char chunk[65536];
        ssize_t length = recv(link->fd, chunk, sizeof chunk, MSG_DONTWAIT);
        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0 && errno == EAGAIN)
            return 0;
        if (length <= 0)
            return error_host(err, -EPIPE, "the interpreter is gone");
        if ((status = runner_reader_feed(&link->reader, chunk, (size_t)length, err)) < 0)
            return status;
    }
}

int runner_link_await_ready(struct runner_link *link, int timeout_ms, struct error *err)
{
    struct runner_event event;
    int status = runner_link_next(link, timeout_ms, &event, err);
    if (status == 0 && event.kind == RUNNER_refused)
        return error_host(err, -ECANCELED, "the interpreter refuses: %.300s", event.text ? event.text : "");
    if (status == 0 && event.kind != RUNNER_ready)
        return error_host(err, -EPROTO, "the runner spoke before it was ready");
    return status;
}
