/* The routes as tables, one a family of endpoints; dispatch, OpenAPI checks and metrics come from them. */
#pragma once

#include "server/exchange.h"

#include <stddef.h>

enum route_flag {
    ROUTE_OPEN = 1 << 0,         /* answers without a key */
    ROUTE_STREAMS_BODY = 1 << 1, /* the body goes to `chunk` as it comes */
    ROUTE_NOT_COUNTED = 1 << 2,  /* health and the like: not in the request metrics, not held up by a drain */
};

enum { ROUTE_PARTS_MAX = 4, ROUTE_BODY_DEFAULT = 64 << 20 };

struct route {
    const char *method;  /* "GET" answers HEAD too */
    const char *pattern; /* "/v1/sandboxes/{id}/run"; a last {name...} takes all the rest */
    route_handler handler;
    unsigned flags;      /* of enum route_flag */
    const char *summary; /* one line, for people */
    size_t body_max;     /* 0: ROUTE_BODY_DEFAULT */
    /* Names of its query's parameters, with blanks between them; one with a dot at its end stands for all
     * that begin so, or with a bracket in its place. Pages for people and probes, whose paths are not of the
     * API, take any. */
    const char *query;
    /* ROUTE_STREAMS_BODY: called once with no bytes when the headers are there, then with the body's bytes.
     * Negative: refused, and the handler is called to answer. What is left in *state is freed by
     * `chunk_done`, which may be NULL, when the exchange ends. */
    int (*chunk)(struct exchange *exchange, void **state, struct slice bytes);
    void (*chunk_done)(void *state);
};

struct route_family {
    const struct route *routes;
    size_t count;
};

#define ROUTE_FAMILY(rows)                                                                                   \
    {                                                                                                        \
        .routes = rows, .count = sizeof(rows) / sizeof *(rows)                                               \
    }

/* All of them, with a NULL at the end: in route_table.c, so that tests can have tables of their own. */
extern const struct route_family *const route_families[];
extern const struct route_family routes_system, routes_run, routes_sandbox, routes_context, routes_fork,
    routes_exec, routes_box_files, routes_files, routes_web, routes_state;

/* Finds the route for a path as it came (no query), and decodes its parts, which the caller frees: up to
 * ROUTE_PARTS_MAX, NULL where there is none. NULL: no route; then *ret_allowed names the methods that the
 * path has, or is empty when there is no such path. */
const struct route *route_find(const char *method, const char *path, char **ret_parts, char *ret_allowed,
                               size_t allowed_size);

/* Calls for each route of all families. */
void route_each(void (*call)(void *data, const struct route *route), void *data);
