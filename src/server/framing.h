/* Where a request ends must be beyond doubt: a proxy in front of us that counts another way would take what
 * one client sends for the beginning of the next one's request (request smuggling, RFC 9112, section 11.2).
 * The HTTP library takes the first of two lengths, and prefers chunks to a length; so whatever can be read in
 * two ways is refused here, and the connection closed. */
#pragma once

#include "server/exchange.h"

/* What is wrong with the headers; NULL: nothing. `version` as it came: "HTTP/1.1". */
const char *framing_problem(const struct exchange *exchange, const char *version);
