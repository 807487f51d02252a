/* The public interface over the inner objects. No box is made here. */
#include "harness.h"

#include "spec/result.h"
#include "spec/spec.h"

#include <cloche/cloche.h>

static void kinds_of_errors_have_the_same_numbers(void **state)
{
    (void)state;
    assert_int_equal(CLOCHE_ERROR_NONE, ERROR_NONE);
    assert_int_equal(CLOCHE_ERROR_SPEC, ERROR_SPEC);
    assert_int_equal(CLOCHE_ERROR_LAYER, ERROR_LAYER);
    assert_int_equal(CLOCHE_ERROR_HOST, ERROR_HOST);
}

static void errors_have_the_same_room(void **state)
{
    (void)state;
    assert_int_equal(sizeof(((struct cloche_error *)NULL)->text), sizeof(((struct error *)NULL)->text));
    assert_int_equal(sizeof(((struct cloche_error *)NULL)->subject), sizeof(((struct error *)NULL)->subject));
}

static void fields_are_set_as_inside(void **state)
{
    (void)state;
    struct cloche_spec *spec = cloche_spec_new();
    struct cloche_error err = {0};
    assert_int_equal(cloche_spec_set(spec, "language", "python", &err), 0);
    assert_int_equal(cloche_spec_set(spec, "memory", "256M", NULL), 0);
    assert_int_equal(cloche_spec_set(spec, "compile.memory", "1G", NULL), 0);
    const struct spec *inner = (const struct spec *)spec;
    assert_string_equal(inner->language, "python");
    assert_int_equal(inner->limits.value[LIMIT_memory], 256 << 20);
    cloche_spec_free(spec);
    cloche_spec_free(NULL);
}

static void wrong_fields_are_told(void **state)
{
    (void)state;
    struct cloche_spec *spec = cloche_spec_new();
    struct cloche_error err = {0};
    assert_true(cloche_spec_set(spec, "memory", "lots", &err) < 0);
    assert_int_equal(err.kind, CLOCHE_ERROR_SPEC);
    assert_true(err.code < 0);
    assert_string_equal(err.subject, "memory");
    assert_non_null(strstr(err.text, "'lots'"));
    assert_true(cloche_spec_set(spec, "no such field", "x", NULL) < 0);
    cloche_spec_free(spec);
}

static void code_may_hold_zero_bytes(void **state)
{
    (void)state;
    struct cloche_spec *spec = cloche_spec_new();
    struct cloche_error err = {0};
    assert_int_equal(cloche_spec_set_code(spec, "a\0b", 3, &err), 0);
    assert_int_equal(((const struct spec *)spec)->code.length, 3);
    assert_true(cloche_spec_set_code(spec, "again", 5, &err) < 0);
    assert_int_equal(err.kind, CLOCHE_ERROR_SPEC);
    cloche_spec_free(spec);
}

static void json_is_read(void **state)
{
    (void)state;
    struct cloche_spec *spec = cloche_spec_new();
    struct cloche_error err = {0};
    static const char text[] = "{\"code\": \"1\", \"limits\": {\"pids\": 3}}";
    assert_int_equal(cloche_spec_read_json(spec, text, strlen(text), &err), 0);
    assert_int_equal(((const struct spec *)spec)->limits.value[LIMIT_pids], 3);
    assert_true(cloche_spec_read_json(spec, "{\"x\": 1}", 8, &err) < 0);
    assert_string_equal(err.subject, "x");
    assert_true(cloche_spec_read_json(spec, "{", 1, NULL) < 0);
    cloche_spec_set_stdin_fd(spec, 7);
    assert_int_equal(((const struct spec *)spec)->stdin_fd, 7);
    assert_int_equal(((const struct spec *)spec)->stdin_kind, STDIN_DESCRIPTOR);
    cloche_spec_free(spec);
}

static void run_without_a_program_is_refused_before_anything_starts(void **state)
{
    struct scratch *scratch = *state;
    struct cloche_spec *spec = cloche_spec_new();
    struct cloche_result *result = NULL;
    struct cloche_error err = {0};
    struct cloche_options options = {.config_path = scratch_path(scratch, "cloche.conf"), .cancel_fd = -1};
    write_text(scratch->fd, "cloche.conf", "");
    int before = open_descriptors();
    assert_true(cloche_run(spec, &options, &result, &err) < 0);
    assert_int_equal(err.kind, CLOCHE_ERROR_SPEC);
    assert_non_null(strstr(err.text, "nothing to run"));
    assert_null(result);
    assert_true(cloche_run(spec, &options, &result, NULL) < 0);
    options.config_path = scratch_path(scratch, "absent.conf");
    assert_true(cloche_run(spec, &options, &result, &err) < 0);
    assert_string_equal(err.subject, "config");
    assert_int_equal(open_descriptors(), before);
    cloche_spec_free(spec);
}

static void result_is_read_through_its_functions(void **state)
{
    (void)state;
    struct result *inner = result_new();
    inner->cause = CAUSE_memory;
    inner->signal = 9;
    buffer_append(&inner->output.kept, "a\0b", 3);
    result_add_file(inner, "plot.png", 17, "");
    const struct cloche_result *result = (const struct cloche_result *)inner;
    size_t length = 99;
    assert_string_equal(cloche_result_cause(result), "memory");
    assert_int_equal(cloche_result_signal(result), 9);
    assert_int_equal(cloche_result_exit_code(result), -1);
    assert_memory_equal(cloche_result_stdout(result, &length), "a\0b", 3);
    assert_int_equal(length, 3);
    assert_string_equal(cloche_result_stderr(result, &length), "");
    assert_int_equal(length, 0);
    assert_string_equal(cloche_result_stderr(result, NULL), "");
    assert_int_equal(cloche_result_file_count(result), 1);
    assert_string_equal(cloche_result_file_path(result, 0), "plot.png");
    assert_int_equal(cloche_result_file_size(result, 0), 17);
    assert_null(cloche_result_file_path(result, 1));
    assert_int_equal(cloche_result_file_size(result, SIZE_MAX), -1);
    char *json = cloche_result_to_json(result);
    assert_non_null(strstr(json, "\"memory\""));
    free(json);
    cloche_result_free((struct cloche_result *)inner);
    cloche_result_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds_of_errors_have_the_same_numbers),
        cmocka_unit_test(errors_have_the_same_room),
        cmocka_unit_test(fields_are_set_as_inside),
        cmocka_unit_test(wrong_fields_are_told),
        cmocka_unit_test(code_may_hold_zero_bytes),
        cmocka_unit_test(json_is_read),
        SCRATCH_TEST(run_without_a_program_is_refused_before_anything_starts),
        cmocka_unit_test(result_is_read_through_its_functions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
