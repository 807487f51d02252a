#include "server/sandbox_events.h"

#include "base/scope.h"
#include "keeper/wire.h"
#include "server/event.h"
#include "server/keeper_link.h"
#include "server/sandbox_request.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { PULSE_MS = 15000, ASK_MS = 1000, WATCHERS_MAX = 128 };

/* A watcher has a connection to the keeper of its own, over which it hears at once. Where there are many, the
 * rest of them ask once a second, so that idle ones hold nothing of the keeper's. */
struct watch {
    struct exchange *exchange;
    int link; /* -1: it asks */
    int64_t since;
};

static atomic_int watchers;

static int tell_lines(char *lines, struct buffer *into)
{
    int status = 0;
    char *rest = NULL;
    for (char *line = strtok_r(lines, "\n", &rest); line && status == 0; line = strtok_r(NULL, "\n", &rest)) {
        json_t *event = json_loads(line, 0, NULL);
        const char *name = json_string_value(json_object_get(event, "event"));
        char kept[64];
        snprintf(kept, sizeof kept, "%s", name ? name : "unknown");
        json_int_t at_ms = json_integer_value(json_object_get(event, "at_ms"));
        json_object_set_new(event, "at", sandbox_time(at_ms));
        json_object_del(event, "at_ms");
        json_object_del(event, "event");
        status =
            event_append_numbered(into, kept, json_integer_value(json_object_get(event, "number")), event);
    }
    return status;
}

static json_t *watch_request(const struct watch *watch, bool is_once)
{
    json_t *request = sandbox_request(watch->exchange, "watch");
    json_object_set_new(request, "since", json_integer(watch->since));
    json_object_set_new(request, "once", json_boolean(is_once));
    return request;
}

/* The next frame, after a second at most; of one that asks, over a connection that others use meanwhile. */
static int receive_frame(struct watch *watch, json_t **ret, struct buffer *lines)
{
    if (watch->link >= 0)
        return wire_receive(watch->link, ret, lines, NULL);
    struct server *server = exchange_server(watch->exchange);
    struct pollfd polled = {.fd = exchange_client_fd(watch->exchange), .events = POLLRDHUP};
    if (poll(&polled, 1, ASK_MS) > 0)
        return -EPIPE;
    int link = keeper_link(server, NULL);
    int status =
        link < 0 ? link : wire_send(link, watch_request(watch, true), (struct slice){"", 0}, NULL, 0);
    if (status == 0)
        status = wire_receive(link, ret, lines, NULL);
    if (status < 0)
        keeper_link_drop(server);
    else
        keeper_link_release(server);
    return status;
}

static int next_events(void *data, struct buffer *into)
{
    struct watch *watch = data;
    for (int quiet = 0;; quiet++) {
        json_t *frame = NULL;
        scope_buffer lines = {0};
        if (exchange_client_is_gone(watch->exchange) || receive_frame(watch, &frame, &lines) < 0)
            return -EPIPE;
        bool is_end = json_is_true(json_object_get(frame, "end")),
             is_refused = json_object_get(frame, "error");
        if (json_object_get(frame, "last"))
            watch->since = json_integer_value(json_object_get(frame, "last"));
        json_decref(frame);
        if (lines.length && tell_lines(lines.data, into) < 0)
            return -ENOMEM;
        if (is_refused && watch->link < 0) /* one that asks finds it gone */
            event_append(into, "ended",
                         json_pack("{s:s, s:s}", "cause", "cancelled", "detail", "it was deleted"));
        if (is_end || is_refused)
            return 0;
        if (quiet * 1000 >= PULSE_MS && event_append_pulse(into) < 0) /* a frame comes every second */
            return -ENOMEM;
        if (into->length)
            return 1;
    }
}

static void stop_watching(void *data)
{
    struct watch *watch = data;
    if (watch->link >= 0)
        atomic_fetch_sub(&watchers, 1);
    scope_close_fd(&watch->link);
    free(watch);
}

/* 0: it hears, or asks. */
static int begin_watching(struct watch *watch)
{
    struct error err = {0};
    if (atomic_fetch_add(&watchers, 1) < WATCHERS_MAX) {
        watch->link = keeper_link_take(exchange_server(watch->exchange), &err);
        if (watch->link < 0)
            exchange_reply_problem(watch->exchange, &err);
        int status = watch->link < 0 ? watch->link
                                     : sandbox_send(watch->exchange, watch->link, watch_request(watch, false),
                                                    (struct slice){"", 0});
        if (status == 0)
            return 0;
        scope_close_fd(&watch->link);
        atomic_fetch_sub(&watchers, 1);
        return status;
    }
    atomic_fetch_sub(&watchers, 1);
    return 0;
}

int sandbox_events(struct exchange *exchange)
{
    json_t *answer = NULL;
    if (sandbox_ask(exchange, sandbox_request(exchange, "look"), &answer) < 0)
        return 0; /* not one that could be watched */
    json_decref(answer);
    const char *since = exchange_header(exchange, "Last-Event-ID");
    struct watch *watch = malloc(sizeof *watch);
    if (!watch)
        return -ENOMEM;
    *watch = (struct watch){.exchange = exchange, .link = -1, .since = since ? strtoll(since, NULL, 10) : 0};
    if (begin_watching(watch) < 0) {
        free(watch);
        return 0;
    }
    return exchange_reply_stream(exchange, "text/event-stream", next_events, stop_watching, watch);
}
