/* Theory of operation. The keeper writes the program's output into two pipes, and at the end the result into
 * its connection; all that is written is in the pipes before the result is. The connection's thread waits for
 * all three and for the client's going away. A client that reads slowly makes the program wait, by a full
 * pipe. */
#include "server/run_stream.h"

#include "base/clock.h"
#include "base/scope.h"
#include "server/event.h"
#include "server/gate.h"
#include "server/keeper_link.h"
#include "server/problem.h"
#include "server/run_gate.h"
#include "server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 32 << 10, PULSE_MS = 15000 };

struct run_stream {
    struct run_job job;
    int pipes[2];
    char tails[2][EVENT_TAIL_MAX]; /* the begin of a character whose rest has not come yet */
    size_t tail_lengths[2];
    bool is_started, is_over;
};

static const char *const stream_names[] = {"stdout", "stderr"};

/* 1: something came; 0: nothing now, or nothing any more. */
static int read_pipe(struct run_stream *stream, int which, struct buffer *into)
{
    char chunk[CHUNK];
    size_t kept = stream->tail_lengths[which];
    memcpy(chunk, stream->tails[which], kept);
    ssize_t got =
        stream->pipes[which] < 0 ? 0 : read(stream->pipes[which], chunk + kept, sizeof chunk - kept);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (got <= 0)
        scope_close_fd(&stream->pipes[which]);
    size_t length = kept + (got > 0 ? (size_t)got : 0);
    size_t tail = got > 0 ? event_incomplete_tail(chunk, length) : 0;
    stream->tail_lengths[which] = tail;
    memcpy(stream->tails[which], chunk + length - tail, tail);
    if (length > tail)
        event_append_output(into, stream_names[which], (struct slice){chunk, length - tail});
    return got > 0;
}

static void append_error(struct buffer *into, const struct error *err)
{
    scope_buffer message = {0};
    problem_message(err, &message);
    json_t *error =
        json_pack("{s:s, s:s}", "code", problem_code(err), "message", message.data ? message.data : "");
    if (err->subject[0])
        json_object_set_new(error, "field", json_string(err->subject));
    event_append(into, "error", json_pack("{s:o}", "error", error));
}

static void append_end(struct run_stream *stream, struct buffer *into)
{
    struct error err = {0};
    json_t *object = run_job_finish_object(&stream->job, &err);
    if (!object) {
        append_error(into, &err);
        return;
    }
    size_t index;
    json_t *file;
    json_array_foreach(json_object_get(object, "files"), index, file)
    {
        event_append(into, "file", json_incref(file));
    }
    run_gate_leave(&stream->job);
    event_append(into, "end", object);
}

static void refuse(struct run_stream *stream, const struct error *err, struct buffer *into)
{
    run_gate_refuse(&stream->job, err);
    append_error(into, err);
}

static void finish(struct run_stream *stream, int status, const struct error *err, struct buffer *into)
{
    for (int i = 0; i < 2; i++) {
        while (read_pipe(stream, i, into) > 0)
            ;
        scope_close_fd(&stream->pipes[i]);
        read_pipe(stream, i, into); /* what is left of a character */
    }
    struct run_job *job = &stream->job;
    if (status > 0)
        gate_count_run(job->exchange, job->result->cause, clock_monotonic_us() - job->started_us);
    if (status > 0)
        append_end(stream, into);
    else
        refuse(stream, err, into);
    stream->is_over = true;
}

static void take_answer(struct run_stream *stream, struct buffer *into)
{
    struct error err = {0};
    const char *event;
    json_t *data = NULL;
    int status = run_job_receive(&stream->job, &event, &data, &err);
    if (data)
        event_append(into, event, data);
    else
        finish(stream, status, &err, into);
}

static int next(void *data, struct buffer *into)
{
    struct run_stream *stream = data;
    struct run_job *job = &stream->job;
    if (stream->is_over)
        return 0;
    if (!stream->is_started) {
        stream->is_started = true;
        event_append(into, "started", json_pack("{s:s}", "id", job->id));
        return 1;
    }
    struct pollfd polled[] = {
        {.fd = stream->pipes[0], .events = POLLIN},
        {.fd = stream->pipes[1], .events = POLLIN},
        {.fd = job->link_fd, .events = POLLIN},
        {.fd = job->is_cancelled ? -1 : exchange_client_fd(job->exchange), .events = POLLRDHUP}};
    int ready = poll(polled, sizeof polled / sizeof *polled, PULSE_MS);
    if (ready == 0)
        event_append_pulse(into);
    if (polled[3].revents)
        run_job_cancel(job);
    for (int i = 0; i < 2; i++)
        if (polled[i].revents)
            read_pipe(stream, i, into);
    if (polled[2].revents)
        take_answer(stream, into);
    return 1;
}

/* The client may have gone in the middle: then the run is ended, and its end waited for. */
static void done(void *data)
{
    struct run_stream *stream = data;
    struct run_job *job = &stream->job;
    scope_buffer ignored = {0};
    for (int i = 0; i < 2 && !stream->is_over; i++)
        scope_close_fd(&stream->pipes[i]);
    if (!stream->is_over)
        run_job_cancel(job);
    while (!stream->is_over) {
        take_answer(stream, &ignored);
        ignored.length = 0;
    }
    run_job_close(job);
    free(stream);
}

int run_stream_answer(struct run_job *takes)
{
    struct error err = {0};
    struct run_stream *stream = calloc(1, sizeof *stream);
    int output[2] = {-1, -1}, errors[2] = {-1, -1};
    int status = !stream ? error_host(&err, -ENOMEM, "no memory for a stream") : 0;
    if (status == 0 && (pipe2(output, O_CLOEXEC) < 0 || pipe2(errors, O_CLOEXEC) < 0))
        status = error_host(&err, -errno, "cannot make a pipe");
    if (status == 0) {
        fcntl(output[0], F_SETFL, O_NONBLOCK);
        fcntl(errors[0], F_SETFL, O_NONBLOCK);
        status = run_job_start(takes, output[1], errors[1], true, &err);
    }
    scope_close_fd(&output[1]);
    scope_close_fd(&errors[1]);
    if (status < 0) {
        scope_close_fd(&output[0]);
        scope_close_fd(&errors[0]);
        run_gate_refuse(takes, &err);
        status = exchange_reply_problem(takes->exchange, &err);
        run_job_close(takes);
        free(stream);
        return status;
    }
    *stream = (struct run_stream){.job = *takes, .pipes = {output[0], errors[0]}};
    return exchange_reply_stream(takes->exchange, "text/event-stream", next, done, stream);
}
