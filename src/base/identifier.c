#include "base/identifier.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
enum { LETTERS = sizeof letters - 1, FAIR = 256 / LETTERS * LETTERS };

void identifier_make(const char *prefix, char into[IDENTIFIER_SIZE])
{
    size_t at = strnlen(prefix, IDENTIFIER_SIZE - IDENTIFIER_RANDOM - 1), end = at + IDENTIFIER_RANDOM;
    memcpy(into, prefix, at);
    while (at < end) {
        unsigned char bytes[32];
        if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
            abort(); /* cannot happen for so few; a name that can be guessed must never be made */
        for (size_t i = 0; i < sizeof bytes && at < end; i++)
            if (bytes[i] < FAIR) /* what is above would make the first letters likelier */
                into[at++] = letters[bytes[i] % LETTERS];
    }
    into[end] = '\0';
}

bool identifier_has_form(const char *text, const char *prefix)
{
    size_t length = strlen(prefix);
    return strncmp(text, prefix, length) == 0 && strlen(text) == length + IDENTIFIER_RANDOM &&
           strspn(text + length, letters) == IDENTIFIER_RANDOM;
}
