/* Names that nobody can guess: a prefix that says of what, and 22 letters and digits of 131 bits. */
#pragma once

#include <stdbool.h>

enum { IDENTIFIER_RANDOM = 22, IDENTIFIER_SIZE = 32 /* with prefix and NUL */ };

/* "sbx_" becomes "sbx_4fGh…". The prefix has at most 8 characters. */
void identifier_make(const char *prefix, char into[IDENTIFIER_SIZE]);

/* Could it be one with this prefix? Everything else need not be looked up. */
bool identifier_has_form(const char *text, const char *prefix);
