/* Any bytes as an uploaded file: the answer is JSON, within its bounds, and adds up. */
#include "fuzz.h"

#include "../../guest/profile/profile.h"
#include "../../guest/profile/table.h"

#include <jansson.h>
#include <string.h>

static void check_column(const json_t *column, json_int_t rows)
{
    const json_t *nulls = json_object_get(column, "nulls");
    check(json_string_length(json_object_get(column, "name")) <= 3 * CELL_MAX, "names are cut");
    check(json_is_integer(nulls) && json_integer_value(nulls) >= 0 && json_integer_value(nulls) <= rows,
          "there are not more nulls than rows");
    const char *type = json_string_value(json_object_get(column, "type"));
    bool is_known = false;
    for (int i = 0; i < CELL_TYPES; i++)
        is_known |= type && strcmp(type, cell_type_names[i]) == 0;
    check(is_known, "a column has a type");
    check(!json_object_get(column, "min") == !json_object_get(column, "max"), "both ends, or none");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct output output = {0};
    check(profile_file((const char *)data, size, &output) == 0, "there is memory");
    check(output.length < (16 << 20), "the answer is bounded");
    json_error_t where;
    json_t *profile = json_loadb(output.data, output.length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    check(json_is_object(profile), "the answer is JSON");
    const json_t *columns = json_object_get(profile, "columns"), *sample = json_object_get(profile, "sample");
    json_int_t rows = json_integer_value(json_object_get(profile, "rows"));
    check(json_array_size(columns) <= COLUMNS_MAX && json_array_size(sample) <= SAMPLE_MAX,
          "columns and rows are bounded");
    check((json_int_t)json_array_size(sample) <= rows, "the sample is of the rows");
    size_t index;
    json_t *item;
    json_array_foreach(columns, index, item) check_column(item, rows);
    json_array_foreach(sample, index, item)
        check(json_array_size(item) == json_array_size(columns), "a row has all columns");
    json_decref(profile);
    free(output.data);
    return 0;
}
