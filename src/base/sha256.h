/* SHA-256, by OpenSSL's library. */
#pragma once

#include <stddef.h>

struct sha256;

struct sha256 *sha256_new(void);
void sha256_add(struct sha256 *hash, const void *data, size_t length);

/* Writes 64 hexadecimal digits and a NUL, and frees. */
void sha256_finish(struct sha256 *hash, char *ret_hex);
