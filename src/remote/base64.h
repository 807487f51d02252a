/* Bytes in JSON. */
#pragma once

#include "base/bytes.h"

/* To be freed; NULL: no memory, or more than 1 GB. */
char *base64_encode(struct slice bytes);

/* Appends. -EINVAL: it is not base64. */
int base64_decode(const char *text, struct buffer *into);
