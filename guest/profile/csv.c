/* Theory of operation. Cells are found one after the other with 16 bytes at a time, and looked at where they
 * lie: nothing is copied but the few values whose quotes are doubled. Rows end with \n, \r or both; a quote
 * means something only as the first byte of a cell; empty lines are no rows. The delimiter is the one that
 * makes the first rows most alike, and the first row is a header when it is of another kind than those below
 * it. */
#include "csv.h"

#include <emmintrin.h>
#include <string.h>

enum { SNIFF_BYTES = 256 << 10, SNIFF_ROWS = 100 };

struct reader {
    const char *at, *end;
    char delimiter;
    __m128i delimiters, newlines, returns;
};

static void reader_start(struct reader *reader, const char *data, const char *end, char delimiter)
{
    *reader = (struct reader){.at = data,
                              .end = end,
                              .delimiter = delimiter,
                              .delimiters = _mm_set1_epi8(delimiter),
                              .newlines = _mm_set1_epi8('\n'),
                              .returns = _mm_set1_epi8('\r')};
}

/* The end of a cell without quotes. */
static inline const char *find_end(const struct reader *reader, const char *at)
{
    for (; reader->end - at >= 16; at += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)at);
        __m128i found = _mm_or_si128(
            _mm_cmpeq_epi8(bytes, reader->delimiters),
            _mm_or_si128(_mm_cmpeq_epi8(bytes, reader->newlines), _mm_cmpeq_epi8(bytes, reader->returns)));
        unsigned mask = (unsigned)_mm_movemask_epi8(found);
        if (mask)
            return at + __builtin_ctz(mask);
    }
    while (at < reader->end && *at != reader->delimiter && *at != '\n' && *at != '\r')
        at++;
    return at;
}

static const char *find_quote(const char *at, const char *end)
{
    const __m128i quotes = _mm_set1_epi8('"');
    for (; end - at >= 16; at += 16) {
        unsigned mask =
            (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)at), quotes));
        if (mask)
            return at + __builtin_ctz(mask);
    }
    while (at < end && *at != '"')
        at++;
    return at;
}

static bool ends_cell(const struct reader *reader, const char *at)
{
    return at >= reader->end || *at == reader->delimiter || *at == '\n' || *at == '\r';
}

static void read_quoted(struct reader *reader, struct cell *ret)
{
    const char *start = reader->at + 1, *at = start;
    for (;;) {
        at = find_quote(at, reader->end);
        if (at + 1 >= reader->end || at[1] != '"')
            break;
        ret->escape = ESCAPE_QUOTES;
        at += 2;
    }
    ret->data = start;
    const char *closing = at;
    at += at < reader->end;
    if (!ends_cell(reader, at)) { /* more after the closing quote belongs to the value */
        ret->escape = ESCAPE_QUOTES;
        at = find_end(reader, at);
    }
    ret->length = (size_t)((ret->escape ? at : closing) - start);
    reader->at = at;
}

static inline void read_cell(struct reader *reader, struct cell *ret)
{
    ret->escape = ESCAPE_NONE;
    if (reader->at < reader->end && *reader->at == '"') {
        read_quoted(reader, ret);
        return;
    }
    ret->data = reader->at;
    reader->at = find_end(reader, reader->at);
    ret->length = (size_t)(reader->at - ret->data);
}

/* Behind a cell: true when another one of the same row follows. */
static inline bool next_in_row(struct reader *reader)
{
    if (reader->at >= reader->end)
        return false;
    char c = *reader->at++;
    if (c == reader->delimiter)
        return true;
    if (c == '\r' && reader->at < reader->end && *reader->at == '\n')
        reader->at++;
    return false;
}

/* To the next line that is not empty; false at the end. */
static inline bool next_row(struct reader *reader)
{
    while (reader->at < reader->end && (*reader->at == '\n' || *reader->at == '\r'))
        reader->at++;
    return reader->at < reader->end;
}

/* ---- values ---- */

static inline enum cell_type classify(const struct column *column, const struct cell *cell, const char *limit,
                                      struct cell_value *value)
{
    if (cell->escape) {
        char head[CELL_MAX];
        size_t length = cell_head(cell, head);
        return length < CELL_MAX ? cell_classify(head, length, head + sizeof head, value) : CELL_TEXT;
    }
    /* A column of text stays one: only what may be a word for nothing must be looked at. */
    if (column->counts[CELL_TEXT] && cell->length > 5)
        return cell->data[0] == ' ' || cell->data[cell->length - 1] == ' '
                   ? cell_classify(cell->data, cell->length, limit, value)
                   : CELL_TEXT;
    return cell_classify(cell->data, cell->length, limit, value);
}

static const struct cell no_name = {.data = NULL};

static inline void add_cell(struct table *table, size_t index, const struct cell *cell)
{
    if (index >= table->column_count && !table_add_column(table, &no_name))
        return;
    struct column *column = &table->columns[index];
    struct cell_value value;
    enum cell_type type = classify(column, cell, table->end, &value);
    column_add(column, type, cell, &value, table->end);
    if (table->rows < SAMPLE_MAX)
        table->sample[table->rows][index] = *cell;
}

static void read_rows(struct table *table, struct reader *reader, uint64_t rows_max)
{
    while (table->rows < rows_max && next_row(reader)) {
        size_t index = 0, expected = table->column_count;
        struct cell cell;
        do {
            read_cell(reader, &cell);
            add_cell(table, index++, &cell);
        } while (next_in_row(reader));
        table->ragged_rows += index != expected && expected > 0;
        table->rows++;
    }
    table->sample_rows = table->rows < SAMPLE_MAX ? table->rows : SAMPLE_MAX;
}

/* ---- what the first rows tell ---- */

struct shape {
    size_t cells; /* of most rows */
    size_t alike, rows;
};

static struct shape shape_of(const char *data, const char *end, char delimiter)
{
    struct reader reader;
    struct cell cell;
    size_t counts[SNIFF_ROWS], rows = 0;
    const char *limit = end - data > SNIFF_BYTES ? data + SNIFF_BYTES : end;
    reader_start(&reader, data, limit, delimiter);
    while (rows < SNIFF_ROWS && next_row(&reader)) {
        size_t cells = 0;
        do {
            read_cell(&reader, &cell);
            cells++;
        } while (next_in_row(&reader));
        if (reader.at >= limit && limit < end && rows)
            break; /* cut by us */
        counts[rows++] = cells;
    }
    struct shape shape = {.rows = rows};
    for (size_t i = 0; i < rows; i++) {
        size_t alike = 0;
        for (size_t j = 0; j < rows; j++)
            alike += counts[j] == counts[i];
        if (alike > shape.alike || (alike == shape.alike && counts[i] > shape.cells))
            shape = (struct shape){counts[i], alike, rows};
    }
    return shape;
}

static char choose_delimiter(const char *data, const char *end)
{
    static const char candidates[] = ",\t;|";
    char best = 0;
    struct shape most = {0};
    for (const char *candidate = candidates; *candidate; candidate++) {
        struct shape shape = shape_of(data, end, *candidate);
        if (shape.cells < 2 || shape.alike * 2 < shape.rows)
            continue;
        /* a/b > c/d, in whole numbers */
        size_t ours = shape.alike * (best ? most.rows : 1), theirs = most.alike * shape.rows;
        if (!best || ours > theirs || (ours == theirs && shape.cells > most.cells)) {
            best = *candidate;
            most = shape;
        }
    }
    return best ? best : ',';
}

static bool is_same_name(const struct cell *one, const struct cell *other)
{
    return cell_compare(one, other) == 0;
}

/* The first row stands in the sample, the others in the columns. */
static bool is_header(const struct table *first, const struct table *below)
{
    size_t unlike = 0, values = 0;
    for (size_t i = 0; i < first->column_count; i++) {
        const struct cell *name = &first->sample[0][i];
        enum cell_type type = column_type(&first->columns[i]);
        enum cell_type type_below = i < below->column_count ? column_type(&below->columns[i]) : CELL_NULL;
        if (type == CELL_TEXT)
            unlike += type_below != CELL_TEXT && type_below != CELL_NULL;
        else
            values += type != CELL_NULL || name->length > 0;
        for (size_t j = 0; j < i && i < 64; j++) /* names are each other's unlike */
            if (name->length && is_same_name(name, &first->sample[0][j]) && !unlike)
                return false;
    }
    return unlike > 0 || values == 0;
}

/* Reads the first row alone, and those below it alone. */
static bool first_row_is_header(struct table *table, const char *data, const char *end)
{
    struct table below;
    struct reader reader;
    reader_start(&reader, data, end, table->delimiter);
    read_rows(table, &reader, 1);
    bool is_one = false;
    if (table_open(&below, data, (size_t)(end - data))) {
        read_rows(&below, &reader, SNIFF_ROWS);
        is_one = table->rows > 0 && is_header(table, &below);
    }
    table_close(&below);
    return is_one;
}

void csv_read(struct table *table, const char *data, size_t length)
{
    const char *end = data + length;
    struct reader reader;
    struct cell cell;
    table->delimiter = choose_delimiter(data, end);
    table->format = table->delimiter == '\t' ? "tsv" : "csv";
    table->has_rows = true;
    table->has_header = first_row_is_header(table, data, end);
    for (size_t i = 0; i < table->column_count; i++)
        table->columns[i].name = table->has_header ? table->sample[0][i] : no_name;
    table_restart(table);
    reader_start(&reader, data, end, table->delimiter);
    if (table->has_header && next_row(&reader))
        do
            read_cell(&reader, &cell);
        while (next_in_row(&reader));
    read_rows(table, &reader, UINT64_MAX);
}
