/* Interrupts of a context's runs, in real boxes: each hits the run that it is meant for. */
#include "context_session.h"

#include <pthread.h>
#include <stdatomic.h>

struct interrupter {
    struct context *context;
    atomic_int after_us; /* -1: not now; -2: the end */
    atomic_int calls;
    atomic_bool always;
};

static void *interrupt_on_demand(void *data)
{
    struct interrupter *self = data;
    int after_us;
    while ((after_us = atomic_exchange(&self->after_us, -1)) != -2) {
        if (after_us >= 0) {
            usleep((useconds_t)after_us);
            context_interrupt(self->context);
            atomic_fetch_add(&self->calls, 1);
        } else if (atomic_load(&self->always)) {
            context_interrupt(self->context);
        }
        sched_yield();
    }
    return NULL;
}

/* The moment of an interrupt and the length of a run, moved towards each other on any machine. */
struct race {
    int after_us, loops;
};

static void race_adjust(struct race *race, bool was_interrupted)
{
    enum { LOOPS_MAX = 1 << 16 }; /* a millisecond or two */
    if (was_interrupted)
        race->after_us += 30 + race->after_us / 4;
    else if (race->after_us >= 50)
        race->after_us -= 20 + race->after_us / 4;
    else if (race->loops < LOOPS_MAX)
        race->loops *= 2;
}

static void late_interrupt_never_hits_the_next_run(void **state)
{
    (void)state;
    need_root();
    EACH_ENGINE
    {
        struct session *session =
            open_session(engines[e], NULL, &(struct context_options){.runs_max = 10000});
        static struct interrupter interrupter; /* the thread outlives a test that fails */
        interrupter = (struct interrupter){.context = session->context, .after_us = -1};
        struct race race = {.loops = 1000};
        pthread_t thread;
        int ended[RUNNER_STATUS_COUNT] = {0};
        assert_int_equal(pthread_create(&thread, NULL, interrupt_on_demand, &interrupter), 0);
        for (int i = 0; i < 500; i++) {
            char code[64];
            snprintf(code, sizeof code, "for i in range(%d): pass", race.loops);
            atomic_store(&interrupter.after_us, race.after_us);
            run(session, code);
            assert_false(session->outcome.died);
            ended[session->outcome.status]++;
            race_adjust(&race, session->outcome.status == RUNNER_STATUS_interrupted);
            while (atomic_load(&interrupter.calls) <= i) /* it was for this run, or for none */
                sched_yield();
            run(session, "sum(range(100))");
            assert_string_equal(text(&session->value), "4950");
            assert_int_equal(session->outcome.cause, CAUSE_exit);
        }
        atomic_store(&interrupter.after_us, -2);
        pthread_join(thread, NULL);
        assert_true(ended[RUNNER_STATUS_ok] > 20 && ended[RUNNER_STATUS_interrupted] > 20);
        close_session(session);
    }
}

static void early_interrupt_is_not_lost(void **state)
{
    (void)state;
    need_root();
    struct session *session = open_session("container", NULL, &(struct context_options){.runs_max = 10000});
    static struct interrupter interrupter;
    interrupter = (struct interrupter){.context = session->context, .after_us = -1, .always = true};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, interrupt_on_demand, &interrupter), 0);
    for (int i = 0; i < 100; i++) { /* the first call comes before the runner has heard of the run */
        run(session, "while True: pass");
        assert_false(session->outcome.died);
        assert_int_equal(session->outcome.status, RUNNER_STATUS_interrupted);
        assert_int_equal(session->outcome.cause, CAUSE_cancelled);
    }
    atomic_store(&interrupter.after_us, -2);
    pthread_join(thread, NULL);
    close_session(session);
}

static void *interrupt_twice(void *data)
{
    sleep_ms(300);
    context_interrupt(data);
    context_interrupt(data); /* at once: nothing more */
    sleep_ms(1300);
    context_interrupt(data);
    return NULL;
}

static void *interrupt_late(void *data)
{
    sleep_ms(700);
    context_interrupt(data);
    return NULL;
}

static void interrupt_in_the_grace_of_a_limit_takes_nothing_from_it(void **state)
{
    (void)state;
    need_root();
    static const char *const fields[] = {"wall", "500ms", NULL};
    struct session *session = open_session("container", fields, NULL);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, interrupt_late, session->context), 0);
    run(session, "import time\ntry:\n    time.sleep(30)\nfinally:\n    time.sleep(0.5); print('cleaned')");
    pthread_join(thread, NULL);
    assert_false(session->outcome.died);
    assert_int_equal(session->outcome.cause, CAUSE_wall_time);
    assert_string_equal(text(&session->out), "cleaned\n");
    close_session(session);
}

static void second_interrupt_ends_who_does_not_listen(void **state)
{
    (void)state;
    need_root();
    struct session *session = open_session("container", NULL, NULL);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, interrupt_twice, session->context), 0);
    run(session,
        "import time\nwhile True:\n    try: time.sleep(30)\n    except KeyboardInterrupt: print('no')");
    pthread_join(thread, NULL);
    assert_string_equal(text(&session->out), "no\n");
    assert_true(session->outcome.died && !session->outcome.timed_out);
    assert_int_equal(session->outcome.cause, CAUSE_cancelled);
    assert_non_null(strstr(context_result(session->context)->detail, "interrupted"));
    close_session(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_interrupt_never_hits_the_next_run),
        cmocka_unit_test(early_interrupt_is_not_lost),
        cmocka_unit_test(interrupt_in_the_grace_of_a_limit_takes_nothing_from_it),
        cmocka_unit_test(second_interrupt_ends_who_does_not_listen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
