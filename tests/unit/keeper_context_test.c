/* Contexts in real boxes, of both engines. */
#include "context_session.h"

#include <fcntl.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static void state_stays_from_run_to_run(void **state)
{
    (void)state;
    need_root();
    EACH_ENGINE
    {
        struct session *session = open_session(engines[e], NULL, NULL);
        run(session, "import os\nx = 20\nos.makedirs('d', exist_ok=True); os.chdir('d'); open('f', "
                     "'w').write('kept')");
        assert_int_equal(session->outcome.status, RUNNER_STATUS_ok);
        run(session, "print('out'); x + len(open('f').read()) - 2");
        assert_string_equal(text(&session->value), "22");
        assert_string_equal(text(&session->out), "out\n");
        run(session, "1 / 0");
        assert_int_equal(session->outcome.status, RUNNER_STATUS_error);
        assert_string_equal(text(&session->error_name), "ZeroDivisionError");
        run(session, "raise SystemExit(3)");
        assert_int_equal(session->outcome.status, RUNNER_STATUS_exit);
        assert_int_equal(session->outcome.exit_code, 3);
        run(session, "x");
        assert_string_equal(text(&session->value), "20");
        close_session(session);
    }
}

static void javascript_keeps_its_state_too(void **state)
{
    (void)state;
    need_root();
    static const char *const fields[] = {"language", "javascript", NULL};
    EACH_ENGINE
    {
        struct session *session = open_session(engines[e], fields, 0);
        run(session, "const fs = require('fs'); let x = 20; fs.mkdirSync('d'); process.chdir('d');"
                     "fs.writeFileSync('f', 'kept')");
        assert_int_equal(session->outcome.status, RUNNER_STATUS_ok);
        run(session,
            "let y = await Promise.resolve(2); console.log('out'); x + fs.readFileSync('f').length - y");
        assert_string_equal(text(&session->value), "22");
        assert_string_equal(text(&session->out), "out\n");
        run(session, "null.x");
        assert_int_equal(session->outcome.status, RUNNER_STATUS_error);
        assert_string_equal(text(&session->error_name), "TypeError");
        run(session, "process.exit(3)");
        assert_int_equal(session->outcome.status, RUNNER_STATUS_exit);
        assert_int_equal(session->outcome.exit_code, 3);
        run(session, "x");
        assert_string_equal(text(&session->value), "20");
        close_session(session);
    }
}

static void bash_keeps_its_state_too(void **state)
{
    (void)state;
    need_root();
    static const char *const fields[] = {"language", "bash", NULL};
    EACH_ENGINE
    {
        struct session *session = open_session(engines[e], fields, 0);
        run(session, "x=20; f() { echo \"f $1 $x\"; }; mkdir d && cd d && echo kept >f");
        assert_int_equal(session->outcome.status, RUNNER_STATUS_ok);
        run(session, "f 1; cat f");
        assert_string_equal(text(&session->out), "f 1 20\nkept\n");
        run(session, "(exit 7)");
        assert_int_equal(session->outcome.status, RUNNER_STATUS_error);
        assert_int_equal(session->outcome.exit_code, 7);
        assert_string_equal(text(&session->error_name), "ExitStatus");
        run(session, "x=21; exit 3");
        assert_int_equal(session->outcome.status, RUNNER_STATUS_exit);
        assert_int_equal(session->outcome.exit_code, 3);
        run(session, "f 2; cat f");
        assert_string_equal(text(&session->out), "f 2 21\nkept\n");
        close_session(session);
    }
}

static void rich_results_come_out_of_the_box(void **state)
{
    (void)state;
    need_root();
    struct session *session = open_session("container", NULL, NULL);
    run(session, "import cloche, matplotlib.pyplot as plt\ncloche.progress(0.5)\nplt.plot([1, 2])");
    assert_int_equal(session->outcome.status, RUNNER_STATUS_ok);
    assert_int_equal(session->pictures, 1);
    assert_int_equal(session->progress, 1);
    close_session(session);
}

static void runs_are_limited_in_time_and_the_context_lives_on(void **state)
{
    (void)state;
    need_root();
    static const char *const fields[] = {"wall", "500ms", NULL};
    EACH_ENGINE
    {
        struct session *session = open_session(engines[e], fields, NULL);
        run(session, "n = 0\nwhile True: n += 1");
        assert_true(session->outcome.timed_out);
        assert_int_equal(session->outcome.status, RUNNER_STATUS_interrupted);
        run(session, "n > 0");
        assert_string_equal(text(&session->value), "True");
        assert_false(session->outcome.timed_out);
        close_session(session);
    }
}

static void run_that_does_not_listen_ends_the_context(void **state)
{
    (void)state;
    need_root();
    static const char *const fields[] = {"wall", "300ms", NULL};
    struct session *session = open_session("container", fields, NULL);
    run(session, "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(60)");
    assert_true(session->outcome.died && session->outcome.timed_out);
    struct error err = {0};
    assert_int_equal(try_run(session, "1", &err), -EPIPE);
    close_session(session);
}

static void memory_bomb_ends_the_context_with_its_cause(void **state)
{
    (void)state;
    need_root();
    static const char *const fields[] = {"memory", "128M", NULL};
    EACH_ENGINE
    {
        struct session *session = open_session(engines[e], fields, NULL);
        run(session,
            "x = bytearray(1 << 30)\nimport time\nfor i in range(0, len(x), 4096): x[i] = 1\ntime.sleep(5)");
        assert_true(session->outcome.died);
        assert_non_null(context_result(session->context));
        assert_int_equal(context_result(session->context)->cause, CAUSE_memory);
        assert_int_equal(session->outcome.cause, CAUSE_memory);
        close_session(session);
    }
}

static void interpreter_that_dies_says_how(void **state)
{
    (void)state;
    need_root();
    struct session *session = open_session("container", NULL, NULL);
    assert_null(context_result(session->context));
    run(session, "import os\nos.kill(os.getpid(), 11)");
    assert_true(session->outcome.died);
    assert_int_equal(context_result(session->context)->signal, 11);
    close_session(session);
    session = open_session("container", NULL, NULL);
    run(session, "import os\nos._exit(5)");
    assert_true(session->outcome.died);
    assert_int_equal(context_result(session->context)->exit_code, 5);
    close_session(session);
}

static void runner_that_lies_is_only_believed_as_the_guest(void **state)
{
    (void)state;
    need_root();
    struct session *session = open_session("container", NULL, NULL);
    run(session, "import os\nos.write(6, b'\\xff' * 64)\nimport time; time.sleep(5)");
    assert_true(session->outcome.died);
    close_session(session);
    session = open_session("container", NULL, NULL);
    run(session, "import os, time\nos.close(6)\ntime.sleep(30)"); /* deaf and dumb, but alive */
    assert_true(session->outcome.died);
    close_session(session);
}

static void *interrupt_soon(void *data)
{
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    context_interrupt(data);
    return NULL;
}

static void run_can_be_interrupted(void **state)
{
    (void)state;
    need_root();
    EACH_ENGINE
    {
        struct session *session = open_session(engines[e], NULL, NULL);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, session->context), 0);
        run(session, "import time\nfor i in range(60): time.sleep(0.5)");
        pthread_join(thread, NULL);
        assert_int_equal(session->outcome.status, RUNNER_STATUS_interrupted);
        assert_false(session->outcome.timed_out);
        assert_int_equal(context_interrupt(session->context), 0); /* between runs: nothing */
        run(session, "'alive'");
        assert_string_equal(text(&session->value), "'alive'");
        close_session(session);
    }
}

static void busy_code_is_interrupted_when_its_time_is_over(void **state)
{
    (void)state;
    need_root();
    static const struct {
        const char *language, *busy, *next, *shown;
    } each[] = {{"javascript", "let n = 0; while (true) n++", "console.log(n > 0)", "true\n"},
                {"bash", "n=0; while :; do n=1; done", "echo $n", "1\n"},
                {"bash", "n=5; sleep 100", "echo $n", "5\n"}};
    EACH_ENGINE
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        const char *const fields[] = {"language", each[i].language, "wall", "500ms", NULL};
        struct session *session = open_session(engines[e], fields, 0);
        run(session, each[i].busy);
        assert_true(session->outcome.timed_out);
        assert_false(session->outcome.died);
        assert_int_equal(session->outcome.status, RUNNER_STATUS_interrupted);
        run(session, each[i].next);
        assert_string_equal(text(&session->out), each[i].shown);
        close_session(session);
    }
}

static void runs_are_counted_and_output_is_limited(void **state)
{
    (void)state;
    need_root();
    static const char *const fields[] = {"output_limit", "1000", NULL};
    struct session *session = open_session("container", fields, &(struct context_options){.runs_max = 2});
    struct error err = {0};
    run(session, "for i in range(100): print('x' * 99)");
    assert_int_equal(session->out.length, 1000);
    assert_int_equal(session->outcome.truncated_bytes, 9000);
    run(session, "print('\u20ac' * 500)"); /* one piece: cut, and between characters */
    assert_int_equal(session->out.length, 999);
    assert_int_equal(session->outcome.truncated_bytes, 502);
    assert_int_equal(try_run(session, "2", &err), -EBUSY);
    close_session(session);
}

static int open_directory(char *path)
{
    assert_non_null(mkdtemp(path));
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void files_are_collected_when_the_box_ends(void **state)
{
    (void)state;
    need_root();
    EACH_ENGINE
    {
        struct session *session = open_session(engines[e], NULL, NULL);
        struct error err = {0};
        char path[] = "/tmp/cloche-collect-XXXXXX";
        scope_fd directory = open_directory(path);
        run(session, "open('a', 'w').write('one')");
        assert_null(context_result(session->context));
        assert_int_equal(context_collect_into(session->context, directory, &err), 0);
        assert_int_equal(context_finish(session->context, "it was enough", &err), 0);
        const struct result *result = context_result(session->context);
        assert_non_null(result);
        assert_string_equal(result->detail, "it was enough");
        assert_int_equal(result->file_count, 1);
        assert_string_equal(result->files[0].path, "a");
        assert_int_equal(faccessat(directory, "a", R_OK, 0), 0);
        assert_int_equal(context_restart(session->context, &err), 0);
        run(session, "open('b', 'w').close(); import os; os._exit(3)"); /* however it ends */
        assert_true(session->outcome.died);
        assert_int_equal(faccessat(directory, "b", R_OK, 0), 0);
        assert_int_equal(context_finish(session->context, "it is over already", &err), 0);
        assert_int_equal(context_result(session->context)->exit_code, 3);
        assert_int_equal(context_collect_into(session->context, -1, &err), 0);
        assert_int_equal(context_restart(session->context, &err), 0);
        run(session, "open('c', 'w').close(); import os; os._exit(3)");
        assert_int_equal(faccessat(directory, "c", R_OK, 0), -1);
        assert_int_equal(unlinkat(directory, "a", 0) | unlinkat(directory, "b", 0) | rmdir(path), 0);
        close_session(session);
    }
}

static void early_end_is_explained(void **state)
{
    (void)state;
    need_root();
    struct policy policy = {0};
    struct error err = {0};
    struct context *context = NULL;
    struct spec *spec = spec_new();
    assert_int_equal(policy_load(NULL, &policy, &err), 0);
    assert_int_equal(spec_set(spec, "memory", "8M", &err), 0);
    assert_true(context_open(spec, &policy, NULL, &context, &err) < 0);
    assert_error(&err, ERROR_SPEC, "memory", "ended before it was ready: memory, the memory limit");
    policy_free(&policy);
}

static void other_programs_are_heard_too(void **state)
{
    (void)state;
    need_root();
    struct session *session = open_session("container", NULL, NULL);
    run(session, "import subprocess\nsubprocess.run(['echo', 'from a child'])");
    for (int i = 0; i < 200 && !session->raw.length; i++)
        usleep(10000);
    context_close(session->context);
    session->context = NULL;
    assert_string_equal(text(&session->raw), "from a child\n");
    close_session(session);
}

static void what_is_no_context_is_refused(void **state)
{
    (void)state;
    need_root();
    static const char *const wrong[][2] = {{"language", "go"}, {"code", "print(1)"}, {"memory", "900T"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct policy policy;
        struct error err = {0};
        struct context *context = NULL;
        assert_int_equal(policy_load(NULL, &policy, &err), 0);
        struct spec *spec = spec_new();
        int status = spec_set(spec, wrong[i][0], wrong[i][1], &err);
        if (status == 0)
            status = context_open(spec, &policy, NULL, &context, &err);
        else
            spec_free(spec);
        assert_true(status < 0);
        assert_int_equal(err.kind, ERROR_SPEC);
        assert_null(context);
        policy_free(&policy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_stays_from_run_to_run),
        cmocka_unit_test(javascript_keeps_its_state_too),
        cmocka_unit_test(bash_keeps_its_state_too),
        cmocka_unit_test(rich_results_come_out_of_the_box),
        cmocka_unit_test(runs_are_limited_in_time_and_the_context_lives_on),
        cmocka_unit_test(run_that_does_not_listen_ends_the_context),
        cmocka_unit_test(memory_bomb_ends_the_context_with_its_cause),
        cmocka_unit_test(interpreter_that_dies_says_how),
        cmocka_unit_test(runner_that_lies_is_only_believed_as_the_guest),
        cmocka_unit_test(run_can_be_interrupted),
        cmocka_unit_test(busy_code_is_interrupted_when_its_time_is_over),
        cmocka_unit_test(runs_are_counted_and_output_is_limited),
        cmocka_unit_test(files_are_collected_when_the_box_ends),
        cmocka_unit_test(early_end_is_explained),
        cmocka_unit_test(other_programs_are_heard_too),
        cmocka_unit_test(what_is_no_context_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
