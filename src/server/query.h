/* What stands after the question mark. A parameter that nobody reads is a wish that is not granted: it is
 * refused by its name, as a field of a body would be. */
#pragma once

#include "server/exchange.h"

#include <stdint.h>

/* Are all of them among those of the route? False: the exchange has its answer. */
bool query_is_known(struct exchange *exchange, const char *known);

/* A whole number within these bounds; *ret is left alone when it is not given. False: the exchange has its
 * answer. */
bool query_number(struct exchange *exchange, const char *name, int64_t least, int64_t most, int64_t *ret);
