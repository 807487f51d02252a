/* The conversation with the keeper about one run or several branches: held until its end for one answer, or
 * told to the client event by event. A client that goes away takes its run with it. */
#pragma once

#include "server/exchange.h"

/* Sends the request (taken) with its body, and answers the exchange. count 0: one run; else that many
 * branches. */
int run_talk(struct exchange *exchange, json_t *request, struct slice body, size_t count, bool as_events);
