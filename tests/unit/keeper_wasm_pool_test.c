/* Whose runs share a process of the wasm engine, how many of them wait, and for how long. In real boxes. */
#include "harness.h"

#include "base/clock.h"
#include "keeper/pool.h"
#include "keeper/run_service.h"
#include "keeper/wire.h"

#include <sys/socket.h>

enum { WAIT_MS = 20000, LONG_MS = 600000, IDLE_MOST = 16 };

static struct policy policy;
static struct language_table languages;

static int open_world(void **state)
{
    (void)state;
    struct error err = {0};
    const struct string_list none = {0};
    return policy_load("/dev/null", &policy, &err) < 0 || language_table_load(&none, &languages, &err) < 0
               ? -1
               : 0;
}

static int close_world(void **state)
{
    (void)state;
    policy_free(&policy);
    language_table_free(&languages);
    return 0;
}

static const char code[] = "(module (func (export \"_start\")))";

static int serve_with(struct wasm_pool *pool, const char *owner, const char *limit, const char *value)
{
    struct error err = {0};
    struct result *result = NULL;
    scope_spec *spec = spec_new();
    assert_int_equal(spec_set(spec, "isolation", "wasm", &err), 0);
    assert_int_equal(spec_set(spec, "language", "wasm", &err), 0);
    assert_int_equal(spec_set(spec, "code", code, &err), 0);
    if (limit)
        assert_int_equal(spec_set(spec, limit, value, &err), 0);
    if (spec_validate(spec, &policy, &err) < 0)
        fail_msg("%s", err.text);
    const struct supervise_io io = {.forward_fd = {-1, -1}, .owner = owner, .cancel_fd = -1};
    int status = wasm_pool_serve(pool, spec, &io, &result, &err);
    if (status == 0) {
        assert_int_equal(result->cause, CAUSE_exit);
        assert_int_equal(result->exit_code, 0);
    }
    result_free(result);
    return status;
}

/* Did it find one? */
static bool is_hit(struct wasm_pool *pool, const char *owner)
{
    struct wasm_pool_state before, after;
    wasm_pool_read_state(pool, &before);
    assert_int_equal(serve_with(pool, owner, NULL, NULL), 0);
    wasm_pool_read_state(pool, &after);
    assert_int_equal(after.hits + after.misses, before.hits + before.misses + 1);
    return after.hits > before.hits;
}

static int idle_of(struct wasm_pool *pool)
{
    struct wasm_pool_state state;
    wasm_pool_read_state(pool, &state);
    return state.idle;
}

static void a_process_serves_one_owner(void **state)
{
    (void)state;
    struct wasm_pool *pool = wasm_pool_new(&policy, &languages, LONG_MS);
    assert_false(is_hit(pool, "alice"));
    assert_false(is_hit(pool, "bob"));
    assert_false(is_hit(pool, "")); /* a user's own keeper */
    assert_true(is_hit(pool, "alice"));
    assert_true(is_hit(pool, "bob"));
    assert_true(is_hit(pool, ""));
    assert_int_equal(idle_of(pool), 3);
    wasm_pool_free(pool);
}

static void a_run_of_nobody_is_not_for_such_a_process(void **state)
{
    (void)state;
    char long_name[1000];
    memset(long_name, 'x', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    struct wasm_pool *pool = wasm_pool_new(&policy, &languages, LONG_MS);
    assert_int_equal(serve_with(pool, NULL, NULL, NULL), -EAGAIN);
    assert_int_equal(serve_with(pool, long_name, NULL, NULL), -EAGAIN);
    assert_int_equal(idle_of(pool), 0);
    wasm_pool_free(pool);
}

static void what_the_kernel_limits_is_not_changed_in_a_process(void **state)
{
    (void)state;
    static const char *const limits[][2] = {{"pids", "7"}, {"disk", "3M"}, {"open_files", "70"}};
    struct wasm_pool *pool = wasm_pool_new(&policy, &languages, LONG_MS);
    assert_false(is_hit(pool, "alice"));
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        assert_int_equal(serve_with(pool, "alice", limits[i][0], limits[i][1]), 0);
        assert_int_equal(idle_of(pool), (int)i + 2);
    }
    assert_int_equal(serve_with(pool, "alice", "memory", "64M"), 0); /* watched from outside */
    assert_int_equal(idle_of(pool), 4);
    wasm_pool_free(pool);
}

static void the_oldest_of_somebody_else_makes_room(void **state)
{
    (void)state;
    char name[16];
    struct wasm_pool *pool = wasm_pool_new(&policy, &languages, LONG_MS);
    for (int i = 0; i < IDLE_MOST; i++) {
        snprintf(name, sizeof name, "tenant-%d", i);
        assert_false(is_hit(pool, name));
    }
    assert_true(is_hit(pool, "tenant-0")); /* it is not the oldest any more */
    assert_false(is_hit(pool, "one-more"));
    assert_int_equal(idle_of(pool), IDLE_MOST);
    assert_true(is_hit(pool, "one-more"));
    assert_true(is_hit(pool, "tenant-0"));
    assert_true(is_hit(pool, "tenant-2"));
    assert_false(is_hit(pool, "tenant-1"));
    wasm_pool_free(pool);
}

static void who_waits_for_long_is_ended(void **state)
{
    (void)state;
    struct wasm_pool *pool = wasm_pool_new(&policy, &languages, 1500);
    int64_t until_us = clock_monotonic_us() + (int64_t)WAIT_MS * 1000;
    assert_false(is_hit(pool, "alice"));
    assert_int_equal(idle_of(pool), 1);
    while (idle_of(pool) > 0 && clock_monotonic_us() < until_us)
        usleep(20000);
    assert_int_equal(idle_of(pool), 0);
    assert_false(is_hit(pool, "alice"));
    wasm_pool_free(pool);
}

/* A request for a run, by the server's door or by that of a user's own keeper. */
static void ask(struct pool *pool, bool is_inside, const char *owner)
{
    int ends[2], fds[WIRE_DESCRIPTORS] = {[0 ... WIRE_DESCRIPTORS - 1] = -1};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    struct error err = {0};
    scope_spec *spec = spec_new();
    assert_int_equal(spec_set(spec, "isolation", "wasm", &err), 0);
    assert_int_equal(spec_set(spec, "language", "wasm", &err), 0);
    spec->has_code = true;
    json_t *request = json_pack("{s:o, s:s*}", "spec", wire_from_spec(spec), "owner", owner), *answer = NULL;
    scope_buffer sent = {0}, body = {0};
    assert_int_equal(buffer_append(&sent, code, strlen(code)), 0);
    assert_int_equal(run_answer(&(struct run_order){.pool = pool,
                                                    .fd = ends[0],
                                                    .is_inside = is_inside,
                                                    .request = request,
                                                    .code = &sent,
                                                    .fds = fds}),
                     0);
    assert_int_equal(wire_receive(ends[1], &answer, &body, NULL), 0);
    assert_non_null(json_object_get(answer, "result"));
    json_decref(answer);
    json_decref(request);
    close(ends[0]);
    close(ends[1]);
}

static void assert_counts(struct pool *pool, int64_t hits, int64_t misses)
{
    struct pool_state state;
    assert_int_equal(pool_read_state(pool, &state, NULL), 0);
    assert_int_equal(state.wasm.hits, hits);
    assert_int_equal(state.wasm.misses, misses);
    pool_state_free(&state);
}

static void only_the_server_says_for_whom_a_run_is(void **state)
{
    (void)state;
    struct error err = {0};
    struct pool *pool = NULL;
    assert_int_equal(pool_open(&policy, &(struct pool_options){.maximum = 1}, &pool, &err), 0);
    ask(pool, true, "alice");
    assert_counts(pool, 0, 1);
    ask(pool, false, "alice"); /* a user, who is not alice whatever he says … */
    assert_counts(pool, 0, 2);
    ask(pool, false, "bob"); /* … and the same one all the time */
    ask(pool, false, NULL);
    assert_counts(pool, 2, 2);
    ask(pool, true, "alice");
    assert_counts(pool, 3, 2);
    ask(pool, true, NULL); /* is cold */
    assert_counts(pool, 3, 2);
    pool_close(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_serves_one_owner),
        cmocka_unit_test(a_run_of_nobody_is_not_for_such_a_process),
        cmocka_unit_test(what_the_kernel_limits_is_not_changed_in_a_process),
        cmocka_unit_test(the_oldest_of_somebody_else_makes_room),
        cmocka_unit_test(who_waits_for_long_is_ended),
        cmocka_unit_test(only_the_server_says_for_whom_a_run_is),
    };
    return cmocka_run_group_tests(tests, open_world, close_world);
}
