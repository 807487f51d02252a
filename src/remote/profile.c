#include "remote/profile.h"

#include "remote/remote.h"

#include "cli/report.h"

#include "base/bytes.h"
#include "base/text.h"

#include <stdio.h>
#include <unistd.h>

enum { CELL_WIDTH = 24 };

/* Whatever it is, as one word of a table. Letters of the data may be anything: report_text cleans them. */
static void append_cell(struct buffer *into, const json_t *value, int width)
{
    char number[64];
    const char *text = json_string_value(value);
    if (json_is_integer(value))
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(number, sizeof number, "%.6g", json_real_value(value));
    else
        snprintf(number, sizeof number, "%s",
                 json_is_true(value)    ? "true"
                 : json_is_false(value) ? "false"
                                        : "-");
    if (!text)
        text = number;
    int length = 0;
    for (; *text && (((unsigned char)*text & 0xC0) == 0x80 || length < CELL_WIDTH); text++) {
        length += ((unsigned char)*text & 0xC0) != 0x80;
        buffer_append(into, *text == '\n' || *text == '\r' || *text == '\t' ? " " : text, 1);
    }
    for (; length < width; length++)
        buffer_append(into, " ", 1);
    buffer_append(into, "  ", 2);
}

static void end_row(struct buffer *row)
{
    while (row->length && row->data[row->length - 1] == ' ')
        row->length--;
    buffer_append(row, "\n", 1);
}

static void append_columns(struct buffer *text, const json_t *profile)
{
    static const struct {
        const char *field;
        int width;
    } cells[] = {{"name", CELL_WIDTH}, {"type", 10}, {"nulls", 10}, {"min", CELL_WIDTH}, {"max", CELL_WIDTH}};
    size_t index;
    json_t *column;
    buffer_print(text, "\n%-24s  %-10s  %-10s  %-24s  %s\n", "COLUMN", "TYPE", "MISSING", "LEAST", "MOST");
    json_array_foreach(json_object_get(profile, "columns"), index, column)
    {
        for (size_t i = 0; i < sizeof cells / sizeof *cells; i++)
            append_cell(text, json_object_get(column, cells[i].field), cells[i].width);
        end_row(text);
    }
}

static void append_sample(struct buffer *text, const json_t *profile)
{
    size_t index, at;
    json_t *row, *cell;
    if (!json_array_size(json_object_get(profile, "sample")))
        return;
    buffer_append_text(text, "\n");
    json_array_foreach(json_object_get(profile, "columns"), index, row)
        append_cell(text, json_object_get(row, "name"), 12);
    end_row(text);
    json_array_foreach(json_object_get(profile, "sample"), index, row)
    {
        json_array_foreach(row, at, cell) append_cell(text, cell, 12);
        end_row(text);
    }
}

void profile_print(const json_t *profile)
{
    scope_buffer text = {0};
    char size[32];
    const json_t *rows = json_object_get(profile, "rows");
    buffer_print(&text, "%s, %s", remote_text(profile, "format"),
                 text_format_size(json_integer_value(json_object_get(profile, "size")), size, sizeof size));
    if (json_is_integer(rows))
        buffer_print(&text, ", %lld rows", (long long)json_integer_value(rows));
    buffer_print(&text, ", %zu columns\n", json_array_size(json_object_get(profile, "columns")));
    if (remote_text(profile, "note")[0])
        buffer_print(&text, "%s\n", remote_text(profile, "note"));
    append_columns(&text, profile);
    append_sample(&text, profile);
    report_text(STDOUT_FILENO, text.data, text.length);
}
