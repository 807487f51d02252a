/* Base64, and ids that nobody can guess. */
#pragma once

#include "base/bytes.h"

/* To be freed; NULL without memory. */
char *encoding_to_base64(struct slice bytes);

/* Appends what the text stands for. -EINVAL: it is not base64. */
int encoding_from_base64(struct slice text, struct buffer *into);

/* Prefix + 22 characters of base62 from the kernel's randomness (131 bits): "run_…". */
enum { IDENTIFIER_SIZE = 32 };
void encoding_new_identifier(const char *prefix, char into[IDENTIFIER_SIZE]);

/* Has it this form? What has another cannot exist, and need not be looked for. */
bool encoding_is_identifier(const char *prefix, const char *text);
