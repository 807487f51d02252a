/* From a host that a rule allows to addresses that may be connected to. Asked for once for each request, and
 * what is connected to is one of these: a name that means something else a moment later gains nothing. */
#pragma once

#include "gateway/request.h"

#include <stdbool.h>
#include <sys/socket.h>

enum { ADDRESSES_MAX = 16 };

struct addresses {
    struct sockaddr_storage items[ADDRESSES_MAX];
    size_t count;
};

/* Names are looked for in /etc/hosts and asked of the servers in /etc/resolv.conf, as they are: nothing is
 * put behind them, and no other program or library is asked. If nobody answers, that is given up within this
 * time, or within a second where it is less: the C library counts in seconds. */
int resolve_prepare(int64_t wall_ms);

/* 0, or a fetch_code with a sentence: one address that may not be is enough. */
int resolve_request(const struct request *request, const struct fetch_rule *rule, struct addresses *ret,
                    char *reason, size_t reason_size);

/* Is it one of them, with this port? */
bool addresses_have(const struct addresses *addresses, const struct sockaddr *address, int port);

/* As libcurl wants to be told: HOST:PORT:ADDRESS,ADDRESS … */
void addresses_write(const struct addresses *addresses, const struct request *request, char *into,
                     size_t size);
