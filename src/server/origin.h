/* Where a request comes from, as a browser tells it.
 *
 * A server on loopback that asks for no key must not be reachable by any page that a browser on the same
 * machine shows: such a page can send requests to 127.0.0.1 (they carry its Origin), or have its own name
 * resolve to it (they carry its Host). */
#pragma once

#include "server/exchange.h"

bool origin_is_ours(const struct server *server, const struct exchange *exchange);
