#include "server/dispatch.h"

#include "base/clock.h"
#include "server/exchange_inside.h"
#include "server/framing.h"
#include "server/idempotency.h"
#include "server/keeper_link.h"
#include "server/origin.h"
#include "server/query.h"
#include "server/server.h"
#include "server/strangers.h"
#include "server/tenant.h"
#include "server/websocket.h"

#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 4096,
    CONNECTIONS_ADDRESS_MAX = CONNECTIONS_MAX / 4, /* of one that is not this machine's */
    IDLE_S = 120,
    MEMORY_BYTES = 16 << 10, /* of a connection, idle or not: all its headers, and the buffer for its body */
    INCREMENT_BYTES = 4 << 10,
    STACK_BYTES = 256 << 10,
    DISCARD_MAX = 8 << 20, /* of a body that nobody wants, so that its sender gets to read the answer … */
    DISCARD_STREAM_MAX = 1 << 30, /* … and of one that was to be large */
    DRAIN_STEP_US = 5000,
    CROWD = 256, /* connections at one time */
};

static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};

static const char *known_method(const char *text)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (strcmp(text, methods[i]) == 0)
            return methods[i];
    return "OTHER";
}

/* The first that we hear of a request: its target as it came, before anything is decoded. */
static void *begin(void *data, const char *uri, struct MHD_Connection *connection)
{
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (!exchange)
        return NULL;
    exchange->holders = 1;
    exchange->server = data;
    exchange->connection = connection;
    exchange->started_us = clock_monotonic_us();
    exchange->path = strndup(uri, strcspn(uri, "?"));
    exchange->has_blank = strchr(uri, ' ');
    return exchange;
}

static int refuse_path(struct exchange *exchange, const char *allowed)
{
    if (!allowed[0])
        return exchange_reply_error(exchange, 404, "not_found", NULL, NULL, "there is nothing at %.200s",
                                    exchange->path);
    exchange_set_header(exchange, "Allow", allowed);
    if (strcmp(exchange->method, "OPTIONS") == 0)
        return exchange_reply_empty(exchange, 204);
    return exchange_reply_error(exchange, 405, "method_not_allowed", NULL, NULL,
                                "%s is not possible at %.200s, but: %s", exchange->method, exchange->path,
                                allowed);
}

static const char *key_of(const struct exchange *exchange)
{
    const char *value = exchange_header(exchange, "Authorization");
    if (value && strncasecmp(value, "Bearer ", 7) == 0)
        return value + 7 + strspn(value + 7, " ");
    return exchange_header(exchange, "X-API-Key");
}

static int refuse_stranger(struct exchange *exchange)
{
    exchange_set_header(exchange, "WWW-Authenticate", "Bearer");
    return exchange_reply_error(exchange, 401, "unauthorized", NULL,
                                "send `Authorization: Bearer KEY`; keys are made by `cloche key add`",
                                key_of(exchange) ? "the key is not known" : "a key is needed");
}

/* A stranger learns nothing of the API, not even what there is; a preflight has no key and asks for nothing.
 */
static bool is_public(const struct exchange *exchange)
{
    return strncmp(exchange->path, "/v1", 3) != 0 || strcmp(exchange->method, "OPTIONS") == 0;
}

static size_t body_limit(const struct route *route)
{
    return route->body_max ? route->body_max : ROUTE_BODY_DEFAULT;
}

static int refuse_size(struct exchange *exchange)
{
    return exchange_reply_error(exchange, 413, "too_large", NULL, NULL, "the body is larger than %zu bytes",
                                body_limit(exchange->route));
}

/* What is under way is waited for; whoever comes now is told when to come again, rather than not heard. */
static int refuse_at_end(struct exchange *exchange)
{
    exchange->is_counted = false;
    exchange_set_header(exchange, "Retry-After", "5");
    return exchange_reply_error(exchange, 503, "overloaded", NULL, NULL, "the server is ending");
}

/* Headers are there, the body is not: what can be refused now is. The answer is set when this returns 1. */
static int take_headers(struct exchange *exchange, const char *method, const char *version)
{
    char allowed[128];
    struct server *server = exchange->server;
    exchange->method = known_method(method);
    if (!exchange->path)
        return -ENOMEM;
    const char *problem = framing_problem(exchange, version);
    exchange->is_last = problem != NULL;
    if (problem)
        return exchange_reply_error(exchange, 400, "bad_request", NULL, NULL, "%s", problem) < 0 ? -ENOMEM
                                                                                                 : 1;
    if (!origin_is_ours(server, exchange))
        return exchange_reply_error(
                   exchange, 403, "forbidden", "Host",
                   "behind a proxy: `server.names = NAME` in the configuration, and the proxy "
                   "passes Host on",
                   "the request comes from a page of another site, or under a foreign name")
                   ? -ENOMEM
                   : 1;
    exchange->route = route_find(exchange->method, exchange->path, exchange->parts, allowed, sizeof allowed);
    bool is_open = exchange->route ? exchange->route->flags & ROUTE_OPEN : is_public(exchange);
    if (!is_open) /* who needs no key is not looked up: health is asked for often */
        exchange->tenant =
            tenants_find(server->tenants, key_of(exchange), exchange->key_id, &exchange->is_operator);
    if (!is_open && !exchange->tenant)
        return refuse_stranger(exchange) < 0 ? -ENOMEM : 1;
    if (!exchange->route)
        return refuse_path(exchange, allowed) < 0 ? -ENOMEM : 1;
    exchange->is_counted = !(exchange->route->flags & ROUTE_NOT_COUNTED);
    if (exchange->is_counted && atomic_load(&server->is_draining))
        return refuse_at_end(exchange) < 0 ? -ENOMEM : 1;
    if (exchange->is_counted)
        atomic_fetch_add(&server->exchanges, 1);
    if (strncmp(exchange->route->pattern, "/v1/", 4) == 0 &&
        !query_is_known(exchange, exchange->route->query))
        return 1;
    if (exchange->route->flags & ROUTE_STREAMS_BODY) {
        if (exchange->route->chunk(exchange, &exchange->body_state, (struct slice){"", 0}) < 0)
            return exchange->route->handler(exchange) < 0 ? -EIO : 1;
    } else if (exchange_body_announced(exchange) > (int64_t)body_limit(exchange->route)) {
        return refuse_size(exchange) < 0 ? -ENOMEM : 1;
    }
    return 0;
}

/* False: the connection is to be closed, for what comes is endless. An answer cannot be given in the middle
 * of a body: what is refused is read on for a while, and answered at its end. */
static bool take_body(struct exchange *exchange, const char *bytes, size_t length)
{
    const struct route *route = exchange->route;
    exchange->body_seen += length;
    if (!route) /* answered already */
        return exchange->body_seen <= DISCARD_MAX;
    if (exchange->is_refused || exchange->is_too_large)
        return exchange->body_seen <=
               (route->flags & ROUTE_STREAMS_BODY ? DISCARD_STREAM_MAX : body_limit(route) + DISCARD_MAX);
    if (route->flags & ROUTE_STREAMS_BODY) {
        exchange->is_refused =
            route->chunk(exchange, &exchange->body_state, (struct slice){bytes, length}) < 0;
        if (exchange->is_refused)
            exchange->body_seen = 0;
        return true;
    }
    if (exchange->body_seen > body_limit(route)) {
        exchange->is_too_large = true;
        buffer_free(&exchange->body);
        exchange->body = (struct buffer){0};
        return true;
    }
    return buffer_append(&exchange->body, bytes, length) == 0;
}

static enum MHD_Result send_answer(struct exchange *exchange)
{
    static char failure[] = "{\"error\":{\"code\":\"host_failure\",\"message\":\"the server failed\"}}";
    if (!exchange->response && exchange_reply_static(exchange, 500, "application/json",
                                                     (struct slice){failure, sizeof failure - 1}) < 0)
        return MHD_NO;
    struct server *server = exchange->server;
    MHD_add_response_header(exchange->response, "Server", "cloche/" CLOCHE_VERSION);
    if (exchange->is_last || atomic_load(&server->is_draining))
        MHD_add_response_header(exchange->response, MHD_HTTP_HEADER_CONNECTION, "close");
    if (exchange->is_counted)
        metrics_count_answer(&server->metrics, exchange->status);
    struct MHD_Response *response = exchange->response;
    exchange->response = NULL; /* the connection holds it from here on */
    enum MHD_Result status = MHD_queue_response(exchange->connection, (unsigned)exchange->status, response);
    MHD_destroy_response(response);
    return status;
}

static struct stranger *stranger_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static enum MHD_Result handle(void *data, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **state)
{
    (void)data;
    (void)url;
    struct exchange *exchange = *state;
    if (!exchange)
        return MHD_NO;
    if (!exchange->is_begun) {
        exchange->is_begun = true;
        int status = take_headers(exchange, method, version);
        stranger_ask(stranger_of(connection), exchange->tenant != NULL);
        if (status < 0)
            return MHD_NO;
        /* An answer before the body closes the connection: only where there is one. */
        return status > 0 && (exchange->is_last || exchange_body_announced(exchange) != 0)
                   ? send_answer(exchange)
                   : MHD_YES;
    }
    if (*upload_size > 0) {
        bool goes_on = take_body(exchange, upload, *upload_size);
        *upload_size = 0;
        return goes_on ? MHD_YES : MHD_NO;
    }
    if (exchange->is_too_large)
        refuse_size(exchange);
    else if (!exchange->response)
        idempotency_handle(exchange, exchange->route->handler);
    return send_answer(exchange);
}

static void complete(void *data, struct MHD_Connection *connection, void **state,
                     enum MHD_RequestTerminationCode code)
{
    (void)data;
    (void)code;
    struct exchange *exchange = *state;
    *state = NULL;
    stranger_rest(stranger_of(connection));
    if (!exchange)
        return;
    websocket_abandon(exchange);
    exchange_let_go(exchange);
}

/* After a crowd its memory goes back to the system; the C library would keep it for the next one. */
static void forget_crowd(struct server *server, int now)
{
    int most = atomic_load(&server->connections_most);
    if (most >= CROWD && now < most / 2 &&
        atomic_compare_exchange_strong(&server->connections_most, &most, now))
        malloc_trim(0);
}

static void count_connection(void *data, struct MHD_Connection *connection, void **state,
                             enum MHD_ConnectionNotificationCode code)
{
    struct server *server = data;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *state = info ? stranger_come(info->connect_fd) : NULL;
    } else {
        stranger_leave(*state);
        *state = NULL;
    }
    int step = code == MHD_CONNECTION_NOTIFY_STARTED ? 1 : -1;
    int now = (int)atomic_fetch_add(&server->metrics.connections, step) + step;
    if (step < 0)
        forget_crowd(server, now);
    else if (now > atomic_load(&server->connections_most))
        atomic_store(&server->connections_most, now); /* a race loses one: it is no exact figure */
}

static void keep_quiet(void *data, const char *format, va_list arguments)
{
    (void)data; /* what clients do wrong is no news */
    (void)format;
    (void)arguments;
}

int dispatch_start(struct server *server, const char *certificate, const char *key)
{
    struct MHD_OptionItem security[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)certificate},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)key},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t) "NORMAL:-VERS-TLS1.0:-VERS-TLS1.1"},
        {MHD_OPTION_END, 0, NULL},
    };
    if (!certificate)
        security[0] = security[3];
    errno = 0;
    server->daemon = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC |
            MHD_USE_ERROR_LOG | MHD_ALLOW_UPGRADE | (certificate ? MHD_USE_TLS : 0),
        0, NULL, NULL, handle, NULL, MHD_OPTION_EXTERNAL_LOGGER, keep_quiet, NULL, MHD_OPTION_LISTEN_SOCKET,
        server->listen_fd, MHD_OPTION_URI_LOG_CALLBACK, begin, server, MHD_OPTION_NOTIFY_COMPLETED, complete,
        server, MHD_OPTION_NOTIFY_CONNECTION, count_connection, server, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS_MAX, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        server->is_local ? 0U : (unsigned)CONNECTIONS_ADDRESS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_S, MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY_BYTES, MHD_OPTION_CONNECTION_MEMORY_INCREMENT,
        (size_t)INCREMENT_BYTES, MHD_OPTION_STRICT_FOR_CLIENT,
        0 /* what 1 adds is in framing.c, in our words */, MHD_OPTION_ARRAY, security, MHD_OPTION_END);
    return server->daemon ? 0 : errno ? -errno : -EINVAL;
}

void dispatch_stop(struct server *server, int drain_ms)
{
    atomic_store(&server->is_draining, true);
    int64_t until_us = clock_monotonic_us() + (int64_t)drain_ms * 1000;
    while (atomic_load(&server->exchanges) > 0 && clock_monotonic_us() < until_us)
        usleep(DRAIN_STEP_US);
    MHD_quiesce_daemon(server->daemon);
}
