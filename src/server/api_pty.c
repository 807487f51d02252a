/* A command on a terminal, over a WebSocket. Binary messages are what is typed and what appears. Texts are
 * JSON: {"resize": {"rows", "columns"}} and {"signal": "INT"} from the client, {"end": {…}} as our last. */
#include "base/clock.h"
#include "base/identifier.h"
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

enum { TYPED_MAX = 1 << 20, SIDE_MAX = 1000 };

struct terminal {
    struct command_link command;
    struct buffer typed; /* that the program has not read yet */
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
    command_link_close(&terminal->command);
    buffer_free(&terminal->typed);
    free(terminal);
}

static void resize(struct terminal *terminal, const json_t *size)
{
    json_int_t rows = json_integer_value(json_object_get(size, "rows")),
               columns = json_integer_value(json_object_get(size, "columns"));
    struct winsize window = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    if (rows > 0 && rows <= SIDE_MAX && columns > 0 && columns <= SIDE_MAX)
        ioctl(terminal->command.stdin_fd, TIOCSWINSZ, &window);
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
    int number = exec_signal_number(json_object_get(order, "signal"));
    if (json_object_get(order, "resize"))
        resize(terminal, json_object_get(order, "resize"));
    if (number > 0)
        command_link_signal(&terminal->command, number);
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
    scope_free char *text = json_dumps(terminal->end, JSON_COMPACT);
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
    terminal->started_us = clock_monotonic_us();
    json_t *terms = NULL;
    if (sandbox_gate_enter(exchange, 1, true, &terms, &terminal->pass) < 0) {
        terminal_free(terminal);
        return 0;
    }
    char id[IDENTIFIER_SIZE];
    identifier_make("exec_", id);
    sandbox_gate_note(exchange, terminal->pass, terms, id, (struct slice){"", 0});
    json_decref(terms);
    if (command_link_open(exchange, exec_request_terminal(exchange), &terminal->command) < 0) {
        terminal_free(terminal);
        return 0;
    }
    terminal->is_started = true;
    return exchange_reply_websocket(exchange, talk, terminal_free, terminal);
}
