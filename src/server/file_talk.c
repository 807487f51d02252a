#include "server/file_talk.h"

#include "base/clock.h"
#include "base/scope.h"
#include "server/command_link.h"
#include "server/event.h"
#include "server/range.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_MAX_BYTES = 32 << 10,
    LINES_MAX = 16 << 20,
    PULSE_MS = 15000,
    PATIENCE_MS = 60000,
    CHANGED_MAX = 1000,
    CHANGED_MS = 5000,
};

struct talk {
    struct exchange *exchange;
    struct command_link command;
    struct buffer pending;
};

static void talk_free(void *data)
{
    struct talk *talk = data;
    if (!talk)
        return;
    command_link_close(&talk->command);
    buffer_free(&talk->pending);
    free(talk);
}

static struct talk *talk_new(struct exchange *exchange)
{
    struct talk *talk = calloc(1, sizeof *talk);
    if (talk)
        *talk = (struct talk){.exchange = exchange, .command = COMMAND_LINK_UNSET};
    return talk;
}

static struct talk *talk_open(struct exchange *exchange, json_t *request)
{
    struct talk *talk = talk_new(exchange);
    if (!talk) {
        json_decref(request);
        return NULL;
    }
    if (command_link_open(exchange, request, &talk->command) == 0)
        return talk;
    talk_free(talk);
    return NULL;
}

/* Waits for the command to write, and keeps it. 1: more is there; 0: nothing for long; -EPIPE: no more will
 * come, or the client is gone. */
static int take_more(struct talk *talk)
{
    struct command_link *command = &talk->command;
    struct pollfd polled[] = {{.fd = command->stdout_fd, .events = POLLIN},
                              {.fd = exchange_client_fd(talk->exchange), .events = POLLRDHUP}};
    if (command->stdout_fd < 0)
        return -EPIPE;
    int ready;
    do
        ready = poll(polled, 2, PULSE_MS);
    while (ready < 0 && errno == EINTR);
    if (ready < 0 || (polled[1].revents && !polled[0].revents))
        return -EPIPE;
    return ready == 0 ? 0 : command_link_read(&command->stdout_fd, &talk->pending);
}

/* How the tool names what went wrong, and what a client is told. */
static int reply_refusal(struct exchange *exchange, const json_t *line)
{
    static const struct {
        const char *word;
        int status;
        const char *code;
    } rows[] = {{"not_found", 404, "not_found"},
                {"exists", 409, "conflict"},
                {"disk_full", 507, "disk_full"},
                {"not_allowed", 403, "forbidden"}};
    const char *word = json_string_value(json_object_get(line, "error"));
    const char *path = json_string_value(json_object_get(line, "path"));
    const char *message = json_string_value(json_object_get(line, "message"));
    for (size_t i = 0; word && i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].word, word) == 0)
            return exchange_reply_error(exchange, rows[i].status, rows[i].code, "path", NULL, "%s: %s",
                                        path ? path : "", message ? message : word);
    return exchange_reply_error(exchange, 422, "unprocessable", "path", NULL, "%s: %s", path ? path : "",
                                message ? message : "failed");
}

static int reply_broken(struct exchange *exchange)
{
    exchange_reply_error(exchange, 410, "gone", NULL, "restart the context, or open a new sandbox",
                         "the box ended meanwhile");
    return -EPIPE;
}

/* One that ends with a newline, out of what was kept. NULL: there is none yet, or it is no JSON. */
static json_t *next_line(struct talk *talk)
{
    struct buffer *pending = &talk->pending;
    const char *end = pending->length ? memchr(pending->data, '\n', pending->length) : NULL;
    if (!end)
        return NULL;
    size_t length = (size_t)(end - pending->data);
    json_t *line = json_loadb(pending->data, length, 0, NULL);
    pending->length -= length + 1;
    memmove(pending->data, end + 1, pending->length);
    return line ? line : json_object();
}

/* The first line; one with an error is answered. */
static int take_line(struct talk *talk, json_t **ret)
{
    while (!(*ret = next_line(talk))) {
        if (talk->pending.length > LINE_MAX_BYTES || take_more(talk) < 0)
            return reply_broken(talk->exchange);
    }
    if (!json_object_get(*ret, "error"))
        return 0;
    reply_refusal(talk->exchange, *ret);
    json_decref(*ret);
    *ret = NULL;
    return -EREMOTEIO;
}

int file_talk_ask(struct exchange *exchange, const char *context, const char *const *words, json_t **ret)
{
    struct talk *talk = talk_open(exchange, command_request_files(exchange, context, words));
    int status = talk ? take_line(talk, ret) : -EIO;
    talk_free(talk);
    return status;
}

int file_talk_ask_all(struct exchange *exchange, const char *context, const char *const *words, json_t **ret)
{
    struct talk *talk = talk_open(exchange, command_request_files(exchange, context, words));
    if (!talk)
        return -EIO;
    json_t *lines = json_array(), *line;
    int status = 0;
    while (take_more(talk) >= 0 && talk->pending.length < LINES_MAX)
        ;
    while (status == 0 && (line = next_line(talk))) {
        if (json_object_get(line, "error")) {
            reply_refusal(exchange, line);
            status = -EREMOTEIO;
        }
        json_array_append_new(lines, line);
    }
    if (status < 0)
        json_decref(lines);
    else
        *ret = lines;
    talk_free(talk);
    return status;
}

/* What the tool says is read as if the guest had said it. False: it is not one. */
static bool add_changed(json_t *files, const json_t *line, const char *path)
{
    const char *name = json_string_value(json_object_get(line, "path"));
    const json_t *size = json_object_get(line, "size");
    size_t length = strlen(path);
    if (!name || strncmp(name, path, length) != 0 || name[length] != '/' || !json_is_integer(size) ||
        json_integer_value(size) < 0 || json_array_size(files) == CHANGED_MAX)
        return false;
    return json_array_append_new(files, json_pack("{s:s, s:I}", "path", name + length + 1, "size",
                                                  json_integer_value(size))) == 0;
}

json_t *file_talk_changed(struct exchange *exchange, const char *context, const char *path, int64_t since_ns,
                          bool *ret_is_cut)
{
    char since[32], most[16];
    struct error err = {0};
    json_t *refusal = NULL, *line, *files = NULL;
    struct talk *talk = talk_new(exchange);
    snprintf(since, sizeof since, "%lld", (long long)since_ns);
    snprintf(most, sizeof most, "%d", CHANGED_MAX);
    const char *const words[] = {"changed", path, since, most, NULL};
    *ret_is_cut = false;
    if (talk && command_link_start(exchange, command_request_files(exchange, context, words), &talk->command,
                                   &refusal, &err) == 0)
        files = json_array();
    int64_t until_us = clock_monotonic_us() + CHANGED_MS * 1000;
    while (files && clock_monotonic_us() < until_us && talk->pending.length < LINES_MAX &&
           take_more(talk) >= 0)
        ;
    *ret_is_cut = files && talk->command.stdout_fd >= 0; /* it did not come to its end */
    while (files && (line = next_line(talk))) {
        if (!add_changed(files, line, path))
            *ret_is_cut = true;
        json_decref(line);
    }
    json_decref(refusal);
    talk_free(talk);
    return files;
}

int file_talk_range(struct exchange *exchange, const char *context, const char *path, struct file_range *ret)
{
    const char *text = exchange_header(exchange, "Range");
    *ret = (struct file_range){.length = -1};
    if (!text || exchange_header(exchange, "If-Range"))
        return 0;
    json_t *entry = NULL;
    if (file_talk_ask(exchange, context, (const char *const[]){"stat", path, NULL}, &entry) < 0)
        return -EREMOTEIO;
    uint64_t first = 0, last = 0;
    ret->size = json_integer_value(json_object_get(entry, "size"));
    json_decref(entry);
    int range = range_read(text, (uint64_t)ret->size, &first, &last);
    if (range == -ERANGE) {
        exchange_reply_range_error(exchange, (uint64_t)ret->size);
        return range;
    }
    ret->is_part = range > 0;
    if (ret->is_part) {
        ret->offset = (int64_t)first;
        ret->length = (int64_t)(last - first) + 1;
    }
    return 0;
}

static int next_bytes(void *data, struct buffer *into)
{
    struct talk *talk = data;
    int more = 1;
    while (talk->pending.length == 0 && more >= 0)
        more = take_more(talk);
    if (talk->pending.length == 0)
        return 0;
    int status = buffer_append(into, talk->pending.data, talk->pending.length);
    talk->pending.length = 0;
    return status < 0 ? status : 1;
}

int file_talk_stream(struct exchange *exchange, json_t *request, bool has_line, int status, const char *type)
{
    struct talk *talk = talk_open(exchange, request);
    json_t *line = NULL;
    if (!talk || (has_line && take_line(talk, &line) < 0)) {
        talk_free(talk);
        return 0;
    }
    json_decref(line);
    int replied = exchange_reply_stream(exchange, type, next_bytes, talk_free, talk);
    exchange_set_status(exchange, status);
    return replied;
}

static int next_event(void *data, struct buffer *into)
{
    struct talk *talk = data;
    json_t *line;
    int more = 1;
    while (!(line = next_line(talk)) && more > 0)
        more = talk->pending.length > LINE_MAX_BYTES ? -EPIPE : take_more(talk);
    if (!line)
        return more < 0 ? 0 : event_append_pulse(into) < 0 ? -1 : 1;
    char name[32];
    const char *event = json_string_value(json_object_get(line, "event"));
    snprintf(name, sizeof name, "%s", event ? event : json_object_get(line, "error") ? "error" : "other");
    return event_append(into, name, line) < 0 ? -1 : 1;
}

int file_talk_watch(struct exchange *exchange, const char *context, const char *const *words)
{
    struct talk *talk = talk_open(exchange, command_request_files(exchange, context, words));
    json_t *line = NULL;
    if (!talk || take_line(talk, &line) < 0) {
        talk_free(talk);
        return 0;
    }
    json_decref(line); /* "watching" */
    return exchange_reply_stream(exchange, "text/event-stream", next_event, talk_free, talk);
}

void *file_talk_put(struct exchange *exchange, json_t *request)
{
    return talk_open(exchange, request);
}

int file_talk_put_more(void *put, struct slice bytes)
{
    struct talk *talk = put;
    while (bytes.length > 0) {
        int64_t written = command_link_write(&talk->command, bytes);
        if (written < 0)
            return -EPIPE;
        bytes.data += written;
        bytes.length -= (size_t)written;
        struct pollfd polled = {.fd = talk->command.stdin_fd, .events = POLLOUT};
        if (bytes.length > 0 && poll(&polled, 1, PATIENCE_MS) <= 0)
            return -ETIMEDOUT;
    }
    return 0;
}

int file_talk_put_end(struct exchange *exchange, void *put, bool has_line, json_t **ret)
{
    struct talk *talk = put;
    scope_close_fd(&talk->command.stdin_fd);
    if (has_line)
        return take_line(talk, ret);
    scope_buffer complaint = {0};
    while (take_more(talk) >= 0)
        talk->pending.length = 0;
    json_t *end = command_link_end(&talk->command);
    int code = (int)json_integer_value(json_object_get(end, "exit_code"));
    bool is_fine = json_is_integer(json_object_get(end, "exit_code")) && code == 0;
    json_decref(end);
    if (is_fine)
        return 0;
    while (talk->command.stderr_fd >= 0 && complaint.length < LINE_MAX_BYTES &&
           command_link_read(&talk->command.stderr_fd, &complaint) > 0)
        ;
    exchange_reply_error(exchange, 422, "unprocessable", "path", NULL,
                         "the archive cannot be unpacked: %.500s", complaint.data ? complaint.data : "");
    return -EREMOTEIO;
}

void file_talk_put_free(void *put)
{
    talk_free(put);
}
