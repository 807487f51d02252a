#include "table.h"

#include <math.h>
#include <stdlib.h>

bool table_open(struct table *table, const char *data, size_t length)
{
    *table = (struct table){.format = "unknown", .end = data + length};
    table->columns = calloc(COLUMNS_MAX, sizeof *table->columns);
    table->sample = calloc(SAMPLE_MAX, sizeof *table->sample);
    return table->columns && table->sample;
}

void table_close(struct table *table)
{
    free(table->columns);
    free(table->sample);
}

static void column_restart(struct column *column)
{
    struct cell name = column->name;
    *column = (struct column){.name = name,
                              .least_integer = INT64_MAX,
                              .most_integer = INT64_MIN,
                              .least_number = INFINITY,
                              .most_number = -INFINITY,
                              .least_text = {.prefix = UINT64_MAX}};
}

struct column *table_add_column(struct table *table, const struct cell *name)
{
    if (table->column_count == COLUMNS_MAX) {
        table->has_more_columns = true;
        return NULL;
    }
    struct column *column = &table->columns[table->column_count++];
    column->name = *name;
    column_restart(column);
    return column;
}

void table_restart(struct table *table)
{
    for (size_t i = 0; i < table->column_count; i++)
        column_restart(&table->columns[i]);
    table->rows = table->ragged_rows = table->bad_rows = 0;
    table->sample_rows = 0;
    memset(table->sample, 0, SAMPLE_MAX * sizeof *table->sample);
}

enum cell_type column_type(const struct column *column)
{
    const uint64_t *counts = column->counts;
    uint64_t all = column_values(column);
    if (counts[CELL_INTEGER] == all)
        return all ? CELL_INTEGER : CELL_NULL;
    if (counts[CELL_INTEGER] + counts[CELL_NUMBER] == all)
        return CELL_NUMBER;
    if (counts[CELL_BOOLEAN] == all)
        return CELL_BOOLEAN;
    if (counts[CELL_DATE] == all)
        return CELL_DATE;
    if (counts[CELL_DATE] + counts[CELL_DATETIME] == all)
        return CELL_DATETIME;
    return CELL_TEXT;
}

/* A short one whose prefix is the same is the same: it has no more bytes to differ in, but for zeros. */
static void compare_with(struct extreme *extreme, const struct cell *cell, uint64_t prefix, int sign)
{
    bool is_first = !extreme->cell.data;
    if (!is_first && prefix != extreme->prefix && (prefix < extreme->prefix) != (sign < 0))
        return;
    if (!is_first && prefix == extreme->prefix) {
        bool is_same =
            cell->data == extreme->cell.data || (!cell->escape && !extreme->cell.escape &&
                                                 cell->length == extreme->cell.length && cell->length <= 8);
        if (is_same || cell_compare(cell, &extreme->cell) * sign <= 0)
            return;
    }
    extreme->cell = *cell;
    extreme->prefix = prefix;
}

void column_compare_slowly(struct column *column, const struct cell *cell, uint64_t prefix)
{
    compare_with(&column->least_text, cell, prefix, -1);
    compare_with(&column->most_text, cell, prefix, 1);
}
