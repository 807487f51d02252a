/* The conversation with the keeper about one run or several branches: held until its end for one answer, or
 * told to the client event by event. A client that goes away takes its run with it. */
#pragma once

#include "server/exchange.h"

struct run_wish {
    size_t branches; /* 0: one run; else that many side by side */
    bool as_events;
    bool with_files; /* of one run: which files of /data/output are new or changed */
};

/* Sends the request (taken) with its body, and answers the exchange. */
int run_talk(struct exchange *exchange, json_t *request, struct slice body, const struct run_wish *wish);
