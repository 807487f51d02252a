/* JSON as text. jansson's own json_dumps may leave words out when memory runs short, and say nothing: it does
 * not look whether the name of a member could be written. These give all of it, or nothing. */
#pragma once

#include "base/bytes.h"

#include <jansson.h>

/* 0 or -ENOMEM, and then nothing was appended; also for what cannot be written at all, such as NULL. */
int json_append(struct buffer *into, const json_t *value, size_t flags);

/* To be freed; NULL without memory. */
char *json_text(const json_t *value, size_t flags);
