/* The words between who fetches (the program with Wasmtime in it, which may be a module's that has broken
 * out) and the gateway; and between the gateway and who started it.
 *
 * A request is a head and then method, address, header lines and body, of the lengths that it says. The
 * answer is a head and then a text, which is the header lines of what was answered, or a sentence on why
 * nothing was, and a body. One at a time. */
#pragma once

#include <stdint.h>

#define FETCH_MAGIC 0x66636c63u

enum {
    FETCH_METHOD_MAX = 16,
    FETCH_URL_MAX = 8192,
    FETCH_HEADERS_MAX = 32 << 10,
    FETCH_TEXT_MAX = 64 << 10, /* of an answer */
};

/* What stands in the place of a status; a module sees these numbers. */
enum fetch_code {
    FETCH_DENIED = -1,    /* by a rule */
    FETCH_FAILED = -2,    /* the host did not answer as it should */
    FETCH_LIMITED = -3,   /* too many, too large, too slow */
    FETCH_MALFORMED = -4, /* it is not a request */
};

struct fetch_request_head {
    uint32_t magic, method_length, url_length, headers_length;
    uint64_t body_length;
};

struct fetch_answer_head {
    uint32_t magic;
    int32_t status; /* of HTTP, or a fetch_code */
    uint32_t text_length, unused;
    uint64_t body_length;
};

/* Descriptors that the gateway is started with. */
enum {
    GATEWAY_REQUESTS = 3,
    GATEWAY_CONTROL,  /* a socket of packets to who started it: when that closes, it ends */
    GATEWAY_SETTINGS, /* a file of pairs: name, NUL, value, NUL */
    GATEWAY_CA,       /* a file of certificates, where the operator names one */
    GATEWAY_SETTINGS_MAX = 256 << 10,
};

#define GATEWAY_RULE "rule" /* a rule of spec/fetch.h: a list. All others are the names of its limits */

/* What it says on its control socket: first that it is ready, or why not; then, of every request, how it
 * went, before that is answered. */
enum { GATEWAY_READY = 'r', GATEWAY_UNFIT = 'u', GATEWAY_FETCHED = 'f' };

struct gateway_word {
    uint32_t kind;
    int32_t status; /* GATEWAY_FETCHED: as in the answer */
    char method[FETCH_METHOD_MAX + 1];
    char site[300]; /* scheme, host and port: nothing of the path, in which secrets may be */
    char text[512]; /* why not; a sentence */
};
