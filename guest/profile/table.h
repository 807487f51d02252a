/* What is known of a table: its columns, with all their values counted and compared, and its first rows. */
#pragma once

#include "cell.h"

#include <string.h>

enum { COLUMNS_MAX = 1000, SAMPLE_MAX = 20 };

struct extreme {
    struct cell cell;
    uint64_t prefix; /* the first eight bytes, as a number that is ordered as they are */
};

struct column {
    struct cell name;
    uint64_t counts[CELL_TYPES];
    int64_t least_integer, most_integer;
    double least_number, most_number;
    struct extreme least_text, most_text; /* of all that is no number */
    uint64_t last_row;                    /* of a JSON object: a name counts once */
};

struct table {
    const char *format;   /* csv, tsv, jsonl, json, those of kind.h, unknown */
    const char *encoding; /* of a text; NULL: it is none */
    char delimiter;       /* 0: has none */
    bool has_header;
    bool has_rows; /* they could be counted */
    uint64_t rows, ragged_rows, bad_rows;
    size_t column_count;
    bool has_more_columns;
    const char *end; /* of the file: words are read up to here */
    struct column *columns;
    struct cell (*sample)[COLUMNS_MAX];
    size_t sample_rows;
};

/* False: no memory. Columns and samples are all there at once: a guest's process that is killed in the middle
 * of a growth helps nobody. */
bool table_open(struct table *table, const char *data, size_t length);
void table_close(struct table *table);

/* NULL: there are too many. */
struct column *table_add_column(struct table *table, const struct cell *name);

/* Forgets all values, not the columns' names. */
void table_restart(struct table *table);

/* The type that all its values have, or text. */
enum cell_type column_type(const struct column *column);

static inline uint64_t column_values(const struct column *column)
{
    uint64_t sum = 0;
    for (int i = CELL_NULL + 1; i < CELL_TYPES; i++)
        sum += column->counts[i];
    return sum;
}

void column_compare_slowly(struct column *column, const struct cell *cell, uint64_t prefix);

static inline uint64_t cell_prefix(const char *data, size_t length, const char *end)
{
    uint64_t word = 0;
    if (length >= 8 || (size_t)(end - data) >= 8) {
        memcpy(&word, data, 8);
        word = __builtin_bswap64(word);
        return length >= 8 ? word : length ? word & ~UINT64_C(0) << (64 - 8 * length) : 0;
    }
    for (size_t i = 0; i < length; i++)
        word |= (uint64_t)(unsigned char)data[i] << (56 - 8 * i);
    return word;
}

static inline void column_compare_text(struct column *column, const struct cell *cell, const char *end)
{
    char head[CELL_MAX];
    uint64_t prefix;
    if (cell->escape) {
        size_t length = cell_head(cell, head);
        prefix = cell_prefix(head, length, head + sizeof head);
    } else {
        prefix = cell_prefix(cell->data, cell->length, end);
    }
    if (__builtin_expect(prefix <= column->least_text.prefix || prefix >= column->most_text.prefix, 0))
        column_compare_slowly(column, cell, prefix);
}

static inline void column_add(struct column *column, enum cell_type type, const struct cell *cell,
                              const struct cell_value *value, const char *end)
{
    column->counts[type]++;
    if (type == CELL_INTEGER) {
        if (value->integer < column->least_integer)
            column->least_integer = value->integer;
        if (value->integer > column->most_integer)
            column->most_integer = value->integer;
    } else if (type == CELL_NUMBER) {
        if (value->number < column->least_number)
            column->least_number = value->number;
        if (value->number > column->most_number)
            column->most_number = value->number;
    } else if (type != CELL_NULL) {
        column_compare_text(column, cell, end);
    }
}
