/* The arguments of a command, one step at a time. */
#include "harness.h"

#include "cli/command.h"

static const struct option_row rows[] = {
    {"memory", 'm', "SIZE", "memory", "x"}, {"json", 'j', NULL, NULL, "x"},
    {"quiet", 'q', NULL, NULL, "x"},        {"output-limit", 0, "SIZE", "output_limit", "x"},
    {"output", 'o', "DIR", "output", "x"},
};

static const struct command command = {
    .name = "test", .usage = "", .options = rows, .option_count = sizeof rows / sizeof *rows};

struct step {
    enum option_kind kind;
    const char *name, *value;
};

/* Goes over the arguments and compares; ends at the step whose kind ends a line. */
static void check_steps(const char *const *arguments, const struct step *steps)
{
    char *argv[32];
    int argc = 0;
    for (; arguments[argc]; argc++)
        argv[argc] = strdup(arguments[argc]);
    argv[argc] = NULL;
    struct option_parser parser = {.argc = argc, .argv = argv, .at = 0};
    for (;; steps++) {
        const struct option_row *row = NULL;
        const char *value = NULL;
        enum option_kind kind = option_next(&parser, &command, &row, &value);
        assert_int_equal(kind, steps->kind);
        if (kind == OPTION_ROW)
            assert_string_equal(row->name, steps->name);
        if (kind == OPTION_WRONG && !strstr(parser.message, steps->value))
            fail_msg("'%s' is not in: %s", steps->value, parser.message);
        if (kind == OPTION_ROW || kind == OPTION_POSITIONAL) {
            assert_int_equal(value != NULL, steps->value != NULL);
            if (value)
                assert_string_equal(value, steps->value);
        }
        if (kind == OPTION_END || kind == OPTION_WRONG || kind == OPTION_REST)
            break;
    }
    for (int i = 0; i < argc; i++)
        free(argv[i]);
}

#define ARGUMENTS(...)                                                                                       \
    (const char *const[])                                                                                    \
    {                                                                                                        \
        __VA_ARGS__, NULL                                                                                    \
    }
#define STEPS(...)                                                                                           \
    (const struct step[])                                                                                    \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }

static void options_take_their_values_in_every_spelling(void **state)
{
    (void)state;
    const struct step wanted[] = {{OPTION_ROW, "memory", "1G"}, {OPTION_END}};
    check_steps(ARGUMENTS("--memory", "1G"), wanted);
    check_steps(ARGUMENTS("--memory=1G"), wanted);
    check_steps(ARGUMENTS("-m", "1G"), wanted);
    check_steps(ARGUMENTS("-m1G"), wanted);
    check_steps(ARGUMENTS("--memory="), STEPS({OPTION_ROW, "memory", ""}, {OPTION_END}));
    check_steps(ARGUMENTS("--memory", ""), STEPS({OPTION_ROW, "memory", ""}, {OPTION_END}));
    check_steps(ARGUMENTS("--memory=a=b"), STEPS({OPTION_ROW, "memory", "a=b"}, {OPTION_END}));
    check_steps(ARGUMENTS("--memory", "--json"), STEPS({OPTION_ROW, "memory", "--json"}, {OPTION_END}));
}

static void letters_can_stand_together(void **state)
{
    (void)state;
    check_steps(ARGUMENTS("-jq"),
                STEPS({OPTION_ROW, "json", NULL}, {OPTION_ROW, "quiet", NULL}, {OPTION_END}));
    check_steps(ARGUMENTS("-jm1G", "x"), STEPS({OPTION_ROW, "json", NULL}, {OPTION_ROW, "memory", "1G"},
                                               {OPTION_POSITIONAL, NULL, "x"}, {OPTION_END}));
    check_steps(ARGUMENTS("-jm", "1G"),
                STEPS({OPTION_ROW, "json", NULL}, {OPTION_ROW, "memory", "1G"}, {OPTION_END}));
}

static void plain_arguments_and_the_rest_are_told_apart(void **state)
{
    (void)state;
    check_steps(ARGUMENTS("file", "-", "", "-j"),
                STEPS({OPTION_POSITIONAL, NULL, "file"}, {OPTION_POSITIONAL, NULL, "-"},
                      {OPTION_POSITIONAL, NULL, ""}, {OPTION_ROW, "json", NULL}, {OPTION_END}));
    check_steps(ARGUMENTS("-j", "--", "--no-option"), STEPS({OPTION_ROW, "json", NULL}, {OPTION_REST}));
    check_steps((const char *const[]){NULL}, STEPS({OPTION_END}));
}

static void longer_name_is_not_taken_for_a_shorter_one(void **state)
{
    (void)state;
    check_steps(ARGUMENTS("--output-limit", "5", "--output", "d"),
                STEPS({OPTION_ROW, "output-limit", "5"}, {OPTION_ROW, "output", "d"}, {OPTION_END}));
    check_steps(ARGUMENTS("--outpu", "5"), STEPS({OPTION_WRONG, NULL, "--outpu"}));
    check_steps(ARGUMENTS("--output-lim", "5"), STEPS({OPTION_WRONG, NULL, "--output-lim"}));
}

static void wrong_options_are_named_and_the_nearest_suggested(void **state)
{
    (void)state;
    check_steps(ARGUMENTS("--memroy", "1G"), STEPS({OPTION_WRONG, NULL, "did you mean --memory?"}));
    check_steps(ARGUMENTS("--memroy=1G"), STEPS({OPTION_WRONG, NULL, "did you mean --memory?"}));
    check_steps(ARGUMENTS("--nothing-like-it"), STEPS({OPTION_WRONG, NULL, "no option --nothing-like-it"}));
    check_steps(ARGUMENTS("-x"), STEPS({OPTION_WRONG, NULL, "no option -x"}));
    check_steps(ARGUMENTS("-jx"), STEPS({OPTION_ROW, "json", NULL}, {OPTION_WRONG, NULL, "no option -x"}));
    check_steps(ARGUMENTS("--=1"), STEPS({OPTION_WRONG, NULL, "no option --"}));
    check_steps(ARGUMENTS("-m"), STEPS({OPTION_WRONG, NULL, "--memory needs a value: SIZE"}));
    check_steps(ARGUMENTS("--memory"), STEPS({OPTION_WRONG, NULL, "--memory needs a value: SIZE"}));
    check_steps(ARGUMENTS("--json=1"), STEPS({OPTION_WRONG, NULL, "--json takes no value"}));
    check_steps(ARGUMENTS("--json="), STEPS({OPTION_WRONG, NULL, "--json takes no value"}));
}

static void long_nonsense_does_not_overrun(void **state)
{
    (void)state;
    char longer[5000];
    memset(longer, 'x', sizeof longer - 1);
    memcpy(longer, "--", 2);
    longer[sizeof longer - 1] = '\0';
    check_steps(ARGUMENTS(longer), STEPS({OPTION_WRONG, NULL, "there is no option --xxx"}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options_take_their_values_in_every_spelling),
        cmocka_unit_test(letters_can_stand_together),
        cmocka_unit_test(plain_arguments_and_the_rest_are_told_apart),
        cmocka_unit_test(longer_name_is_not_taken_for_a_shorter_one),
        cmocka_unit_test(wrong_options_are_named_and_the_nearest_suggested),
        cmocka_unit_test(long_nonsense_does_not_overrun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
