#include "base/histogram.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void empty_one_says_nothing(void **state)
{
    (void)state;
    struct histogram histogram = {0};
    assert_int_equal(histogram_count(&histogram), 0);
    assert_int_equal(histogram_quantile_us(&histogram, 0.5), 0);
}

static void bounds_belong_to_what_is_below_them(void **state)
{
    (void)state;
    for (int i = 0; i < HISTOGRAM_BUCKETS - 1; i++) {
        struct histogram histogram = {0};
        histogram_add(&histogram, histogram_bounds_us[i]);
        histogram_add(&histogram, histogram_bounds_us[i] + 1);
        assert_int_equal(atomic_load(&histogram.buckets[i]), 1);
        assert_int_equal(atomic_load(&histogram.buckets[i + 1]), 1);
        assert_int_equal(atomic_load(&histogram.sum_us), 2 * histogram_bounds_us[i] + 1);
        assert_true(i == 0 || histogram_bounds_us[i] > histogram_bounds_us[i - 1]);
    }
}

static void quantiles_are_the_bounds_above(void **state)
{
    (void)state;
    struct histogram histogram = {0};
    for (int i = 0; i < 98; i++)
        histogram_add(&histogram, 150);
    histogram_add(&histogram, 4000);
    histogram_add(&histogram, INT64_MAX / 4); /* above all */
    assert_int_equal(histogram_count(&histogram), 100);
    assert_int_equal(histogram_quantile_us(&histogram, 0.5), 200);
    assert_int_equal(histogram_quantile_us(&histogram, 0.99), 5000);
    assert_int_equal(histogram_quantile_us(&histogram, 1), histogram_bounds_us[HISTOGRAM_BUCKETS - 2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_one_says_nothing),
        cmocka_unit_test(bounds_belong_to_what_is_below_them),
        cmocka_unit_test(quantiles_are_the_bounds_above),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
