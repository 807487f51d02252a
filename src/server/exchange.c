#include "server/exchange.h"

#include "base/scope.h"
#include "server/exchange_inside.h"
#include "server/idempotency.h"
#include "server/keeper_link.h"
#include "server/server.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>

enum { JSON_DEPTH_MAX = 32 };

struct server *exchange_server(struct exchange *exchange)
{
    return exchange->server;
}

const char *exchange_part(const struct exchange *exchange, int index)
{
    return index >= 0 && index < ROUTE_PARTS_MAX ? exchange->parts[index] : NULL;
}

const char *exchange_query(const struct exchange *exchange, const char *name)
{
    const char *value = NULL;
    size_t length = 0;
    if (MHD_lookup_connection_value_n(exchange->connection, MHD_GET_ARGUMENT_KIND, name, strlen(name), &value,
                                      &length) == MHD_NO)
        return NULL;
    return value ? value : "";
}

const char *exchange_header(const struct exchange *exchange, const char *name)
{
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

const char *exchange_method(const struct exchange *exchange)
{
    return exchange->method;
}

const char *exchange_path(const struct exchange *exchange)
{
    return exchange->path;
}

const char *exchange_pattern(const struct exchange *exchange)
{
    return exchange->route->pattern;
}

struct query_call {
    void (*call)(void *data, const char *name, const char *value);
    void *data;
};

static enum MHD_Result pass_query(void *data, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    struct query_call *call = data;
    call->call(call->data, name, value ? value : "");
    return MHD_YES;
}

void exchange_each_query(const struct exchange *exchange,
                         void (*call)(void *data, const char *name, const char *value), void *data)
{
    struct query_call passed = {call, data};
    MHD_get_connection_values(exchange->connection, MHD_GET_ARGUMENT_KIND, pass_query, &passed);
}

struct slice exchange_body(const struct exchange *exchange)
{
    return (struct slice){exchange->body.data ? exchange->body.data : "", exchange->body.length};
}

int64_t exchange_body_announced(const struct exchange *exchange)
{
    const char *text = exchange_header(exchange, "Content-Length");
    if (!text || exchange_header(exchange, "Transfer-Encoding"))
        return exchange_header(exchange, "Transfer-Encoding") ? -1 : 0;
    return strtoll(text, NULL, 10); /* the library has refused what is no number */
}

void *exchange_body_state(const struct exchange *exchange)
{
    return exchange->body_state;
}

const struct tenant *exchange_tenant(const struct exchange *exchange)
{
    return exchange->tenant;
}

bool exchange_is_operator(const struct exchange *exchange)
{
    return exchange->is_operator;
}

const char *exchange_key_id(const struct exchange *exchange)
{
    return exchange->key_id;
}

int exchange_client_fd(const struct exchange *exchange)
{
    if (exchange->recording)
        return -1;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    return info ? info->connect_fd : -1;
}

bool exchange_more_waits(const struct exchange *exchange)
{
    int waiting = 0, fd = exchange_client_fd(exchange);
    return fd >= 0 && ioctl(fd, FIONREAD, &waiting) == 0 && waiting > 0;
}

bool exchange_client_is_gone(const struct exchange *exchange)
{
    struct pollfd polled = {.fd = exchange_client_fd(exchange), .events = POLLRDHUP};
    return poll(&polled, 1, 0) > 0;
}

bool exchange_wants_events(const struct exchange *exchange)
{
    const char *accepted = exchange_header(exchange, "Accept");
    return accepted && strcasestr(accepted, "text/event-stream");
}

/* The parser goes down one call a level, on a small stack: how deep is looked at before. */
bool exchange_is_too_deep(struct slice text)
{
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < text.length; i++) {
        char c = text.data[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if ((c == '{' || c == '[') && ++depth > JSON_DEPTH_MAX) {
            return true;
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return false;
}

int exchange_json(struct exchange *exchange, json_t **ret)
{
    struct slice body = exchange_body(exchange);
    json_error_t where;
    if (body.length == 0) {
        *ret = json_object();
        return *ret ? 0 : -ENOMEM;
    }
    if (exchange_is_too_deep(body)) {
        exchange_reply_error(exchange, 400, "bad_request", NULL, NULL,
                             "the body is nested deeper than %d levels", JSON_DEPTH_MAX);
        return -EINVAL;
    }
    json_t *object = json_loadb(body.data, body.length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    if (json_is_object(object)) {
        *ret = object;
        return 0;
    }
    if (object)
        exchange_reply_error(exchange, 400, "bad_request", NULL, NULL, "the body must be a JSON object");
    else
        exchange_reply_error(
            exchange, 400, "bad_request", NULL, "send a JSON object, with Content-Type: application/json",
            "the body is not valid JSON: line %d, column %d: %s", where.line, where.column, where.text);
    json_decref(object);
    return -EINVAL;
}

void exchange_hold(struct exchange *exchange)
{
    atomic_fetch_add(&exchange->holders, 1);
}

void exchange_let_go(struct exchange *exchange)
{
    if (!exchange || atomic_fetch_sub(&exchange->holders, 1) > 1)
        return;
    keeper_link_release(exchange->server);
    if (exchange->is_counted)
        atomic_fetch_sub(&exchange->server->exchanges, 1);
    if (exchange->response)
        MHD_destroy_response(exchange->response);
    if (exchange->body_state && exchange->route && exchange->route->chunk_done)
        exchange->route->chunk_done(exchange->body_state);
    for (int i = 0; i < ROUTE_PARTS_MAX; i++)
        free(exchange->parts[i]);
    for (int i = 0; i < exchange->header_count; i++) {
        free(exchange->headers[i].name);
        free(exchange->headers[i].value);
    }
    recording_free(exchange->recording);
    buffer_free(&exchange->body);
    free(exchange->path);
    free(exchange);
}
