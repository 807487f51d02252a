/* A command on a terminal, over a WebSocket. Binary messages are what is typed and what appears. Texts are
 * JSON: {"resize": {"rows", "columns"}} and {"signal": "INT"} from the client, {"end": {…}} as our last, and
 * {"error": {…}} for an order that is none. */
#include "base/clock.h"
#include "base/identifier.h"
#include "base/json_text.h"
#include "base/scope.h"
#include "server/api_pty.h"
#include "server/command_link.h"
#include "base/base64.h"
#include "server/exec_request.h"
#include "server/gate.h"
#include "server/route.h"
#include "server/sandbox_gate.h"
#include "server/websocket.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

enum { TYPED_MAX = 1 << 20, SIDE_MAX = 1000, REFUSALS_MAX = 64 /* at one time */ };

struct terminal {
    struct command_link command;
    struct buffer typed; /* that the program has not read yet */
    json_t *refusals;    /* of orders, not told yet */
    json_t *end;         /* the keeper's last word; NULL: it goes on */
    int64_t started_us;
    bool is_started;
    struct gate_pass *pass;
};

static void terminal_free(void *data)
{
    struct terminal *terminal = data;
    if (!terminal->end && terminal->is_started) /* the client has left */
        terminal->end = command_link_kill(&terminal->command);
    sandbox_gate_leave_command(&terminal->pass, terminal->end, terminal->command.charge_us,
                               terminal->started_us);
    json_decref(terminal->end);
    json_decref(terminal->refusals);
    command_link_close(&terminal->command);
    buffer_free(&terminal->typed);
    free(terminal);
}

/* False: not a size. */
static bool resize(struct terminal *terminal, const json_t *size)
{
    json_int_t rows = json_integer_value(json_object_get(size, "rows")),
               columns = json_integer_value(json_object_get(size, "columns"));
    struct winsize window = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    bool is_size = rows > 0 && rows <= SIDE_MAX && columns > 0 && columns <= SIDE_MAX;
    if (is_size)
        ioctl(terminal->command.stdin_fd, TIOCSWINSZ, &window);
    return is_size;
}

/* The terminal goes on: one wrong order is not worth what is typed in it. */
static void refuse_order(struct terminal *terminal, const char *field, const char *message)
{
    json_t *error = json_pack("{s:s, s:s, s:s*}", "code", "bad_request", "message", message, "field", field);
    json_array_append_new(terminal->refusals, json_pack("{s:o}", "error", error));
}

static void take_order(struct terminal *terminal, const json_t *order)
{
    static const char *const known[] = {"resize", "signal"};
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)order, name, value)
    {
        if (strcmp(name, known[0]) != 0 && strcmp(name, known[1]) != 0)
            refuse_order(terminal, name, "orders are resize and signal");
    }
    const json_t *size = json_object_get(order, "resize"), *sent = json_object_get(order, "signal");
    int number = sent ? exec_signal_number(sent) : 0;
    if (!json_is_object(order))
        refuse_order(terminal, NULL, "a text must be a JSON object; what is typed comes as binary messages");
    if (size && !resize(terminal, size))
        refuse_order(terminal, "resize", "resize: must have rows and columns, numbers from 1 to 1000");
    if (number > 0)
        command_link_signal(&terminal->command, number);
    else if (sent)
        refuse_order(terminal, "signal", "signal: is not one");
}

static void take_message(void *data, bool is_text, struct slice bytes)
{
    struct terminal *terminal = data;
    if (!is_text) {
        if (terminal->typed.length + bytes.length <= TYPED_MAX)
            buffer_append(&terminal->typed, bytes.data, bytes.length);
        return;
    }
    json_t *order = json_loadb(bytes.data, bytes.length, 0, NULL);
    if (json_array_size(terminal->refusals) < REFUSALS_MAX)
        take_order(terminal, order);
    json_decref(order);
}

static void type(struct terminal *terminal)
{
    struct buffer *typed = &terminal->typed;
    int64_t written = command_link_write(&terminal->command, (struct slice){typed->data, typed->length});
    if (written < 0)
        written = (int64_t)typed->length; /* nobody will read it */
    memmove(typed->data, typed->data + written, typed->length - (size_t)written);
    typed->length -= (size_t)written;
}

static int show(struct terminal *terminal, struct websocket *socket)
{
    scope_buffer shown = {0};
    int status = command_link_read(&terminal->command.stdout_fd, &shown);
    if (status == 1)
        status = websocket_send(socket, false, (struct slice){shown.data, shown.length});
    return status == -EPIPE && terminal->command.stdout_fd < 0 ? 0 : status;
}

/* Not where they are taken: there the library is at work on the same connection. */
static int say_refusals(struct terminal *terminal, struct websocket *socket)
{
    int status = 0;
    for (size_t i = 0; status >= 0 && i < json_array_size(terminal->refusals); i++) {
        scope_free char *text = json_text(json_array_get(terminal->refusals, i), JSON_COMPACT);
        status = text ? websocket_send(socket, true, (struct slice){text, strlen(text)}) : -ENOMEM;
    }
    json_array_clear(terminal->refusals);
    return status;
}

static void say_end(struct terminal *terminal, struct websocket *socket)
{
    while (terminal->command.stdout_fd >= 0) { /* what it wrote last */
        struct pollfd polled = {.fd = terminal->command.stdout_fd, .events = POLLIN};
        if (poll(&polled, 1, 0) <= 0 || show(terminal, socket) < 0)
            break;
    }
    terminal->end = command_link_end(&terminal->command);
    sandbox_gate_leave_command(&terminal->pass, terminal->end, terminal->command.charge_us,
                               terminal->started_us);
    scope_free char *text = json_text(terminal->end, JSON_COMPACT);
    scope_buffer message = {0};
    if (text && buffer_print(&message, "{\"end\":%s}", text) == 0)
        websocket_send(socket, true, (struct slice){message.data, message.length});
}

static void talk(struct websocket *socket, void *data)
{
    struct terminal *terminal = data;
    /* What came along with the request is in no socket that could be polled. */
    for (bool is_first = true;; is_first = false) {
        struct pollfd polled[] = {
            {.fd = websocket_fd(socket), .events = POLLIN},
            {.fd = terminal->command.link, .events = POLLIN},
            {.fd = terminal->command.stdout_fd, .events = POLLIN},
            {.fd = terminal->typed.length ? terminal->command.stdin_fd : -1, .events = POLLOUT},
        };
        if (poll(polled, 4, is_first ? 0 : -1) < 0 && errno != EINTR)
            break;
        if ((is_first || polled[0].revents) && websocket_take(socket, take_message, terminal) < 0)
            break;
        if (say_refusals(terminal, socket) < 0)
            break;
        if (polled[2].revents && show(terminal, socket) < 0)
            break;
        if (polled[3].revents)
            type(terminal);
        if (polled[1].revents) {
            say_end(terminal, socket);
            break;
        }
    }
    terminal_free(terminal);
}

int terminal_open(struct exchange *exchange)
{
    const char *problem = websocket_problem(exchange);
    if (problem) /* before anything is started */
        return exchange_reply_error(exchange, 426, "bad_request", "Upgrade", NULL, "%s", problem);
    struct terminal *terminal = calloc(1, sizeof *terminal);
    if (!terminal)
        return -ENOMEM;
    terminal->command = (struct command_link)COMMAND_LINK_UNSET;
    terminal->refusals = json_array();
    terminal->started_us = clock_monotonic_us();
    json_t *terms = NULL, *request = exec_request_terminal(exchange);
    if (!request || sandbox_gate_enter(exchange, 1, true, &terms, &terminal->pass) < 0) {
        json_decref(request);
        terminal_free(terminal);
        return 0;
    }
    char id[IDENTIFIER_SIZE];
    identifier_make("exec_", id);
    json_object_set_new(request, "exec", json_string(id));
    sandbox_gate_note(exchange, terminal->pass, terms, id, (struct slice){"", 0});
    json_decref(terms);
    if (command_link_open(exchange, request, &terminal->command) < 0) {
        terminal_free(terminal);
        return 0;
    }
    terminal->is_started = true;
    return exchange_reply_websocket(exchange, talk, terminal_free, terminal);
}
