/* Which limit ended a run, when whoever looks at the clock was kept from it for long. */
#include "harness.h"

#include "base/clock.h"
#include "keeper/context_inside.h"

static int64_t cpu_spent_us;

static void tell_usage(struct box *box, struct measurement *now)
{
    (void)box;
    now->cpu_user_us = cpu_spent_us;
}

static const struct engine told_engine = {.measure = tell_usage};

/* A run of 2 s of wall and 0.5 s of CPU time, which nobody has looked at for three seconds. */
static enum cause cause_of_a_late_look(int64_t spent_us)
{
    struct box box = {.engine = &told_engine};
    struct context context = {.is_started = true,
                              .is_ready = true,
                              .box = &box,
                              .turn = {.is_busy = true,
                                       .run = 1,
                                       .started_us = clock_monotonic_us() - 3000000,
                                       .wall_ms = 2000,
                                       .cpu_ms = 500,
                                       .has_cpu_base = true,
                                       .cause = CAUSE_exit}};
    cpu_spent_us = spent_us;
    context_clock_look(&context);
    return context.turn.cause;
}

static void cpu_time_that_was_spent_is_the_cause_also_when_it_is_seen_too_late(void **state)
{
    (void)state;
    assert_int_equal(cause_of_a_late_look(600000), CAUSE_cpu_time);
}

static void a_run_that_waited_ends_by_the_wall(void **state)
{
    (void)state;
    assert_int_equal(cause_of_a_late_look(100000), CAUSE_wall_time);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cpu_time_that_was_spent_is_the_cause_also_when_it_is_seen_too_late),
        cmocka_unit_test(a_run_that_waited_ends_by_the_wall),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
