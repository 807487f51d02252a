/* Events of a stream, cut anywhere; and bytes in base64. */
#include "harness.h"

#include "remote/base64.h"
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

static void bytes_survive_base64(void **state)
{
    (void)state;
    char bytes[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    for (size_t length = 0; length <= sizeof bytes; length++) {
        scope_buffer back = {0};
        char *text = base64_encode((struct slice){bytes, length});
        assert_int_equal(base64_decode(text, &back), 0);
        assert_int_equal(back.length, length);
        assert_true(length == 0 || memcmp(back.data, bytes, length) == 0);
        free(text);
    }
    static const char *const wrong[] = {"A", "AAA", "====", "A===", "AA*A"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        scope_buffer back = {0};
        assert_int_equal(base64_decode(wrong[i], &back), -EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_however_the_bytes_are_cut),
        cmocka_unit_test(what_is_no_event_breaks_off),
        cmocka_unit_test(bytes_survive_base64),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
