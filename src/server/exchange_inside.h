/* An exchange from inside: for exchange.c, reply.c, websocket.c and dispatch.c only. */
#pragma once

#include "server/exchange.h"
#include "server/keys.h"
#include "server/route.h"

#include <microhttpd.h>
#include <stdatomic.h>

enum { EXCHANGE_HEADERS_MAX = 8 };

struct exchange {
    atomic_int holders; /* the connection, and a stream that is being sent */
    struct server *server;
    struct MHD_Connection *connection;
    const char *method; /* of a constant table */
    char *path;
    bool has_blank; /* in its path or query, as it came */
    char *parts[ROUTE_PARTS_MAX];
    const struct route *route;
    const struct tenant *tenant;
    char key_id[KEY_ID_SIZE];
    bool is_operator;
    struct recording *recording; /* of idempotency.h; NULL: none */
    int64_t started_us;
    /* The request's body. */
    bool is_begun, is_refused, is_too_large, is_counted, is_last; /* is_last: the connection ends with it */
    struct buffer body;
    void *body_state;
    uint64_t body_seen;
    /* The answer. */
    struct MHD_Response *response;
    struct websocket *upgrading; /* until the 101 is sent */
    int status;
    struct {
        char *name, *value;
    } headers[EXCHANGE_HEADERS_MAX];
    int header_count;
};

void exchange_hold(struct exchange *exchange);
void exchange_let_go(struct exchange *exchange);

/* Makes it the answer, with the headers that were set; NULL: -ENOMEM. */
int reply_set(struct exchange *exchange, int status, const char *type, struct MHD_Response *response);
