/* A spec filled field by field. */
#include "harness.h"

#include "spec/spec.h"

static int spec_setup(void **state)
{
    *state = spec_new();
    return *state ? 0 : -1;
}

static int spec_teardown(void **state)
{
    spec_free(*state);
    return 0;
}

static void set(struct spec *spec, const char *field, const char *value)
{
    struct error err = {0};
    if (spec_set(spec, field, value, &err) < 0)
        fail_msg("%s = %s is refused: %s", field, value, err.text);
}

static void set_refused(struct spec *spec, const char *field, const char *value, const char *subject)
{
    struct error err = {0};
    if (spec_set(spec, field, value, &err) == 0)
        fail_msg("%s = %s is taken", field, value);
    assert_error(&err, ERROR_SPEC, subject, subject);
}

static void new_spec_asks_for_nothing(void **state)
{
    struct spec *spec = *state;
    assert_false(spec->has_code || spec->has_isolation);
    assert_int_equal(spec->stdin_kind, STDIN_NONE);
    assert_int_equal(spec->stdin_fd, -1);
    assert_int_equal(spec->grant_count + spec->command.count + spec->environment.count, 0);
    spec_free(NULL);
}

static void texts_are_set(void **state)
{
    struct spec *spec = *state;
    set(spec, "language", "python");
    set(spec, "language", "go"); /* the last one stands, as options after a file do */
    set(spec, "image", "data");
    set(spec, "output", "out");
    set(spec, "cwd", "/tmp");
    set(spec, "code", "print(1)\n");
    assert_string_equal(spec->language, "go");
    assert_string_equal(spec->image, "data");
    assert_string_equal(spec->output_directory, "out");
    assert_string_equal(spec->working_directory, "/tmp");
    assert_true(spec->has_code);
    assert_string_equal(spec->code.data, "print(1)\n");
}

static void empty_code_is_code(void **state)
{
    struct spec *spec = *state;
    set(spec, "code", "");
    assert_true(spec->has_code);
    assert_int_equal(spec->code.length, 0);
}

static void lists_are_added_to(void **state)
{
    struct spec *spec = *state;
    static const char *const fields[] = {"command", "arg", "env"};
    const struct string_list *const lists[] = {&spec->command, &spec->arguments, &spec->environment};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        set(spec, fields[i], "A=1");
        set(spec, fields[i], "B=two words=");
        assert_int_equal(lists[i]->count, 2);
        assert_string_equal(lists[i]->items[1], "B=two words=");
    }
    set(spec, "arg", "");
    assert_string_equal(spec->arguments.items[2], "");
}

static void lists_have_an_end(void **state)
{
    struct spec *spec = *state;
    for (int i = 0; i < SPEC_ARGUMENTS_MAX; i++)
        set(spec, "arg", "x");
    set_refused(spec, "arg", "x", "arg");
    for (int i = 0; i < SPEC_GRANTS_MAX; i++)
        set(spec, i % 2 ? "read" : "input", "/tmp");
    set_refused(spec, "write", "/tmp", "write");
    set_refused(spec, "input", "/tmp", "input");
}

static void code_and_file_are_given_once(void **state)
{
    struct spec *spec = *state;
    set(spec, "code", "1");
    set_refused(spec, "code", "2", "code");
    set(spec, "file", "a.py");
    set_refused(spec, "file", "b.py", "file");
    assert_string_equal(spec->code.data, "1");
    assert_string_equal(spec->code_file, "a.py");
}

static void stdin_is_bytes(void **state)
{
    struct spec *spec = *state;
    set(spec, "stdin", "one line\n");
    assert_int_equal(spec->stdin_kind, STDIN_BYTES);
    assert_string_equal(spec->stdin_bytes.data, "one line\n");
}

static void engine_is_one_of_the_table(void **state)
{
    struct spec *spec = *state;
    set_refused(spec, "isolation", "chroot", "isolation");
    assert_false(spec->has_isolation);
    set(spec, "isolation", "process");
    assert_true(spec->has_isolation);
    assert_int_equal(spec->isolation, ISOLATION_PROCESS);
}

static void working_directory_is_absolute(void **state)
{
    struct spec *spec = *state;
    set_refused(spec, "cwd", "tmp", "cwd");
    set_refused(spec, "cwd", "", "cwd");
    assert_null(spec->working_directory);
}

static void variables_have_names(void **state)
{
    struct spec *spec = *state;
    static const char *const wrong[] = {"", "=", "=x", "A", "1A=x", "A-B=x", "A B=x", "A\n=x", " A=x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        set_refused(spec, "env", wrong[i], "env");
    set(spec, "env", "EMPTY=");
    assert_int_equal(spec->environment.count, 1);
}

static void inputs_can_be_renamed(void **state)
{
    struct spec *spec = *state;
    static const struct {
        const char *given, *path, *name;
    } rows[] = {
        {"sales.csv", "sales.csv", NULL},
        {"sales-2026.csv:sales.csv", "sales-2026.csv", "sales.csv"},
        {"/a/b:c", "/a/b", "c"},
        {"/a:b/c", "/a:b/c", NULL}, /* a colon of the path's own */
        {"/a:b/c:d", "/a:b/c", "d"},
        {"a:", "a:", NULL},
        {":a", ":a", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        set(spec, "input", rows[i].given);
        const struct grant *grant = &spec->grants[spec->grant_count - 1];
        assert_int_equal(grant->kind, GRANT_INPUT);
        assert_string_equal(grant->host_path, rows[i].path);
        if (rows[i].name)
            assert_string_equal(grant->name, rows[i].name);
        else
            assert_null(grant->name);
    }
    set(spec, "read", "/a:b");
    assert_string_equal(spec->grants[spec->grant_count - 1].host_path, "/a:b");
    assert_int_equal(spec->grants[spec->grant_count - 1].kind, GRANT_READ);
    set(spec, "write", "/w");
    assert_int_equal(spec->grants[spec->grant_count - 1].kind, GRANT_WRITE);
}

static void empty_paths_are_refused(void **state)
{
    static const char *const fields[] = {"input", "read", "write"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        set_refused(*state, fields[i], "", fields[i]);
}

static void only_what_can_be_done_without_is_accepted(void **state)
{
    struct spec *spec = *state;
    for (int i = 0; i < SPEC_ACCEPTABLE; i++) {
        assert_false(spec_accepts(spec, spec_acceptable[i]));
        set(spec, "accept", spec_acceptable[i]);
        assert_true(spec_accepts(spec, spec_acceptable[i]));
    }
    static const char *const never[] = {"seccomp",      "namespaces", "root",    "capabilities",
                                        "no_new_privs", "landlock",   "box_uid", "wall",
                                        "all",          "*",          ""};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        set_refused(spec, "accept", never[i], "accept");
        assert_false(spec_accepts(spec, never[i]));
    }
}

static void every_limit_is_a_field_and_so_is_that_of_the_compile_step(void **state)
{
    struct spec *spec = *state;
    for (int i = 0; i < LIMIT_FIELDS; i++) {
        char compile[64];
        snprintf(compile, sizeof compile, "compile.%s", limit_rows[i].name);
        assert_false(spec->limit_set[i] || spec->compile_limit_set[i]);
        set(spec, limit_rows[i].name, "1");
        assert_true(spec->limit_set[i] && !spec->compile_limit_set[i]);
        set(spec, compile, "2");
        assert_true(spec->compile_limit_set[i]);
        assert_true(spec->limits.value[i] > 0 && spec->compile_limits.value[i] == 2 * spec->limits.value[i]);
        set_refused(spec, limit_rows[i].name, "x", limit_rows[i].name);
        set_refused(spec, compile, "x", limit_rows[i].name);
    }
}

static void compile_limits_are_told_from_those_of_the_run(void **state)
{
    struct error err = {0};
    assert_true(spec_set(*state, "compile.memory", "lots", &err) < 0);
    assert_error(&err, ERROR_SPEC, "memory", "compile", "memory", "'lots'");
}

static void unknown_fields_are_refused_by_name(void **state)
{
    static const char *const wrong[] = {
        "", "memroy", "compile.", "compile.memroy", "compile.compile.memory", "Code"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct error err = {0};
        assert_true(spec_set(*state, wrong[i], "1", &err) < 0);
        assert_error(&err, ERROR_SPEC, wrong[i], wrong[i]);
    }
}

#define SPEC_TEST(function) cmocka_unit_test_setup_teardown(function, spec_setup, spec_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SPEC_TEST(new_spec_asks_for_nothing),
        SPEC_TEST(texts_are_set),
        SPEC_TEST(empty_code_is_code),
        SPEC_TEST(lists_are_added_to),
        SPEC_TEST(lists_have_an_end),
        SPEC_TEST(code_and_file_are_given_once),
        SPEC_TEST(stdin_is_bytes),
        SPEC_TEST(engine_is_one_of_the_table),
        SPEC_TEST(working_directory_is_absolute),
        SPEC_TEST(variables_have_names),
        SPEC_TEST(inputs_can_be_renamed),
        SPEC_TEST(empty_paths_are_refused),
        SPEC_TEST(only_what_can_be_done_without_is_accepted),
        SPEC_TEST(every_limit_is_a_field_and_so_is_that_of_the_compile_step),
        SPEC_TEST(compile_limits_are_told_from_those_of_the_run),
        SPEC_TEST(unknown_fields_are_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
