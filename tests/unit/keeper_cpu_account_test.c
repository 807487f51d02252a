#include "harness.h"

#include "keeper/cpu_account.h"

#include <pthread.h>
#include <unistd.h>

static void what_overlaps_is_charged_once(void **state)
{
    (void)state;
    struct cpu_account *account = cpu_account_new(NULL);
    cpu_account_begin(account, 100); /* what was before the first is for nobody */
    cpu_account_begin(account, 150); /* another one, beside it */
    cpu_account_note(account, 400, false);
    assert_int_equal(cpu_account_charge_us(account), 300);
    cpu_account_note(account, 450, false);
    assert_int_equal(cpu_account_charge_us(account), 50);
    assert_int_equal(cpu_account_charge_us(account), 0);
    cpu_account_begin(account, 600); /* what was used between them is for the next */
    cpu_account_note(account, 610, false);
    assert_int_equal(cpu_account_charge_us(account), 160);
    cpu_account_note(account, 500, false); /* an older look that comes late */
    assert_int_equal(cpu_account_charge_us(account), 0);
    assert_int_equal(cpu_account_used_us(account, 0), 610);
    cpu_account_put(account);
}

static void what_nobody_is_charged_with_is_on_the_bill(void **state)
{
    (void)state;
    struct cpu_bill *bill = cpu_bill_new();
    struct cpu_account *idle = cpu_account_new(bill), *account = cpu_account_new(bill);
    cpu_account_note(idle, 100, true); /* nothing ever ran in it */
    cpu_account_put(idle);
    assert_int_equal(cpu_bill_take_us(bill), 0);
    cpu_account_begin(account, 100);
    cpu_account_note(account, 400, false);
    assert_int_equal(cpu_account_charge_us(account), 300);
    cpu_account_note(account, 1000, false); /* a thread that the run left */
    cpu_account_settle(account);
    assert_int_equal(cpu_bill_take_us(bill), 600);
    assert_int_equal(cpu_bill_take_us(bill), 0);
    assert_int_equal(cpu_account_charge_us(account), 0);
    struct cpu_account *held = cpu_account_hold(account);
    cpu_account_note(account, 1500, true);
    cpu_account_put(account);
    assert_int_equal(cpu_bill_take_us(bill), 0); /* somebody may still be charged with it */
    cpu_account_put(held);
    assert_int_equal(cpu_bill_take_us(bill), 500);
    cpu_bill_put(bill);
}

static void *end_later(void *data)
{
    usleep(20000);
    cpu_account_note(data, 700, true);
    cpu_account_put(data);
    return NULL;
}

static void sum_of_a_box_that_goes_is_waited_for(void **state)
{
    (void)state;
    struct cpu_account *account = cpu_account_new(NULL);
    cpu_account_begin(account, 0);
    cpu_account_note(account, 300, false);
    assert_int_equal(cpu_account_used_us(account, 10), -1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, end_later, cpu_account_hold(account)), 0);
    assert_int_equal(cpu_account_used_us(account, 5000), 700);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(cpu_account_charge_us(account), 700);
    cpu_account_put(account);
}

static void without_an_account_nothing_is_charged(void **state)
{
    (void)state;
    cpu_account_begin(NULL, 1);
    cpu_account_note(NULL, 1, true);
    assert_int_equal(cpu_account_charge_us(NULL), 0);
    assert_int_equal(cpu_account_used_us(NULL, 10), -1);
    assert_null(cpu_account_hold(NULL));
    cpu_account_put(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_overlaps_is_charged_once),
        cmocka_unit_test(what_nobody_is_charged_with_is_on_the_bill),
        cmocka_unit_test(sum_of_a_box_that_goes_is_waited_for),
        cmocka_unit_test(without_an_account_nothing_is_charged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
