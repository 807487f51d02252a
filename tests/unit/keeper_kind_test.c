/* Which boxes can run a spec as a cold one would. */
#include "harness.h"

#include "keeper/kind.h"

struct world {
    struct policy policy;
    struct language_table languages;
    struct limits usual, highest;
};

static int make_world(void **state)
{
    static struct world world;
    struct error err = {0};
    const struct string_list none = {0};
    world = (struct world){0};
    assert_int_equal(policy_load("/dev/null", &world.policy, &err), 0);
    assert_int_equal(language_table_load(&none, &world.languages, &err), 0);
    world.highest = world.policy.ceilings;
    scope_spec *spec = spec_new();
    buffer_append(&spec->code, "1", 1);
    spec->has_code = true;
    assert_int_equal(spec_validate(spec, &world.policy, &err), 0);
    world.usual = spec->limits;
    *state = &world;
    return 0;
}

static int drop_world(void **state)
{
    struct world *world = *state;
    policy_free(&world->policy);
    language_table_free(&world->languages);
    return 0;
}

/* The kind of a spec with these settings: name, value, …, NULL. */
static const char *kind_of(struct world *world, const char *const *settings)
{
    struct error err = {0};
    scope_spec *spec = spec_new();
    buffer_append(&spec->code, "1", 1);
    spec->has_code = true;
    for (; *settings; settings += 2)
        if (strcmp(settings[0], "name") == 0)
            spec->code_name = strdup(settings[1]);
        else if (spec_set(spec, settings[0], settings[1], &err) < 0)
            fail_msg("%s: %s", settings[0], err.text);
    if (spec_validate(spec, &world->policy, &err) < 0)
        fail_msg("%s", err.text);
    int kind = kind_of_spec(spec, &(struct kind_terms){.languages = &world->languages,
                                                       .usual = &world->usual,
                                                       .highest = &world->highest});
    return kind < 0 ? "none" : kinds[kind].name;
}

#define KIND(world, ...) kind_of((world), (const char *const[]){__VA_ARGS__, NULL})

static void kinds_go_by_language_and_engine(void **state)
{
    assert_string_equal(kind_of(*state, (const char *const[]){NULL}), "python");
    assert_string_equal(KIND(*state, "language", "javascript"), "javascript");
    assert_string_equal(KIND(*state, "name", "a.mjs"), "javascript");
    assert_string_equal(KIND(*state, "name", "a.sh", "isolation", "process"), "bash/process");
    assert_string_equal(KIND(*state, "isolation", "process"), "python/process");
    assert_string_equal(KIND(*state, "name", "a.ts"), "none");
    assert_string_equal(KIND(*state, "name", "a.xyz"), "none");
    assert_string_equal(KIND(*state, "image", "other"), "python");
    assert_string_equal(KIND(*state, "image", "other", "isolation", "process"), "none");
    assert_string_equal(KIND(*state, "language", "bash", "cwd", "/tmp"), "none");
}

static void limits_that_a_runner_cannot_put_on_must_be_the_usual(void **state)
{
    static const char *const settings[][2] = {
        {"open_files", "100"}, {"disk", "5M"}, {"cpu", "3s"}, {"pids", "9"}};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        const char *name = settings[i][0], *value = settings[i][1];
        assert_string_equal(KIND(*state, "language", "javascript", name, value), "none");
        assert_string_equal(KIND(*state, "language", "bash", name, value), "bash");
        assert_string_equal(KIND(*state, name, value), "python");
        assert_string_equal(KIND(*state, "isolation", "process", name, value), "python/process");
    }
    assert_string_equal(KIND(*state, "language", "javascript", "memory", "64M"), "javascript");
    assert_string_equal(KIND(*state, "isolation", "process", "cpus", "1.5"), "none");
}

static void variables_that_are_read_at_the_start_need_a_start(void **state)
{
    assert_string_equal(KIND(*state, "language", "javascript", "env", "A=b"), "javascript");
    assert_string_equal(KIND(*state, "language", "javascript", "env", "NODE_OPTIONS=-r x"), "none");
    assert_string_equal(KIND(*state, "env", "PYTHONHASHSEED=0"), "none");
    assert_string_equal(KIND(*state, "language", "bash", "env", "LC_ALL=C"),
                        "bash"); /* it has its start yet */
}

static void names_are_found(void **state)
{
    (void)state;
    for (int i = 0; i < KIND_COUNT; i++)
        assert_int_equal(kind_by_name(kinds[i].name), i);
    assert_int_equal(kind_by_name("cobol"), -1);
    assert_true(kinds[0].is_forked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kinds_go_by_language_and_engine, make_world, drop_world),
        cmocka_unit_test_setup_teardown(limits_that_a_runner_cannot_put_on_must_be_the_usual, make_world,
                                        drop_world),
        cmocka_unit_test_setup_teardown(variables_that_are_read_at_the_start_need_a_start, make_world,
                                        drop_world),
        cmocka_unit_test(names_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
