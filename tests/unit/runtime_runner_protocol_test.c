/* The host's side of the runner protocol: what is sent, and what is believed. */
#include "harness.h"

#include "runtime/runner_protocol.h"

#include <jansson.h>

static void put_frame(struct buffer *into, const char *header, const void *body, size_t body_length)
{
    size_t header_length = strlen(header);
    char lengths[8];
    for (int i = 0; i < 4; i++) {
        lengths[i] = (char)(header_length >> 8 * i);
        lengths[4 + i] = (char)(body_length >> 8 * i);
    }
    assert_int_equal(buffer_append(into, lengths, sizeof lengths), 0);
    assert_int_equal(buffer_append(into, header, header_length), 0);
    assert_int_equal(buffer_append(into, body, body_length), 0);
}

static int read_one(struct runner_reader *reader, const char *header, const char *body,
                    struct runner_event *ret, struct error *err)
{
    scope_buffer frame = {0};
    put_frame(&frame, header, body, strlen(body));
    assert_int_equal(runner_reader_feed(reader, frame.data, frame.length, err), 0);
    return runner_reader_next(reader, ret, err);
}

static void frames_arrive_whole_however_they_are_cut(void **state)
{
    (void)state;
    scope_buffer stream = {0};
    put_frame(&stream, "{\"type\":\"stdout\",\"run\":1}", "hello", 5);
    put_frame(&stream, "{\"type\":\"stderr\",\"run\":null}", "\0x", 2);
    put_frame(&stream, "{\"type\":\"end\",\"run\":1,\"status\":\"ok\",\"duration_us\":12}", "", 0);
    for (size_t step = 1; step <= stream.length; step++) {
        scope_runner_reader reader = {0};
        struct runner_event event;
        struct error err = {0};
        int seen = 0;
        for (size_t at = 0; at < stream.length; at += step) {
            size_t length = stream.length - at < step ? stream.length - at : step;
            assert_int_equal(runner_reader_feed(&reader, stream.data + at, length, &err), 0);
            int more;
            while ((more = runner_reader_next(&reader, &event, &err)) > 0) {
                static const enum runner_event_kind kinds[] = {RUNNER_stdout, RUNNER_stderr, RUNNER_end};
                assert_int_equal(event.kind, kinds[seen]);
                assert_int_equal(event.run, seen == 1 ? -1 : 1);
                if (seen == 0)
                    assert_memory_equal(event.body.data, "hello", 5);
                if (seen == 2)
                    assert_int_equal(event.duration_us, 12);
                seen++;
            }
            assert_int_equal(more, 0);
        }
        assert_int_equal(seen, 3);
    }
}

static void result_gives_each_medium_its_bytes(void **state)
{
    (void)state;
    scope_runner_reader reader = {0};
    struct runner_event event;
    struct error err = {0};
    const char *header =
        "{\"type\":\"result\",\"run\":2,\"kind\":\"value\",\"media\":[[\"text/plain\",3],[\"a/b\",0],"
        "[\"image/png\",2]]}";
    assert_int_equal(read_one(&reader, header, "abcPN", &event, &err), 1);
    assert_true(event.is_value);
    assert_int_equal(event.media_count, 3);
    assert_string_equal(event.media[2].type, "image/png");
    assert_int_equal(event.media[2].content.length, 2);
    assert_memory_equal(event.media[2].content.data, "PN", 2);
    assert_int_equal(event.media[1].content.length, 0);
}

static void end_tells_how(void **state)
{
    (void)state;
    scope_runner_reader reader = {0};
    struct runner_event event;
    struct error err = {0};
    assert_int_equal(read_one(&reader,
                              "{\"type\":\"end\",\"run\":3,\"status\":\"error\",\"duration_us\":1,\"error\":"
                              "{\"name\":\"ValueError\",\"value\":\"v\",\"traceback\":\"t\"}}",
                              "", &event, &err),
                     1);
    assert_int_equal(event.status, RUNNER_STATUS_error);
    assert_string_equal(event.error_name, "ValueError");
    assert_string_equal(event.traceback, "t");
    assert_int_equal(read_one(&reader,
                              "{\"type\":\"end\",\"status\":\"exit\",\"exit_code\":7,\"duration_us\":0}", "",
                              &event, &err),
                     1);
    assert_int_equal(event.exit_code, 7);
    assert_int_equal(event.run, -1);
    assert_int_equal(read_one(&reader,
                              "{\"type\":\"end\",\"status\":\"error\",\"exit_code\":2,\"duration_us\":0,"
                              "\"error\":{\"name\":\"ExitStatus\",\"value\":\"2\",\"traceback\":\"\"}}",
                              "", &event, &err),
                     1);
    assert_int_equal(event.status, RUNNER_STATUS_error);
    assert_int_equal(event.exit_code, 2);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header, *body;
    } bad[] = {
        {"", ""},
        {"[]", ""},
        {"{", ""},
        {"{\"type\":1}", ""},
        {"{\"type\":\"dance\"}", ""},
        {"{\"type\":\"stdout\",\"type\":\"stderr\"}", ""},
        {"{\"type\":\"stdout\",\"run\":\"1\"}", ""},
        {"{\"type\":\"stdout\",\"run\":-1}", ""},
        {"{\"type\":\"result\",\"kind\":\"value\"}", ""},
        {"{\"type\":\"result\",\"kind\":\"other\",\"media\":[]}", ""},
        {"{\"type\":\"result\",\"kind\":\"value\",\"media\":[[\"a/b\",2]]}", "x"},
        {"{\"type\":\"result\",\"kind\":\"value\",\"media\":[[\"a/b\",1]]}", "xy"},
        {"{\"type\":\"result\",\"kind\":\"value\",\"media\":[[\"a/b\",-1]]}", "x"},
        {"{\"type\":\"result\",\"kind\":\"value\",\"media\":[[\"a/b\",9223372036854775807],[\"a/b\",1]]}",
         "x"},
        {"{\"type\":\"result\",\"kind\":\"value\",\"media\":[[\"\",1]]}", "x"},
        {"{\"type\":\"progress\",\"fraction\":1.5}", ""},
        {"{\"type\":\"progress\",\"fraction\":-1}", ""},
        {"{\"type\":\"progress\",\"fraction\":\"0.5\"}", ""},
        {"{\"type\":\"end\"}", ""},
        {"{\"type\":\"end\",\"status\":\"ok\"}", ""},
        {"{\"type\":\"end\",\"status\":\"fine\",\"duration_us\":1}", ""},
        {"{\"type\":\"end\",\"status\":\"exit\",\"duration_us\":1}", ""},
        {"{\"type\":\"end\",\"status\":\"exit\",\"exit_code\":256,\"duration_us\":1}", ""},
        {"{\"type\":\"end\",\"status\":\"ok\",\"exit_code\":-1,\"duration_us\":1}", ""},
        {"{\"type\":\"end\",\"status\":\"ok\",\"exit_code\":\"0\",\"duration_us\":1}", ""},
        {"{\"type\":\"end\",\"status\":\"error\",\"duration_us\":1}", ""},
        {"{\"type\":\"ready\",\"protocol\":2}", ""},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        scope_runner_reader reader = {0};
        struct runner_event event;
        struct error err = {0};
        if (read_one(&reader, bad[i].header, bad[i].body, &event, &err) != -EPROTO)
            fail_msg("accepted: %s", bad[i].header);
        assert_non_null(strstr(err.text, "broke its protocol"));
    }
}

static void frames_that_are_too_large_are_refused_by_their_lengths(void **state)
{
    (void)state;
    static const unsigned char lengths[][8] = {
        {1, 0, 16, 0, 0, 0, 0, 0}, {2, 0, 0, 0, 1, 0, 0, 4}, {255, 255, 255, 255, 255, 255, 255, 255}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        scope_runner_reader reader = {0};
        struct error err = {0};
        assert_int_equal(runner_reader_feed(&reader, lengths[i], 7, &err), 0);
        assert_int_equal(runner_reader_feed(&reader, lengths[i] + 7, 1, &err), -EPROTO);
    }
}

static void run_is_one_frame_with_all_it_needs(void **state)
{
    (void)state;
    scope_buffer frame = {0};
    scope_string_list arguments = {0};
    assert_int_equal(string_list_add(&arguments, "a\"b"), 0);
    const struct slice input = {"x\0y", 3};
    const struct runner_order order = {.run = 9,
                                       .code = {"print(1)", 8},
                                       .stdin_text = &input,
                                       .arguments = &arguments,
                                       .name = "hello.py",
                                       .is_typed = true};
    assert_int_equal(runner_write_run(&frame, &order), 0);
    size_t header_length = (unsigned char)frame.data[0] | (size_t)(unsigned char)frame.data[1] << 8;
    assert_int_equal(frame.length, 8 + header_length + 8);
    assert_memory_equal(frame.data + 8 + header_length, "print(1)", 8);
    json_t *header = json_loadb(frame.data + 8, header_length, JSON_ALLOW_NUL, NULL);
    assert_non_null(header);
    assert_int_equal(json_integer_value(json_object_get(header, "run")), 9);
    assert_true(json_is_true(json_object_get(header, "typed")));
    assert_int_equal(json_string_length(json_object_get(header, "stdin")), 3);
    assert_string_equal(json_string_value(json_array_get(json_object_get(header, "arguments"), 0)), "a\"b");
    json_decref(header);
}

static void run_that_cannot_be_said_is_refused(void **state)
{
    (void)state;
    scope_buffer frame = {0};
    const struct slice not_utf8 = {"\xff", 1};
    struct runner_order order = {.run = 1, .code = {"", 0}, .stdin_text = &not_utf8};
    assert_int_equal(runner_write_run(&frame, &order), -EINVAL);
    order.stdin_text = NULL;
    order.code = (struct slice){"", RUNNER_BODY_MAX + (size_t)1};
    assert_int_equal(runner_write_run(&frame, &order), -EFBIG);
    assert_int_equal(frame.length, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_arrive_whole_however_they_are_cut),
        cmocka_unit_test(result_gives_each_medium_its_bytes),
        cmocka_unit_test(end_tells_how),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(frames_that_are_too_large_are_refused_by_their_lengths),
        cmocka_unit_test(run_is_one_frame_with_all_it_needs),
        cmocka_unit_test(run_that_cannot_be_said_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
