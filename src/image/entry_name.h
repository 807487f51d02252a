/* Names that come from an archive: untrusted bytes, checked once here and used in their cleaned form only. */
#pragma once

#include "base/error.h"

#include <limits.h>
#include <stddef.h>

enum {
    ENTRY_DEPTH_MAX = 256,
    ENTRY_QUOTED_MAX = 240, /* a buffer of this size holds what entry_name_quote writes */
};

/* "./a//b/" becomes "a/b", and "./" becomes "", the top itself. Refused with an error that shows the name:
 * `..`, a leading "/", a part or a whole that is too long for the kernel, and nesting past ENTRY_DEPTH_MAX.
 */
int entry_name_clean(const char *name, char into[PATH_MAX], struct error *err);

/* For error texts, which end up on terminals and in logs: what is not printable ASCII comes as \xNN, a long
 * name is cut. Returns `into`. */
const char *entry_name_quote(const char *name, char into[ENTRY_QUOTED_MAX]);
