/* What a file is, by its first bytes and its last: other formats than those that are read here, and the
 * encoding of texts. */
#pragma once

#include <stddef.h>

/* "parquet", "xlsx", "zip" …; NULL: none that is known. */
const char *kind_by_signature(const char *data, size_t length);

/* "utf-16le" or "utf-16be", with or without a mark; NULL: it is neither. */
const char *kind_utf16(const char *data, size_t length);

/* "utf-8" when the text is that, or ASCII, as far as it is looked at; else "latin-1": any bytes can be, and
 * most that are not UTF-8 are it or its cousin of Windows. */
const char *kind_encoding(const char *data, size_t length);
