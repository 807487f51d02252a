/* One value of a table: bytes of the file, and what kind of value they are. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CELL_MAX = 200 }; /* bytes of a value that are shown */

enum cell_type {
    CELL_NULL,
    CELL_INTEGER,
    CELL_NUMBER,
    CELL_BOOLEAN,
    CELL_DATE,
    CELL_DATETIME,
    CELL_TEXT,
    CELL_TYPES,
};

extern const char *const cell_type_names[CELL_TYPES];

enum cell_escape {
    ESCAPE_NONE,
    ESCAPE_QUOTES, /* CSV: what follows an opening quote, with doubled quotes or more after the closing one */
    ESCAPE_BACKSLASHES, /* JSON: what is between the quotes */
};

struct cell {
    const char *data; /* NULL: there is none */
    size_t length;
    enum cell_escape escape;
};

struct cell_value {
    int64_t integer;
    double number;
};

/* What the bytes of an unescaped value are, spaces around it apart. Memory can be read up to `limit`, which
 * is not before their end. */
enum cell_type cell_classify(const char *data, size_t length, const char *limit, struct cell_value *ret);

/* A date or a time of ISO 8601, or text. */
enum cell_type cell_classify_text(const char *data, size_t length);

/* The first bytes of the value, unescaped; returns how many (CELL_MAX at most). */
size_t cell_head(const struct cell *cell, char *into);

/* By the bytes of their heads. */
int cell_compare(const struct cell *one, const struct cell *other);
