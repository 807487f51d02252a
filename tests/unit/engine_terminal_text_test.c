/* Nothing that a guest writes may drive the terminal. */
#include "harness.h"

#include "base/text.h"
#include "engine/terminal_text.h"

static void check_clean(const char *bytes, size_t length, const char *wanted)
{
    scope_buffer whole = {0};
    assert_int_equal(terminal_text_clean(&whole, bytes, length), 0);
    assert_string_equal(whole.data ? whole.data : "", wanted);
    /* However it is cut into pieces. */
    for (size_t cut = 0; cut <= length; cut++) {
        struct terminal_text state = {0};
        scope_buffer pieces = {0};
        assert_int_equal(terminal_text_append(&state, &pieces, bytes, cut), 0);
        assert_int_equal(terminal_text_append(&state, &pieces, bytes + cut, length - cut), 0);
        assert_int_equal(terminal_text_flush(&state, &pieces), 0);
        assert_string_equal(pieces.data ? pieces.data : "", wanted);
    }
    struct terminal_text state = {0};
    scope_buffer single = {0};
    for (size_t i = 0; i < length; i++)
        assert_int_equal(terminal_text_append(&state, &single, bytes + i, 1), 0);
    assert_int_equal(terminal_text_flush(&state, &single), 0);
    assert_string_equal(single.data ? single.data : "", wanted);
}

#define CHECK(bytes, wanted) check_clean((bytes), sizeof(bytes) - 1, (wanted))

static void what_prints_stays(void **state)
{
    (void)state;
    CHECK("", "");
    CHECK("plain text, 100%\n\tand \"more\"\r\n", "plain text, 100%\n\tand \"more\"\r\n");
    CHECK("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    CHECK("\xc2\xa0\xdf\xbf\xf4\x8f\xbf\xbf", "\xc2\xa0\xdf\xbf\xf4\x8f\xbf\xbf");
}

static void control_characters_are_shown(void **state)
{
    (void)state;
    CHECK("\x1b[31mred", "^[[31mred");
    CHECK("\x1b]0;owned\a", "^[]0;owned^G");
    CHECK("a\0b", "a^@b");
    CHECK("\x7f\x08\x0b\x0c\x0e", "^?^H^K^L^N");
}

static void controls_beyond_ascii_are_shown(void **state)
{
    (void)state;
    CHECK("\xc2\x9b"
          "31m",
          "\\u009b31m");
    CHECK("\xc2\x80\xc2\x9f", "\\u0080\\u009f");
    CHECK("\xc2\x85", "\\u0085");
}

static void bytes_that_are_not_text_are_shown(void **state)
{
    (void)state;
    CHECK("\x9b"
          "31m",
          "\\x9b31m"); /* obeyed by terminals of eight bits */
    CHECK("\xff\xfe", "\\xff\\xfe");
    CHECK("\xc3", "\\xc3");
    CHECK("\xe2\x82", "\\xe2\\x82");
    CHECK("\xf0\x9f\x98", "\\xf0\\x9f\\x98");
    CHECK("\xc3z", "\\xc3z");
    CHECK("\xe2\x82\x1b[m", "\\xe2\\x82^[[m");
    CHECK("\xe2\xc3\xa9", "\\xe2\xc3\xa9");
    CHECK("\xc0\x9b", "\\xc0\\x9b");          /* an overlong ESC */
    CHECK("\xe0\x80\x9b", "\\xe0\\x80\\x9b"); /* and a longer one */
    CHECK("\xf0\x80\x80\x9b", "\\xf0\\x80\\x80\\x9b");
    CHECK("\xed\xa0\x80", "\\xed\\xa0\\x80");
    CHECK("\xf8\x88\x80\x80\x80", "\\xf8\\x88\\x80\\x80\\x80");
    CHECK("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80");
}

static bool is_harmless(const struct buffer *text)
{
    if (!text->data)
        return true;
    if (!text_is_utf8(text->data, text->length))
        return false;
    for (size_t i = 0; i < text->length; i++) {
        unsigned char byte = (unsigned char)text->data[i];
        if ((byte < 0x20 && !strchr("\n\t\r", byte)) || byte == 0 || byte == 0x7f)
            return false;
        if (byte == 0xc2 && (unsigned char)text->data[i + 1] < 0xa0)
            return false;
    }
    return true;
}

static void every_sequence_of_three_bytes_is_harmless(void **state)
{
    (void)state;
    /* Each byte that means something of its own, and its neighbours. */
    static const unsigned char bytes[] = {0x00, 0x09, 0x0a, 0x1b, 0x1f, 0x20, 0x41, 0x7e, 0x7f,
                                          0x80, 0x85, 0x8f, 0x90, 0x9b, 0x9f, 0xa0, 0xbf, 0xc0,
                                          0xc1, 0xc2, 0xc3, 0xdf, 0xe0, 0xe1, 0xec, 0xed, 0xee,
                                          0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xf8, 0xfe, 0xff};
    enum { COUNT = sizeof bytes };
    for (int i = 0; i < COUNT * COUNT * COUNT; i++) {
        char text[4] = {(char)bytes[i % COUNT], (char)bytes[i / COUNT % COUNT],
                        (char)bytes[i / COUNT / COUNT], '!'};
        scope_buffer clean = {0};
        assert_int_equal(terminal_text_clean(&clean, text, sizeof text), 0);
        if (!is_harmless(&clean))
            fail_msg("%02x %02x %02x comes through as '%s'", text[0], text[1], text[2], clean.data);
        assert_int_equal(clean.data[clean.length - 1], '!'); /* and nothing behind it is swallowed */
    }
}

static void nothing_is_held_back_but_a_begun_character(void **state)
{
    (void)state;
    struct terminal_text text = {0};
    scope_buffer into = {0};
    assert_int_equal(terminal_text_append(&text, &into, "a\xe2\x82", 3), 0);
    assert_string_equal(into.data, "a");
    assert_int_equal(terminal_text_append(&text, &into,
                                          "\xac"
                                          "b",
                                          2),
                     0);
    assert_string_equal(into.data, "a\xe2\x82\xac"
                                   "b");
    assert_int_equal(terminal_text_flush(&text, &into), 0);
    assert_int_equal(terminal_text_flush(&text, &into), 0);
    assert_string_equal(into.data, "a\xe2\x82\xac"
                                   "b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_prints_stays),
        cmocka_unit_test(control_characters_are_shown),
        cmocka_unit_test(controls_beyond_ascii_are_shown),
        cmocka_unit_test(bytes_that_are_not_text_are_shown),
        cmocka_unit_test(every_sequence_of_three_bytes_is_harmless),
        cmocka_unit_test(nothing_is_held_back_but_a_begun_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
