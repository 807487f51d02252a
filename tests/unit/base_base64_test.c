#include "base/base64.h"
#include "base/scope.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void bytes_go_there_and_back(void **state)
{
    (void)state;
    char bytes[300];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)i;
    for (size_t length = 0; length < sizeof bytes; length++) {
        char *text = base64_encode((struct slice){bytes, length});
        scope_buffer back = {0};
        assert_int_equal(base64_decode((struct slice){text, strlen(text)}, &back), 0);
        assert_int_equal(back.length, length);
        assert_true(length == 0 || memcmp(back.data, bytes, length) == 0);
        free(text);
    }
}

static void what_is_not_base64_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"a",     "abc",  "ab=c",      "====", "a===", "ab c",
                                        "\nabc", "ab!d", "YWJj\nYWJ", "AA*A", "AAA-", "AAA_"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        scope_buffer back = {0};
        assert_int_equal(base64_decode((struct slice){wrong[i], strlen(wrong[i])}, &back), -EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_go_there_and_back),
        cmocka_unit_test(what_is_not_base64_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
