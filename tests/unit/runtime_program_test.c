/* From a row or a command to what is executed. */
#include "harness.h"

#include "runtime/program.h"

static const char *path_of(const struct box *box, const char *which, char *into, size_t size)
{
    (void)box;
    snprintf(into, size, "/box/%s", which);
    return into;
}

static const struct engine engine_of_the_test = {
    .isolation = ISOLATION_CONTAINER, .name = "test", .path_of = path_of};

struct world {
    struct scratch *scratch;
    struct box box;
    struct spec *spec;
    struct limits limits;
    struct image image;
    char image_name[8], root[128];
    struct language_step step;
    struct program_paths paths;
    struct program program;
    struct error err;
};

static int world_setup(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    void *scratch;
    scratch_setup(&scratch);
    world->scratch = scratch;
    world->spec = spec_new();
    box_init(&world->box);
    strcpy(world->image_name, "test");
    snprintf(world->root, sizeof world->root, "%s/root", world->scratch->path);
    assert_int_equal(file_make_directories(scratch_path(world->scratch, "root/usr/bin"), 0755), 0);
    world->image = (struct image){.name = world->image_name, .root = world->root};
    world->limits.value[LIMIT_cpus] = 1000;
    world->box.engine = &engine_of_the_test;
    world->box.spec = world->spec;
    world->box.limits = &world->limits;
    world->box.image = &world->image;
    world->paths = (struct program_paths){
        .runtime = "/usr/bin/ruby", .compiler = "/usr/bin/cc", .artifact = "program", .code_name = "main.rb"};
    *state = world;
    return 0;
}

static int world_teardown(void **state)
{
    struct world *world = *state;
    void *scratch = world->scratch;
    program_free(&world->program);
    string_list_free(&world->step.run);
    string_list_free(&world->step.environment);
    string_list_free(&world->image.environment);
    spec_free(world->spec);
    free(world);
    return scratch_teardown(&scratch);
}

static void set(struct world *world, const char *field, const char *value)
{
    if (spec_set(world->spec, field, value, &world->err) < 0)
        fail_msg("%s", world->err.text);
}

static void from_language(struct world *world)
{
    program_free(&world->program);
    if (program_from_language(&world->box, &world->step, &world->paths, &world->spec->arguments,
                              &world->program, &world->err) < 0)
        fail_msg("%s", world->err.text);
}

static void from_command(struct world *world)
{
    program_free(&world->program);
    if (program_from_command(&world->box, &world->program, &world->err) < 0)
        fail_msg("%s", world->err.text);
}

static const char *variable(const struct world *world, const char *name)
{
    const char *found = NULL;
    size_t length = strlen(name);
    for (size_t i = 0; i < world->program.environment.count; i++) {
        const char *pair = world->program.environment.items[i];
        if (strncmp(pair, name, length) != 0 || pair[length] != '=')
            continue;
        assert_null(found); /* each name once */
        found = pair + length + 1;
    }
    return found;
}

/* What a string of a row becomes. */
static const char *expanded(struct world *world, const char *text)
{
    string_list_free(&world->step.run);
    string_list_add(&world->step.run, text);
    from_language(world);
    return world->program.arguments.items[0];
}

static void names_in_braces_are_replaced(void **state)
{
    struct world *world = *state;
    static const struct {
        const char *text, *wanted;
    } rows[] = {{"{runtime}", "/usr/bin/ruby"},
                {"{compiler}", "/usr/bin/cc"},
                {"{code}", "/box/code/main.rb"},
                {"{artifact}", "/box/output/program"},
                {"{tmp}/x", "/box/tmp/x"},
                {"{home}", "/box/home"},
                {"{output}", "/box/output"},
                {"{input}", "/box/input"},
                {"{cpus}", "1"},
                {"-o{artifact}:{code}!", "-o/box/output/program:/box/code/main.rb!"},
                {"{tmp}{tmp}", "/box/tmp/box/tmp"},
                {"", ""},
                {"plain", "plain"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(expanded(world, rows[i].text), rows[i].wanted);
}

static void braces_of_the_languages_own_stay(void **state)
{
    struct world *world = *state;
    static const char *const texts[] = {"{",
                                        "}",
                                        "{}",
                                        "{unknown}",
                                        "{ tmp }",
                                        "{TMP}",
                                        "{tmp",
                                        "{{{",
                                        "}{",
                                        "{a}",
                                        "const f=()=>{return 1}",
                                        "{toolongtobeaname}",
                                        "{\n}",
                                        "{tmpx}",
                                        "{tm}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_string_equal(expanded(world, texts[i]), texts[i]);
    assert_string_equal(expanded(world, "{{tmp}}"), "{/box/tmp}");
    assert_string_equal(expanded(world, "x={ {code} }"), "x={ /box/code/main.rb }");
}

static void what_is_not_known_is_not_made_up(void **state)
{
    struct world *world = *state;
    static const char *const texts[] = {"{runtime}", "{compiler}", "{artifact}", "{code}"};
    world->paths = (struct program_paths){0};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_null(strstr(expanded(world, texts[i]), "(null)"));
}

static void cpus_are_rounded_up(void **state)
{
    struct world *world = *state;
    static const struct {
        int64_t millicpus;
        const char *wanted;
    } rows[] = {{10, "1"}, {500, "1"}, {1000, "1"}, {1001, "2"}, {2500, "3"}, {256000, "256"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        world->limits.value[LIMIT_cpus] = rows[i].millicpus;
        assert_string_equal(expanded(world, "{cpus}"), rows[i].wanted);
    }
}

static void users_arguments_follow_and_are_not_expanded(void **state)
{
    struct world *world = *state;
    set(world, "arg", "{tmp}");
    set(world, "arg", "");
    string_list_add(&world->step.run, "{runtime}");
    string_list_add(&world->step.run, "{code}");
    from_language(world);
    assert_int_equal(world->program.arguments.count, 4);
    assert_string_equal(world->program.arguments.items[1], "/box/code/main.rb");
    assert_string_equal(world->program.arguments.items[2], "{tmp}");
    assert_string_equal(world->program.arguments.items[3], "");
    assert_null(world->program.arguments.items[4]);
    assert_string_equal(world->program.code_name, "main.rb");
}

static void environment_is_ours_then_the_images_then_the_languages_then_the_users(void **state)
{
    struct world *world = *state;
    string_list_add(&world->step.run, "x");
    from_language(world);
    assert_string_equal(variable(world, "HOME"), "/box/home");
    assert_string_equal(variable(world, "TMPDIR"), "/box/tmp");
    assert_string_equal(variable(world, "CLOCHE_INPUT"), "/box/input");
    assert_string_equal(variable(world, "CLOCHE_OUTPUT"), "/box/output");
    assert_non_null(strstr(variable(world, "PATH"), "/usr/bin"));
    string_list_add(&world->image.environment, "A=image");
    string_list_add(&world->image.environment, "B=image");
    string_list_add(&world->image.environment, "HOME=/image");
    from_language(world);
    assert_string_equal(variable(world, "A"), "image");
    assert_string_equal(variable(world, "HOME"), "/image");
    string_list_add(&world->step.environment, "A={tmp}/language");
    string_list_add(&world->step.environment, "C=language");
    from_language(world);
    assert_string_equal(variable(world, "A"), "/box/tmp/language");
    set(world, "env", "A=user");
    set(world, "env", "C={tmp}");
    set(world, "env", "HOME=");
    from_language(world);
    assert_string_equal(variable(world, "A"), "user");
    assert_string_equal(variable(world, "B"), "image");
    assert_string_equal(variable(world, "C"), "{tmp}");
    assert_string_equal(variable(world, "HOME"), "");
    assert_null(variable(world, "HOM"));
}

static void nothing_of_the_callers_environment_goes_in(void **state)
{
    struct world *world = *state;
    setenv("CLOCHE_UNIT_SECRET", "secret", 1);
    string_list_add(&world->step.run, "x");
    from_language(world);
    assert_null(variable(world, "CLOCHE_UNIT_SECRET"));
    set(world, "command", "/bin/true");
    from_command(world);
    assert_null(variable(world, "CLOCHE_UNIT_SECRET"));
    for (size_t i = 0; i < world->program.environment.count; i++)
        assert_null(strstr(world->program.environment.items[i], "secret"));
    unsetenv("CLOCHE_UNIT_SECRET");
}

static void working_directory_is_the_output_or_what_was_asked_for(void **state)
{
    struct world *world = *state;
    string_list_add(&world->step.run, "x");
    from_language(world);
    assert_string_equal(world->program.working_directory, "/box/output");
    set(world, "cwd", "/somewhere");
    from_language(world);
    assert_string_equal(world->program.working_directory, "/somewhere");
}

/* ---- commands ---- */

static void command_is_looked_for_in_the_image(void **state)
{
    struct world *world = *state;
    write_text(world->scratch->fd, "root/usr/bin/tool", "#!/bin/sh\n");
    assert_int_equal(fchmodat(world->scratch->fd, "root/usr/bin/tool", 0755, 0), 0);
    set(world, "command", "tool");
    set(world, "command", "-x");
    from_command(world);
    assert_string_equal(world->program.arguments.items[0], "/usr/bin/tool");
    assert_string_equal(world->program.arguments.items[1], "-x");
    assert_null(world->program.code_name);
}

static void command_that_is_not_there_is_named(void **state)
{
    struct world *world = *state;
    write_text(world->scratch->fd, "root/usr/bin/plain", "not a program");
    static const char *const names[] = {"absent", "plain", "..", "."};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct error err = {0};
        scope_spec *spec = spec_new();
        assert_int_equal(spec_set(spec, "command", names[i], &err), 0);
        world->box.spec = spec;
        assert_true(program_from_command(&world->box, &world->program, &err) < 0);
        assert_error(&err, ERROR_SPEC, "command", names[i], "'test'");
        world->box.spec = world->spec;
    }
}

static void path_of_a_command_is_left_as_it_is(void **state)
{
    struct world *world = *state;
    set(world, "command", "./build/../run");
    from_command(world);
    assert_string_equal(world->program.arguments.items[0], "./build/../run");
}

static void caller_stays_where_he_stands_if_the_box_can_see_it(void **state)
{
    struct world *world = *state;
    assert_int_equal(file_make_directories(scratch_path(world->scratch, "src/deep"), 0755), 0);
    assert_int_equal(file_make_directories(scratch_path(world->scratch, "src-other"), 0755), 0);
    set(world, "command", "/bin/true");
    set(world, "read", scratch_path(world->scratch, "src"));
    static const struct {
        const char *stands;
        bool granted;
    } rows[] = {{"src", true}, {"src/deep", true}, {".", true}, {"src-other", false}, {"root", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char here[256];
        assert_int_equal(chdir(scratch_path(world->scratch, rows[i].stands)), 0);
        assert_non_null(getcwd(here, sizeof here));
        from_command(world);
        assert_string_equal(world->program.working_directory, rows[i].granted ? here : "/box/output");
    }
    set(world, "cwd", "/elsewhere");
    from_command(world);
    assert_string_equal(world->program.working_directory, "/elsewhere");
    assert_int_equal(chdir("/"), 0);
}

#define WORLD_TEST(function) cmocka_unit_test_setup_teardown(function, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(names_in_braces_are_replaced),
        WORLD_TEST(braces_of_the_languages_own_stay),
        WORLD_TEST(what_is_not_known_is_not_made_up),
        WORLD_TEST(cpus_are_rounded_up),
        WORLD_TEST(users_arguments_follow_and_are_not_expanded),
        WORLD_TEST(environment_is_ours_then_the_images_then_the_languages_then_the_users),
        WORLD_TEST(nothing_of_the_callers_environment_goes_in),
        WORLD_TEST(working_directory_is_the_output_or_what_was_asked_for),
        WORLD_TEST(command_is_looked_for_in_the_image),
        WORLD_TEST(command_that_is_not_there_is_named),
        WORLD_TEST(path_of_a_command_is_left_as_it_is),
        WORLD_TEST(caller_stays_where_he_stands_if_the_box_can_see_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
