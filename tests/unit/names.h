/* Names that lead out of a directory, or are none: for tests of who writes a file by a name from outside. */
#pragma once

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { BAD_NAMES = 12 };

struct bad_names {
    char too_long[2 * NAME_MAX], absolute[128];
    const char *items[BAD_NAMES];
};

/* The absolute one is a file of that directory. */
static inline void bad_names_list(struct bad_names *ret, const char *directory)
{
    memset(ret->too_long, 'x', sizeof ret->too_long);
    ret->too_long[sizeof ret->too_long - 1] = '\0';
    snprintf(ret->absolute, sizeof ret->absolute, "%s/x", directory);
    const char *const names[BAD_NAMES] = {
        "../x", "../../x", ret->absolute, "a/b", "a/../x",      "./x",
        "/",    "",        ".",           "..",  ret->too_long, ret->too_long + NAME_MAX - 2 /* 256 bytes */};
    memcpy(ret->items, names, sizeof names);
}
