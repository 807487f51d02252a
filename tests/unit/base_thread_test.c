#include "base/condition.h"
#include "base/thread.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void *read_mask(void *data)
{
    pthread_sigmask(SIG_SETMASK, NULL, data);
    return NULL;
}

static void thread_hears_no_signals_and_its_maker_all_that_it_heard(void **state)
{
    (void)state;
    sigset_t before, inside, after;
    pthread_t thread;
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    sigemptyset(&inside);
    assert_int_equal(thread_start(&thread, 0, read_mask, &inside), 0);
    pthread_join(thread, NULL);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    static const int numbers[] = {SIGINT, SIGTERM, SIGCONT, SIGTSTP, SIGWINCH, SIGCHLD, SIGUSR1};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        assert_true(sigismember(&inside, numbers[i]));
        assert_int_equal(sigismember(&after, numbers[i]), sigismember(&before, numbers[i]));
    }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void *tell(void *data)
{
    pthread_mutex_lock(&lock);
    *(bool *)data = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void thread_that_nobody_waits_for_does_its_work(void **state)
{
    (void)state;
    bool is_done = false;
    assert_int_equal(thread_start(NULL, 64 << 10, tell, &is_done), 0);
    pthread_mutex_lock(&lock);
    for (int i = 0; !is_done && i < 100; i++)
        clock_wait(&changed, &lock, 100);
    pthread_mutex_unlock(&lock);
    assert_true(is_done);
}

static void waiting_in_vain_takes_its_time_and_says_so(void **state)
{
    (void)state;
    int64_t before_us = clock_monotonic_us();
    pthread_mutex_lock(&lock);
    while (clock_wait(&changed, &lock, 1020)) /* a condition may wake for nothing */
        before_us = clock_monotonic_us();
    pthread_mutex_unlock(&lock);
    assert_true(clock_monotonic_us() - before_us >= 1020 * 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thread_hears_no_signals_and_its_maker_all_that_it_heard),
        cmocka_unit_test(thread_that_nobody_waits_for_does_its_work),
        cmocka_unit_test(waiting_in_vain_takes_its_time_and_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
