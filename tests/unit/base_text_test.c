/* Quantities as people write them. */
#include "harness.h"

#include "base/text.h"

struct quantity {
    const char *text;
    int64_t value; /* -1: not one */
};

static void check_quantities(bool (*parse)(const char *, int64_t *), const struct quantity *rows,
                             size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t value = -7;
        bool is_one = parse(rows[i].text, &value);
        if (is_one != (rows[i].value >= 0))
            fail_msg("'%s' is %staken", rows[i].text, is_one ? "" : "not ");
        if (is_one && value != rows[i].value)
            fail_msg("'%s' is taken for %lld", rows[i].text, (long long)value);
    }
}

#define CHECK_QUANTITIES(parse, ...)                                                                         \
    do {                                                                                                     \
        static const struct quantity rows[] = {__VA_ARGS__};                                                 \
        check_quantities(parse, rows, sizeof rows / sizeof *rows);                                           \
    } while (0)

static void sizes_are_powers_of_1024(void **state)
{
    (void)state;
    CHECK_QUANTITIES(text_parse_size, {"0", 0}, {"1", 1}, {"65536", 65536}, {"1K", 1024}, {"1k", 1024},
                     {"1KB", 1024}, {"1KiB", 1024}, {"1Kb", 1024}, {"256M", 256 << 20}, {"1.5G", 3LL << 29},
                     {".5K", 512}, {"1.K", 1024}, {"2T", 2LL << 40}, {"100B", 100},
                     {"8000000T", 8000000LL << 40});
}

static void what_is_not_a_size_is_refused(void **state)
{
    (void)state;
    CHECK_QUANTITIES(text_parse_size, {"", -1}, {"lots", -1}, {"-1", -1}, {"+1", -1}, {" 1", -1}, {"1 ", -1},
                     {"1 K", -1}, {"1KK", -1}, {"1i", -1}, {"1iB", -1}, {"K", -1}, {".", -1}, {".K", -1},
                     {"1e3", -1}, {"0x10", -1}, {"1P", -1}, {"1.2.3", -1}, {"1,5", -1}, {"inf", -1},
                     {"nan", -1}, {"1BB", -1}, {"9000000T", -1}, {"9223372036854775808", -1},
                     {"99999999999999999999999999999999", -1});
}

static void number_of_any_length_is_read_to_its_end(void **state)
{
    (void)state;
    static char digits[100001];
    int64_t value;
    memset(digits, '9', sizeof digits - 1);
    assert_false(text_parse_size(digits, &value));
    assert_false(text_parse_duration(digits, &value));
    assert_false(text_parse_cpus(digits, &value));
    assert_false(text_parse_count(digits, &value));
    memset(digits, '0', sizeof digits - 2);
    assert_true(text_parse_size(digits, &value));
    assert_int_equal(value, 9);
    digits[1] = '.';
    assert_true(text_parse_size(digits, &value));
    assert_int_equal(value, 0);
}

static void durations_are_milliseconds_and_seconds_by_default(void **state)
{
    (void)state;
    CHECK_QUANTITIES(text_parse_duration, {"0", 0}, {"10", 10000}, {"10s", 10000}, {"500ms", 500},
                     {"1.5", 1500}, {"2m", 120000}, {"2min", 120000}, {"1h", 3600000}, {"0.5h", 1800000},
                     {"0.4ms", 0}, {"0.6ms", 1});
}

static void what_is_not_a_duration_is_refused(void **state)
{
    (void)state;
    CHECK_QUANTITIES(text_parse_duration, {"", -1}, {"s", -1}, {"-1s", -1}, {"10 s", -1}, {"10S", -1},
                     {"1d", -1}, {"1sec", -1}, {"1m30s", -1}, {"1e9s", -1}, {"3000000000000h", -1},
                     {"1s\n", -1});
}

static void shares_of_cpus_are_numbers_or_percent(void **state)
{
    (void)state;
    CHECK_QUANTITIES(text_parse_cpus, {"1", 1000}, {"0.5", 500}, {"50%", 500}, {"2", 2000}, {"250%", 2500},
                     {"0.001", 1}, {"0", 0}, {"", -1}, {"%", -1}, {"50 %", -1}, {"1c", -1}, {"-1", -1},
                     {"50%%", -1}, {"9000000000000000000", -1});
}

static void counts_are_whole_numbers(void **state)
{
    (void)state;
    CHECK_QUANTITIES(text_parse_count, {"0", 0}, {"64", 64}, {"007", 7}, {"9223372036854775807", INT64_MAX},
                     {"9223372036854775808", -1}, {"", -1}, {"-1", -1}, {"+1", -1}, {" 1", -1}, {"1.0", -1},
                     {"1K", -1}, {"0x10", -1}, {"1 ", -1});
}

static void sizes_and_times_are_shown_as_people_write_them(void **state)
{
    (void)state;
    char text[32];
    assert_string_equal(text_format_size(0, text, sizeof text), "0 bytes");
    assert_string_equal(text_format_size(1023, text, sizeof text), "1023 bytes");
    assert_string_equal(text_format_size(1024, text, sizeof text), "1 KiB");
    assert_string_equal(text_format_size(512 << 20, text, sizeof text), "512 MiB");
    assert_string_equal(text_format_size(3LL << 29, text, sizeof text), "1.5 GiB");
    assert_string_equal(text_format_size(5000LL << 40, text, sizeof text), "5000 TiB");
    assert_string_equal(text_format_duration(30000, text, sizeof text), "30 s");
    assert_string_equal(text_format_duration(10, text, sizeof text), "10 ms");
    assert_string_equal(text_format_duration(1500, text, sizeof text), "1.5 s");
    char tiny[4];
    text_format_size(INT64_MAX, tiny, sizeof tiny);
    assert_int_equal(strlen(tiny), 3);
}

static void plain_names_cannot_be_paths_or_options(void **state)
{
    (void)state;
    static const char *const plain[] = {
        "a", "data-2026", "A_b.c",
        "0", "x..y",      "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    static const char *const other[] = {"",
                                        ".",
                                        "..",
                                        ".hidden",
                                        "-x",
                                        "_x",
                                        "a/b",
                                        "a b",
                                        "a\n",
                                        "a\x7f",
                                        "\xc3\xa9",
                                        "a:b",
                                        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (!text_is_plain_name(plain[i]))
            fail_msg("'%s' is refused", plain[i]);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (text_is_plain_name(other[i]))
            fail_msg("'%s' is taken", other[i]);
}

static void file_names_are_single_components(void **state)
{
    (void)state;
    char longest[256];
    memset(longest, 'x', sizeof longest);
    assert_true(text_is_file_name(longest, 255));
    assert_false(text_is_file_name(longest, 256));
#define FILE_NAME(text) text_is_file_name(text, sizeof(text) - 1)
    assert_true(FILE_NAME("x") && FILE_NAME("...") && FILE_NAME("..x") && FILE_NAME("-") && FILE_NAME("\n"));
    assert_false(FILE_NAME("") || FILE_NAME(".") || FILE_NAME(".."));
    assert_false(FILE_NAME("/") || FILE_NAME("../x") || FILE_NAME("/x") || FILE_NAME("a/b") ||
                 FILE_NAME("x/"));
    assert_false(FILE_NAME("x\0y") || FILE_NAME("x\0") || FILE_NAME("\0") || FILE_NAME("x\0/../y"));
#undef FILE_NAME
}

static void environment_names_are_those_of_the_shell(void **state)
{
    (void)state;
    assert_true(text_is_environment_name("PATH", 4));
    assert_true(text_is_environment_name("_x9", 3));
    assert_true(text_is_environment_name("A=", 1));
    static const char *const other[] = {"", "9x", "A-B", "A B", "A=", "A.B", "\xc3\x89"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        assert_false(text_is_environment_name(other[i], strlen(other[i])));
    assert_false(text_is_environment_name("A\0B", 3));
}

static void well_formed_utf8_is_told_from_the_rest(void **state)
{
    (void)state;
    static const char *const good[] = {"",
                                       "plain",
                                       "\x7f",
                                       "\xc2\x80",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    static const char *const bad[] = {"\x80", /* a continuation alone */
                                      "\xc0\x80",
                                      "\xc1\xbf", /* overlong forms */
                                      "\xe0\x9f\xbf",
                                      "\xf0\x8f\xbf\xbf",
                                      "\xed\xa0\x80",
                                      "\xed\xbf\xbf", /* surrogates */
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "\xfe",
                                      "\xc2",
                                      "\xe2\x82",
                                      "\xf0\x9f\x98", /* cut off */
                                      "\xc2g",
                                      "\xe2\x82g",
                                      "\xe2\xc2\x80"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!text_is_utf8(good[i], strlen(good[i])))
            fail_msg("good[%zu] is refused", i);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (text_is_utf8(bad[i], strlen(bad[i])))
            fail_msg("bad[%zu] is taken", i);
    assert_true(text_is_utf8("a\0b", 3));
}

static void what_is_not_utf8_is_replaced_byte_by_byte(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *text;
    } rows[] = {{"", ""},
                {"plain \xc3\xa9", "plain \xc3\xa9"},
                {"\xff", "\xef\xbf\xbd"},
                {"a\xc3", "a\xef\xbf\xbd"},
                {"\xe2\x82z", "\xef\xbf\xbd\xef\xbf\xbdz"},
                {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
                {"\xef\xbf\xbd", "\xef\xbf\xbd"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        scope_buffer into = {0};
        assert_int_equal(text_append_utf8(&into, rows[i].bytes, strlen(rows[i].bytes)), 0);
        assert_string_equal(into.data, rows[i].text);
        assert_true(text_is_utf8(into.data, into.length));
    }
}

static void every_character_is_well_formed_and_nothing_else_of_three_bytes(void **state)
{
    (void)state;
    size_t found = 0;
    for (unsigned bytes = 0; bytes < 1U << 24; bytes += 1) {
        unsigned char text[3] = {(unsigned char)(bytes >> 16), (unsigned char)(bytes >> 8),
                                 (unsigned char)bytes};
        if (text[0] < 0xe0) {
            bytes |= 0xffff;
            continue;
        }
        found += text_is_utf8((const char *)text, 3);
    }
    assert_int_equal(found, 0x10000 - 0x800 - 0x800); /* U+0800 to U+FFFF without the surrogates */
}

static void distance_counts_changed_letters(void **state)
{
    (void)state;
    assert_int_equal(text_edit_distance("memory", "memory"), 0);
    assert_int_equal(text_edit_distance("memroy", "memory"), 1);
    assert_int_equal(text_edit_distance("memry", "memory"), 1);
    assert_int_equal(text_edit_distance("", "wall"), 4);
    assert_int_equal(text_edit_distance("wall", ""), 4);
    assert_int_equal(text_edit_distance("", ""), 0);
    char longer[2][1000];
    memset(longer, 'a', sizeof longer);
    longer[0][999] = longer[1][10] = '\0';
    assert_int_equal(text_edit_distance(longer[0], longer[1]), 54); /* of the first 64 */
}

static void nearest_word_is_found_and_strangers_are_not(void **state)
{
    (void)state;
    static const char *const words[] = {"walk", "memory", "wall", "pids", "wail"};
    static const char *const cases[][2] = {
        {"wall", "wall"}, {"memroy", "memory"}, {"wal", "walk"}, {"pi", "pids"}, {"network", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text_guess guess = {.given = cases[i][0]};
        for (size_t j = 0; j < sizeof words / sizeof *words; j++)
            text_guess_offer(&guess, words[j]);
        if (cases[i][1])
            assert_string_equal(guess.nearest, cases[i][1]);
        else
            assert_null(guess.nearest);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_powers_of_1024),
        cmocka_unit_test(what_is_not_a_size_is_refused),
        cmocka_unit_test(number_of_any_length_is_read_to_its_end),
        cmocka_unit_test(durations_are_milliseconds_and_seconds_by_default),
        cmocka_unit_test(what_is_not_a_duration_is_refused),
        cmocka_unit_test(shares_of_cpus_are_numbers_or_percent),
        cmocka_unit_test(counts_are_whole_numbers),
        cmocka_unit_test(sizes_and_times_are_shown_as_people_write_them),
        cmocka_unit_test(plain_names_cannot_be_paths_or_options),
        cmocka_unit_test(file_names_are_single_components),
        cmocka_unit_test(environment_names_are_those_of_the_shell),
        cmocka_unit_test(well_formed_utf8_is_told_from_the_rest),
        cmocka_unit_test(what_is_not_utf8_is_replaced_byte_by_byte),
        cmocka_unit_test(every_character_is_well_formed_and_nothing_else_of_three_bytes),
        cmocka_unit_test(distance_counts_changed_letters),
        cmocka_unit_test(nearest_word_is_found_and_strangers_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
