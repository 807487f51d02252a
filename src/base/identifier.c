#include "base/identifier.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
enum { LETTERS = sizeof letters - 1, FAIR = 256 / LETTERS * LETTERS };

int identifier_make(const char *prefix, char into[IDENTIFIER_SIZE])
{
    size_t at = strlen(prefix), end = at + IDENTIFIER_RANDOM;
    if (end >= IDENTIFIER_SIZE)
        return -EINVAL;
    memcpy(into, prefix, at);
    while (at < end) {
        unsigned char bytes[32];
        ssize_t got = getrandom(bytes, sizeof bytes, 0);
        if (got < 0 && errno != EINTR)
            return -errno;
        for (ssize_t i = 0; i < got && at < end; i++)
            if (bytes[i] < FAIR) /* what is above would make the first letters likelier */
                into[at++] = letters[bytes[i] % LETTERS];
    }
    into[end] = '\0';
    return 0;
}

bool identifier_has_form(const char *text, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 && strlen(text) == length + IDENTIFIER_RANDOM &&
           strspn(text + length, letters) == IDENTIFIER_RANDOM;
}
