/* Results: what is added stays, and the exit status is never mistaken. */
#include "harness.h"

#include "spec/result.h"

#include <signal.h>

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

static void new_result_has_not_exited(void **state)
{
    struct result *result = *state;
    assert_int_equal(result->exit_code, -1);
    assert_int_equal(result->signal, 0);
    assert_null(result->compile);
    result_free(NULL);
}

static void causes_are_those_that_are_promised(void **state)
{
    (void)state;
    static const char *const promised[] = {"exit",      "signal", "wall_time",   "cpu_time",       "memory",
                                           "pids",      "disk",   "output",      "denied_syscall", "trap",
                                           "cancelled", "vetted", "host_failure"};
    assert_int_equal(CAUSE_COUNT, sizeof promised / sizeof *promised);
    for (int i = 0; i < CAUSE_COUNT; i++) {
        assert_string_equal(cause_names[i], promised[i]);
        assert_true(strlen(cause_meanings[i]) > 10);
    }
}

static void end_is_told_in_a_few_words(void **state)
{
    struct result *result = *state;
    char end[600], narrow[8];
    result->cause = CAUSE_exit;
    result->exit_code = 3;
    assert_string_equal(result_format_end(result, end, sizeof end), "exit 3");
    result->cause = CAUSE_signal;
    result->signal = SIGSEGV;
    assert_string_equal(result_format_end(result, end, sizeof end), "signal 11 (SIGSEGV)");
    assert_string_equal(result_format_end(result, narrow, sizeof narrow), "signal ");
    result->signal = 40; /* has no name */
    assert_string_equal(result_format_end(result, end, sizeof end), "signal 40");
    result->cause = CAUSE_memory;
    assert_string_equal(result_format_end(result, end, sizeof end), "memory, the memory limit was reached");
    snprintf(result->detail, sizeof result->detail, "all of it");
    assert_string_equal(result_format_end(result, end, sizeof end), "memory, all of it");
}

static void files_are_kept_in_order(void **state)
{
    struct result *result = *state;
    char path[] = "plot.png";
    assert_int_equal(result_add_file(result, path, 17, "0123"), 0);
    path[0] = 'x';
    assert_int_equal(result_add_file(result, "b", 1LL << 40, ""), 0);
    assert_int_equal(result->file_count, 2);
    assert_string_equal(result->files[0].path, "plot.png");
    assert_string_equal(result->files[0].sha256, "0123");
    assert_int_equal(result->files[1].size, 1LL << 40);
}

static void hash_that_is_too_long_is_cut(void **state)
{
    struct result *result = *state;
    char longer[200];
    memset(longer, 'f', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    assert_int_equal(result_add_file(result, "a", 1, longer), 0);
    assert_int_equal(strlen(result->files[0].sha256), 64);
}

static void omissions_are_listed_up_to_a_hundred_and_counted_past_it(void **state)
{
    struct result *result = *state;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(result_add_omission(result, "x", "not a regular file"), 0);
    assert_int_equal(result->omission_count, 100);
    assert_int_equal(result->omissions_uncounted, 900);
}

static void layers_have_an_end(void **state)
{
    struct result *result = *state;
    for (int i = 0; i < RESULT_LAYERS_MAX; i++)
        assert_int_equal(result_add_layer(result, "seccomp", i % 2, "row %d", i), 0);
    assert_int_equal(result_add_layer(result, "seccomp", true, "x"), -ENOSPC);
    assert_int_equal(result->layer_count, RESULT_LAYERS_MAX);
    assert_string_equal(result->layers[3].detail, "row 3");
    assert_true(result->layers[3].active && !result->layers[4].active);
}

static void exit_status_is_that_of_the_program(void **state)
{
    struct result *result = *state;
    result->cause = CAUSE_exit;
    for (int code = 0; code < 256; code++) {
        result->exit_code = code;
        bool reserved = code >= EXIT_STATUS_PROGRAM_RESERVED && code <= EXIT_STATUS_LAST;
        assert_int_equal(result_exit_status(result), reserved ? EXIT_STATUS_PROGRAM_RESERVED : code);
    }
}

static void signals_are_shown_as_the_shell_does(void **state)
{
    struct result *result = *state;
    for (int number = 1; number <= 64; number++) {
        result->cause = CAUSE_signal;
        result->signal = number;
        assert_int_equal(result_exit_status(result), 128 + number);
    }
    result->cause = CAUSE_memory;
    result->signal = 9;
    assert_int_equal(result_exit_status(result), 137);
}

static void failure_of_the_host_cannot_be_taken_for_the_programs(void **state)
{
    struct result *result = *state;
    result->cause = CAUSE_host_failure;
    assert_int_equal(result_exit_status(result), EXIT_STATUS_HOST_FAILURE);
    result->exit_code = 0;
    assert_int_equal(result_exit_status(result), EXIT_STATUS_HOST_FAILURE);
    static const int own[] = {EXIT_STATUS_BAD_SPEC, EXIT_STATUS_LAYER_MISSING, EXIT_STATUS_HOST_FAILURE,
                              EXIT_STATUS_VETTED};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        assert_true(own[i] > 128 + 64 && own[i] != EXIT_STATUS_PROGRAM_RESERVED && own[i] < 255);
}

#define RESULT_TEST(function) cmocka_unit_test_setup_teardown(function, result_setup, result_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RESULT_TEST(new_result_has_not_exited),
        RESULT_TEST(causes_are_those_that_are_promised),
        RESULT_TEST(end_is_told_in_a_few_words),
        RESULT_TEST(files_are_kept_in_order),
        RESULT_TEST(hash_that_is_too_long_is_cut),
        RESULT_TEST(omissions_are_listed_up_to_a_hundred_and_counted_past_it),
        RESULT_TEST(layers_have_an_end),
        RESULT_TEST(exit_status_is_that_of_the_program),
        RESULT_TEST(signals_are_shown_as_the_shell_does),
        RESULT_TEST(failure_of_the_host_cannot_be_taken_for_the_programs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
