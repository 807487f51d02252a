/* The answers that a handler can give. */
#include "base/json_text.h"
#include "base/scope.h"
#include "base/text.h"
#include "server/exchange_inside.h"
#include "server/idempotency.h"
#include "server/problem.h"
#include "server/range.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { STREAM_BLOCK = 4 << 10 };

#define JSON_TYPE "application/json"

void exchange_set_header(struct exchange *exchange, const char *name, const char *value)
{
    if (exchange->response) {
        MHD_add_response_header(exchange->response, name, value);
        return;
    }
    if (exchange->header_count == EXCHANGE_HEADERS_MAX)
        return;
    char *name_copy = strdup(name), *value_copy = strdup(value);
    if (!name_copy || !value_copy) {
        free(name_copy);
        free(value_copy);
        return;
    }
    exchange->headers[exchange->header_count].name = name_copy;
    exchange->headers[exchange->header_count++].value = value_copy;
}

int reply_set(struct exchange *exchange, int status, const char *type, struct MHD_Response *response)
{
    if (!response)
        return -ENOMEM;
    if (exchange->response)
        MHD_destroy_response(exchange->response);
    exchange->response = response;
    exchange->status = status;
    if (type)
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    for (int i = 0; i < exchange->header_count; i++)
        MHD_add_response_header(response, exchange->headers[i].name, exchange->headers[i].value);
    return 0;
}

int exchange_reply_text(struct exchange *exchange, int status, const char *type, struct buffer *takes)
{
    recording_take(exchange->recording, status, type, takes->data, takes->length);
    struct MHD_Response *response =
        takes->length ? MHD_create_response_from_buffer(takes->length, takes->data, MHD_RESPMEM_MUST_FREE)
                      : MHD_create_response_from_buffer(0, (void *)(uintptr_t) "", MHD_RESPMEM_PERSISTENT);
    if (!response || !takes->length)
        buffer_free(takes);
    *takes = (struct buffer){0};
    return reply_set(exchange, status, type, response);
}

int exchange_reply_static(struct exchange *exchange, int status, const char *type, struct slice forever)
{
    recording_take(exchange->recording, status, type, forever.data, forever.length);
    return reply_set(exchange, status, type,
                     MHD_create_response_from_buffer(forever.length, (void *)(uintptr_t)forever.data,
                                                     MHD_RESPMEM_PERSISTENT));
}

int exchange_reply_empty(struct exchange *exchange, int status)
{
    return exchange_reply_static(exchange, status, NULL, (struct slice){"", 0});
}

int exchange_reply_json(struct exchange *exchange, int status, json_t *takes)
{
    char *text = takes ? json_text(takes, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(takes);
    if (!text)
        return -ENOMEM;
    struct buffer body = {.data = text, .length = strlen(text)};
    return exchange_reply_text(exchange, status, JSON_TYPE, &body);
}

/* What a client sent may stand in a message, cut anywhere. */
static void set_clean(json_t *object, const char *name, const char *text)
{
    scope_buffer clean = {0};
    if (text && text[0] && text_append_utf8(&clean, text, strlen(text)) == 0)
        json_object_set_new(object, name, json_stringn(clean.data, clean.length));
}

int exchange_reply_error(struct exchange *exchange, int status, const char *code, const char *field,
                         const char *hint, const char *format, ...)
{
    char message[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    json_t *error = json_pack("{s:s}", "code", code);
    if (!error)
        return -ENOMEM;
    recording_refuse(exchange->recording, status);
    set_clean(error, "message", message);
    set_clean(error, "field", field);
    set_clean(error, "hint", hint);
    return exchange_reply_json(exchange, status, json_pack("{s:o}", "error", error));
}

int exchange_reply_problem(struct exchange *exchange, const struct error *err)
{
    const char *code = problem_code(err);
    switch (err->kind) {
    case ERROR_SPEC:
        return exchange_reply_error(exchange, 422, code, err->subject, NULL, "%s", err->text);
    case ERROR_LAYER:
        return exchange_reply_error(exchange, 501, code, err->subject,
                                    "GET /v1/doctor tells what holds on this machine", "%s", err->text);
    default:
        break;
    }
    scope_buffer message = {0};
    problem_message(err, &message);
    return exchange_reply_error(exchange, 500, code, err->subject, NULL, "%s",
                                message.data ? message.data : "");
}

struct stream {
    struct exchange *exchange;
    struct buffer pending;
    size_t sent;
    int state; /* of the last call of next */
    int (*next)(void *data, struct buffer *into);
    void (*done)(void *data);
    void *data;
};

static ssize_t stream_read(void *data, uint64_t position, char *into, size_t size)
{
    (void)position;
    struct stream *stream = data;
    while (stream->sent == stream->pending.length && stream->state > 0) {
        stream->sent = stream->pending.length = 0;
        stream->state = stream->next(stream->data, &stream->pending);
        recording_add(stream->exchange->recording, stream->pending.data, stream->pending.length);
        if (stream->state <= 0)
            recording_end(stream->exchange->recording);
    }
    size_t rest = stream->pending.length - stream->sent;
    if (rest == 0)
        return stream->state < 0 ? MHD_CONTENT_READER_END_WITH_ERROR : MHD_CONTENT_READER_END_OF_STREAM;
    size_t step = rest < size ? rest : size;
    memcpy(into, stream->pending.data + stream->sent, step);
    stream->sent += step;
    return (ssize_t)step;
}

static void stream_free(void *data)
{
    struct stream *stream = data;
    while (stream->exchange->recording &&
           stream->state > 0) { /* the client went: its request is done all the same */
        stream->pending.length = 0;
        stream->state = stream->next(stream->data, &stream->pending);
        recording_add(stream->exchange->recording, stream->pending.data, stream->pending.length);
    }
    recording_end(stream->exchange->recording);
    if (stream->done)
        stream->done(stream->data);
    buffer_free(&stream->pending);
    exchange_let_go(stream->exchange);
    free(stream);
}

int exchange_reply_stream(struct exchange *exchange, const char *type,
                          int (*next)(void *data, struct buffer *into), void (*done)(void *data), void *data)
{
    struct stream *stream = calloc(1, sizeof *stream);
    if (!stream) {
        if (done)
            done(data);
        return -ENOMEM;
    }
    *stream = (struct stream){.exchange = exchange, .state = 1, .next = next, .done = done, .data = data};
    exchange_hold(exchange);
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, stream_read, stream, stream_free);
    if (!response) {
        stream_free(stream);
        return -ENOMEM;
    }
    recording_stream(exchange->recording, type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    MHD_add_response_header(response, "X-Accel-Buffering", "no"); /* a proxy must not collect events */
    return reply_set(exchange, 200, type, response);
}

int exchange_reply_range_error(struct exchange *exchange, uint64_t length)
{
    char text[64];
    snprintf(text, sizeof text, "bytes */%llu", (unsigned long long)length);
    exchange_set_header(exchange, "Content-Range", text);
    return exchange_reply_error(exchange, 416, "range", "Range", NULL, "the range lies outside of %llu bytes",
                                (unsigned long long)length);
}

void exchange_set_status(struct exchange *exchange, int status)
{
    exchange->status = status;
}

int exchange_reply_fd(struct exchange *exchange, int takes_fd, uint64_t offset, uint64_t length,
                      const char *type)
{
    scope_fd fd = takes_fd;
    uint64_t first = 0, last = 0;
    char text[96];
    int range = exchange_header(exchange, "If-Range")
                    ? 0 /* we give no validators, so none can match */
                    : range_read(exchange_header(exchange, "Range"), length, &first, &last);
    if (range == -ERANGE)
        return exchange_reply_range_error(exchange, length);
    uint64_t size = range ? last - first + 1 : length;
    struct MHD_Response *response = MHD_create_response_from_fd_at_offset64(size, fd, offset + first);
    if (!response)
        return -ENOMEM;
    take_fd(&fd); /* the response's now */
    MHD_add_response_header(response, MHD_HTTP_HEADER_ACCEPT_RANGES, "bytes");
    if (range) {
        snprintf(text, sizeof text, "bytes %llu-%llu/%llu", (unsigned long long)first,
                 (unsigned long long)last, (unsigned long long)length);
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_RANGE, text);
    }
    return reply_set(exchange, range ? 206 : 200, type, response);
}
