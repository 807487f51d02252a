/* Our stdin, on its way to a server, which gets it whole: its end is waited for. */
#pragma once

#include "cli/run_options.h"
#include "remote/http.h"

struct given_stdin {
    struct buffer bytes; /* what was read; the caller's to free */
    bool has_more;       /* than fits into a request: the rest can still be read */
};

/* Reads what fits into a request, where the run gets our stdin at all. */
int given_stdin_begin(struct given_stdin *ret, const struct run_options *given, struct error *err);

/* Into the body of a run: as text or bytes, or as an upload, whose name is added to *temporary. */
int given_stdin_send(const struct given_stdin *is, struct http *http, json_t *body,
                     struct string_list *temporary, struct error *err);

/* For a body that knows no uploads: all of it, or an error. */
int given_stdin_add(json_t *body, const struct run_options *given, struct error *err);
