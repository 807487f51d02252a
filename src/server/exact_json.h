/* JSON whose numbers have as many digits as tell them from their neighbours, and no more: 0.1, and not
 * 0.10000000000000001, which is the same number. The library has one precision for all. */
#pragma once

#include "base/bytes.h"

#include <jansson.h>

/* Appends the value, in one line. -ENOMEM. */
int exact_json_append(struct buffer *into, const json_t *value);
