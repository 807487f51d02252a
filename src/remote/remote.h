/* What all commands against a server share. */
#pragma once

#include "remote/http.h"

/* The server that was named on the line, and the key; before the first request. The signals that end a
 * program are watched from here on. */
int remote_connect(struct http **ret, struct error *err);

/* Says what is wrong, and returns the exit status for it. */
int remote_fail(const struct error *err);

/* An answer on stdout as JSON: indented on a terminal. */
int remote_print_json(const json_t *answer);

const char *remote_text(const json_t *object, const char *name);

/* What it says of the time, as others say it: "2026-11-16 10:35:22" of the caller's zone. */
const char *remote_format_time(const char *text, char *into, size_t size);
