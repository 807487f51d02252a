/* A request as it comes from a stranger, taken apart: bytes are checked, and nothing is mended. What is asked
 * of the network is made anew from the parts, so that nobody else reads the stranger's spelling. */
#pragma once

#include "base/bytes.h"
#include "gateway/talk.h"
#include "spec/fetch.h"

enum { REQUEST_HEADERS_MAX = 64 };

struct request {
    const char *method; /* a constant */
    bool has_body, wants_head_only;
    bool is_secure;
    char host[FETCH_HOST_SIZE];
    enum fetch_host_kind kind;
    int port;
    bool is_usual_port;
    struct string_list headers; /* "Name: value" */
    struct buffer target;       /* path and query */
    struct slice body;          /* not owned */
};

void request_free(struct request *request);
#define scope_request __attribute__((cleanup(request_free))) struct request

/* The words of it that have fixed bounds, to know before they are read. */
bool request_head_is_sound(const struct fetch_request_head *head);

/* 0, or a fetch_code with a sentence. */
int request_read(struct slice method, struct slice url, struct slice headers, struct slice body,
                 struct request *ret, char *reason, size_t reason_size);

/* Scheme, host and port, as they are shown; `into` is returned. */
const char *request_site(const struct request *request, char *into, size_t size);

/* The rule that allows it; NULL: none does, and a sentence says so. */
const struct fetch_rule *request_find_rule(const struct request *request, const struct fetch_rule *rules,
                                           size_t count, char *reason, size_t reason_size);
