/* One request over the network, by libcurl, which is told everything and left nothing to find out: where to
 * connect, no proxy, no cookies, no passwords of files, no redirects, certificates always verified. */
#pragma once

#include "gateway/resolve.h"

struct transfer {
    int64_t response_max;
    int64_t wall_ms, left_ms; /* the limit of a request, and what is left of it: more than 0 */
    int control_fd;           /* when its other end is closed, the transfer ends */
};

struct response {
    int status; /* of HTTP */
    struct buffer headers, body;
};

void response_free(struct response *response);
#define scope_response __attribute__((cleanup(response_free))) struct response

/* Certificates in PEM format that servers' are verified by. Before the filter. */
int transfer_prepare(struct slice certificates);

/* FETCH_LIMITED, with the sentence on a request that took too long. */
int transfer_refuse_late(int64_t wall_ms, char *reason, size_t reason_size);

/* 0, or a fetch_code with a sentence. */
int transfer_perform(const struct transfer *terms, const struct request *request,
                     const struct addresses *addresses, struct response *ret, char *reason,
                     size_t reason_size);
