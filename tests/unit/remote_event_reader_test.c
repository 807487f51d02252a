/* Events of a stream, cut anywhere; and bytes in base64. */
#include "harness.h"

#include "remote/event_reader.h"

#include <errno.h>

struct seen {
    struct buffer text;
    int answer;
};

static int take(void *data, const char *name, const json_t *event)
{
    struct seen *seen = data;
    scope_buffer bytes = {0};
    event_bytes(event, &bytes);
    buffer_print(&seen->text, "%s(%s) ", name, bytes.data ? bytes.data : "");
    return seen->answer;
}

static const char stream[] =
    ": pulse\n\nevent: stdout\ndata: {\"text\":\"one\"}\n\nid: 7\r\nevent:stderr\r\n"
    "data: {\"bytes\":\r\ndata: \"AP8=\"}\r\n\r\ndata: {}\n\nevent: end\ndata: {}\n\n";

static void events_come_however_the_bytes_are_cut(void **state)
{
    (void)state;
    for (size_t step = 1; step < sizeof stream; step++) {
        struct seen seen = {0};
        struct event_reader reader = {.take = take, .data = &seen};
        for (size_t at = 0; at < sizeof stream - 1; at += step) {
            size_t rest = sizeof stream - 1 - at;
            struct slice bytes = {stream + at, rest < step ? rest : step};
            assert_int_equal(event_reader_feed(&reader, bytes), 0);
        }
        assert_string_equal(seen.text.data, "stdout(one) stderr() () end() ");
        event_reader_free(&reader);
        buffer_free(&seen.text);
    }
}

static void what_is_no_event_breaks_off(void **state)
{
    (void)state;
    struct seen seen = {.answer = -ECANCELED};
    struct event_reader reader = {.take = take, .data = &seen};
    struct slice broken = {"data: {\n\n", 9}, refused = {"data: {}\n\ndata: {}\n\n", 20};
    assert_int_equal(event_reader_feed(&reader, broken), -EPROTO);
    event_reader_free(&reader);
    assert_int_equal(event_reader_feed(&reader, refused), -ECANCELED);
    assert_string_equal(seen.text.data, "() ");
    event_reader_free(&reader);
    buffer_free(&seen.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_however_the_bytes_are_cut),
        cmocka_unit_test(what_is_no_event_breaks_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
