#include "remote/base64.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

char *base64_encode(struct slice bytes)
{
    if (bytes.length > INT32_MAX / 2)
        return NULL;
    char *text = malloc((bytes.length + 2) / 3 * 4 + 1);
    if (text)
        EVP_EncodeBlock((unsigned char *)text, (const unsigned char *)bytes.data, (int)bytes.length);
    return text;
}

int base64_decode(const char *text, struct buffer *into)
{
    size_t length = strlen(text), padding = 0;
    if (length % 4 || length > INT32_MAX / 2)
        return -EINVAL;
    while (length && padding < 2 && text[length - 1 - padding] == '=')
        padding++;
    /* The library skips white space at both ends, and takes padding for zeros: both are looked at here. */
    for (size_t i = 0; i < length - padding; i++)
        if (text[i] == '=' || (unsigned char)text[i] <= ' ')
            return -EINVAL;
    unsigned char *bytes = malloc(length / 4 * 3 + 1);
    if (!bytes)
        return -ENOMEM;
    int made = length ? EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)length) : 0;
    int status = made < (int)padding ? -EINVAL : buffer_append(into, bytes, (size_t)made - padding);
    free(bytes);
    return status;
}
