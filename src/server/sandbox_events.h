/* What happens in a sandbox, told to who watches it. */
#pragma once

#include "server/exchange.h"

/* The handler of `GET /v1/sandboxes/{id}/events`. */
int sandbox_events(struct exchange *exchange);
