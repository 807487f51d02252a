/* WebSockets (RFC 6455), framed by wslay.
 *
 * Theory of operation. A request that asks for one is answered by 101, and its socket goes to a thread of its
 * own, which calls `talk` and closes the connection when that returns. Everything is done by that thread: it
 * polls websocket_fd() beside whatever else it listens to, takes what has come, and sends; sending waits for
 * a slow reader, and gives up on one that reads nothing for half a minute. */
#pragma once

#include "base/bytes.h"
#include "server/exchange.h"

struct websocket;

/* A whole message came, at most WEBSOCKET_MESSAGE_MAX bytes. */
enum { WEBSOCKET_MESSAGE_MAX = 1 << 20 };
typedef void (*websocket_message)(void *data, bool is_text, struct slice bytes);

/* Why a request cannot become one; NULL: it can. */
const char *websocket_problem(const struct exchange *exchange);

/* Sets the answer: 101, or why not. `talk` is called in the new thread, and frees `data`; `discard` does so
 * when it does not come to that. */
int exchange_reply_websocket(struct exchange *exchange, void (*talk)(struct websocket *socket, void *data),
                             void (*discard)(void *data), void *data);

/* For dispatch: the exchange is over. Frees what waits for an upgrade that did not come. */
void websocket_abandon(struct exchange *exchange);

/* To poll for POLLIN. */
int websocket_fd(const struct websocket *socket);

/* Takes what can be read. Negative: the other side has closed it, or breaks the rules. */
int websocket_take(struct websocket *socket, websocket_message call, void *data);

int websocket_send(struct websocket *socket, bool is_text, struct slice bytes);
