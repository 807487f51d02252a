#include "base/identifier.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

static void identifiers_have_their_form_and_differ(void **state)
{
    (void)state;
    char one[IDENTIFIER_SIZE], other[IDENTIFIER_SIZE];
    assert_int_equal(identifier_make("sbx_", one), 0);
    assert_int_equal(identifier_make("sbx_", other), 0);
    assert_true(identifier_has_form(one, "sbx_"));
    assert_int_equal(strlen(one), 4 + IDENTIFIER_RANDOM);
    assert_string_not_equal(one, other);
}

static void what_has_another_form_is_none(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "sbx_",
                                        "ctx_0123456789012345678901",
                                        "sbx_012345678901234567890",
                                        "sbx_01234567890123456789012",
                                        "sbx_01234567890123456789/1",
                                        "sbx_01234567890123456789\xff"
                                        "1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(identifier_has_form(wrong[i], "sbx_"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(identifiers_have_their_form_and_differ),
        cmocka_unit_test(what_has_another_form_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
