/* The table of limits, and values as people give them. */
#include "harness.h"

#include "spec/limits.h"

static void rows_are_sound(void **state)
{
    (void)state;
    for (int i = 0; i < LIMIT_FIELDS; i++) {
        const struct limit_row *row = &limit_rows[i];
        assert_true(row->least >= 0 && row->least <= row->normal && row->normal <= row->most);
        assert_true(row->least <= row->compile && row->compile <= row->most);
        assert_true(strlen(row->help) > 10);
        assert_int_equal(limit_find(row->name), i); /* so no name is there twice */
        for (const char *at = row->name; *at; at++)
            assert_true((*at >= 'a' && *at <= 'z') || *at == '_');
    }
}

static void unknown_limits_are_not_found(void **state)
{
    (void)state;
    static const char *const names[] = {"", "memory ", "Memory", "memory.max", "mem", "open-files"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(limit_find(names[i]), -1);
}

static void values_are_read_in_the_unit_of_their_limit(void **state)
{
    (void)state;
    static const struct {
        enum limit_field field;
        const char *text;
        int64_t value;
    } rows[] = {{LIMIT_memory, "256M", 256 << 20}, {LIMIT_wall, "10s", 10000},   {LIMIT_cpu, "1.5", 1500},
                {LIMIT_cpus, "50%", 500},          {LIMIT_pids, "64", 64},       {LIMIT_disk, "1G", 1 << 30},
                {LIMIT_inodes, "20000", 20000},    {LIMIT_open_files, "16", 16}, {LIMIT_output_limit, "0", 0},
                {LIMIT_collect, "1K", 1024},       {LIMIT_collect_files, "5", 5}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t value = -1;
        struct error err = {0};
        assert_int_equal(limit_parse(rows[i].field, rows[i].text, &value, &err), 0);
        assert_int_equal(value, rows[i].value);
    }
}

static void wrong_value_is_named_with_what_is_allowed(void **state)
{
    (void)state;
    for (int i = 0; i < LIMIT_FIELDS; i++) {
        static const char *const wrong[] = {"", "lots", "-1", "1x", "1 ", "\xff"};
        for (size_t j = 0; j < sizeof wrong / sizeof *wrong; j++) {
            int64_t value = 0;
            struct error err = {0};
            char quoted[32];
            snprintf(quoted, sizeof quoted, "'%s'", wrong[j]);
            assert_int_equal(limit_parse((enum limit_field)i, wrong[j], &value, &err), -EINVAL);
            assert_error(&err, ERROR_SPEC, limit_rows[i].name, limit_rows[i].name, quoted, "such as");
            assert_non_null(strstr(err.text, limit_unit_example(limit_rows[i].unit)));
        }
    }
}

static void examples_are_values(void **state)
{
    (void)state;
    struct error err;
    int64_t value;
    /* Those that the error texts give. */
    assert_int_equal(limit_parse(LIMIT_memory, "256M", &value, &err), 0);
    assert_int_equal(limit_parse(LIMIT_memory, "1.5G", &value, &err), 0);
    assert_int_equal(limit_parse(LIMIT_memory, "65536", &value, &err), 0);
    assert_int_equal(limit_parse(LIMIT_wall, "500ms", &value, &err), 0);
    assert_int_equal(limit_parse(LIMIT_wall, "2m", &value, &err), 0);
    assert_int_equal(limit_parse(LIMIT_cpus, "0.5", &value, &err), 0);
}

static void long_value_does_not_drown_the_sentence(void **state)
{
    (void)state;
    static char longer[100000];
    memset(longer, 'z', sizeof longer - 1);
    int64_t value;
    struct error err = {0};
    assert_int_equal(limit_parse(LIMIT_memory, longer, &value, &err), -EINVAL);
    assert_error(&err, ERROR_SPEC, "memory", "is not a valid value; give a size");
}

static void values_are_shown_with_their_units(void **state)
{
    (void)state;
    char text[32];
    assert_string_equal(limit_format(LIMIT_memory, 512 << 20, text, sizeof text), "512 MiB");
    assert_string_equal(limit_format(LIMIT_wall, 30000, text, sizeof text), "30 s");
    assert_string_equal(limit_format(LIMIT_cpus, 500, text, sizeof text), "0.5 CPUs");
    assert_string_equal(limit_format(LIMIT_pids, 64, text, sizeof text), "64");
    for (int i = 0; i < LIMIT_FIELDS; i++) { /* the largest that can be asked for fits as well */
        limit_format((enum limit_field)i, INT64_MAX, text, sizeof text);
        assert_true(strlen(text) > 0 && strlen(text) < sizeof text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_sound),
        cmocka_unit_test(unknown_limits_are_not_found),
        cmocka_unit_test(values_are_read_in_the_unit_of_their_limit),
        cmocka_unit_test(wrong_value_is_named_with_what_is_allowed),
        cmocka_unit_test(examples_are_values),
        cmocka_unit_test(long_value_does_not_drown_the_sentence),
        cmocka_unit_test(values_are_shown_with_their_units),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
