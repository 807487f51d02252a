/* `cloche sandbox`: what its line says, and the orders there are. */
#pragma once

#include "remote/http.h"
#include "spec/spec.h"

struct sandbox_options {
    struct http *http;
    struct spec *spec;                        /* of the box; limits of a run */
    const char *order;                        /* create, list … */
    struct string_list words;                 /* after the order: ids, a file, a time */
    struct string_list command;               /* after -- */
    struct string_list metadata, environment; /* NAME=VALUE */
    const char *ttl, *idle, *runs, *preset, *code, *context, *cwd, *state, *save_path;
    bool json, quiet;
    int exit_status; /* of what ran there */
};

/* "/v1/sandboxes/ID" and what follows it; false: the id cannot be one. To be freed by the caller. */
int sandbox_path(const char *id, const char *rest, struct buffer *ret, struct error *err);

int sandbox_run(struct sandbox_options *given, struct error *err);
int sandbox_exec(struct sandbox_options *given, struct error *err);

/* `context` and `checkpoint`: create, list, delete. */
int sandbox_parts(struct sandbox_options *given, struct error *err);
int sandbox_rollback(struct sandbox_options *given, struct error *err);

/* Sends the order, shows events as they come or the answer as JSON. Takes the body. */
int sandbox_talk(struct sandbox_options *given, const char *path, json_t *takes, struct error *err);
