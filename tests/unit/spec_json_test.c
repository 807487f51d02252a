/* A spec as JSON: the same fields, and nothing else. */
#include "harness.h"

#include "spec/spec.h"

static int read_bytes(struct spec *spec, const char *text, size_t length, struct error *err)
{
    *err = (struct error){0};
    return spec_read_json(spec, text, length, err);
}

static struct spec *read_well(const char *text)
{
    struct spec *spec = spec_new();
    struct error err;
    assert_non_null(spec);
    if (read_bytes(spec, text, strlen(text), &err) < 0)
        fail_msg("refused: %s", err.text);
    return spec;
}

static void read_refused(const char *text, const char *subject, const char *const *words)
{
    scope_spec *spec = spec_new();
    struct error err;
    if (read_bytes(spec, text, strlen(text), &err) == 0)
        fail_msg("taken: %s", text);
    check_error(&err, ERROR_SPEC, subject, words);
}

#define READ_REFUSED(text, subject, ...)                                                                     \
    read_refused((text), (subject), (const char *const[]){__VA_ARGS__, NULL})

static void every_field_is_read(void **state)
{
    (void)state;
    scope_spec *spec =
        read_well("{\"language\": \"python\", \"code\": \"print(1)\", \"args\": [\"a\", \"\"],"
                  "\"env\": {\"A\": \"1\", \"B\": \"x=y\"}, \"image\": \"data\", \"isolation\": \"process\","
                  "\"inputs\": [\"x.csv\", \"y.csv:z.csv\"], \"reads\": [\"/a:b\"], \"writes\": [\"/w\"],"
                  "\"output\": \"out\", \"accept\": [\"memory\"], \"cwd\": \"/tmp\", \"stdin\": \"in\","
                  "\"limits\": {\"memory\": \"256M\", \"pids\": 32, \"cpus\": 0.5, \"wall\": \"10s\"},"
                  "\"compile_limits\": {\"memory\": \"1G\"}}");
    assert_string_equal(spec->language, "python");
    assert_string_equal(spec->code.data, "print(1)");
    assert_int_equal(spec->arguments.count, 2);
    assert_int_equal(spec->environment.count, 2);
    assert_string_equal(spec->environment.items[1], "B=x=y");
    assert_string_equal(spec->image, "data");
    assert_int_equal(spec->isolation, ISOLATION_PROCESS);
    assert_int_equal(spec->grant_count, 4);
    assert_string_equal(spec->grants[1].name, "z.csv");
    assert_string_equal(spec->output_directory, "out");
    assert_true(spec_accepts(spec, "memory"));
    assert_string_equal(spec->working_directory, "/tmp");
    assert_string_equal(spec->stdin_bytes.data, "in");
    assert_int_equal(spec->limits.value[LIMIT_memory], 256 << 20);
    assert_int_equal(spec->limits.value[LIMIT_pids], 32);
    assert_int_equal(spec->limits.value[LIMIT_cpus], 500);
    assert_int_equal(spec->limits.value[LIMIT_wall], 10000);
    assert_int_equal(spec->compile_limits.value[LIMIT_memory], 1 << 30);
    assert_true(spec->compile_limit_set[LIMIT_memory] && !spec->compile_limit_set[LIMIT_wall]);
}

static void command_and_file_are_fields_too(void **state)
{
    (void)state;
    scope_spec *spec = read_well("{\"command\": [\"make\", \"-C\", \"src\"]}");
    assert_int_equal(spec->command.count, 3);
    scope_spec *other = read_well("{\"file\": \"hello.py\"}");
    assert_string_equal(other->code_file, "hello.py");
    scope_spec *nothing = read_well("{}");
    assert_false(nothing->has_code);
}

static void every_limit_can_be_a_number(void **state)
{
    (void)state;
    for (int i = 0; i < LIMIT_FIELDS; i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"limits\": {\"%s\": 7}, \"compile_limits\": {\"%s\": 8}}",
                 limit_rows[i].name, limit_rows[i].name);
        scope_spec *spec = read_well(text);
        assert_true(spec->limit_set[i] && spec->compile_limit_set[i]);
    }
    scope_spec *spec = read_well("{\"limits\": {\"memory\": 268435456, \"wall\": 1.5}}");
    assert_int_equal(spec->limits.value[LIMIT_memory], 256 << 20);
    assert_int_equal(spec->limits.value[LIMIT_wall], 1500); /* seconds, as on the command line */
}

static void unknown_field_is_named_and_the_nearest_suggested(void **state)
{
    (void)state;
    READ_REFUSED("{\"langauge\": \"python\"}", "langauge", "'langauge'", "did you mean 'language'?");
    READ_REFUSED("{\"arg\": [\"x\"]}", "arg", "did you mean 'args'?");
    READ_REFUSED("{\"memory\": \"1G\"}", "memory", "'memory' is not a field");
    READ_REFUSED("{\"nothing like it\": 1}", "nothing like it", "is not a field of a spec");
    READ_REFUSED("{\"\": 1}", "", "is not a field of a spec");
    READ_REFUSED("{\"compile.memory\": \"1G\"}", "compile.memory", "is not a field");
}

static void numbers_among_arguments_keep_all_their_digits(void **state)
{
    (void)state;
    static const char *const wanted[] = {
        "2", "-9223372036854775807", "0.10000000000000001", "-1.5", "0.1", "1.0000000000000002", "1e+300",
        "x"};
    scope_spec *spec = read_well("{\"args\": [2, -9223372036854775807, \"0.10000000000000001\", -1.5, 0.1, "
                                 "1.0000000000000002, 1e300, \"x\"]}");
    assert_int_equal(spec->arguments.count, sizeof wanted / sizeof *wanted);
    for (size_t i = 0; i < spec->arguments.count; i++)
        assert_string_equal(spec->arguments.items[i], wanted[i]);
    READ_REFUSED("{\"args\": [true]}", "args", "args[0]", "a string or a number");
    READ_REFUSED("{\"args\": [99999999999999999999]}", "spec", "not valid JSON");
    READ_REFUSED("{\"command\": [1]}", "command", "command[0]", "must be a string");
}

static void unknown_limits_are_refused(void **state)
{
    (void)state;
    READ_REFUSED("{\"limits\": {\"memroy\": 5}}", "limits.memroy", "did you mean 'limits.memory'?");
    READ_REFUSED("{\"limits\": {\"mem\": 5}}", "limits.mem", "did you mean 'limits.memory'?");
    READ_REFUSED("{\"limits\": {\"timeout\": 5}}", "limits.timeout", "did you mean 'limits.wall'?");
    READ_REFUSED("{\"limits\": {\"\": 5}}", "limits.", "no such limit");
    READ_REFUSED("{\"compile_limits\": {\"time\": 5}}", "compile_limits.time",
                 "did you mean 'compile_limits.wall'?");
    READ_REFUSED("{\"limits\": {\"compile.memory\": 5}}", "limits.compile.memory", "no such limit");
}

static void wrong_types_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const values[] = {"1",  "true", "null",     "1.5",          "{}",
                                         "[]", "[1]",  "\"text\"", "[\"a\", null]"};
    static const struct {
        const char *field, *taken; /* the types that may be taken, as they start */
    } fields[] = {{"language", "\""},     {"file", "\""},   {"code", "\""},  {"image", "\""},
                  {"isolation", "\""},    {"output", "\""}, {"cwd", "\""},   {"stdin", "\""},
                  {"command", "["},       {"args", "["},    {"inputs", "["}, {"reads", "["},
                  {"writes", "["},        {"accept", "["},  {"env", "{"},    {"limits", "{"},
                  {"compile_limits", "{"}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        for (size_t j = 0; j < sizeof values / sizeof *values; j++) {
            bool takes_numbers = strcmp(fields[i].field, "args") == 0;
            bool right = values[j][0] == fields[i].taken[0] && (takes_numbers || !strchr(values[j], '1')) &&
                         !strchr(values[j], 'n');
            if (right)
                continue;
            char text[128];
            snprintf(text, sizeof text, "{\"%s\": %s}", fields[i].field, values[j]);
            READ_REFUSED(text, fields[i].field, fields[i].field);
        }
    READ_REFUSED("{\"limits\": {\"memory\": true}}", "memory", "memory", "must be");
    READ_REFUSED("{\"limits\": {\"memory\": null}}", "memory", "memory");
    READ_REFUSED("{\"limits\": {\"memory\": [1]}}", "memory", "memory");
}

static void impossible_numbers_are_refused(void **state)
{
    (void)state;
    READ_REFUSED("{\"limits\": {\"memory\": -1}}", "memory", "'-1'");
    READ_REFUSED("{\"limits\": {\"memory\": 1e300}}", "memory", "memory");
    READ_REFUSED("{\"limits\": {\"pids\": 1.5}}", "pids", "pids");
    READ_REFUSED("{\"limits\": {\"memory\": 9223372036854775808}}", "spec", "JSON");
    READ_REFUSED("{\"compile_limits\": {\"wall\": \"soon\"}}", "wall", "compile", "'soon'");
}

static void fields_that_are_there_twice_are_refused(void **state)
{
    (void)state;
    READ_REFUSED("{\"code\": \"1\", \"code\": \"2\"}", "spec", "not valid JSON");
    READ_REFUSED("{\"limits\": {\"memory\": 1, \"memory\": 2}}", "spec", "not valid JSON");
    READ_REFUSED("{\"env\": {\"A\": \"1\", \"A\": \"2\"}}", "spec", "not valid JSON");
}

static void nul_characters_stay_in_code_and_stdin_alone(void **state)
{
    (void)state;
    scope_spec *spec = read_well("{\"code\": \"a\\u0000b\", \"stdin\": \"\\u0000\"}");
    assert_int_equal(spec->code.length, 3);
    assert_memory_equal(spec->code.data, "a\0b", 4);
    assert_int_equal(spec->stdin_bytes.length, 1);
    static const char *const fields[] = {"language", "file", "image", "isolation", "output", "cwd"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"%s\": \"/a\\u0000b\"}", fields[i]);
        READ_REFUSED(text, fields[i], "NUL");
    }
    static const char *const lists[][2] = {{"command", "command"}, {"args", "arg"},     {"inputs", "input"},
                                           {"reads", "read"},      {"writes", "write"}, {"accept", "accept"}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"%s\": [\"memory\\u0000b\"]}", lists[i][0]);
        READ_REFUSED(text, lists[i][1], "NUL");
    }
    READ_REFUSED("{\"env\": {\"A\": \"a\\u0000b\"}}", "env", "env.A", "NUL");
    READ_REFUSED("{\"limits\": {\"memory\": \"1\\u0000G\"}}", "memory", "NUL");
    READ_REFUSED("{\"co\\u0000de\": \"x\"}", "spec", "JSON");
}

static void variables_have_names(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "A=B", "1A", "A-B", "A B", "=", "\\u00e9"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"env\": {\"%s\": \"x\"}}", wrong[i]);
        READ_REFUSED(text, "env", "env");
    }
    READ_REFUSED("{\"env\": {\"A\": 1}}", "env", "env.A", "string");
    READ_REFUSED("{\"env\": {\"A\": null}}", "env", "env.A");
    READ_REFUSED("{\"env\": [\"A=1\"]}", "env", "object");
}

static void what_is_not_a_json_object_is_refused_with_its_place(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",
                                        "{",
                                        "{\"code\": }",
                                        "{} {}",
                                        "{}x",
                                        "[",
                                        "{'code': 1}",
                                        "{\"a\" 1}",
                                        "{\"code\": \"\xff\"}",
                                        "{\"code\": \"\\ud800\"}",
                                        "\xef\xbb\xbf{}",
                                        "{\"code\": \"x\",}",
                                        "nul",
                                        "5",
                                        "\"x\""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        READ_REFUSED(wrong[i], "spec", "JSON");
    READ_REFUSED("[]", "spec", "object");
    READ_REFUSED("{\"code\": \"1\",\n  \"stdin\": oops}", "spec", "line 2");
}

static void depth_has_an_end(void **state)
{
    (void)state;
    enum { DEPTH = 200000 };
    scope_free char *text = malloc(DEPTH + 1);
    memset(text, '[', DEPTH);
    text[DEPTH] = '\0';
    READ_REFUSED(text, "spec", "depth");
}

static void lists_have_an_end(void **state)
{
    (void)state;
    scope_buffer text = {0};
    buffer_append_text(&text, "{\"args\": [\"x\"");
    for (int i = 0; i < SPEC_ARGUMENTS_MAX; i++)
        buffer_append_text(&text, ",\"x\"");
    buffer_append_text(&text, "]}");
    READ_REFUSED(text.data, "arg", "more than 1024");
}

static void bytes_behind_the_length_are_not_read(void **state)
{
    (void)state;
    scope_spec *spec = spec_new();
    struct error err;
    static const char text[] = "{\"code\":\"1\"} and more";
    assert_int_equal(read_bytes(spec, text, 12, &err), 0);
    scope_spec *other = spec_new();
    assert_true(read_bytes(other, "{}\0x", 4, &err) < 0);
}

static void several_files_add_up(void **state)
{
    (void)state;
    scope_spec *spec = read_well("{\"limits\": {\"memory\": \"1G\", \"pids\": 5}, \"args\": [\"a\"]}");
    struct error err;
    static const char more[] = "{\"limits\": {\"memory\": \"2G\"}, \"args\": [\"b\"], \"code\": \"1\"}";
    assert_int_equal(read_bytes(spec, more, strlen(more), &err), 0);
    assert_int_equal(spec->limits.value[LIMIT_memory], 2LL << 30);
    assert_int_equal(spec->limits.value[LIMIT_pids], 5);
    assert_int_equal(spec->arguments.count, 2);
    assert_true(read_bytes(spec, more, strlen(more), &err) < 0);
    assert_error(&err, ERROR_SPEC, "code", "twice");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_read),
        cmocka_unit_test(command_and_file_are_fields_too),
        cmocka_unit_test(every_limit_can_be_a_number),
        cmocka_unit_test(unknown_field_is_named_and_the_nearest_suggested),
        cmocka_unit_test(numbers_among_arguments_keep_all_their_digits),
        cmocka_unit_test(unknown_limits_are_refused),
        cmocka_unit_test(wrong_types_are_refused_by_name),
        cmocka_unit_test(impossible_numbers_are_refused),
        cmocka_unit_test(fields_that_are_there_twice_are_refused),
        cmocka_unit_test(nul_characters_stay_in_code_and_stdin_alone),
        cmocka_unit_test(variables_have_names),
        cmocka_unit_test(what_is_not_a_json_object_is_refused_with_its_place),
        cmocka_unit_test(depth_has_an_end),
        cmocka_unit_test(lists_have_an_end),
        cmocka_unit_test(bytes_behind_the_length_are_not_read),
        cmocka_unit_test(several_files_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
