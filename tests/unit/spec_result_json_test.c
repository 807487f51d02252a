/* The result as JSON, whatever bytes the guest put into it. */
#include "harness.h"

#include "spec/result.h"

#include <jansson.h>

static int result_setup(void **state)
{
    *state = result_new();
    return *state ? 0 : -1;
}

static int result_teardown(void **state)
{
    result_free(*state);
    return 0;
}

static json_t *json_of(const struct result *result)
{
    char *text = result_to_json(result, false), *pretty = result_to_json(result, true);
    json_error_t where;
    assert_true(text && pretty);
    assert_null(strchr(text, '\n'));
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    json_t *same = json_loads(pretty, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    if (!object)
        fail_msg("not JSON: %s: %s", where.text, text);
    assert_true(json_equal(object, same));
    json_decref(same);
    free(text);
    free(pretty);
    return object;
}

static const char *text_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value))
        fail_msg("'%s' is not a string", key);
    return json_string_value(value);
}

static void fields_are_those_that_are_promised(void **state)
{
    struct result *result = *state;
    result->cause = CAUSE_exit;
    result->exit_code = 3;
    result->isolation = ISOLATION_CONTAINER;
    result->output.dropped_bytes = 5;
    result->usage = (struct result_usage){1500, 2500, 3500, 4096, 2, 8192};
    buffer_append_text(&result->output.kept, "out");
    buffer_append_text(&result->errors.kept, "err");
    result_add_layer(result, "landlock", true, "abi %d", 7);
    json_t *object = json_of(result);
    static const char *const promised[] = {"exit_code", "signal",    "timed_out", "cause",
                                           "stdout",    "stderr",    "truncated", "files",
                                           "usage",     "isolation", "layers",    "not_collected"};
    for (size_t i = 0; i < sizeof promised / sizeof *promised; i++)
        if (!json_object_get(object, promised[i]))
            fail_msg("there is no '%s'", promised[i]);
    assert_int_equal(json_integer_value(json_object_get(object, "exit_code")), 3);
    assert_true(json_is_null(json_object_get(object, "signal")));
    assert_true(json_is_false(json_object_get(object, "timed_out")));
    assert_string_equal(text_of(object, "cause"), "exit");
    assert_string_equal(text_of(object, "stdout"), "out");
    assert_string_equal(text_of(object, "stderr"), "err");
    assert_null(json_object_get(object, "stdout_base64"));
    assert_string_equal(text_of(object, "isolation"), "container");
    const json_t *truncated = json_object_get(object, "truncated"), *usage = json_object_get(object, "usage");
    assert_int_equal(json_integer_value(json_object_get(truncated, "stdout")), 5);
    assert_int_equal(json_integer_value(json_object_get(truncated, "stderr")), 0);
    assert_true(json_number_value(json_object_get(usage, "wall_ms")) == 1.5);
    assert_true(json_number_value(json_object_get(usage, "cpu_user_ms")) == 2.5);
    assert_true(json_number_value(json_object_get(usage, "cpu_system_ms")) == 3.5);
    assert_int_equal(json_integer_value(json_object_get(usage, "peak_memory_bytes")), 4096);
    assert_int_equal(json_integer_value(json_object_get(usage, "peak_pids")), 2);
    assert_int_equal(json_integer_value(json_object_get(usage, "disk_bytes")), 8192);
    const json_t *layer = json_array_get(json_object_get(object, "layers"), 0);
    assert_string_equal(text_of(layer, "name"), "landlock");
    assert_string_equal(text_of(layer, "detail"), "abi 7");
    assert_true(json_is_true(json_object_get(layer, "active")));
    json_decref(object);
}

static void what_did_not_happen_is_null(void **state)
{
    struct result *result = *state;
    result->cause = CAUSE_memory;
    result->signal = 9;
    json_t *object = json_of(result);
    assert_true(json_is_null(json_object_get(object, "exit_code")));
    assert_int_equal(json_integer_value(json_object_get(object, "signal")), 9);
    assert_null(json_object_get(object, "denied_syscall"));
    assert_null(json_object_get(object, "compile"));
    assert_null(json_object_get(object, "detail"));
    assert_null(json_object_get(object, "left_behind"));
    assert_null(json_object_get(object, "not_collected_more"));
    json_decref(object);
}

static void every_cause_has_its_name(void **state)
{
    struct result *result = *state;
    for (int i = 0; i < CAUSE_COUNT; i++) {
        result->cause = (enum cause)i;
        json_t *object = json_of(result);
        assert_string_equal(text_of(object, "cause"), cause_names[i]);
        json_decref(object);
    }
}

static void denied_call_is_named_where_it_is_known(void **state)
{
    struct result *result = *state;
    result->cause = CAUSE_denied_syscall;
    json_t *object = json_of(result);
    assert_true(json_is_null(json_object_get(object, "denied_syscall")));
    json_decref(object);
    strcpy(result->denied_syscall, "mount");
    object = json_of(result);
    assert_string_equal(text_of(object, "denied_syscall"), "mount");
    json_decref(object);
}

static size_t base64_decode(const char *text, unsigned char *into)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t length = 0;
    assert_int_equal(strlen(text) % 4, 0);
    for (; *text; text += 4) {
        uint32_t group = 0;
        int padding = 0;
        for (int i = 0; i < 4; i++) {
            const char *at = text[i] == '=' ? alphabet : strchr(alphabet, text[i]);
            assert_non_null(at);
            padding += text[i] == '=';
            group = group << 6 | (uint32_t)(at - alphabet);
        }
        for (int i = 0; i < 3 - padding; i++)
            into[length++] = (unsigned char)(group >> (16 - 8 * i));
    }
    return length;
}

static void check_bytes(struct result *result, const char *bytes, size_t length, const char *shown)
{
    buffer_free(&result->output.kept);
    buffer_append(&result->output.kept, bytes, length);
    json_t *object = json_of(result);
    const json_t *text = json_object_get(object, "stdout");
    assert_int_equal(json_string_length(text), strlen(shown));
    assert_string_equal(json_string_value(text), shown);
    unsigned char decoded[64];
    assert_int_equal(base64_decode(text_of(object, "stdout_base64"), decoded), length);
    assert_memory_equal(decoded, bytes, length);
    json_decref(object);
}

static void bytes_that_are_not_text_are_replaced_and_given_exactly_beside(void **state)
{
    struct result *result = *state;
    check_bytes(result, "a\xff", 2, "a\xef\xbf\xbd");
    check_bytes(result, "\xff", 1, "\xef\xbf\xbd");
    check_bytes(result, "\xc3\xa9\xc3", 3, "\xc3\xa9\xef\xbf\xbd");
    check_bytes(result, "\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    check_bytes(result, "\xf0\x9f\x98", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    check_bytes(result, "\xe2\x82z", 3, "\xef\xbf\xbd\xef\xbf\xbdz");
    check_bytes(result, "\xc0\x80", 2, "\xef\xbf\xbd\xef\xbf\xbd");
    check_bytes(result, "\xfe\xfe\xfe\xfe", 4, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
}

static void every_byte_comes_through(void **state)
{
    struct result *result = *state;
    char all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    buffer_append(&result->errors.kept, all, sizeof all);
    json_t *object = json_of(result);
    unsigned char decoded[300];
    assert_int_equal(base64_decode(text_of(object, "stderr_base64"), decoded), sizeof all);
    assert_memory_equal(decoded, all, sizeof all);
    json_decref(object);
}

static void nul_and_control_characters_stay_text(void **state)
{
    struct result *result = *state;
    buffer_append(&result->output.kept, "a\0\x1b[31m\x7f\"\\", 10);
    json_t *object = json_of(result);
    const json_t *text = json_object_get(object, "stdout");
    assert_int_equal(json_string_length(text), 10);
    assert_memory_equal(json_string_value(text), "a\0\x1b[31m\x7f\"\\", 10);
    assert_null(json_object_get(object, "stdout_base64"));
    json_decref(object);
    char *raw = result_to_json(result, false);
    for (const char *at = raw; *at; at++)
        assert_true((unsigned char)*at >= 0x20);
    free(raw);
}

static void names_of_files_may_hold_any_bytes(void **state)
{
    struct result *result = *state;
    result_add_file(result, "plain.txt", 1, "aa");
    result_add_file(result, "bad\xff\nname", 2, "bb");
    result_add_omission(result, "\xfe", "not a regular file");
    json_t *object = json_of(result);
    const json_t *files = json_object_get(object, "files");
    assert_int_equal(json_array_size(files), 2);
    assert_string_equal(text_of(json_array_get(files, 0), "path"), "plain.txt");
    assert_null(json_object_get(json_array_get(files, 0), "path_base64"));
    assert_string_equal(text_of(json_array_get(files, 0), "sha256"), "aa");
    assert_string_equal(text_of(json_array_get(files, 1), "path"), "bad\xef\xbf\xbd\nname");
    unsigned char decoded[32];
    assert_int_equal(base64_decode(text_of(json_array_get(files, 1), "path_base64"), decoded), 9);
    assert_memory_equal(decoded, "bad\xff\nname", 9);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(files, 1), "size")), 2);
    const json_t *omission = json_array_get(json_object_get(object, "not_collected"), 0);
    assert_string_equal(text_of(omission, "path"), "\xef\xbf\xbd");
    assert_string_equal(text_of(omission, "path_base64"), "/g==");
    assert_string_equal(text_of(omission, "reason"), "not a regular file");
    json_decref(object);
}

static void omissions_past_the_list_are_counted(void **state)
{
    struct result *result = *state;
    for (int i = 0; i < 250; i++)
        result_add_omission(result, "x", "not a regular file");
    json_t *object = json_of(result);
    assert_int_equal(json_array_size(json_object_get(object, "not_collected")), 100);
    assert_int_equal(json_integer_value(json_object_get(object, "not_collected_more")), 150);
    json_decref(object);
}

static void compile_step_is_a_result_of_its_own(void **state)
{
    struct result *result = *state;
    result->compile = result_new();
    result->compile->exit_code = 1;
    buffer_append_text(&result->compile->errors.kept, "main.c:1: error");
    json_t *object = json_of(result);
    const json_t *compile = json_object_get(object, "compile");
    assert_string_equal(text_of(compile, "stderr"), "main.c:1: error");
    assert_int_equal(json_integer_value(json_object_get(compile, "exit_code")), 1);
    json_decref(object);
}

static void nothing_is_lost_to_words_that_are_not_text(void **state)
{
    struct result *result = *state;
    snprintf(result->detail, sizeof result->detail, "init said \xff");
    result_add_layer(result, "apparmor", true, "profile \xff");
    result->left_behind = true;
    json_t *object = json_of(result);
    assert_string_equal(text_of(object, "detail"), "init said \xef\xbf\xbd");
    assert_int_equal(json_array_size(json_object_get(object, "layers")), 1);
    assert_true(json_is_true(json_object_get(object, "left_behind")));
    json_decref(object);
}

#define RESULT_TEST(function) cmocka_unit_test_setup_teardown(function, result_setup, result_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RESULT_TEST(fields_are_those_that_are_promised),
        RESULT_TEST(what_did_not_happen_is_null),
        RESULT_TEST(every_cause_has_its_name),
        RESULT_TEST(denied_call_is_named_where_it_is_known),
        RESULT_TEST(bytes_that_are_not_text_are_replaced_and_given_exactly_beside),
        RESULT_TEST(every_byte_comes_through),
        RESULT_TEST(nul_and_control_characters_stay_text),
        RESULT_TEST(names_of_files_may_hold_any_bytes),
        RESULT_TEST(omissions_past_the_list_are_counted),
        RESULT_TEST(compile_step_is_a_result_of_its_own),
        RESULT_TEST(nothing_is_lost_to_words_that_are_not_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
