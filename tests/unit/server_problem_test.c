#include "server/problem.h"

#include "base/scope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>

static void a_client_is_not_told_where_things_are(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"cannot look at '/srv/data/runs/run_x/input/0'", "cannot look at '…/0'"},
        {"'/a b/c d' and /e/f, /g", "'…/c d' and …/f, /g"},
        {"/proc/self/fd: nothing", "…/fd: nothing"},
        {"a share of 1/2 (see \"/x/y\")", "a share of 1/2 (see \"…/y\")"},
        {"", "the host failed"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error err = {.kind = ERROR_HOST, .code = -EIO};
        scope_buffer message = {0};
        snprintf(err.text, sizeof err.text, "%s", rows[i][0]);
        problem_message(&err, &message);
        assert_string_equal(message.data, rows[i][1]);
        assert_string_equal(problem_code(&err), "host_failure");
    }
}

static void what_was_asked_for_is_told_as_it_was(void **state)
{
    (void)state;
    struct error err = {0};
    scope_buffer message = {0};
    error_spec(&err, "cwd", "cwd: '/data/output/x' is not there");
    problem_message(&err, &message);
    assert_string_equal(message.data, "cwd: '/data/output/x' is not there");
    assert_string_equal(problem_code(&err), "unprocessable");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_is_not_told_where_things_are),
        cmocka_unit_test(what_was_asked_for_is_told_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
