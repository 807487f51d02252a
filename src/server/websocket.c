#include "server/websocket.h"

#include "base/scope.h"
#include "base/thread.h"
#include "server/exchange_inside.h"
#include "server/server.h"

#include <errno.h>
#include <openssl/evp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <wslay/wslay.h>

enum { PATIENCE_MS = 30000, STACK_BYTES = 256 << 10, KEY_LENGTH = 24, CLOSING_MS = 1000 };

struct websocket {
    struct exchange *exchange;
    struct MHD_UpgradeResponseHandle *handle;
    int fd;
    char *early; /* came with the request, before it was a socket */
    size_t early_length, early_taken;
    wslay_event_context_ptr frames;
    websocket_message call;
    void *call_data;
    void (*talk)(struct websocket *socket, void *data);
    void (*discard)(void *data);
    void *data;
};

static ssize_t receive(wslay_event_context_ptr frames, uint8_t *into, size_t size, int flags, void *data)
{
    (void)flags;
    struct websocket *socket = data;
    size_t early = socket->early_length - socket->early_taken;
    if (early > 0) {
        size_t step = early < size ? early : size;
        memcpy(into, socket->early + socket->early_taken, step);
        socket->early_taken += step;
        return (ssize_t)step;
    }
    ssize_t length;
    do
        length = recv(socket->fd, into, size, MSG_DONTWAIT);
    while (length < 0 && errno == EINTR);
    if (length > 0)
        return length;
    wslay_event_set_error(frames, length < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)
                                      ? WSLAY_ERR_WOULDBLOCK
                                      : WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static ssize_t transmit(wslay_event_context_ptr frames, const uint8_t *bytes, size_t length, int flags,
                        void *data)
{
    struct websocket *socket = data;
    ssize_t sent;
    do
        sent = send(socket->fd, bytes, length,
                    MSG_DONTWAIT | MSG_NOSIGNAL | (flags & WSLAY_MSG_MORE ? MSG_MORE : 0));
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        wslay_event_set_error(frames, errno == EAGAIN || errno == EWOULDBLOCK ? WSLAY_ERR_WOULDBLOCK
                                                                              : WSLAY_ERR_CALLBACK_FAILURE);
    return sent;
}

static void on_message(wslay_event_context_ptr frames, const struct wslay_event_on_msg_recv_arg *message,
                       void *data)
{
    (void)frames;
    struct websocket *socket = data;
    bool is_text = message->opcode == WSLAY_TEXT_FRAME;
    if (socket->call && (is_text || message->opcode == WSLAY_BINARY_FRAME))
        socket->call(socket->call_data, is_text,
                     (struct slice){(const char *)message->msg, message->msg_length});
}

static int flush(struct websocket *socket)
{
    while (wslay_event_want_write(socket->frames)) {
        if (wslay_event_send(socket->frames) != 0)
            return -EPIPE;
        struct pollfd polled = {.fd = socket->fd, .events = POLLOUT};
        if (wslay_event_want_write(socket->frames) && poll(&polled, 1, PATIENCE_MS) <= 0)
            return -ETIMEDOUT;
    }
    return 0;
}

int websocket_fd(const struct websocket *socket)
{
    return socket->fd;
}

int websocket_take(struct websocket *socket, websocket_message call, void *data)
{
    socket->call = call;
    socket->call_data = data;
    int status = wslay_event_recv(socket->frames) == 0 ? flush(socket) : -EPIPE;
    socket->call = NULL;
    /* Who breaks the rules is told so, and not read any more. */
    bool is_over =
        wslay_event_get_close_received(socket->frames) || !wslay_event_get_read_enabled(socket->frames);
    return status < 0 || is_over ? -EPIPE : 0;
}

int websocket_send(struct websocket *socket, bool is_text, struct slice bytes)
{
    struct wslay_event_msg message = {.opcode = is_text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME,
                                      .msg = (const uint8_t *)bytes.data,
                                      .msg_length = bytes.length};
    return wslay_event_queue_msg(socket->frames, &message) == 0 ? flush(socket) : -EPIPE;
}

static void socket_free(struct websocket *socket)
{
    if (socket->frames)
        wslay_event_context_free(socket->frames);
    free(socket->early);
    struct exchange *exchange = socket->exchange;
    free(socket);
    exchange_let_go(exchange);
}

/* Both sides say that it is over; a side that does not is not waited for. */
static void say_goodbye(struct websocket *socket)
{
    struct pollfd polled = {.fd = socket->fd, .events = POLLIN};
    wslay_event_queue_close(socket->frames, WSLAY_CODE_NORMAL_CLOSURE, NULL, 0);
    if (flush(socket) == 0 && !wslay_event_get_close_received(socket->frames))
        poll(&polled, 1, CLOSING_MS);
}

static void *talk_main(void *data)
{
    struct websocket *socket = data;
    socket->talk(socket, socket->data);
    say_goodbye(socket);
    atomic_fetch_sub(&socket->exchange->server->exchanges, 1);
    MHD_upgrade_action(socket->handle, MHD_UPGRADE_ACTION_CLOSE);
    socket_free(socket);
    return NULL;
}

/* The 101 is sent. */
static void upgraded(void *data, struct MHD_Connection *connection, void *state, const char *early,
                     size_t early_length, MHD_socket fd, struct MHD_UpgradeResponseHandle *handle)
{
    (void)connection, (void)state;
    static const struct wslay_event_callbacks callbacks = {
        .recv_callback = receive, .send_callback = transmit, .on_msg_recv_callback = on_message};
    struct websocket *socket = data;
    socket->exchange->upgrading = NULL;
    socket->fd = fd;
    socket->handle = handle;
    socket->early = early_length ? malloc(early_length) : NULL;
    if (socket->early) {
        memcpy(socket->early, early, early_length);
        socket->early_length = early_length;
    }
    bool is_ready = (socket->early || !early_length) &&
                    wslay_event_context_server_init(&socket->frames, &callbacks, socket) == 0;
    if (is_ready) {
        wslay_event_config_set_max_recv_msg_length(socket->frames, WEBSOCKET_MESSAGE_MAX);
        atomic_fetch_add(&socket->exchange->server->exchanges, 1);
        is_ready = thread_start(NULL, STACK_BYTES, talk_main, socket) == 0;
        if (!is_ready)
            atomic_fetch_sub(&socket->exchange->server->exchanges, 1);
    }
    if (is_ready)
        return;
    socket->discard(socket->data);
    MHD_upgrade_action(handle, MHD_UPGRADE_ACTION_CLOSE);
    socket_free(socket);
}

/* As RFC 6455 says; `into` has room for 29 bytes. */
static int accept_text(const char *key, char *into)
{
    char joined[KEY_LENGTH + 36 + 1];
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    memcpy(joined, key, KEY_LENGTH);
    memcpy(joined + KEY_LENGTH, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11", 37);
    if (EVP_Digest(joined, sizeof joined - 1, digest, &length, EVP_sha1(), NULL) != 1)
        return -EIO;
    EVP_EncodeBlock((unsigned char *)into, digest, (int)length);
    return 0;
}

const char *websocket_problem(const struct exchange *exchange)
{
    const char *upgrade = exchange_header(exchange, "Upgrade");
    const char *connection = exchange_header(exchange, "Connection");
    const char *version = exchange_header(exchange, "Sec-WebSocket-Version");
    const char *key = exchange_header(exchange, "Sec-WebSocket-Key");
    return !upgrade || strcasecmp(upgrade, "websocket") != 0   ? "this is for a WebSocket: ask for an upgrade"
           : !connection || !strcasestr(connection, "upgrade") ? "Connection must be Upgrade"
           : !version || strcmp(version, "13") != 0            ? "the version of WebSockets must be 13"
           : !key || strlen(key) != KEY_LENGTH                 ? "Sec-WebSocket-Key is missing or wrong"
                                                               : NULL;
}

int exchange_reply_websocket(struct exchange *exchange, void (*talk)(struct websocket *socket, void *data),
                             void (*discard)(void *data), void *data)
{
    char accepted[32];
    const char *problem = websocket_problem(exchange);
    struct websocket *socket = problem ? NULL : calloc(1, sizeof *socket);
    if (!socket || accept_text(exchange_header(exchange, "Sec-WebSocket-Key"), accepted) < 0) {
        free(socket);
        discard(data);
        return problem ? exchange_reply_error(exchange, 426, "bad_request", "Upgrade", NULL, "%s", problem)
                       : -ENOMEM;
    }
    *socket =
        (struct websocket){.exchange = exchange, .fd = -1, .talk = talk, .discard = discard, .data = data};
    exchange_hold(exchange);
    struct MHD_Response *response = MHD_create_response_for_upgrade(upgraded, socket);
    if (!response) {
        discard(data);
        socket_free(socket);
        return -ENOMEM;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_UPGRADE, "websocket");
    MHD_add_response_header(response, "Sec-WebSocket-Accept", accepted);
    exchange->upgrading = socket;
    return reply_set(exchange, 101, NULL, response);
}

/* The library tells us when the 101 is out, and says nothing when it never will be: the client was gone, or
 * its HTTP is too old. */
void websocket_abandon(struct exchange *exchange)
{
    struct websocket *socket = exchange->upgrading;
    if (!socket)
        return;
    exchange->upgrading = NULL;
    socket->discard(socket->data);
    socket_free(socket);
}
