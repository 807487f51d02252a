/* The runners that are built in, and the rows that start them. */
#include "harness.h"

#include "runtime/language.h"
#include "runtime/runner.h"

static void runners_are_what_their_interpreters_execute(void **state)
{
    (void)state;
    static const struct {
        const char *language, *begin;
    } known[] = {{"python", "PK\x03\x04"},
                 {"javascript", "\"use strict\";"},
                 {"bash", "\x7f"
                          "ELF"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const struct runner *runner = runner_find(known[i].language);
        assert_non_null(runner);
        assert_string_equal(runner->language, known[i].language);
        assert_true(runner->code.length > 1000);
        assert_memory_equal(runner->code.data, known[i].begin, strlen(known[i].begin));
    }
}

static void other_languages_have_no_runner(void **state)
{
    (void)state;
    static const char *const others[] = {"go", "c", "", "Python", "typescript"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_null(runner_find(others[i]));
    scope_buffer names = {0};
    assert_int_equal(runner_names(&names), 0);
    assert_string_equal(names.data, "python, javascript, bash");
}

static void every_runner_has_a_row_that_starts_it(void **state)
{
    (void)state;
    struct language_table table;
    struct error err = {0};
    const struct string_list none = {0};
    assert_int_equal(language_table_load(&none, &table, &err), 0);
    static const char *const with_own_start[] = {"javascript", "bash"};
    for (size_t i = 0; i < sizeof with_own_start / sizeof *with_own_start; i++) {
        size_t found = 0;
        for (size_t j = 0; j < table.count; j++)
            if (strcmp(table.rows[j].name, with_own_start[i]) == 0 && !table.rows[j].is_wasm) {
                assert_true(table.rows[j].context.run.count > 1);
                assert_non_null(table.rows[j].context_file);
                found++;
            }
        assert_int_equal(found, 1);
    }
    language_table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runners_are_what_their_interpreters_execute),
        cmocka_unit_test(other_languages_have_no_runner),
        cmocka_unit_test(every_runner_has_a_row_that_starts_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
