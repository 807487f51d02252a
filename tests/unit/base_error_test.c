/* Errors: sentences that fit their buffer, codes that are never success. */
#include "harness.h"

static void error_that_says_it_all_has_nothing_appended(void **state)
{
    (void)state;
    struct error err = {0};
    assert_int_equal(error_host_told(&err, -EPIPE, "it died: %s", "exit 3"), -EPIPE);
    assert_error(&err, ERROR_HOST, "", "it died: exit 3");
    assert_string_equal(err.text, "it died: exit 3");
}

static void host_error_tells_the_errno(void **state)
{
    (void)state;
    struct error err = {0};
    assert_int_equal(error_host(&err, -ENOSPC, "cannot write %s", "x"), -ENOSPC);
    assert_error(&err, ERROR_HOST, "", "cannot write x: No space left on device");
    assert_int_equal(err.code, -ENOSPC);
}

static void positive_code_becomes_negative(void **state)
{
    (void)state;
    struct error err = {0};
    assert_int_equal(error_host(&err, ENOENT, "x"), -ENOENT);
    assert_int_equal(err.code, -ENOENT);
    assert_string_equal(err.text, "x: No such file or directory");
}

static void code_of_zero_is_never_success(void **state)
{
    (void)state;
    struct error err = {0};
    assert_true(error_host(&err, 0, "x") < 0);
    assert_true(err.code < 0);
    assert_true(error_layer(&err, "seccomp", 0, "x") < 0);
    assert_true(err.code < 0);
}

static void spec_error_names_its_field(void **state)
{
    (void)state;
    struct error err = {0};
    assert_int_equal(error_spec(&err, "memory", "memory: '%s' is wrong", "lots"), -EINVAL);
    assert_error(&err, ERROR_SPEC, "memory", "memory: 'lots' is wrong");
}

static void layer_error_names_its_layer(void **state)
{
    (void)state;
    struct error err = {0};
    assert_int_equal(error_layer(&err, "landlock", -EPERM, "cannot enforce"), -EPERM);
    assert_error(&err, ERROR_LAYER, "landlock", "cannot enforce: Operation not permitted");
    assert_true(error_layer(&err, "landlock", 0, "there is none") < 0);
    assert_string_equal(err.text, "there is none"); /* without an errno there is none to tell */
}

static void nobody_has_to_listen(void **state)
{
    (void)state;
    assert_int_equal(error_host(NULL, -EIO, "x"), -EIO);
    assert_int_equal(error_host_told(NULL, EPIPE, "x"), -EPIPE);
    assert_int_equal(error_spec(NULL, "a", "x"), -EINVAL);
    assert_int_equal(error_layer(NULL, "a", -EPERM, "x"), -EPERM);
    assert_true(error_context(NULL, "x") < 0);
}

static void context_goes_in_front(void **state)
{
    (void)state;
    struct error err = {0};
    error_spec(&err, "memory", "memory: too much");
    assert_int_equal(error_context(&err, "%s:%d", "/etc/cloche.conf", 3), -EINVAL);
    assert_error(&err, ERROR_SPEC, "memory", "/etc/cloche.conf:3: memory: too much");
}

static void long_texts_are_cut_and_end(void **state)
{
    (void)state;
    char longer[4096];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    struct {
        struct error err;
        char behind[8];
    } guarded = {.behind = "behind!"};
    error_host(&guarded.err, -EIO, "%s", longer);
    assert_int_equal(strlen(guarded.err.text), sizeof guarded.err.text - 1);
    error_context(&guarded.err, "%s", longer);
    assert_true(strlen(guarded.err.text) < sizeof guarded.err.text);
    error_spec(&guarded.err, longer, "%s", longer);
    assert_int_equal(strlen(guarded.err.subject), sizeof guarded.err.subject - 1);
    for (int i = 0; i < 20; i++)
        error_context(&guarded.err, "%.100s", longer);
    assert_int_equal(strlen(guarded.err.text), sizeof guarded.err.text - 1);
    assert_string_equal(guarded.behind, "behind!");
}

static void kinds_have_the_names_of_the_json_errors(void **state)
{
    (void)state;
    assert_string_equal(error_kind_name(ERROR_NONE), "none");
    assert_string_equal(error_kind_name(ERROR_SPEC), "bad_spec");
    assert_string_equal(error_kind_name(ERROR_LAYER), "layer_missing");
    assert_string_equal(error_kind_name(ERROR_HOST), "host_failure");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_error_tells_the_errno),
        cmocka_unit_test(error_that_says_it_all_has_nothing_appended),
        cmocka_unit_test(positive_code_becomes_negative),
        cmocka_unit_test(code_of_zero_is_never_success),
        cmocka_unit_test(spec_error_names_its_field),
        cmocka_unit_test(layer_error_names_its_layer),
        cmocka_unit_test(nobody_has_to_listen),
        cmocka_unit_test(context_goes_in_front),
        cmocka_unit_test(long_texts_are_cut_and_end),
        cmocka_unit_test(kinds_have_the_names_of_the_json_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
