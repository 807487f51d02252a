/* Any bytes as the arguments of `cloche run` and as values of limits: zero bytes part the arguments. */
#include "fuzz.h"

#include "base/text.h"
#include "cli/command.h"
#include "cli/run_options.h"
#include "spec/spec.h"

#include <string.h>

enum { ARGUMENTS_MAX = 64 };

/* Of main.c, which has a main() of its own. */
const struct command *const commands[] = {&command_run};
const size_t command_count = 1;

int run_perform(struct run_options *given)
{
    return !given;
}

static void check_values(const char *text)
{
    static bool (*const parsers[])(const char *, int64_t *) = {text_parse_size, text_parse_duration,
                                                               text_parse_cpus, text_parse_count};
    int64_t value;
    char shown[48];
    for (size_t i = 0; i < sizeof parsers / sizeof *parsers; i++)
        if (parsers[i](text, &value))
            check(value >= 0, "no quantity is negative");
    for (int i = 0; i < LIMIT_FIELDS; i++) {
        struct error err = {0};
        if (limit_parse((enum limit_field)i, text, &value, &err) < 0) {
            check(err.kind == ERROR_SPEC && strstr(err.text, limit_rows[i].name),
                  "a refusal names the limit");
            continue;
        }
        check(value >= 0, "no limit is negative");
        limit_format((enum limit_field)i, value, shown, sizeof shown);
        check(strlen(shown) > 0 && strlen(shown) < sizeof shown - 1, "every value can be shown");
    }
    text_is_plain_name(text);
    text_is_environment_name(text, strlen(text));
    bool is_text = text_is_utf8(text, strlen(text));
    scope_buffer clean = {0};
    check(text_append_utf8(&clean, text, strlen(text)) == 0 && text_is_utf8(clean.data, clean.length),
          "what was cleaned is clean");
    check(!is_text || strcmp(clean.data, text) == 0, "what was clean is left alone");
    check(text_edit_distance(text, text) == 0, "nothing is between a word and itself");
}

static void take_line(int argc, char **argv, size_t characters)
{
    struct option_parser parser = {.argc = argc, .argv = argv, .at = 0};
    scope_spec *spec = spec_new();
    struct error err = {0};
    size_t steps = 0;
    for (;;) {
        const struct option_row *row = NULL;
        const char *value = NULL;
        enum option_kind kind = option_next(&parser, &command_run, &row, &value);
        check(steps++ <= characters + (size_t)argc, "every step eats something");
        check(parser.at >= 0 && parser.at <= argc, "the parser stays on the line");
        if (kind == OPTION_WRONG)
            check(parser.message[0] && memchr(parser.message, '\0', sizeof parser.message),
                  "what is wrong is said");
        if (kind == OPTION_END || kind == OPTION_REST || kind == OPTION_WRONG)
            break;
        if (kind == OPTION_ROW) {
            check(row != NULL && (value != NULL) == (row->argument != NULL),
                  "an option has its value or has none");
            if (row->field && spec_set(spec, row->field, value, &err) < 0)
                check(err.kind == ERROR_SPEC && err.text[0], "a refusal has a sentence");
        } else {
            check(value != NULL, "a plain argument is there");
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    char *argv[ARGUMENTS_MAX + 1] = {0};
    int argc = 0;
    while (input.left && argc < ARGUMENTS_MAX) {
        argv[argc] = fuzz_text(&input);
        check_values(argv[argc]);
        argc++;
    }
    take_line(argc, argv, size);
    for (int i = 0; i < argc; i++)
        free(argv[i]);
    return 0;
}
