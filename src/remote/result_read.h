/* A result from the JSON that a server gives, so that what is said about it is the same as without one. */
#pragma once

#include "spec/result.h"

#include <jansson.h>

/* -EPROTO: it is not one. Outputs are not taken over: they were shown, or are in the JSON. */
int result_read(const json_t *object, struct result *into);
