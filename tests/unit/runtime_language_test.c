/* Languages are data: the built-in table and an operator's own. */
#include "harness.h"

#include "runtime/language.h"

static int load(const struct scratch *scratch, const char *const *texts, struct language_table *table,
                struct error *err)
{
    scope_string_list files = {0};
    *err = (struct error){0};
    for (int i = 0; texts[i]; i++) {
        char name[32];
        snprintf(name, sizeof name, "language-%d.json", i);
        write_text(scratch->fd, name, texts[i]);
        string_list_add(&files, scratch_path(scratch, name));
    }
    return language_table_load(&files, table, err);
}

static void load_well(const struct scratch *scratch, const char *text, struct language_table *table)
{
    struct error err;
    if (load(scratch, (const char *const[]){text, NULL}, table, &err) < 0)
        fail_msg("refused: %s", err.text);
}

static void load_refused(const struct scratch *scratch, const char *text, const char *const *words)
{
    struct language_table table;
    struct error err;
    if (load(scratch, (const char *const[]){text, NULL}, &table, &err) == 0)
        fail_msg("taken: %s", text);
    check_error(&err, ERROR_SPEC, "languages", words);
    assert_non_null(strstr(err.text, "language-0.json"));
    assert_null(table.rows); /* nothing to free */
}

#define LOAD_REFUSED(scratch, text, ...)                                                                     \
    load_refused((scratch), (text), (const char *const[]){__VA_ARGS__, NULL})

#define RUBY                                                                                                 \
    "{\"name\": \"ruby\", \"extensions\": [\"rb\"], \"find\": [\"/usr/bin/ruby\", \"/opt/ruby\"], "          \
    "\"file\": \"main.rb\", "                                                                                \
    "\"run\": [\"{runtime}\", \"{code}\"], \"environment\": {\"RUBYOPT\": \"-W0\"}, \"missing\": \"apt-get " \
    "install ruby\"}"

#define MODULE_ROW(engine, find, more)                                                                       \
    "{\"name\": \"lua\", \"file\": \"main.lua\", \"run\": [\"lua\", \"{code}\"], \"engine\": " engine        \
    ", \"find\": [" find "]" more "}"

static void a_module_of_an_operator_comes_from_one_place_only(void **state)
{
    struct language_table table;
    load_well(*state, MODULE_ROW("\"wasm\"", "\"/usr/local/lib/cloche/wasm/lua.cwasm\"", ""), &table);
    assert_true(table.rows[0].is_wasm);
    language_table_free(&table);
    static const char *const elsewhere[] = {
        MODULE_ROW("\"wasm\"", "\"/tmp/lua.cwasm\"", ""),
        MODULE_ROW("\"wasm\"", "\"/usr/local/lib/cloche/wasm/../lua.cwasm\"", ""),
        MODULE_ROW("\"wasm\"", "\"/usr/local/lib/cloche/wasm/..\"", ""),
        MODULE_ROW("\"wasm\"", "\"/usr/local/lib/cloche/wasm/\"", ""),
        MODULE_ROW("\"wasm\"", "\"/usr/lib/cloche/wasm/lua.cwasm\", \"/usr/lib/lua.cwasm\"", ""),
        MODULE_ROW("\"wasm\"", "", ""),
    };
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        LOAD_REFUSED(*state, elsewhere[i], "'lua'", "/usr/local/lib/cloche/wasm");
    LOAD_REFUSED(*state, MODULE_ROW("\"vm\"", "\"/usr/lib/cloche/wasm/lua.cwasm\"", ""), "'engine' is wasm");
    LOAD_REFUSED(*state, MODULE_ROW("[]", "\"/usr/lib/cloche/wasm/lua.cwasm\"", ""), "'engine' is wasm");
    LOAD_REFUSED(*state, MODULE_ROW("\"wasm\"", "\"/usr/lib/cloche/wasm/lua.cwasm\"", ", \"probe\": [\"x\"]"),
                 "no 'probe'");
}

static void built_in_languages_are_there(void **state)
{
    struct language_table table;
    struct error err;
    assert_int_equal(load(*state, (const char *const[]){NULL}, &table, &err), 0);
    static const char *const wanted[] = {"python", "javascript", "typescript", "bash", "go", "c"};
    scope_buffer names = {0};
    assert_int_equal(language_names(&table, &names), 0);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        bool found = false;
        for (size_t j = 0; j < table.count; j++)
            found |= strcmp(table.rows[j].name, wanted[i]) == 0;
        if (!found)
            fail_msg("there is no %s", wanted[i]);
        const char *first = strstr(names.data, wanted[i]);
        assert_non_null(first);
        if (strlen(wanted[i]) > 1)
            assert_null(strstr(first + 1, wanted[i])); /* each name once, however many rows it has */
    }
    language_table_free(&table);
    language_table_free(&table);
}

static void check_placeholders(const struct string_list *list, const char *language)
{
    static const char *const known[] = {"{runtime}", "{compiler}", "{code}",  "{artifact}", "{tmp}",
                                        "{home}",    "{output}",   "{input}", "{cpus}"};
    for (size_t i = 0; i < list->count; i++)
        for (const char *at = list->items[i]; (at = strchr(at, '{')); at++) {
            bool is_known = false, is_word = false;
            for (size_t j = 0; j < sizeof known / sizeof *known; j++)
                is_known |= strncmp(at, known[j], strlen(known[j])) == 0;
            size_t length = strspn(at + 1, "abcdefghijklmnopqrstuvwxyz");
            is_word = length > 0 && at[1 + length] == '}';
            if (is_word && !is_known)
                fail_msg("%s: %s", language, at);
        }
}

static void built_in_rows_are_sound(void **state)
{
    struct language_table table;
    struct error err;
    assert_int_equal(load(*state, (const char *const[]){NULL}, &table, &err), 0);
    for (size_t i = 0; i < table.count; i++) {
        const struct language *row = &table.rows[i];
        assert_true(row->extensions.count > 0 || row->is_wasm); /* told by the other row of its name */
        if (strcmp(row->name, "executable") != 0)               /* which needs nothing of an image */
            assert_true(row->run.find.count + row->compile.find.count > 0);
        for (size_t j = 0; j < row->run.find.count; j++)
            assert_int_equal(row->run.find.items[j][0], '/');
        for (size_t j = 0; j < row->compile.find.count; j++)
            assert_int_equal(row->compile.find.items[j][0], '/');
        check_placeholders(&row->run.run, row->name);
        check_placeholders(&row->run.environment, row->name);
        check_placeholders(&row->compile.run, row->name);
        check_placeholders(&row->compile.environment, row->name);
        check_placeholders(&row->probe, row->name);
        assert_int_equal(row->has_compile, row->artifact != NULL);
        /* The first row of a name is the one whose hint is shown. */
        bool first = true;
        for (size_t j = 0; j < i; j++)
            first &= strcmp(table.rows[j].name, row->name) != 0;
        if (first)
            assert_non_null(row->missing);
        assert_string_equal(language_by_extension(&table, row->file), row->name);
    }
    language_table_free(&table);
}

static void row_can_be_added_without_code(void **state)
{
    struct language_table table;
    load_well(*state, RUBY, &table);
    assert_string_equal(table.rows[0].name, "ruby");
    assert_string_equal(table.rows[0].file, "main.rb");
    assert_string_equal(table.rows[0].run.find.items[1], "/opt/ruby");
    assert_string_equal(table.rows[0].run.run.items[0], "{runtime}");
    assert_string_equal(table.rows[0].run.environment.items[0], "RUBYOPT=-W0");
    assert_string_equal(table.rows[0].missing, "apt-get install ruby");
    assert_false(table.rows[0].has_compile);
    assert_string_equal(language_by_extension(&table, "a.rb"), "ruby");
    assert_string_equal(language_by_extension(&table, "a.py"), "python");
    language_table_free(&table);
    load_well(*state, "[" RUBY "]", &table);
    assert_string_equal(table.rows[0].name, "ruby");
    language_table_free(&table);
    load_well(*state, "[]", &table);
    language_table_free(&table);
}

static void compile_step_is_read(void **state)
{
    struct language_table table;
    load_well(
        *state,
        "{\"name\": \"d\", \"file\": \"main.d\", \"run\": [\"{code}\"], \"probe\": [\"/bin/true\"], "
        "\"compile\": "
        "{\"find\": [\"/usr/bin/dmd\"], \"run\": [\"{compiler}\", \"{code}\"], \"artifact\": \"program\", "
        "\"environment\": {\"D\": \"{tmp}\"}}}",
        &table);
    const struct language *row = &table.rows[0];
    assert_true(row->has_compile);
    assert_string_equal(row->artifact, "program");
    assert_string_equal(row->compile.find.items[0], "/usr/bin/dmd");
    assert_string_equal(row->compile.environment.items[0], "D={tmp}");
    assert_string_equal(row->probe.items[0], "/bin/true");
    assert_int_equal(row->extensions.count, 0);
    language_table_free(&table);
}

static void start_of_a_context_is_read(void **state)
{
    struct language_table table;
    load_well(
        *state,
        "{\"name\": \"d\", \"file\": \"main.d\", \"run\": [\"{code}\"], \"environment\": {\"D\": \"1\"}, "
        "\"context\": {\"file\": \"runner.d\", \"run\": [\"{runtime}\", \"-x\", \"{code}\"]}}",
        &table);
    const struct language *row = &table.rows[0];
    assert_string_equal(row->context_file, "runner.d");
    assert_int_equal(row->context.run.count, 3);
    assert_string_equal(row->context.run.items[1], "-x");
    assert_string_equal(row->context.environment.items[0], "D=1");
    language_table_free(&table);
    static const char *const wrong[][2] = {{"[]", "object"},
                                           {"{\"run\": [\"x\"]}", "plain 'file' name"},
                                           {"{\"file\": \"a/b\", \"run\": [\"x\"]}", "plain 'file' name"},
                                           {"{\"file\": \"a\"}", "without 'run'"},
                                           {"{\"file\": \"a\", \"run\": [\"x\"], \"dance\": 1}", "dance"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"name\": \"d\", \"file\": \"d\", \"run\": [\"d\"], \"context\": %s}",
                 wrong[i][0]);
        LOAD_REFUSED(*state, text, wrong[i][1]);
    }
}

static void later_files_come_first_and_all_before_the_built_in(void **state)
{
    struct language_table table;
    struct error err;
    static const char *const texts[] = {
        "{\"name\": \"python\", \"extensions\": [\"py\"], \"file\": \"first.py\", \"run\": [\"/first\"]}",
        "{\"name\": \"python\", \"extensions\": [\"py\"], \"file\": \"second.py\", \"run\": [\"/second\"]}",
        NULL};
    assert_int_equal(load(*state, texts, &table, &err), 0);
    assert_string_equal(table.rows[0].file, "second.py");
    assert_string_equal(table.rows[1].file, "first.py");
    assert_string_equal(table.rows[2].file, "main.py");
    language_table_free(&table);
}

static void unknown_keys_are_refused_by_name(void **state)
{
    LOAD_REFUSED(*state, "{\"name\": \"x\", \"file\": \"x.x\", \"run\": [\"x\"], \"fnid\": [\"/x\"]}",
                 "'fnid'");
    LOAD_REFUSED(*state, "{\"name\": \"x\", \"file\": \"x.x\", \"run\": [\"x\"], \"artifact\": \"p\"}",
                 "'artifact'");
    LOAD_REFUSED(*state,
                 "{\"name\": \"x\", \"file\": \"x.x\", \"run\": [\"x\"], \"compile\": {\"run\": [\"c\"], "
                 "\"artifact\": "
                 "\"p\", \"probe\": [\"x\"]}}",
                 "'probe'");
}

static void wrong_types_are_refused(void **state)
{
    static const char *const keys[] = {"name", "file",  "missing", "extensions", "find",
                                       "run",  "probe", "compile", "environment"};
    static const char *const values[] = {"5", "true", "null", "[5]", "{\"A\": 5}", "[[\"x\"]]"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        for (size_t j = 0; j < sizeof values / sizeof *values; j++) {
            char text[256] = "{";
            static const char *const needed[][2] = {
                {"name", "\"x\""}, {"file", "\"x.x\""}, {"run", "[\"x\"]"}};
            for (size_t k = 0; k < 3; k++)
                if (strcmp(keys[i], needed[k][0]) != 0)
                    snprintf(text + strlen(text), sizeof text - strlen(text), "\"%s\": %s, ", needed[k][0],
                             needed[k][1]);
            snprintf(text + strlen(text), sizeof text - strlen(text), "\"%s\": %s}", keys[i], values[j]);
            LOAD_REFUSED(*state, text, "language-0.json");
        }
}

static void incomplete_rows_are_refused(void **state)
{
    LOAD_REFUSED(*state, "{}", "name");
    LOAD_REFUSED(*state, "[5]", "language-0.json");
    LOAD_REFUSED(*state, "[null]", "language-0.json");
    LOAD_REFUSED(*state, "{\"name\": \"x\", \"run\": [\"x\"]}", "file");
    LOAD_REFUSED(*state, "{\"file\": \"x.x\", \"run\": [\"x\"]}", "name");
    LOAD_REFUSED(*state, "{\"name\": \"x\", \"file\": \"x.x\"}", "run");
    LOAD_REFUSED(*state, "{\"name\": \"x\", \"file\": \"x.x\", \"run\": []}", "run");
    LOAD_REFUSED(*state,
                 "{\"name\": \"x\", \"file\": \"x.x\", \"run\": [\"x\"], \"compile\": {\"run\": [\"c\"]}}",
                 "artifact");
    LOAD_REFUSED(*state,
                 "{\"name\": \"x\", \"file\": \"x.x\", \"run\": [\"x\"], \"compile\": {\"artifact\": \"p\"}}",
                 "run");
    LOAD_REFUSED(*state, "[" RUBY ", {\"name\": \"x\"}]", "file"); /* the good row before it is given back */
}

static void file_names_cannot_be_paths(void **state)
{
    static const char *const names[] = {"a/b", "../x", "/etc/passwd", "..",   ".",
                                        "",    "a b",  "-x",          "a\\n", ".bashrc"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"name\": \"x\", \"file\": \"%s\", \"run\": [\"x\"]}", names[i]);
        LOAD_REFUSED(*state, text, "plain");
        snprintf(text, sizeof text,
                 "{\"name\": \"x\", \"file\": \"x.x\", \"run\": [\"x\"], \"compile\": {\"run\": [\"c\"], "
                 "\"artifact\": "
                 "\"%s\"}}",
                 names[i]);
        LOAD_REFUSED(*state, text, "artifact");
    }
}

static void variables_have_names(void **state)
{
    static const char *const names[] = {"", "A=B", "1A", "A B"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[256];
        snprintf(text, sizeof text,
                 "{\"name\": \"x\", \"file\": \"x.x\", \"run\": [\"x\"], \"environment\": {\"%s\": \"1\"}}",
                 names[i]);
        LOAD_REFUSED(*state, text, "environment");
    }
}

static void what_is_not_json_is_refused_with_its_place(void **state)
{
    LOAD_REFUSED(*state, "", "language-0.json:1");
    LOAD_REFUSED(*state, "{\"name\": \"x\",\n oops}", "language-0.json:2:");
    LOAD_REFUSED(*state, "\"text\"", "language-0.json");
    LOAD_REFUSED(*state, "{\"name\": \"x\", \"name\": \"y\", \"file\": \"x.x\", \"run\": [\"x\"]}",
                 "language-0.json");
    LOAD_REFUSED(*state, "{\"name\": \"a\\u0000b\", \"file\": \"x.x\", \"run\": [\"x\"]}", "language-0.json");
    LOAD_REFUSED(*state, RUBY " " RUBY, "language-0.json");
}

static void file_that_cannot_be_read_is_named(void **state)
{
    const struct scratch *scratch = *state;
    scope_string_list files = {0};
    struct language_table table;
    struct error err = {0};
    string_list_add(&files, scratch_path(scratch, "absent.json"));
    assert_true(language_table_load(&files, &table, &err) < 0);
    assert_error(&err, ERROR_SPEC, "languages", "absent.json", "No such file");
    scope_string_list large = {0};
    write_text(scratch->fd, "large.json", "[]");
    assert_int_equal(truncate(scratch_path(scratch, "large.json"), (1 << 20) + 1), 0);
    string_list_add(&large, scratch_path(scratch, "large.json"));
    assert_true(language_table_load(&large, &table, &err) < 0);
    assert_error(&err, ERROR_SPEC, "languages", "large.json");
}

static void extension_is_what_follows_the_last_dot(void **state)
{
    struct language_table table;
    struct error err;
    assert_int_equal(load(*state, (const char *const[]){NULL}, &table, &err), 0);
    static const struct {
        const char *file, *language;
    } rows[] = {{"hello.py", "python"},
                {"a.tar.py", "python"},
                {"x.mjs", "javascript"},
                {"x.ts", "typescript"},
                {"x.sh", "bash"},
                {"main.go", "go"},
                {"main.c", "c"},
                {".py", "python"},
                {"py", NULL},
                {"a.", NULL},
                {"a.PY", NULL},
                {"a.pyx", NULL},
                {"", NULL},
                {"a.py ", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *found = language_by_extension(&table, rows[i].file);
        if (rows[i].language ? !found || strcmp(found, rows[i].language) != 0 : found != NULL)
            fail_msg("%s is taken for %s", rows[i].file, found ? found : "nothing");
    }
    language_table_free(&table);
}

static void code_keeps_its_own_name_unless_it_leads_elsewhere(void **state)
{
    struct language_table table;
    load_well(*state, RUBY, &table);
    const struct language *ruby = language_named(&table, "ruby");
    assert_string_equal(language_code_name(&table, ruby, "work.rb"), "work.rb");
    static const char *const others[] = {"/tmp/x.rb", "../x.rb", "a/b.rb", ".hidden.rb", "..", "x.py", ""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_string_equal(language_code_name(&table, ruby, others[i]), ruby->file);
    language_table_free(&table);
}

/* ---- in an image ---- */

static void put_program(const struct scratch *scratch, const char *name)
{
    write_text(scratch->fd, name, "#!/bin/sh\n");
    assert_int_equal(fchmodat(scratch->fd, name, 0755, 0), 0);
}

static struct image image_of(const struct scratch *scratch)
{
    assert_int_equal(file_make_directories(scratch_path(scratch, "root/usr/bin"), 0755), 0);
    assert_int_equal(file_make_directories(scratch_path(scratch, "root/opt"), 0755), 0);
    static char name[] = "test", root[128];
    snprintf(root, sizeof root, "%s/root", scratch->path);
    return (struct image){.name = name, .root = root};
}

static void row_is_taken_whose_programs_are_in_the_image(void **state)
{
    const struct scratch *scratch = *state;
    struct image image = image_of(scratch);
    struct language_table table;
    const char *runtime, *compiler;
    load_well(scratch, RUBY, &table);
    assert_int_equal(language_find(&table, &(struct language_wanted){.name = "ruby", .image = &image}, 0,
                                   &runtime, &compiler),
                     -1);
    put_program(scratch, "root/opt/ruby");
    assert_int_equal(language_find(&table, &(struct language_wanted){.name = "ruby", .image = &image}, 0,
                                   &runtime, &compiler),
                     0);
    assert_string_equal(runtime, "/opt/ruby");
    assert_null(compiler);
    put_program(scratch, "root/usr/bin/ruby"); /* the first of the list that is there */
    assert_int_equal(language_find(&table, &(struct language_wanted){.name = "ruby", .image = &image}, 0,
                                   &runtime, &compiler),
                     0);
    assert_string_equal(runtime, "/usr/bin/ruby");
    assert_int_equal(language_find(&table, &(struct language_wanted){.name = "ruby", .image = &image}, 1,
                                   &runtime, &compiler),
                     -1);
    assert_int_equal(language_find(&table, &(struct language_wanted){.name = "no such", .image = &image}, 0,
                                   &runtime, &compiler),
                     -1);
    put_program(scratch, "root/usr/bin/gcc");
    int row = language_find(&table, &(struct language_wanted){.name = "c", .image = &image}, 0, &runtime,
                            &compiler);
    assert_true(row > 0);
    assert_string_equal(compiler, "/usr/bin/gcc");
    assert_null(runtime);
    language_table_free(&table);
}

static void both_programs_of_a_row_must_be_there(void **state)
{
    const struct scratch *scratch = *state;
    struct image image = image_of(scratch);
    struct language_table table;
    const char *runtime, *compiler;
    load_well(scratch,
              "{\"name\": \"x\", \"file\": \"x.x\", \"find\": [\"/usr/bin/run\"], \"run\": [\"{runtime}\"], "
              "\"compile\": "
              "{\"find\": [\"/usr/bin/compile\"], \"run\": [\"{compiler}\"], \"artifact\": \"p\"}}",
              &table);
    put_program(scratch, "root/usr/bin/run");
    assert_int_equal(language_find(&table, &(struct language_wanted){.name = "x", .image = &image}, 0,
                                   &runtime, &compiler),
                     -1);
    put_program(scratch, "root/usr/bin/compile");
    assert_int_equal(language_find(&table, &(struct language_wanted){.name = "x", .image = &image}, 0,
                                   &runtime, &compiler),
                     0);
    language_table_free(&table);
}

static void missing_language_is_told_with_the_way_to_get_it(void **state)
{
    const struct scratch *scratch = *state;
    struct image image = image_of(scratch);
    struct language_table table;
    struct error err = {0};
    load_well(scratch, RUBY, &table);
    assert_true(language_explain_missing(&table, &(struct language_wanted){.name = "ruby", .image = &image},
                                         &err) < 0);
    assert_error(&err, ERROR_SPEC, "language", "'test'", "ruby", "apt-get install ruby");
    assert_true(language_explain_missing(&table, &(struct language_wanted){.name = "cobol", .image = &image},
                                         &err) < 0);
    assert_error(&err, ERROR_SPEC, "language", "'cobol'", "ruby, python", "languages = FILE");
    language_table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(a_module_of_an_operator_comes_from_one_place_only),
        SCRATCH_TEST(built_in_languages_are_there),
        SCRATCH_TEST(built_in_rows_are_sound),
        SCRATCH_TEST(row_can_be_added_without_code),
        SCRATCH_TEST(compile_step_is_read),
        SCRATCH_TEST(start_of_a_context_is_read),
        SCRATCH_TEST(later_files_come_first_and_all_before_the_built_in),
        SCRATCH_TEST(unknown_keys_are_refused_by_name),
        SCRATCH_TEST(wrong_types_are_refused),
        SCRATCH_TEST(incomplete_rows_are_refused),
        SCRATCH_TEST(file_names_cannot_be_paths),
        SCRATCH_TEST(variables_have_names),
        SCRATCH_TEST(what_is_not_json_is_refused_with_its_place),
        SCRATCH_TEST(file_that_cannot_be_read_is_named),
        SCRATCH_TEST(extension_is_what_follows_the_last_dot),
        SCRATCH_TEST(code_keeps_its_own_name_unless_it_leads_elsewhere),
        SCRATCH_TEST(row_is_taken_whose_programs_are_in_the_image),
        SCRATCH_TEST(both_programs_of_a_row_must_be_there),
        SCRATCH_TEST(missing_language_is_told_with_the_way_to_get_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
