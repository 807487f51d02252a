#include "spec/limits.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

const struct limit_row limit_rows[LIMIT_FIELDS] = {
#define X(field, unit, normal, compile, least, most, help) {#field, unit, normal, compile, least, most, help},
    LIMIT_ROWS(X)
#undef X
};

int limit_find(const char *name)
{
    for (int i = 0; i < LIMIT_FIELDS; i++)
        if (strcmp(limit_rows[i].name, name) == 0)
            return i;
    return -1;
}

const char *limit_unit_example(enum limit_unit unit)
{
    switch (unit) {
    case LIMIT_BYTES:
        return "a size such as 256M, 1.5G or 65536";
    case LIMIT_MS:
        return "a time such as 10s, 500ms or 2m";
    case LIMIT_MILLICPUS:
        return "a share of CPUs such as 0.5, 2 or 50%";
    case LIMIT_COUNT:
        break;
    }
    return "a whole number such as 64";
}

const char *limit_format(enum limit_field field, int64_t value, char *into, size_t size)
{
    switch (limit_rows[field].unit) {
    case LIMIT_BYTES:
        return text_format_size(value, into, size);
    case LIMIT_MS:
        return text_format_duration(value, into, size);
    case LIMIT_MILLICPUS:
        snprintf(into, size, "%.3g CPUs", (double)value / 1000);
        return into;
    case LIMIT_COUNT:
        break;
    }
    snprintf(into, size, "%lld", (long long)value);
    return into;
}

int limit_parse(enum limit_field field, const char *text, int64_t *ret, struct error *err)
{
    const struct limit_row *row = &limit_rows[field];
    static bool (*const parsers[])(const char *, int64_t *) = {
        [LIMIT_BYTES] = text_parse_size,
        [LIMIT_MS] = text_parse_duration,
        [LIMIT_MILLICPUS] = text_parse_cpus,
        [LIMIT_COUNT] = text_parse_count,
    };
    if (!parsers[row->unit](text, ret))
        return error_spec(err, row->name, "%s: '%.64s' is not a valid value; give %s", row->name, text,
                          limit_unit_example(row->unit));
    return 0;
}
