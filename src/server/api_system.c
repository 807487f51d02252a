/* How the server is: health, readiness. */
#include "server/keeper_link.h"
#include "server/route.h"
#include "server/server.h"

static int answer_health(struct exchange *exchange)
{
    static const char text[] = "{\"status\":\"ok\"}", at_end[] = "{\"status\":\"draining\"}";
    if (atomic_load(&exchange_server(exchange)->is_draining))
        return exchange_reply_static(exchange, 200, "application/json",
                                     (struct slice){at_end, sizeof at_end - 1});
    return exchange_reply_static(exchange, 200, "application/json", (struct slice){text, sizeof text - 1});
}

/* Can it run anything? Not whether spares are warm: a cold run is as good. */
static int answer_ready(struct exchange *exchange)
{
    struct error err = {0};
    if (atomic_load(&exchange_server(exchange)->is_draining)) {
        exchange_set_header(exchange, "Retry-After", "5");
        return exchange_reply_error(exchange, 503, "overloaded", NULL, NULL, "the server is ending");
    }
    if (keeper_link(exchange_server(exchange), &err) < 0) {
        exchange_set_header(exchange, "Retry-After", "1");
        return exchange_reply_error(exchange, 503, "overloaded", NULL, NULL, "%s", err.text);
    }
    return exchange_reply_json(exchange, 200, json_pack("{s:s}", "status", "ready"));
}

static const struct route rows[] = {
    {"GET", "/health", answer_health, ROUTE_OPEN | ROUTE_NOT_COUNTED, "is the server alive"},
    {"GET", "/ready", answer_ready, ROUTE_OPEN | ROUTE_NOT_COUNTED, "can it run anything"},
};

const struct route_family routes_system = ROUTE_FAMILY(rows);
