/* How many spares of a kind there should be: by demand, hints and idleness. */
#include "harness.h"

#include "keeper/stock.h"

enum { SECOND = 1000000, START = 100 * SECOND };

static struct stock started_stock(int minimum, int maximum)
{
    struct stock stock;
    stock_init(&stock, &kinds[kind_by_name("javascript")], minimum, maximum, 60000);
    return stock;
}

static void nothing_is_kept_before_the_first_run(void **state)
{
    (void)state;
    struct stock stock = started_stock(0, 32);
    assert_int_equal(stock_target(&stock, 1), 0); /* also right after the machine has started */
    assert_int_equal(stock_target(&stock, START), 0);
}

static void minimum_is_kept_without_demand_and_never_above_the_maximum(void **state)
{
    (void)state;
    struct stock stock = started_stock(3, 32);
    assert_int_equal(stock_target(&stock, START), 3);
    stock = started_stock(10, 4);
    assert_int_equal(stock_target(&stock, START), 4);
}

static void one_run_asks_for_one_until_it_is_idle(void **state)
{
    (void)state;
    struct stock stock = started_stock(0, 32);
    stock_count_arrival(&stock, 0, START);
    assert_int_equal(stock_target(&stock, START), 1);
    assert_int_equal(stock_target(&stock, START + 59 * (int64_t)SECOND), 1);
    assert_int_equal(stock_target(&stock, START + 61 * (int64_t)SECOND), 0);
}

static void many_runs_ask_for_what_comes_while_one_is_made(void **state)
{
    (void)state;
    struct stock stock = started_stock(0, 32), forked;
    stock_init(&forked, &kinds[0], 0, 32, 60000);
    for (int i = 0; i < 20; i++) {
        stock_count_arrival(&stock, 0, START + i);
        stock_count_arrival(&forked, 0, START + i);
    }
    assert_int_equal(stock_target(&stock, START + 20), 11);
    assert_int_equal(stock_target(&forked, START + 20), 3); /* a fork takes less time */
    for (int i = 0; i < 1000; i++)
        stock_count_arrival(&stock, 0, START + i);
    assert_int_equal(stock_target(&stock, START), 32);
}

static void demand_of_the_second_before_the_last_is_forgotten(void **state)
{
    (void)state;
    struct stock stock = started_stock(0, 32);
    for (int i = 0; i < 40; i++)
        stock_count_arrival(&stock, 0, START);
    stock_count_arrival(&stock, 0, START + SECOND + 1);
    assert_int_equal(stock.rate, 40);
    stock_count_arrival(&stock, 0, START + 2 * SECOND + 2);
    assert_int_equal(stock.rate, 1);
    for (int i = 0; i < 40; i++)
        stock_count_arrival(&stock, 0, START + 3 * SECOND);
    stock_count_arrival(&stock, 0, START + 10 * SECOND);
    assert_int_equal(stock.rate, 1);
}

static void those_who_wait_are_counted(void **state)
{
    (void)state;
    struct stock stock = started_stock(0, 32);
    stock_count_arrival(&stock, 0, START);
    stock.waiting = 5;
    assert_int_equal(stock_target(&stock, START), 6);
}

static void a_queue_elsewhere_counts_until_it_is_gone(void **state)
{
    (void)state;
    struct stock stock = started_stock(0, 32);
    stock_count_arrival(&stock, 7, START);
    assert_int_equal(stock_target(&stock, START), 8);
    stock_count_arrival(&stock, 1000, START);
    assert_int_equal(stock_target(&stock, START), 32);
    stock_count_arrival(&stock, 0, START);
    assert_int_equal(stock_target(&stock, START), 2);
}

static void a_hint_holds_for_a_while(void **state)
{
    (void)state;
    struct stock stock = started_stock(2, 8);
    stock_hint(&stock, 3, START);
    assert_int_equal(stock_target(&stock, START + SECOND), 5);
    assert_int_equal(stock_target(&stock, START + 31 * (int64_t)SECOND), 2);
    stock_hint(&stock, 100, START);
    assert_int_equal(stock_target(&stock, START), 8);
}

static bool is_old(const struct spare *spare, void *data)
{
    return spare->made_us < *(int64_t *)data;
}

static void the_last_one_made_is_taken_first(void **state)
{
    (void)state;
    struct stock stock = started_stock(0, 8);
    struct spare spares[3] = {{.made_us = 1}, {.made_us = 2}, {.made_us = 3}};
    for (int i = 0; i < 3; i++)
        stock_put(&stock, &spares[i]);
    int64_t age = 3;
    assert_ptr_equal(stock_take_if(&stock, is_old, &age), &spares[1]);
    assert_int_equal(stock.count, 2);
    assert_ptr_equal(stock_take(&stock), &spares[2]);
    assert_ptr_equal(stock_take(&stock), &spares[0]);
    assert_null(stock_take(&stock));
    assert_null(stock_take_if(&stock, is_old, &age));
    assert_int_equal(stock.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_kept_before_the_first_run),
        cmocka_unit_test(minimum_is_kept_without_demand_and_never_above_the_maximum),
        cmocka_unit_test(one_run_asks_for_one_until_it_is_idle),
        cmocka_unit_test(many_runs_ask_for_what_comes_while_one_is_made),
        cmocka_unit_test(demand_of_the_second_before_the_last_is_forgotten),
        cmocka_unit_test(those_who_wait_are_counted),
        cmocka_unit_test(a_queue_elsewhere_counts_until_it_is_gone),
        cmocka_unit_test(a_hint_holds_for_a_while),
        cmocka_unit_test(the_last_one_made_is_taken_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
