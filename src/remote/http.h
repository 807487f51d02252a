/* Requests to a server, over one connection that is kept between them.
 *
 * An answer that is not a success becomes an error with the server's sentence and hint: of the kind that the
 * same refusal has without a server, so that exit codes are the same. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"

#include <jansson.h>
#include <stdint.h>

struct http;

struct http_source {
    int fd;
    int64_t size_bytes; /* -1: until its end */
    struct slice first; /* sent before: what was read from it already */
};

struct http_call {
    const char *method;
    const char *path;                 /* with its query; encoded already */
    struct slice body;                /* data NULL: none */
    const struct http_source *source; /* the body instead */
    const char *headers[4];           /* more of them: "Accept: text/event-stream" */
    /* Takes a good answer as it comes; a negative errno breaks off. NULL: it is kept in `answer`. */
    int (*take)(void *data, struct slice bytes);
    void *data;
    /* A signal closes our side of the connection, by which the server knows; it may still answer. */
    bool ends_gently;
    const char *wanted_header; /* "Upload-Offset: "; its value, or "", comes in `header` */

    char header[64];
    int status;           /* of HTTP */
    struct buffer answer; /* the caller's to free */
};

/* cancel_fd: readable when a signal came (cli/ending_signals.h). */
int http_open(const char *url, const char *key, int cancel_fd, struct http **ret, struct error *err);
void http_close(struct http *http);
int http_cancel_fd(const struct http *http);

/* -ECANCELED: a signal came. */
int http_perform(struct http *http, struct http_call *call, struct error *err);

/* JSON there (takes; NULL: no body) and back (to be freed; ret NULL: not wanted). */
int http_ask(struct http *http, const char *method, const char *path, json_t *takes, json_t **ret,
             struct error *err);

/* Of a server's {"code", "message", "field", "hint"}; status 0: not known. */
int http_refusal(const json_t *error, int status, struct error *err);

/* As a part of a path or query. */
int http_append_encoded(struct buffer *into, const char *text);
