/* The body of `POST /v1/run`, from what the line of `cloche run` says. */
#pragma once

#include "cli/run_options.h"

#include <jansson.h>

/* Reads the code's file; refuses what only a run without a server can have. To be freed. */
int run_body_make(struct run_options *given, json_t **ret, struct error *err);

/* Limits that were set, as a server reads them: {"memory": 268435456, "wall": "10000ms"}. To be freed. */
json_t *run_body_limits(const struct limits *limits, const bool *is_set);

/* Of NAME=VALUE pairs. */
json_t *run_body_environment(const struct string_list *pairs);
