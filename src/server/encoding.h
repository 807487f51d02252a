/* Base64. */
#pragma once

#include "base/bytes.h"

/* To be freed; NULL without memory. */
char *encoding_to_base64(struct slice bytes);

/* Appends what the text stands for. -EINVAL: it is not base64. */
int encoding_from_base64(struct slice text, struct buffer *into);
