/* Live sandboxes in the keeper: owners, claims, deadlines, ends. In real boxes. */
#include "base/clock.h"
#include "base/scope.h"
#include "keeper/session_service.h"
#include "keeper/wire.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct policy policy;
static struct session_table *table;

static int open_table(void **state)
{
    (void)state;
    struct error err = {0};
    if (policy_load("/dev/null", &policy, &err) < 0 || session_table_open(&policy, NULL, &table, &err) < 0)
        return -1;
    return 0;
}

static int close_table(void **state)
{
    (void)state;
    session_table_close(table);
    policy_free(&policy);
    return 0;
}

static struct session *open_session(const char *owner, int64_t ttl_ms, int64_t idle_ms)
{
    struct error err = {0};
    struct session *session = NULL;
    json_t *spec = json_pack("{s:s}", "language", "bash");
    const struct session_terms terms = {
        .owner = owner, .spec = spec, .ttl_ms = ttl_ms, .idle_ms = idle_ms, .room = "room_one"};
    if (session_open(table, &terms, &session, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(spec);
    return session;
}

static void copy_id(struct session *session, char *into, size_t size)
{
    json_t *view = session_to_json(session, false);
    snprintf(into, size, "%s", json_string_value(json_object_get(view, "id")));
    json_decref(view);
}

static void ignore_event(void *data, const struct runner_event *event)
{
    (void)data;
    (void)event;
}

static void ignore_output(void *data, enum supervise_stream stream, struct slice bytes)
{
    (void)data;
    (void)stream;
    (void)bytes;
}

static bool is_gone(void *data)
{
    return data && *(volatile bool *)data;
}

struct running {
    struct session *session;
    const char *code;
    bool listener_is_gone;
    int status;
    struct session_outcome outcome;
    struct error error;
    pthread_t thread;
};

static void *run_main(void *data)
{
    struct running *running = data;
    const struct session_order order = {.code = {running->code, strlen(running->code)}};
    const struct session_listener listener = {.event = ignore_event,
                                              .output = ignore_output,
                                              .is_gone = is_gone,
                                              .data = &running->listener_is_gone};
    running->status = session_run(running->session, &order, &listener, &running->outcome, &running->error);
    return NULL;
}

static void start(struct running *running, struct session *session, const char *code)
{
    *running = (struct running){.session = session, .code = code};
    assert_int_equal(pthread_create(&running->thread, NULL, run_main, running), 0);
}

static int run(struct session *session, const char *code, struct running *running)
{
    start(running, session, code);
    pthread_join(running->thread, NULL);
    return running->status;
}

static void await_busy(struct session *session)
{
    for (int i = 0; i < 1000; i++) {
        json_t *view = session_to_json(session, false);
        json_t *context = json_array_get(json_object_get(view, "contexts"), 0);
        bool is_busy = strcmp(json_string_value(json_object_get(context, "state")), "busy") == 0;
        json_decref(view);
        if (is_busy)
            return;
        usleep(5000);
    }
    fail_msg("no run is under way");
}

static void nobody_but_its_owner_can_name_it(void **state)
{
    (void)state;
    struct session *session = open_session("one", 0, 0), *found = NULL;
    struct error err = {0}, other = {0};
    char id[64];
    copy_id(session, id, sizeof id);
    assert_int_equal(session_find(table, "two", id, true, &found, &err), -ENOENT);
    assert_int_equal(session_find(table, "two", "sbx_never", true, &found, &other), -ENOENT);
    assert_string_equal(err.text, other.text);
    assert_int_equal(session_find(table, "one", id, false, &found, &err), 0);
    session_put(found);
    session_close(session);
    assert_int_equal(session_find(table, "one", id, true, &found, &err), -ENOENT);
    session_put(session);
}

static void a_second_run_is_refused_and_an_end_ends_the_first(void **state)
{
    (void)state;
    struct session *session = open_session("one", 0, 0);
    struct running first, second;
    start(&first, session, "sleep 60");
    await_busy(session);
    assert_int_equal(run(session, "true", &second), -EBUSY);
    assert_int_equal(second.error.code, -EBUSY);
    int64_t begun_us = clock_monotonic_us();
    session_close(session);
    pthread_join(first.thread, NULL);
    assert_true(clock_monotonic_us() - begun_us < 10 * 1000000);
    assert_int_equal(first.status, 0);
    assert_true(first.outcome.is.died);
    assert_int_equal(first.outcome.is.cause, CAUSE_cancelled);
    assert_int_equal(run(session, "true", &second), -ESTALE);
    session_put(session);
}

static void a_run_that_nobody_hears_is_interrupted(void **state)
{
    (void)state;
    struct session *session = open_session("one", 0, 0);
    struct running running;
    start(&running, session, "sleep 60");
    await_busy(session);
    running.listener_is_gone = true;
    pthread_join(running.thread, NULL);
    assert_int_equal(running.outcome.is.status, RUNNER_STATUS_interrupted);
    assert_int_equal(run(session, "true", &running), 0);
    assert_int_equal(running.outcome.is.status, RUNNER_STATUS_ok);
    session_close(session);
    session_put(session);
}

static void deadlines_hold_without_anybody_asking(void **state)
{
    (void)state;
    struct session *mortal = open_session("one", 300, 0), *idle = open_session("one", 0, 300);
    struct session *listed[] = {mortal, idle};
    static const char *const causes[] = {"wall_time", "cancelled"};
    struct running running;
    for (int i = 0; i < 2; i++) {
        struct buffer lines = {0};
        int64_t last = 0;
        for (int tries = 0; tries < 20 && session_await_events(listed[i], last, 1000, &lines, &last); tries++)
            ;
        assert_non_null(strstr(lines.data, "\"event\":\"ended\""));
        buffer_free(&lines);
        assert_int_equal(run(listed[i], "true", &running), -ESTALE);
        char id[64];
        copy_id(listed[i], id, sizeof id);
        json_t *cause = session_cause(table, "one", id);
        assert_string_equal(json_string_value(cause), causes[i]);
        json_decref(cause);
        session_put(listed[i]);
    }
}

static size_t count_rooms(void)
{
    json_t *rooms = session_rooms(table);
    size_t count = json_object_size(rooms);
    json_decref(rooms);
    return count;
}

static void all_end_with_their_server(void **state)
{
    (void)state;
    struct session *session = open_session("one", 0, 0), *found = NULL;
    struct running running;
    struct error err = {0};
    char id[64];
    copy_id(session, id, sizeof id);
    start(&running, session, "sleep 60");
    await_busy(session);
    assert_int_equal(count_rooms(), 1);
    assert_null(session_empty_room(session));
    session_table_end_all(table);
    pthread_join(running.thread, NULL);
    assert_true(running.outcome.is.died);
    assert_int_equal(session_find(table, "one", id, true, &found, &err), -ENOENT);
    assert_string_equal(session_empty_room(session), "room_one");
    session_put(session);
    assert_int_equal(count_rooms(), 0);
}

/* Whoever asks is a server that may have been taken over. */
static void a_spec_can_ask_for_nothing_of_the_host(void **state)
{
    (void)state;
    static const char *const asked[] = {"accept", "read", "write", "input", "output", "file"};
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        int ends[2], status, fds[WIRE_DESCRIPTORS] = {[0 ... WIRE_DESCRIPTORS - 1] = -1};
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        json_t *request = json_pack("{s:s, s:{s:s, s:[s]}}", "owner", "alice", "spec", "language", "bash",
                                    asked[i], "memory");
        assert_true(
            session_answer(table, ends[0], "session.open", request, (struct slice){"", 0}, fds, &status));
        json_t *answer = NULL;
        scope_buffer body = {0};
        struct error err = {0};
        assert_int_equal(wire_receive(ends[1], &answer, &body, NULL), 0);
        assert_non_null(json_object_get(answer, "error"));
        wire_to_error(json_object_get(answer, "error"), &err);
        assert_string_equal(err.subject, asked[i]);
        json_decref(answer);
        json_decref(request);
        close(ends[0]);
        close(ends[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_but_its_owner_can_name_it),
        cmocka_unit_test(a_second_run_is_refused_and_an_end_ends_the_first),
        cmocka_unit_test(a_run_that_nobody_hears_is_interrupted),
        cmocka_unit_test(deadlines_hold_without_anybody_asking),
        cmocka_unit_test(all_end_with_their_server),
        cmocka_unit_test(a_spec_can_ask_for_nothing_of_the_host),
    };
    return cmocka_run_group_tests(tests, open_table, close_table);
}
