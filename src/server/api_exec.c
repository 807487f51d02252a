/* Commands in a live sandbox: with their whole outcome, or told as they go. */
#include "base/clock.h"
#include "base/identifier.h"
#include "base/json_text.h"
#include "base/scope.h"
#include "base/text.h"
#include "server/api_pty.h"
#include "server/command_link.h"
#include "server/command_list.h"
#include "server/event.h"
#include "server/exec_request.h"
#include "server/gate.h"
#include "server/route.h"
#include "server/sandbox_gate.h"
#include "server/sandbox_request.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { PULSE_MS = 15000, OUTPUT_MAX = 8 << 20 /* of a stream, in an answer that is not a stream */ };

struct exec {
    struct exchange *exchange;
    struct command_link command;
    struct command_entry *entry;
    json_t *body;
    struct buffer given; /* its stdin */
    size_t stdin_written;
    struct buffer out, errors;
    int64_t started_us, out_dropped_bytes, errors_dropped_bytes;
    json_t *end; /* the keeper's last word; NULL: it goes on */
    bool is_told;
    struct gate_pass *pass;
};

/* What is noted of it: its words. */
static void note_command(struct exec *exec, const json_t *terms)
{
    char *words = json_text(json_object_get(exec->body, "command"), JSON_COMPACT | JSON_ENCODE_ANY);
    sandbox_gate_note(exec->exchange, exec->pass, terms, command_list_id(exec->entry),
                      (struct slice){words ? words : "", words ? strlen(words) : 0});
    free(words);
}

/* It is over: nothing more can be sent to it, and its room is free. */
static void settle(struct exec *exec)
{
    if (!exec->end && exec->entry) /* the client has left: what was used is to be known all the same */
        exec->end = command_link_kill(&exec->command);
    sandbox_gate_leave_command(&exec->pass, exec->end, exec->command.charge_us, exec->started_us);
    command_list_remove(&exec->entry);
}

static void exec_free(void *data)
{
    struct exec *exec = data;
    settle(exec);
    command_link_close(&exec->command);
    json_decref(exec->body);
    json_decref(exec->end);
    buffer_free(&exec->given);
    buffer_free(&exec->out);
    buffer_free(&exec->errors);
    free(exec);
}

static void feed(struct exec *exec)
{
    size_t length = exec->given.length;
    int64_t written = 0;
    if (exec->stdin_written < length)
        written = command_link_write(&exec->command, (struct slice){exec->given.data + exec->stdin_written,
                                                                    length - exec->stdin_written});
    exec->stdin_written += written > 0 ? (size_t)written : 0;
    if (written < 0 || exec->stdin_written == length)
        scope_close_fd(&exec->command.stdin_fd);
}

/* Waits for more, and takes it. 1: it goes on; 0: nothing for long; -EPIPE: the client is gone. */
static int step(struct exec *exec)
{
    struct command_link *command = &exec->command;
    bool is_drained = command->stdout_fd < 0 && command->stderr_fd < 0;
    struct pollfd polled[] = {
        {.fd = command->stdout_fd, .events = POLLIN},
        {.fd = command->stderr_fd, .events = POLLIN},
        {.fd = command->stdin_fd, .events = POLLOUT},
        {.fd = exec->end ? -1 : command->link, .events = POLLIN},
        {.fd = exchange_client_fd(exec->exchange), .events = POLLRDHUP},
    };
    /* What has ended may have left children who hold the pipes: they are not waited for. */
    int ready = poll(polled, 5, exec->end ? 0 : PULSE_MS);
    if (ready < 0 && errno != EINTR)
        return -errno;
    if (polled[4].revents)
        return -EPIPE;
    if (polled[0].revents)
        command_link_read(&command->stdout_fd, &exec->out);
    if (polled[1].revents)
        command_link_read(&command->stderr_fd, &exec->errors);
    if (polled[2].revents)
        feed(exec);
    if (polled[3].revents && !(exec->end = command_link_end(command)))
        return -ENOMEM;
    if (exec->end && (ready == 0 || is_drained)) {
        scope_close_fd(&command->stdout_fd);
        scope_close_fd(&command->stderr_fd);
    }
    return ready != 0;
}

static bool is_over(const struct exec *exec)
{
    return exec->end && exec->command.stdout_fd < 0 && exec->command.stderr_fd < 0;
}

static json_t *end_to_json(const struct exec *exec)
{
    json_t *end = json_copy(exec->end);
    json_object_set_new(end, "id", json_string(command_list_id(exec->entry)));
    json_object_set_new(end, "cause", json_string(command_cause(exec->end)));
    json_object_set_new(end, "duration_ms",
                        json_real((double)(clock_monotonic_us() - exec->started_us) / 1000));
    return end;
}

static void keep_within(struct buffer *bytes, int64_t *dropped_bytes)
{
    if (bytes->length <= OUTPUT_MAX)
        return;
    *dropped_bytes += (int64_t)(bytes->length - OUTPUT_MAX);
    bytes->length = OUTPUT_MAX;
}

static struct slice all_of(const struct buffer *bytes)
{
    return (struct slice){bytes->data ? bytes->data : "", bytes->length};
}

static int reply_whole(struct exec *exec)
{
    int status = 1;
    while (!is_over(exec) && status >= 0) {
        status = step(exec);
        keep_within(&exec->out, &exec->out_dropped_bytes);
        keep_within(&exec->errors, &exec->errors_dropped_bytes);
    }
    json_t *answer = end_to_json(exec);
    event_set_output(answer, "stdout", all_of(&exec->out));
    event_set_output(answer, "stderr", all_of(&exec->errors));
    json_object_set_new(answer, "truncated",
                        json_pack("{s:I, s:I}", "stdout", (json_int_t)exec->out_dropped_bytes, "stderr",
                                  (json_int_t)exec->errors_dropped_bytes));
    status = exchange_reply_json(exec->exchange, 200, answer);
    exec_free(exec);
    return status;
}

/* A character that goes on waits for its rest, until the end. */
static int tell(struct buffer *into, const char *name, struct buffer *bytes, bool is_end)
{
    size_t tail = is_end || !bytes->length ? 0 : event_incomplete_tail(bytes->data, bytes->length);
    size_t length = bytes->length - tail;
    if (!length)
        return 0;
    int status = event_append_output(into, name, (struct slice){bytes->data, length});
    memmove(bytes->data, bytes->data + length, tail);
    bytes->length = tail;
    return status;
}

static int next(void *data, struct buffer *into)
{
    struct exec *exec = data;
    if (!exec->is_told) {
        exec->is_told = true;
        return event_append(into, "started", json_pack("{s:s}", "id", command_list_id(exec->entry))) < 0 ? -1
                                                                                                         : 1;
    }
    int status = step(exec);
    if (status < 0)
        return status;
    int told = tell(into, "stdout", &exec->out, is_over(exec));
    if (told == 0)
        told = tell(into, "stderr", &exec->errors, is_over(exec));
    if (told == 0 && status == 0 && !exec->end)
        told = event_append_pulse(into);
    if (told == 0 && is_over(exec)) {
        json_t *end = end_to_json(exec);
        settle(exec);
        return event_append(into, "end", end) < 0 ? -1 : 0;
    }
    return told < 0 ? told : 1;
}

static int exec(struct exchange *exchange)
{
    json_t *body = NULL;
    json_t *request = exec_request(exchange, &body);
    if (!request)
        return 0;
    struct exec *exec = calloc(1, sizeof *exec);
    if (!exec) {
        json_decref(request);
        json_decref(body);
        return -ENOMEM;
    }
    *exec = (struct exec){.exchange = exchange,
                          .body = body,
                          .started_us = clock_monotonic_us(),
                          .command = COMMAND_LINK_UNSET};
    json_t *terms = NULL;
    char id[IDENTIFIER_SIZE];
    identifier_make("exec_", id);
    json_object_set_new(request, "exec", json_string(id));
    if (exec_stdin(exchange, body, &exec->given) < 0 ||
        sandbox_gate_enter(exchange, 1, true, &terms, &exec->pass) < 0) {
        json_decref(request);
        exec_free(exec);
        return 0;
    }
    if (command_link_open(exchange, request, &exec->command) < 0) {
        json_decref(terms);
        exec_free(exec);
        return 0;
    }
    exec->entry = command_list_add(exchange, &exec->command, id);
    if (exec->entry)
        note_command(exec, terms);
    json_decref(terms);
    if (!exec->entry) {
        exec_free(exec);
        return -ENOMEM;
    }
    if (json_is_true(json_object_get(body, "stream")) || exchange_wants_events(exchange))
        return exchange_reply_stream(exchange, "text/event-stream", next, exec_free, exec);
    return reply_whole(exec);
}

/* To a command that another request started. */
static int send_signal(struct exchange *exchange)
{
    static const char *const known[] = {"signal", NULL};
    json_t *body = NULL;
    if (sandbox_body(exchange, known, &body) < 0)
        return 0;
    int number = exec_signal_number(json_object_get(body, "signal"));
    json_decref(body);
    if (number < 0)
        return exchange_reply_error(exchange, 422, "unprocessable", "signal", "for example \"TERM\", or 15",
                                    "signal: is not one");
    if (!command_list_signal(exchange, exchange_part(exchange, 0), exchange_part(exchange, 1), number))
        return exchange_reply_error(exchange, 404, "not_found", "exec", NULL,
                                    "there is no such command in this sandbox");
    return exchange_reply_json(exchange, 200, json_pack("{s:b}", "ok", 1));
}

static const struct route rows[] = {
    {"POST", "/v1/sandboxes/{id}/exec", exec, 0, "run a command in a sandbox, beside its contexts"},
    {"GET", "/v1/sandboxes/{id}/exec/pty", terminal_open, 0, "a command on a terminal, over a WebSocket",
     .query = "command context cwd rows columns"},
    {"POST", "/v1/sandboxes/{id}/exec/{exec}/signal", send_signal, 0, "a signal for a command"},
};

const struct route_family routes_exec = ROUTE_FAMILY(rows);
