/* What limits a context and its runs, in real boxes: time that can be extended, CPU, idleness, and a new
 * beginning. */
#include "context_session.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- time ---- */

struct extension {
    struct context *context;
    int64_t extra_ms;
    int status;
    struct error err;
};

static void *extend_soon(void *data)
{
    struct extension *extension = data;
    sleep_ms(300);
    extension->status = context_extend(extension->context, extension->extra_ms, &extension->err);
    return NULL;
}

static struct extension run_and_extend(struct session *session, const char *code, int64_t extra_ms)
{
    struct extension extension = {.context = session->context, .extra_ms = extra_ms};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, extend_soon, &extension), 0);
    run(session, code);
    pthread_join(thread, NULL);
    return extension;
}

static void run_under_way_can_be_given_more_time(void **state)
{
    (void)state;
    need_root();
    static const char *const fields[] = {"wall", "600ms", "cpu", "600ms", NULL};
    EACH_ENGINE
    {
        struct session *session = open_session(engines[e], fields, NULL);
        struct extension extension = run_and_extend(
            session, "import time\nuntil = time.time() + 1.2\nwhile time.time() < until: pass", 5000);
        assert_int_equal(extension.status, 0);
        assert_int_equal(session->outcome.cause, CAUSE_exit);
        assert_int_equal(session->outcome.status, RUNNER_STATUS_ok);
        assert_int_equal(session->usage.wall_limit_us, 5600000);
        assert_int_equal(session->usage.cpu_limit_us, 5600000);
        run(session, "time.sleep(30)"); /* the next has the limit that it always had */
        assert_int_equal(session->outcome.cause, CAUSE_wall_time);
        assert_true(session->outcome.duration_us < 3000000);
        close_session(session);
    }
}

static void extended_run_ends_at_its_new_limit(void **state)
{
    (void)state;
    need_root();
    static const char *const fields[] = {"wall", "600ms", NULL};
    struct session *session = open_session("container", fields, NULL);
    run_and_extend(session, "import time\ntime.sleep(30)", 700);
    assert_int_equal(session->outcome.cause, CAUSE_wall_time);
    assert_true(session->outcome.duration_us >= 1250000 && session->outcome.duration_us < 3000000);
    close_session(session);
}

static void nothing_is_extended_above_the_ceiling(void **state)
{
    (void)state;
    need_root();
    static const char *const fields[] = {"wall", "600ms", NULL};
    static const int64_t wrong[] = {3000, INT64_MAX, 0, -1000};
    struct session *session = open_session("container", fields, NULL);
    session->policy.ceilings.value[LIMIT_wall] = 2000;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct extension extension = run_and_extend(session, "import time\ntime.sleep(30)", wrong[i]);
        assert_int_equal(extension.status, -EINVAL);
        assert_int_equal(extension.err.kind, ERROR_SPEC);
        assert_string_equal(extension.err.subject, "wall");
        assert_int_equal(session->outcome.cause, CAUSE_wall_time);
        assert_true(session->outcome.duration_us < 1500000);
    }
    struct error err = {0};
    assert_int_equal(context_extend(session->context, 100, &err), -ESRCH); /* no run is under way */
    close_session(session);
}

static void stall_on_output(void *data, const struct runner_event *event)
{
    (void)data;
    if (event->kind == RUNNER_stdout)
        sleep_ms(2500);
}

static void stalled_caller_stops_no_limit(void **state)
{
    (void)state;
    need_root();
    static const char *const fields[] = {"wall", "500ms", NULL};
    struct session *session = open_session("container", fields, NULL);
    const char *code = "print('on')\nwhile True: pass";
    const struct runner_order order = {.code = {code, strlen(code)}};
    struct error err = {0};
    assert_int_equal(context_run(session->context, &order, stall_on_output, NULL, &session->outcome, &err),
                     0);
    assert_int_equal(session->outcome.cause, CAUSE_wall_time);
    assert_false(session->outcome.died);
    assert_true(session->outcome.duration_us < 1500000); /* by the runner's clock */
    close_session(session);
}

/* ---- what is watched ---- */

static void run_is_watched_while_it_goes(void **state)
{
    (void)state;
    need_root();
    EACH_ENGINE
    {
        struct session *session = open_session(engines[e], NULL, NULL);
        run(session, "import cloche, time\nx = bytearray(50 << 20)\nprint('said')\n"
                     "cloche.progress(0.4, 'tra\\u00efning')\nuntil = time.time() + 1.5\n"
                     "while time.time() < until: pass");
        assert_in_range(session->watched, 2, 8);
        assert_false(session->usage_went_back);
        const struct context_usage *usage = &session->usage;
        assert_int_equal(usage->run, 1);
        assert_in_range(usage->elapsed_us, 700000, 3000000);
        assert_in_range(usage->cpu_us, 100000, 3000000);
        assert_in_range(usage->silent_us, 300000, usage->elapsed_us);
        assert_in_range(usage->memory_bytes, 50 << 20, 400 << 20);
        assert_true(usage->peak_memory_bytes >= usage->memory_bytes && usage->pids >= 1);
        assert_true(usage->fraction > 0.39 && usage->fraction < 0.41);
        assert_string_equal(usage->text, "tra\u00efning");
        run(session, "time.sleep(0.5)");
        assert_true(session->usage.fraction < 0); /* nothing of the last run is left */
        assert_string_equal(session->usage.text, "");
        struct context_usage now;
        context_look(session->context, &now);
        assert_int_equal(now.run, 0);
        assert_int_equal(now.runs, 2);
        assert_true(now.memory_bytes >= 50 << 20 && now.age_us > 2000000);
        close_session(session);
    }
}

static void progress_text_is_cut_between_characters(void **state)
{
    (void)state;
    need_root();
    struct session *session = open_session("container", NULL, NULL);
    run(session, "import os, json, struct, time\n"
                 "h = json.dumps({'type': 'progress', 'text': 'x' + '\\u20ac' * 3000}).encode()\n"
                 "os.write(6, struct.pack('<II', len(h), 0) + h); time.sleep(0.5)");
    size_t length = strlen(session->usage.text);
    assert_in_range(length, CONTEXT_TEXT_MAX - 4, CONTEXT_TEXT_MAX - 1);
    assert_int_equal((length - 1) % 3, 0);
    close_session(session);
}

/* ---- CPU ---- */

static void run_that_uses_up_its_cpu_is_interrupted(void **state)
{
    (void)state;
    need_root();
    static const char *const fields[] = {"cpu", "400ms", NULL};
    EACH_ENGINE
    {
        struct session *session = open_session(engines[e], fields, NULL);
        for (int i = 0; i < 2; i++) { /* the second has as much again */
            run(session, "n = 0\nwhile True: n += 1");
            assert_int_equal(session->outcome.cause, CAUSE_cpu_time);
            assert_int_equal(session->outcome.status, RUNNER_STATUS_interrupted);
            assert_true(session->outcome.timed_out && !session->outcome.died);
            assert_true(session->outcome.duration_us >= 350000 && session->outcome.duration_us < 10000000);
        }
        run(session, "import time\ntime.sleep(1)\nn > 0");
        assert_int_equal(session->outcome.cause, CAUSE_exit);
        assert_string_equal(text(&session->value), "True");
        close_session(session);
    }
}

static void run_that_uses_cpu_and_does_not_listen_is_killed(void **state)
{
    (void)state;
    need_root();
    static const char *const fields[] = {"cpu", "300ms", NULL};
    struct session *session = open_session("container", fields, NULL);
    run(session, "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass");
    assert_true(session->outcome.died && session->outcome.timed_out);
    assert_int_equal(session->outcome.cause, CAUSE_cpu_time);
    const struct result *result = context_result(session->context);
    assert_non_null(result);
    assert_int_equal(result->cause, CAUSE_cpu_time);
    assert_non_null(strstr(result->detail, "cpu is 300 ms"));
    close_session(session);
}

static const struct result *wait_for_result(struct session *session)
{
    for (int i = 0; i < 200 && !context_result(session->context); i++)
        sleep_ms(50);
    return context_result(session->context);
}

static void cpu_between_runs_is_limited_too(void **state)
{
    (void)state;
    need_root();
    static const char *const fields[] = {"cpu", "500ms", NULL};
    struct session *session = open_session("container", fields, NULL);
    run(session, "import threading\ndef spin():\n    while True: pass\n"
                 "threading.Thread(target=spin, daemon=True).start()");
    assert_int_equal(session->outcome.status, RUNNER_STATUS_ok);
    const struct result *result = wait_for_result(session);
    assert_non_null(result);
    assert_int_equal(result->cause, CAUSE_cpu_time);
    close_session(session);
}

static void start_of_an_interpreter_is_not_its_cpu_time(void **state)
{
    (void)state;
    need_root();
    static const char *const fields[] = {"cpu", "15ms", NULL};
    struct session *session = open_session("container", fields, NULL);
    sleep_ms(400);
    run(session, "1");
    assert_int_equal(session->outcome.cause, CAUSE_exit);
    sleep_ms(400);
    run(session, "2");
    assert_string_equal(text(&session->value), "2");
    close_session(session);
}

/* ---- ends of a context ---- */

static void idle_context_ends_by_itself(void **state)
{
    (void)state;
    need_root();
    EACH_ENGINE
    {
        struct session *session = open_session(engines[e], NULL, &(struct context_options){.idle_ms = 800});
        run(session, "import time\ntime.sleep(1.5)"); /* a run is not idle, however long */
        assert_int_equal(session->outcome.status, RUNNER_STATUS_ok);
        sleep_ms(300);
        assert_true(context_is_complete(session->context, (struct slice){"1", 1}));
        assert_null(context_result(session->context));
        const struct result *result = wait_for_result(session); /* nobody calls it */
        assert_non_null(result);
        assert_int_equal(result->cause, CAUSE_cancelled);
        struct error err = {0};
        assert_int_equal(try_run(session, "1", &err), -EPIPE);
        assert_non_null(strstr(err.text, "idle for 800 ms"));
        assert_true(context_is_complete(session->context, (struct slice){"if 1:", 5}));
        close_session(session);
    }
}

static void lifetime_that_is_over_is_told(void **state)
{
    (void)state;
    need_root();
    struct session *session = open_session("container", NULL, &(struct context_options){.lifetime_ms = 2000});
    struct error err = {0};
    run(session, "import time\ntime.sleep(20)");
    assert_true(session->outcome.died);
    assert_int_equal(session->outcome.cause, CAUSE_wall_time);
    assert_int_equal(try_run(session, "1", &err), -EPIPE);
    assert_non_null(strstr(err.text, "lifetime of 2 s is over"));
    close_session(session);
}

static void dead_context_is_restarted_and_others_live_on(void **state)
{
    (void)state;
    need_root();
    EACH_ENGINE
    {
        struct session *session = open_session(engines[e], NULL, &(struct context_options){.runs_max = 3});
        struct session *other = open_session(engines[e], NULL, NULL);
        struct error err = {0};
        run(other, "y = 'other'");
        run(session, "x = 1\nimport os\nos._exit(7)");
        assert_true(session->outcome.died);
        assert_int_equal(session->outcome.cause, CAUSE_exit);
        assert_int_equal(context_result(session->context)->exit_code, 7);
        assert_int_equal(context_restart(session->context, &err), 0);
        assert_null(context_result(session->context));
        run(session, "'x' in globals()");
        assert_string_equal(text(&session->value), "False");
        run(other, "y");
        assert_string_equal(text(&other->value), "'other'");
        close_session(other);
        close_session(session);
    }
}

static void living_context_is_restarted_with_all_its_runs(void **state)
{
    (void)state;
    need_root();
    static const char *const fields[] = {"memory", "200M", NULL};
    struct session *session = open_session("container", fields, &(struct context_options){.runs_max = 2});
    struct error err = {0};
    for (int i = 0; i < 3; i++) {
        run(session, "open('kept', 'x').close(); x = 1");
        assert_int_equal(session->outcome.status, RUNNER_STATUS_ok); /* the file is not there */
        run(session, "x");
        assert_string_equal(text(&session->value), "1");
        assert_int_equal(try_run(session, "2", &err), -EBUSY);
        assert_int_equal(context_restart(session->context, &err), 0);
    }
    assert_int_equal(context_limits(session->context)->value[LIMIT_memory], 200 << 20);
    run(session, "x = bytearray(1 << 30)\nfor i in range(0, len(x), 4096): x[i] = 1");
    assert_true(session->outcome.died); /* the limit holds after a restart */
    assert_int_equal(session->outcome.cause, CAUSE_memory);
    close_session(session);
}

static void restart_that_fails_leaves_a_dead_context(void **state)
{
    (void)state;
    need_root();
    struct session *session = open_session("container", NULL, NULL);
    int64_t ceiling = session->policy.ceilings.value[LIMIT_memory];
    struct error err = {0};
    session->policy.ceilings.value[LIMIT_memory] = 16 << 20;
    assert_int_equal(context_restart(session->context, &err), -EINVAL);
    assert_non_null(strstr(err.text, "memory"));
    assert_int_equal(try_run(session, "1", &err), -EPIPE);
    assert_non_null(strstr(err.text, "memory"));
    session->policy.ceilings.value[LIMIT_memory] = ceiling;
    assert_int_equal(context_restart(session->context, &err), 0);
    run(session, "1");
    assert_string_equal(text(&session->value), "1");
    close_session(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(run_under_way_can_be_given_more_time),
        cmocka_unit_test(extended_run_ends_at_its_new_limit),
        cmocka_unit_test(nothing_is_extended_above_the_ceiling),
        cmocka_unit_test(stalled_caller_stops_no_limit),
        cmocka_unit_test(run_is_watched_while_it_goes),
        cmocka_unit_test(progress_text_is_cut_between_characters),
        cmocka_unit_test(run_that_uses_up_its_cpu_is_interrupted),
        cmocka_unit_test(run_that_uses_cpu_and_does_not_listen_is_killed),
        cmocka_unit_test(cpu_between_runs_is_limited_too),
        cmocka_unit_test(start_of_an_interpreter_is_not_its_cpu_time),
        cmocka_unit_test(idle_context_ends_by_itself),
        cmocka_unit_test(lifetime_that_is_over_is_told),
        cmocka_unit_test(dead_context_is_restarted_and_others_live_on),
        cmocka_unit_test(living_context_is_restarted_with_all_its_runs),
        cmocka_unit_test(restart_that_fails_leaves_a_dead_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
