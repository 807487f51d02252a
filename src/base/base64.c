#include "base/base64.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

char *base64_encode(struct slice bytes)
{
    if (bytes.length > INT32_MAX / 2)
        return NULL;
    char *text = malloc((bytes.length + 2) / 3 * 4 + 1);
    if (text)
        EVP_EncodeBlock((unsigned char *)text, (const unsigned char *)bytes.data, (int)bytes.length);
    return text;
}

static bool is_digit64(char c)
{
    char letter = (char)(c | 0x20);
    return (letter >= 'a' && letter <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/';
}

int base64_decode(struct slice text, struct buffer *into)
{
    if (text.length % 4 || text.length > INT32_MAX / 2)
        return -EINVAL;
    if (!text.length)
        return 0;
    /* The library skips white space at both ends and dashes at the last, and takes padding for zeros: all
     * that is looked at here. */
    size_t padding = 0;
    while (padding < 2 && text.data[text.length - 1 - padding] == '=')
        padding++;
    for (size_t i = 0; i < text.length - padding; i++)
        if (!is_digit64(text.data[i]))
            return -EINVAL;
    unsigned char *bytes = malloc(text.length / 4 * 3 + 1);
    if (!bytes)
        return -ENOMEM;
    int length = EVP_DecodeBlock(bytes, (const unsigned char *)text.data, (int)text.length);
    int status = length < 0 ? -EINVAL : buffer_append(into, bytes, (size_t)length - padding);
    free(bytes);
    return status;
}
