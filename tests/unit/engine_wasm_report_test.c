/* A report may be the words of a module that broke out of Wasmtime: what it can say, and what it cannot. */
#include "harness.h"

#include "engine/engine.h"
#include "engine/wasm/order.h"
#include "wasm/order.h"

#include <sys/socket.h>
#include <unistd.h>

struct scene {
    struct spec *spec;
    struct box box;
    struct result *result;
    int theirs;
    struct error err;
};

static void open_scene(struct scene *scene, enum cause cause)
{
    int ends[2];
    *scene = (struct scene){.spec = spec_new(), .result = result_new()};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    box_init(&scene->box);
    scene->spec->limits.value[LIMIT_memory] = 64 << 20;
    scene->box.spec = scene->spec;
    scene->box.limits = &scene->spec->limits;
    scene->box.channel_fd = ends[0];
    scene->theirs = ends[1];
    scene->result->cause = cause;
    scene->result->exit_code = cause == CAUSE_exit ? 0 : -1;
}

static void close_scene(struct scene *scene)
{
    close(scene->theirs);
    close(scene->box.channel_fd);
    result_free(scene->result);
    spec_free(scene->spec);
}

static int say(struct scene *scene, uint32_t length, const char *bytes, size_t sent)
{
    struct report_head head = {length};
    assert_int_equal(write(scene->theirs, &head, sizeof head), sizeof head);
    assert_int_equal(write(scene->theirs, bytes, sent), sent);
    return wasm_report_take(&scene->box, scene->result, &scene->err);
}

#define SAY(scene, pairs) say(scene, sizeof(pairs) - 1, pairs, sizeof(pairs) - 1)

static void traps_and_limits_are_taken(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, CAUSE_exit);
    assert_int_equal(SAY(&scene, "trap\0unreachable\0message\0first\n  last line\n\0returned\0"
                                 "7\0"),
                     0);
    assert_int_equal(scene.result->cause, CAUSE_trap);
    assert_string_equal(scene.result->trap, "unreachable");
    assert_string_equal(scene.result->detail, "last line");
    assert_int_equal(scene.result->returned.count, 1);
    close_scene(&scene);
    open_scene(&scene, CAUSE_exit);
    assert_int_equal(SAY(&scene, "limit\0cpu\0"), 0);
    assert_int_equal(scene.result->cause, CAUSE_cpu_time);
    assert_true(scene.result->timed_out && scene.result->signal == 9);
    close_scene(&scene);
}

static void what_the_host_has_decided_stays(void **state)
{
    (void)state;
    static const enum cause decided[] = {CAUSE_memory, CAUSE_output, CAUSE_denied_syscall, CAUSE_host_failure,
                                         CAUSE_cancelled};
    for (size_t i = 0; i < sizeof decided / sizeof *decided; i++) {
        struct scene scene;
        open_scene(&scene, decided[i]);
        assert_int_equal(SAY(&scene, "trap\0unreachable\0limit\0wall\0"), 0);
        assert_int_equal(scene.result->cause, decided[i]);
        assert_string_equal(scene.result->trap, "");
        close_scene(&scene);
    }
}

static void broken_reports_say_nothing(void **state)
{
    (void)state;
    static char large[REPORT_MAX + 1];
    const struct {
        uint32_t length;
        const char *bytes;
        size_t sent;
    } rows[] = {{REPORT_MAX + 1, large, sizeof large}, {UINT32_MAX, "trap", 4}, {40, "trap\0unreachable", 17},
                {16, "trap\0unreachable!", 16},        {4, "trap", 4},          {5, "trap\0", 5}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct scene scene;
        open_scene(&scene, CAUSE_exit);
        assert_int_equal(say(&scene, rows[i].length, rows[i].bytes, rows[i].sent), 0);
        assert_int_equal(scene.result->cause, CAUSE_exit);
        close_scene(&scene);
    }
}

static void numbers_and_lists_are_bounded(void **state)
{
    (void)state;
    struct scene scene;
    char many[40 * 11];
    for (size_t i = 0; i < 40; i++)
        memcpy(many + i * 11,
               "returned\0"
               "1",
               11);
    open_scene(&scene, CAUSE_exit);
    assert_int_equal(say(&scene, sizeof many, many, sizeof many), 0);
    assert_int_equal(scene.result->returned.count, 32);
    close_scene(&scene);
    open_scene(&scene, CAUSE_exit);
    assert_int_equal(SAY(&scene, "memory\0"
                                 "99999999999999999999\0fuel\0-5\0nothing\0known\0"),
                     0);
    assert_int_equal(scene.result->usage.peak_memory_bytes, 0);
    assert_true(scene.result->fuel_used >= 0);
    close_scene(&scene);
}

static void refusal_is_an_error_with_its_words(void **state)
{
    (void)state;
    struct scene scene;
    open_scene(&scene, CAUSE_exit);
    assert_true(SAY(&scene, "refused\0the module imports 'env.x'\0") < 0);
    assert_non_null(strstr(scene.err.text, "env.x"));
    close_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(traps_and_limits_are_taken),
        cmocka_unit_test(what_the_host_has_decided_stays),
        cmocka_unit_test(broken_reports_say_nothing),
        cmocka_unit_test(numbers_and_lists_are_bounded),
        cmocka_unit_test(refusal_is_an_error_with_its_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
