/* Base64, for bytes in JSON. */
#pragma once

#include "base/bytes.h"

/* To be freed; NULL: no memory, or more than 1 GB. */
char *base64_encode(struct slice bytes);

/* Appends what the text stands for. -EINVAL: it is not base64. */
int base64_decode(struct slice text, struct buffer *into);
