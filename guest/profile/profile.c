#include "profile.h"

#include "csv.h"
#include "json.h"
#include "kind.h"

#include <stdio.h>
#include <string.h>

enum { LOOK_AT = 4096, SAMPLE_BYTES = 1 << 20 };

/* Bytes that no text has: the file is something else. */
static bool is_text(const char *data, size_t length)
{
    size_t odd = 0, looked_at = length < LOOK_AT ? length : LOOK_AT;
    for (size_t i = 0; i < looked_at; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c == 0)
            return false;
        odd += c < 0x20 && c != '\n' && c != '\r' && c != '\t' && c != '\f';
    }
    return odd <= 8 || odd * 50 <= looked_at;
}

static void read_table(struct table *table, const char *data, size_t length)
{
    const char *kind = kind_by_signature(data, length);
    if (kind) {
        table->format = kind;
        return;
    }
    if ((table->encoding = kind_utf16(data, length)))
        return;
    if (length >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0) {
        data += 3;
        length -= 3;
    }
    if (!length || !is_text(data, length))
        return;
    table->encoding = kind_encoding(data, length);
    size_t space = 0;
    while (space < length && strchr(" \t\r\n", data[space]))
        space++;
    char first = space < length ? data[space] : '\0';
    if (first == '{' && json_is_lines(data, length))
        json_read_lines(table, data, length);
    else if (first == '{' || first == '[')
        json_read_document(table, data, length);
    else if (first)
        csv_read(table, data, length);
}

static void write_extremes(struct output *into, const struct column *column, enum cell_type type)
{
    const uint64_t *counts = column->counts;
    if (type == CELL_INTEGER) {
        output_print(into, ",\"min\":%lld,\"max\":%lld", (long long)column->least_integer,
                     (long long)column->most_integer);
    } else if (type == CELL_NUMBER) {
        double least = column->least_number, most = column->most_number;
        if (counts[CELL_INTEGER] && (double)column->least_integer < least)
            least = (double)column->least_integer;
        if (counts[CELL_INTEGER] && (double)column->most_integer > most)
            most = (double)column->most_integer;
        output_print(into, ",\"min\":");
        output_number(into, least);
        output_print(into, ",\"max\":");
        output_number(into, most);
    } else if (column->least_text.cell.data && !counts[CELL_INTEGER] && !counts[CELL_NUMBER] &&
               type != CELL_BOOLEAN) {
        output_print(into, ",\"min\":");
        output_cell(into, &column->least_text.cell);
        output_print(into, ",\"max\":");
        output_cell(into, &column->most_text.cell);
    }
}

static void write_column(struct output *into, const struct table *table, size_t index)
{
    const struct column *column = &table->columns[index];
    enum cell_type type = column_type(column);
    output_print(into, "%s{\"name\":", index ? "," : "");
    if (column->name.data && column->name.length)
        output_cell(into, &column->name);
    else
        output_print(into, "\"column_%zu\"", index + 1);
    output_print(into, ",\"type\":\"%s\",\"nulls\":%llu", cell_type_names[type],
                 (unsigned long long)(table->rows - column_values(column)));
    write_extremes(into, column, type);
    output_add(into, "}", 1);
}

/* Rows of very many columns may be megabytes each: as many as a person would look at. */
static void write_sample(struct output *into, const struct table *table)
{
    size_t start = into->length;
    for (size_t row = 0; row < table->sample_rows && into->length - start < SAMPLE_BYTES; row++) {
        output_print(into, "%s[", row ? "," : "");
        for (size_t i = 0; i < table->column_count; i++) {
            if (i)
                output_add(into, ",", 1);
            output_cell(into, &table->sample[row][i]);
        }
        output_add(into, "]", 1);
    }
}

/* With what can be done about it: other bytes than UTF-8 are U+FFFD in all that is told. */
static void write_encoding(struct output *into, const struct table *table)
{
    if (!table->encoding)
        return;
    output_print(into, ",\"encoding\":\"%s\"", table->encoding);
    if (strcmp(table->encoding, "latin-1") == 0)
        output_print(into, ",\"note\":\"not UTF-8, most likely Latin-1 or Windows-1252: read it with "
                           "encoding='cp1252'\"");
    else if (strcmp(table->encoding, "utf-8") != 0)
        output_print(into, ",\"note\":\"a text in UTF-16, which is not looked into: read it with "
                           "encoding='utf-16', or save it as UTF-8\"");
}

static void write_table(struct output *into, const struct table *table)
{
    output_print(into, "{\"format\":\"%s\"", table->format);
    write_encoding(into, table);
    if (table->delimiter) {
        char delimiter = table->delimiter;
        output_print(into, ",\"delimiter\":");
        output_string(into, &delimiter, 1);
        output_print(into, ",\"header\":%s", table->has_header ? "true" : "false");
    }
    if (table->has_rows)
        output_print(into, ",\"rows\":%llu", (unsigned long long)table->rows);
    else
        output_print(into, ",\"rows\":null");
    if (table->delimiter)
        output_print(into, ",\"ragged_rows\":%llu", (unsigned long long)table->ragged_rows);
    if (table->bad_rows)
        output_print(into, ",\"bad_rows\":%llu", (unsigned long long)table->bad_rows);
    if (table->has_more_columns)
        output_print(into, ",\"more_columns\":true");
    output_print(into, ",\"columns\":[");
    for (size_t i = 0; i < table->column_count; i++)
        write_column(into, table, i);
    output_print(into, "],\"sample\":[");
    write_sample(into, table);
    output_print(into, "]}\n");
}

int profile_file(const char *data, size_t length, struct output *into)
{
    struct table table;
    if (table_open(&table, data, length)) {
        read_table(&table, data, length);
        write_table(into, &table);
    } else {
        into->has_failed = true;
    }
    table_close(&table);
    return into->has_failed ? -1 : 0;
}
