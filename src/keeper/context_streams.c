/* What programs and C code in a context's box write to descriptors 1 and 2.
 *
 * Theory of operation. They are pipes, and who waits for a run reads them beside the runner's own frames: so
 * that what they write has its place among what the interpreter says, and counts as the run's. The
 * interpreter waits until they are empty before it says anything (guest/python/cloche/streams.py), and so
 * whoever finds something in both hears the interpreter first. Between runs it is the thread that watches the
 * box who reads. */
#include "keeper/context_inside.h"

#include "base/clock.h"
#include "base/scope.h"

#include <errno.h>
#include <unistd.h>

enum { CHUNK = 65536, CHUNKS_AT_ONCE = 16 };

bool context_streams_take(void *data)
{
    return pthread_mutex_trylock(&((struct context *)data)->streams_lock) == 0;
}

void context_streams_leave(void *data)
{
    pthread_mutex_unlock(&((struct context *)data)->streams_lock);
}

/* What goes on behind the runs has the limit of a run for all that it writes until the next one. */
void context_streams_output(void *data, enum supervise_stream stream, const char *bytes, size_t length)
{
    struct context *context = data;
    pthread_mutex_lock(&context->lock);
    context->turn.output_us = clock_monotonic_us();
    context->idle_output_bytes += (int64_t)length;
    if (context->idle_output_bytes > supervise_flood_bytes(context->limits.value[LIMIT_output_limit]) &&
        context->is_ready)
        context_end(context, CAUSE_output, "%s between runs", cause_meanings[CAUSE_output]);
    pthread_mutex_unlock(&context->lock);
    if (context->options.output)
        context->options.output(context->options.data, stream, (struct slice){bytes, length}, false);
}

void context_streams_read(struct context *context,
                          void (*hear)(void *data, enum supervise_stream stream, struct slice bytes),
                          void *data)
{
    char chunk[CHUNK];
    for (int i = 0; i < STREAM_COUNT; i++)
        for (int chunks = 0; chunks < CHUNKS_AT_ONCE && context->stream_fd[i] >= 0; chunks++) {
            ssize_t length = read(context->stream_fd[i], chunk, sizeof chunk);
            if (length > 0)
                hear(data, (enum supervise_stream)i, (struct slice){chunk, (size_t)length});
            else if (length == 0 || (errno != EAGAIN && errno != EINTR))
                scope_close_fd(&context->stream_fd[i]);
            if (length < (ssize_t)sizeof chunk)
                break;
        }
}
