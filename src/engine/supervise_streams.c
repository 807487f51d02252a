/* The streams of a run: what the program writes is kept, handed on and counted; what it is to read is given
 * to it. Nothing here waits. */
#include "engine/supervise_inside.h"

#include "base/clock.h"
#include "base/scope.h"

#include <errno.h>
#include <unistd.h>

enum {
    CHUNK = 65536,
    FLOOD_FACTOR = 16, /* how much more than is kept may be written before the run is ended */
    FLOOD_LEAST = 1 << 20,
    ATOMIC_PIPE_WRITE = 4096, /* poll promises that much room in a pipe */
};

int64_t supervise_flood_bytes(int64_t limit)
{
    return limit > FLOOD_LEAST / FLOOD_FACTOR ? limit * FLOOD_FACTOR : FLOOD_LEAST;
}

/* Output that could not be kept: what follows is lost, too. */
static void lose_output(struct supervisor *self, int error_number)
{
    self->read_error = error_number;
    supervise_stop(self, CAUSE_host_failure);
}

static void stream_take(struct supervisor *self, enum supervise_stream which, const char *data, size_t length)
{
    struct stream_state *stream = &self->streams[which];
    int64_t limit = self->box->limits->value[LIMIT_output_limit];
    if (!self->result->times.output_us)
        self->result->times.output_us = clock_monotonic_us();
    stream->seen_bytes += (int64_t)length;
    if (self->io->streams_take) {
        self->io->output(self->io->data, which, data, length);
        return;
    }
    size_t room = (size_t)(limit - (int64_t)stream->kept->kept.length);
    size_t keep = length < room ? length : room;
    if (keep && buffer_append(&stream->kept->kept, data, keep) < 0) {
        keep = 0;
        lose_output(self, ENOMEM);
    }
    stream->kept->dropped_bytes += (int64_t)(length - keep);
    if (keep && self->io->output)
        self->io->output(self->io->data, which, data, keep);
    if (keep && self->io->forward_fd[which] >= 0 && !stream->forward_broken) {
        int status = self->io->for_terminal[which]
                         ? terminal_text_append(&stream->terminal, &stream->pending, data, keep)
                         : buffer_append(&stream->pending, data, keep);
        if (status < 0)
            lose_output(self, -status);
    }
    if (stream->seen_bytes > supervise_flood_bytes(limit))
        supervise_stop(self, CAUSE_output);
}

void supervise_stream_end(struct supervisor *self, enum supervise_stream which)
{
    struct stream_state *stream = &self->streams[which];
    if (self->io->forward_fd[which] >= 0 && self->io->for_terminal[which] && !stream->forward_broken)
        terminal_text_flush(&stream->terminal, &stream->pending);
    scope_close_fd(stream->guest_fd);
}

bool supervise_streams_take(const struct supervisor *self)
{
    return !self->io->streams_take || self->io->streams_take(self->io->data);
}

void supervise_streams_leave(const struct supervisor *self)
{
    if (self->io->streams_leave)
        self->io->streams_leave(self->io->data);
}

bool supervise_streams_are_ours(const struct supervisor *self)
{
    bool are_ours = supervise_streams_take(self);
    if (are_ours)
        supervise_streams_leave(self);
    return are_ours;
}

bool supervise_stream_read(struct supervisor *self, enum supervise_stream which)
{
    struct stream_state *stream = &self->streams[which];
    char chunk[CHUNK];
    ssize_t length = read(*stream->guest_fd, chunk, sizeof chunk);
    int error_number = errno;
    if (length > 0)
        stream_take(self, which, chunk, (size_t)length);
    else if (length == 0) {
        supervise_stream_end(self, which);
    } else if (error_number != EAGAIN && error_number != EINTR) { /* not the end */
        scope_close_fd(stream->guest_fd);
        lose_output(self, error_number);
    }
    return length > 0;
}

void supervise_stream_forward(struct supervisor *self, enum supervise_stream which)
{
    struct stream_state *stream = &self->streams[which];
    size_t left = stream->pending.length - stream->pending_sent;
    size_t step = left < ATOMIC_PIPE_WRITE ? left : ATOMIC_PIPE_WRITE;
    ssize_t written = write(self->io->forward_fd[which], stream->pending.data + stream->pending_sent, step);
    if (written < 0 && errno != EAGAIN && errno != EINTR) {
        stream->forward_broken =
            true; /* the reader went away, or the disk is full: there is nobody to run for */
        stream->pending.length = stream->pending_sent = 0;
        self->forward_error = errno;
        supervise_stop(self, errno == EPIPE ? CAUSE_cancelled : CAUSE_host_failure);
        return;
    }
    if (written > 0)
        stream->pending_sent += (size_t)written;
    if (stream->pending_sent == stream->pending.length)
        stream->pending.length = stream->pending_sent = 0;
}

void supervise_input_close(struct supervisor *self)
{
    self->input_ended = true;
    scope_close_fd(&self->box->stdin_fd);
}

/* A program that does not read is not stopped in the background of a terminal, and so must we not be, who
 * read for it: limits would not be watched any more. Asked again at every look. */
bool supervise_may_be_read(int fd)
{
    pid_t front = tcgetpgrp(fd); /* an error: not our terminal */
    return front < 0 || front == getpgrp();
}

void supervise_input_read(struct supervisor *self)
{
    char chunk[CHUNK];
    ssize_t length = read(self->box->spec->stdin_fd, chunk, sizeof chunk);
    if (length > 0) {
        self->input.length = self->input_sent = 0;
        if (buffer_append(&self->input, chunk, (size_t)length) < 0)
            supervise_input_close(self);
    } else if (length == 0 || (errno != EAGAIN && errno != EINTR)) {
        supervise_input_close(self);
    }
}

void supervise_input_write(struct supervisor *self)
{
    const struct buffer *from =
        self->box->spec->stdin_kind == STDIN_BYTES ? &self->box->spec->stdin_bytes : &self->input;
    ssize_t written =
        write(self->box->stdin_fd, from->data + self->input_sent, from->length - self->input_sent);
    if (written < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (written < 0) { /* the program does not want any more */
        supervise_input_close(self);
        return;
    }
    self->input_sent += (size_t)written;
    if (self->input_sent == from->length && self->box->spec->stdin_kind == STDIN_BYTES)
        supervise_input_close(self);
}
