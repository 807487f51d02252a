/* The operator's configuration. */
#include "harness.h"

#include "spec/policy.h"

#define FILE_NAME "cloche.conf"

static int load_bytes(const struct scratch *scratch, const char *text, size_t length, struct policy *policy,
                      struct error *err)
{
    write_bytes(scratch->fd, FILE_NAME, text, length);
    *err = (struct error){0};
    return policy_load(scratch_path(scratch, FILE_NAME), policy, err);
}

static void load_well(const struct scratch *scratch, const char *text, struct policy *policy)
{
    struct error err;
    if (load_bytes(scratch, text, strlen(text), policy, &err) < 0)
        fail_msg("refused: %s", err.text);
}

/* Refused with an error about that key that has the words in it. */
static void load_refused(const struct scratch *scratch, const char *text, const char *subject,
                         const char *const *words)
{
    struct policy policy;
    struct error err;
    if (load_bytes(scratch, text, strlen(text), &policy, &err) == 0)
        fail_msg("taken: %s", text);
    check_error(&err, ERROR_SPEC, subject, words);
    assert_non_null(strstr(err.text, FILE_NAME));
}

#define LOAD_REFUSED(scratch, text, subject, ...)                                                            \
    load_refused((scratch), (text), (subject), (const char *const[]){__VA_ARGS__, NULL})

static void empty_file_is_the_built_in_policy(void **state)
{
    struct scratch *scratch = *state;
    struct policy policy;
    load_well(scratch, "", &policy);
    for (int i = 0; i < LIMIT_FIELDS; i++) {
        assert_int_equal(policy.defaults.value[i], limit_rows[i].normal);
        assert_int_equal(policy.ceilings.value[i], limit_rows[i].most);
    }
    assert_int_equal(policy.isolation, ISOLATION_CONTAINER);
    assert_int_equal(policy.isolation_min, ISOLATION_PROCESS);
    assert_string_equal(policy.image, "host");
    assert_null(policy.image_store);
    assert_int_equal(policy.languages.count, 0);
    assert_string_equal(policy.source, scratch_path(scratch, FILE_NAME));
    policy_free(&policy);
    policy_free(&policy);
}

static void every_setting_is_read(void **state)
{
    struct scratch *scratch = *state;
    struct policy policy;
    load_well(scratch,
              "# a comment\n"
              "\n"
              "memory = 1G\n"
              "  memory.max=8G  \r\n"
              "\twall = 1m\n"
              "image = data\n"
              "image_store = /srv/with space/images\n"
              "isolation = process\n"
              "isolation.min = process\n"
              "accept = cpus\n"
              "languages = /etc/cloche/ruby.json\n"
              "   # another\n"
              "languages = /etc/cloche/perl=5.json\n"
              "pids.max = 100",
              &policy);
    assert_int_equal(policy.defaults.value[LIMIT_memory], 1LL << 30);
    assert_int_equal(policy.ceilings.value[LIMIT_memory], 8LL << 30);
    assert_int_equal(policy.defaults.value[LIMIT_wall], 60000);
    assert_int_equal(policy.ceilings.value[LIMIT_pids], 100);
    assert_string_equal(policy.image, "data");
    assert_string_equal(policy.image_store, "/srv/with space/images");
    assert_int_equal(policy.isolation, ISOLATION_PROCESS);
    assert_int_equal(policy.accepted.count, 1);
    assert_string_equal(policy.accepted.items[0], "cpus");
    assert_int_equal(policy.languages.count, 2);
    assert_string_equal(policy.languages.items[0], "/etc/cloche/ruby.json");
    assert_string_equal(policy.languages.items[1], "/etc/cloche/perl=5.json");
    policy_free(&policy);
}

static void every_limit_has_a_default_and_a_ceiling(void **state)
{
    struct scratch *scratch = *state;
    for (int i = 0; i < LIMIT_FIELDS; i++) {
        const struct limit_row *row = &limit_rows[i];
        const char *low = row->unit == LIMIT_MS ? "2" : row->unit == LIMIT_BYTES ? "32M" : "50";
        const char *high = row->unit == LIMIT_MS ? "3" : row->unit == LIMIT_BYTES ? "64M" : "60";
        char text[128];
        struct policy policy;
        int64_t value;
        struct error err;
        snprintf(text, sizeof text, "%s = %s\n%s.max = %s\n", row->name, low, row->name, high);
        load_well(scratch, text, &policy);
        assert_int_equal(limit_parse((enum limit_field)i, low, &value, &err), 0);
        assert_int_equal(policy.defaults.value[i], value);
        assert_int_equal(limit_parse((enum limit_field)i, high, &value, &err), 0);
        assert_int_equal(policy.ceilings.value[i], value);
        policy_free(&policy);
    }
}

static void wrong_line_is_named_by_file_and_number(void **state)
{
    struct scratch *scratch = *state;
    LOAD_REFUSED(scratch, "# one\n\nmemory = lots\n", "memory", FILE_NAME ":3", "memory", "'lots'");
    LOAD_REFUSED(scratch, "memory = 1G\nwall\n", "wall", FILE_NAME ":2", "'wall'", "name = value");
    LOAD_REFUSED(scratch, "memory =\n", "memory", FILE_NAME ":1", "memory");
    LOAD_REFUSED(scratch, "memory = 1G 2G\n", "memory", "'1G 2G'");
    LOAD_REFUSED(scratch, "isolation = jail\n", "isolation", FILE_NAME ":1", "'jail'",
                 "gvisor, container, wasm, process");
    LOAD_REFUSED(scratch, "isolation.min = none\n", "isolation", FILE_NAME ":1", "'none'");
    LOAD_REFUSED(scratch, "\n\n\n\npids.max = -5\n", "pids", FILE_NAME ":5", "'-5'");
}

static void unknown_keys_are_refused(void **state)
{
    struct scratch *scratch = *state;
    static const char *const keys[] = {
        "memroy",        "memory.min", "memory.max.max", "memory.maximum", ".max",  "max",       "Memory",
        "isolation.max", "image.max",  "memory.",        "compile.memory", "a key", "memory;max"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s = 5\n", keys[i]);
        LOAD_REFUSED(scratch, text, keys[i], FILE_NAME ":1", keys[i], "is not a setting");
    }
    LOAD_REFUSED(scratch, "= 5\n", "", FILE_NAME ":1");
    char longer[400] = {0};
    memset(longer, 'x', 300);
    strcat(longer, " = 5\n");
    struct policy policy;
    struct error err;
    assert_true(load_bytes(scratch, longer, strlen(longer), &policy, &err) < 0);
    assert_int_equal(err.kind, ERROR_SPEC);
}

static void built_in_defaults_follow_a_lowered_ceiling(void **state)
{
    struct scratch *scratch = *state;
    struct policy policy;
    struct error err;
    load_well(scratch, "memory.max = 100M\nwall.max = 5s\n", &policy);
    assert_int_equal(policy.defaults.value[LIMIT_memory], 100 << 20);
    assert_int_equal(policy.defaults.value[LIMIT_wall], 5000);
    assert_int_equal(policy.defaults.value[LIMIT_cpu], limit_rows[LIMIT_cpu].normal);
    assert_int_equal(policy_check_limit(&policy, LIMIT_memory, policy.defaults.value[LIMIT_memory], &err), 0);
    policy_free(&policy);
}

static void default_above_its_own_ceiling_is_refused(void **state)
{
    struct scratch *scratch = *state;
    LOAD_REFUSED(scratch, "memory = 2G\nmemory.max = 1G\n", "memory", "memory", "ceiling");
    LOAD_REFUSED(scratch, "memory.max = 1G\nmemory = 2G\n", "memory", "memory", "ceiling");
}

static void half_read_file_is_no_policy(void **state)
{
    struct scratch *scratch = *state;
    struct policy policy;
    struct error err;
    static const char hiding[] = "memory = 256M\n\0isolation.min = container\n";
    assert_true(load_bytes(scratch, hiding, sizeof hiding - 1, &policy, &err) < 0);
    assert_int_equal(err.kind, ERROR_SPEC);
    assert_non_null(strstr(err.text, FILE_NAME));
    static char large[(1 << 20) + 1];
    memset(large, '\n', sizeof large);
    assert_true(load_bytes(scratch, large, sizeof large, &policy, &err) < 0);
    assert_error(&err, ERROR_SPEC, "config", FILE_NAME);
}

static void file_that_is_asked_for_must_be_there(void **state)
{
    struct scratch *scratch = *state;
    struct policy policy;
    struct error err = {0};
    assert_true(policy_load(scratch_path(scratch, "absent"), &policy, &err) < 0);
    assert_error(&err, ERROR_SPEC, "config", "absent", "No such file");
    assert_true(policy_load(scratch->path, &policy, &err) < 0);
    assert_error(&err, ERROR_SPEC, "config", "directory");
}

static void without_any_file_the_built_in_policy_holds(void **state)
{
    (void)state;
    struct policy policy;
    struct error err = {0};
    if (access("/etc/cloche.conf", F_OK) == 0)
        skip_because("this machine has an /etc/cloche.conf");
    assert_int_equal(policy_load(NULL, &policy, &err), 0);
    assert_string_equal(policy.source, "built-in");
    policy_free(&policy);
}

static void values_outside_the_bounds_are_named_with_both(void **state)
{
    struct scratch *scratch = *state;
    struct policy policy;
    load_well(scratch, "memory.max = 1G\n", &policy);
    for (int i = 0; i < LIMIT_FIELDS; i++) {
        enum limit_field field = (enum limit_field)i;
        struct error err = {0};
        int64_t least = limit_rows[i].least, most = policy.ceilings.value[i];
        assert_int_equal(policy_check_limit(&policy, field, least, &err), 0);
        assert_int_equal(policy_check_limit(&policy, field, most, &err), 0);
        assert_true(policy_check_limit(&policy, field, most + 1, &err) < 0);
        assert_error(&err, ERROR_SPEC, limit_rows[i].name, limit_rows[i].name, "out of range", FILE_NAME);
        assert_true(policy_check_limit(&policy, field, least - 1, &err) < 0);
        assert_true(policy_check_limit(&policy, field, INT64_MAX, &err) < 0);
    }
    struct error err = {0};
    assert_true(policy_check_limit(&policy, LIMIT_memory, 2LL << 30, &err) < 0);
    assert_error(&err, ERROR_SPEC, "memory", "2 GiB", "8 MiB to 1 GiB");
    policy_free(&policy);
}

static void engines_are_found_by_name(void **state)
{
    (void)state;
    struct error err = {0};
    for (int i = 0; i < ISOLATION_COUNT; i++)
        assert_int_equal(isolation_find(isolation_names[i], &err), i);
    assert_true(ISOLATION_PROCESS < ISOLATION_CONTAINER); /* in order of strength */
    assert_true(isolation_find("", &err) < 0);
    assert_true(isolation_find("Container", &err) < 0);
    assert_error(&err, ERROR_SPEC, "isolation", "'Container'", "container", "process");
}

static void what_is_warm_is_read_in_any_order(void **state)
{
    struct scratch *scratch = *state;
    struct policy policy;
    struct error err = {0};
    load_well(scratch, "", &policy);
    assert_int_equal(policy.warm.images_max, 4);
    assert_int_equal(policy.warm.idle_ms, 600000);
    assert_int_equal(policy.warm.modules.count, 3);
    assert_false(policy.warm.modules_set);
    policy_free(&policy);
    load_well(scratch,
              "warm = data ml\nwarm = data\nwarm = other\npreload = a, b.c\tD_1\npreload.ml = x\n"
              "preload.none =\nwarm.images = 0\nwarm.idle = 30s\n",
              &policy);
    const struct warm_policy *warm = &policy.warm;
    assert_int_equal(warm->images_max, 0);
    assert_int_equal(warm->idle_ms, 30000);
    assert_int_equal(warm->kept_count, 3);
    assert_int_equal(warm->modules.count, 3);
    assert_string_equal(warm->modules.items[1], "b.c");
    assert_string_equal(warm_policy_choose(warm, "data", NULL), "ml"); /* the first line of an image */
    assert_string_equal(warm_policy_choose(warm, "data", "none"), "none");
    assert_string_equal(warm_policy_choose(warm, "other", NULL), "default");
    assert_string_equal(warm_policy_choose(warm, "elsewhere", NULL), "default");
    assert_int_equal(warm_policy_modules(warm, "ml", &err)->count, 1);
    assert_int_equal(warm_policy_modules(warm, "none", &err)->count, 0);
    assert_ptr_equal(warm_policy_modules(warm, "default", &err), &warm->modules);
    assert_null(warm_policy_modules(warm, "other", &err));
    check_error(&err, ERROR_SPEC, "preload", (const char *const[]){"'other'", "default, ml, none", NULL});
    policy_free(&policy);
}

static void what_cannot_be_warm_is_refused(void **state)
{
    struct scratch *scratch = *state;
    LOAD_REFUSED(scratch, "warm =", "warm", "''", "warm = data");
    LOAD_REFUSED(scratch, "warm = a b c", "warm", "'a b c'", "warm = data");
    LOAD_REFUSED(scratch, "warm = a\nwarm = a b", "preload", "'b'", "default");
    LOAD_REFUSED(scratch, "warm.images = -1", "warm.images", "'-1'", "0 to 64");
    LOAD_REFUSED(scratch, "warm.idle = x", "warm.idle", "'x'", "10m");
    LOAD_REFUSED(scratch, "preload = os; x", "preload", "'os;'", "numpy, pandas");
    LOAD_REFUSED(scratch, "preload. = os", "preload.", "''", "letters");
    LOAD_REFUSED(scratch, "preload.a = x\npreload.a = y", "preload.a", "'a'", "one line");
    LOAD_REFUSED(scratch, "warm.else = 1", "warm.else", "'warm.else'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(empty_file_is_the_built_in_policy),
        SCRATCH_TEST(every_setting_is_read),
        SCRATCH_TEST(every_limit_has_a_default_and_a_ceiling),
        SCRATCH_TEST(wrong_line_is_named_by_file_and_number),
        SCRATCH_TEST(unknown_keys_are_refused),
        SCRATCH_TEST(built_in_defaults_follow_a_lowered_ceiling),
        SCRATCH_TEST(default_above_its_own_ceiling_is_refused),
        SCRATCH_TEST(half_read_file_is_no_policy),
        SCRATCH_TEST(file_that_is_asked_for_must_be_there),
        SCRATCH_TEST(without_any_file_the_built_in_policy_holds),
        SCRATCH_TEST(values_outside_the_bounds_are_named_with_both),
        SCRATCH_TEST(engines_are_found_by_name),
        SCRATCH_TEST(what_is_warm_is_read_in_any_order),
        SCRATCH_TEST(what_cannot_be_warm_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
