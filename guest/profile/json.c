/* A reader that looks for where values begin and end. It is not strict: what a real parser would refuse may
 * pass, what it would take is read rightly. Nothing recurses: nesting is counted. */
#include "json.h"

#include <string.h>

enum { SLOTS = 4096 };

struct names {
    uint16_t slots[SLOTS]; /* index of the column + 1; 0: free */
};

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    return at;
}

/* Behind the string that begins here; NULL: it has no end. */
static const char *skip_string(const char *at, const char *end, bool *ret_is_escaped)
{
    for (at++; at < end && *at != '"'; at++)
        if (*at == '\\') {
            *ret_is_escaped = true;
            at++;
        }
    return at < end ? at + 1 : NULL;
}

static const char *skip_nested(const char *at, const char *end)
{
    size_t depth = 0;
    bool ignored;
    while (at < end) {
        char c = *at;
        if (c == '"') {
            at = skip_string(at, end, &ignored);
            if (!at)
                return NULL;
            continue;
        }
        at++;
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && --depth == 0)
            return at;
    }
    return NULL;
}

static const char *skip_plain(const char *at, const char *end)
{
    while (at < end && !memchr(",]} \n\r\t\"{[:", *at, 11))
        at++;
    return at;
}

/* ---- values ---- */

static bool is_word(const struct cell *cell, const char *word)
{
    return cell->length == strlen(word) && memcmp(cell->data, word, cell->length) == 0;
}

static enum cell_type classify_plain(const struct cell *cell, struct cell_value *value)
{
    if (is_word(cell, "null"))
        return CELL_NULL;
    if (is_word(cell, "true") || is_word(cell, "false"))
        return CELL_BOOLEAN;
    enum cell_type type = cell_classify(cell->data, cell->length, cell->data + cell->length, value);
    return type == CELL_INTEGER || type == CELL_NUMBER ? type : CELL_TEXT;
}

/* Behind the value that begins here, with what it is; NULL: none, or one without an end. */
static const char *read_value(const char *at, const char *end, struct cell *ret, enum cell_type *ret_type,
                              struct cell_value *ret_value)
{
    const char *start = at;
    bool is_escaped = false;
    *ret = (struct cell){.data = start};
    if (at == end)
        return NULL;
    if (*at == '"') {
        at = skip_string(at, end, &is_escaped);
        if (!at)
            return NULL;
        *ret =
            (struct cell){start + 1, (size_t)(at - start - 2), is_escaped ? ESCAPE_BACKSLASHES : ESCAPE_NONE};
        *ret_type = is_escaped ? CELL_TEXT : cell_classify_text(ret->data, ret->length);
        return at;
    }
    bool is_nested = *at == '{' || *at == '[';
    at = is_nested ? skip_nested(at, end) : skip_plain(at, end);
    if (!at || at == start)
        return NULL;
    ret->length = (size_t)(at - start);
    *ret_type = is_nested ? CELL_TEXT : classify_plain(ret, ret_value);
    return at;
}

/* ---- columns by name ---- */

static bool has_name(const struct column *column, const struct cell *name)
{
    return column->name.length == name->length && memcmp(column->name.data, name->data, name->length) == 0;
}

/* Most rows have the same names in the same order. */
static struct column *find_column(struct table *table, struct names *names, size_t guess,
                                  const struct cell *name)
{
    if (guess < table->column_count && has_name(&table->columns[guess], name))
        return &table->columns[guess];
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < name->length; i++)
        hash = (hash ^ (unsigned char)name->data[i]) * 16777619u;
    for (uint32_t slot = hash % SLOTS;; slot = (slot + 1) % SLOTS) {
        if (names->slots[slot]) {
            struct column *column = &table->columns[names->slots[slot] - 1];
            if (has_name(column, name))
                return column;
            continue;
        }
        struct column *column = table_add_column(table, name);
        if (column)
            names->slots[slot] = (uint16_t)table->column_count;
        return column;
    }
}

static void add_value(struct table *table, struct column *column, enum cell_type type,
                      const struct cell *cell, const struct cell_value *value)
{
    if (!column || column->last_row == table->rows + 1)
        return;
    column->last_row = table->rows + 1;
    column_add(column, type, cell, value, table->end);
    if (table->rows < SAMPLE_MAX && type != CELL_NULL)
        table->sample[table->rows][column - table->columns] = *cell;
}

/* ---- rows ---- */

/* Behind the object that begins here; NULL: it is none. */
static const char *read_object(struct table *table, struct names *names, const char *at, const char *end)
{
    struct cell name, cell;
    struct cell_value value;
    enum cell_type type;
    at = skip_space(at + 1, end);
    if (at < end && *at == '}')
        return at + 1;
    for (size_t index = 0;; index++) {
        if (at == end || *at != '"' || !(at = read_value(at, end, &name, &type, &value)))
            return NULL;
        at = skip_space(at, end);
        if (at == end || *at != ':' || !(at = read_value(skip_space(at + 1, end), end, &cell, &type, &value)))
            return NULL;
        add_value(table, find_column(table, names, index, &name), type, &cell, &value);
        at = skip_space(at, end);
        if (at == end || (*at != ',' && *at != '}'))
            return NULL;
        if (*at++ == '}')
            return at;
        at = skip_space(at, end);
    }
}

static const char *read_row(struct table *table, struct names *names, const char *at, const char *end)
{
    static const struct cell only_name = {"value", 5, ESCAPE_NONE};
    struct cell cell;
    struct cell_value value;
    enum cell_type type;
    if (at < end && *at == '{') {
        at = read_object(table, names, at, end);
    } else {
        at = read_value(at, end, &cell, &type, &value);
        if (at)
            add_value(table, find_column(table, names, 0, &only_name), type, &cell, &value);
    }
    table->rows++;
    table->bad_rows += !at;
    return at;
}

static void end_rows(struct table *table)
{
    table->has_rows = true;
    table->sample_rows = table->rows < SAMPLE_MAX ? table->rows : SAMPLE_MAX;
}

bool json_is_lines(const char *data, size_t length)
{
    const char *end = data + length, *at = skip_space(data, end);
    const char *newline = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    if (!newline || *at != '{')
        return false;
    at = skip_nested(at, newline);
    if (!at || skip_space(at, newline) != newline)
        return false;
    at = skip_space(newline, end);
    return at < end && *at == '{';
}

void json_read_lines(struct table *table, const char *data, size_t length)
{
    struct names names = {0};
    const char *end = data + length, *at = skip_space(data, end);
    table->format = "jsonl";
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *line_end = newline ? newline : end;
        const char *behind = read_row(table, &names, at, line_end);
        table->bad_rows += behind && skip_space(behind, line_end) != line_end;
        at = skip_space(line_end, end);
    }
    end_rows(table);
}

void json_read_document(struct table *table, const char *data, size_t length)
{
    struct names names = {0};
    const char *end = data + length, *at = skip_space(data, end);
    table->format = "json";
    if (at < end && *at == '[') {
        at = skip_space(at + 1, end);
        bool is_empty = at < end && *at == ']';
        while (!is_empty && at && at < end) {
            at = read_row(table, &names, at, end);
            at = at ? skip_space(at, end) : NULL;
            if (!at || at == end || *at != ',') {
                table->bad_rows += at && (at == end || *at != ']');
                break;
            }
            at = skip_space(at + 1, end);
        }
    } else if (at < end) {
        read_row(table, &names, at, end);
    }
    end_rows(table);
}
