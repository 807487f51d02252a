/* From what was asked to what will be done. */
#include "harness.h"

#include "spec/spec.h"

#include <limits.h>

static int validate_with(const struct scratch *scratch, const char *config, struct spec *spec,
                         struct error *err)
{
    struct policy policy;
    *err = (struct error){0};
    write_text(scratch->fd, "cloche.conf", config);
    if (policy_load(scratch_path(scratch, "cloche.conf"), &policy, err) < 0)
        fail_msg("%s", err->text);
    int status = spec_validate(spec, &policy, err);
    policy_free(&policy);
    return status;
}

/* A spec of the given fields and values (up to a NULL). */
static struct spec *spec_of(const char *const *pairs)
{
    struct spec *spec = spec_new();
    struct error err = {0};
    assert_non_null(spec);
    for (; *pairs; pairs += 2)
        if (spec_set(spec, pairs[0], pairs[1], &err) < 0)
            fail_msg("%s", err.text);
    return spec;
}

#define SPEC(...) spec_of((const char *const[]){__VA_ARGS__, NULL})

static void validate_well(const struct scratch *scratch, struct spec *spec)
{
    struct error err;
    if (validate_with(scratch, "", spec, &err) < 0)
        fail_msg("refused: %s", err.text);
}

static void validate_refused(const struct scratch *scratch, struct spec *taken, const char *subject,
                             const char *const *words)
{
    scope_spec *spec = taken;
    struct error err;
    if (validate_with(scratch, "", spec, &err) == 0)
        fail_msg("taken; expected: %s", words[0]);
    check_error(&err, ERROR_SPEC, subject, words);
}

#define REFUSED(scratch, spec, subject, ...)                                                                 \
    validate_refused((scratch), (spec), (subject), (const char *const[]){__VA_ARGS__, NULL})

static void what_is_not_given_is_filled_from_the_policy(void **state)
{
    struct error err;
    scope_spec *spec = SPEC("code", "1", "pids", "7");
    if (validate_with(*state, "memory = 1G\nisolation = process\nimage = data\n", spec, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(spec->limits.value[LIMIT_memory], 1LL << 30);
    assert_int_equal(spec->limits.value[LIMIT_pids], 7);
    assert_int_equal(spec->limits.value[LIMIT_wall], limit_rows[LIMIT_wall].normal);
    assert_int_equal(spec->compile_limits.value[LIMIT_memory], limit_rows[LIMIT_memory].compile);
    assert_int_equal(spec->isolation, ISOLATION_PROCESS);
    assert_string_equal(spec->image, "data");
}

static void what_is_given_stands(void **state)
{
    scope_spec *spec = SPEC("code", "1", "isolation", "process", "image", "other", "compile.wall", "5");
    validate_well(*state, spec);
    assert_int_equal(spec->isolation, ISOLATION_PROCESS);
    assert_string_equal(spec->image, "other");
    assert_int_equal(spec->compile_limits.value[LIMIT_wall], 5000);
}

static void every_limit_has_a_floor_and_a_ceiling(void **state)
{
    struct scratch *scratch = *state;
    for (int i = 0; i < LIMIT_FIELDS; i++) {
        const int64_t outside[] = {limit_rows[i].least - 1, limit_rows[i].most + 1, INT64_MAX};
        for (size_t j = 0; j < sizeof outside / sizeof *outside; j++) {
            for (int compile = 0; compile < 2; compile++) {
                scope_spec *spec = SPEC("code", "1");
                struct error err;
                (compile ? &spec->compile_limits : &spec->limits)->value[i] = outside[j];
                (compile ? spec->compile_limit_set : spec->limit_set)[i] = true;
                if (validate_with(scratch, "", spec, &err) == 0)
                    fail_msg("%s%s = %lld is taken", compile ? "compile." : "", limit_rows[i].name,
                             (long long)outside[j]);
                assert_error(&err, ERROR_SPEC, limit_rows[i].name, limit_rows[i].name, "out of range",
                             compile ? "compile" : "");
            }
        }
    }
}

static void operators_ceiling_is_kept(void **state)
{
    struct error err;
    scope_spec *spec = SPEC("code", "1", "memory", "2G");
    assert_true(validate_with(*state, "memory.max = 1G\n", spec, &err) < 0);
    assert_error(&err, ERROR_SPEC, "memory", "2 GiB", "1 GiB", "cloche.conf");
    scope_spec *quiet = SPEC("code", "1");
    assert_int_equal(validate_with(*state, "memory.max = 100M\n", quiet, &err), 0);
    assert_int_equal(quiet->limits.value[LIMIT_memory], 100 << 20);
    assert_int_equal(quiet->compile_limits.value[LIMIT_memory], 100 << 20);
    scope_spec *compile = SPEC("code", "1", "compile.memory", "1G");
    assert_true(validate_with(*state, "memory.max = 100M\n", compile, &err) < 0);
}

static void engine_below_the_operators_minimum_is_refused(void **state)
{
    struct error err;
    scope_spec *spec = SPEC("code", "1", "isolation", "process");
    assert_true(validate_with(*state, "isolation.min = container\n", spec, &err) < 0);
    assert_error(&err, ERROR_SPEC, "isolation", "process", "container", "cloche.conf");
    scope_spec *contradiction = SPEC("code", "1");
    assert_true(
        validate_with(*state, "isolation = process\nisolation.min = container\n", contradiction, &err) < 0);
    scope_spec *strong = SPEC("code", "1", "isolation", "container");
    assert_int_equal(validate_with(*state, "isolation.min = container\n", strong, &err), 0);
}

static void default_engine_follows_the_minimum_up(void **state)
{
    struct error err;
    scope_spec *spec = SPEC("code", "1"), *by_caller = SPEC("code", "1", "isolation_min", "gvisor");
    assert_int_equal(validate_with(*state, "isolation.min = gvisor\n", spec, &err), 0);
    assert_int_equal(spec->isolation, ISOLATION_GVISOR);
    assert_string_equal(spec->oci_runtime, "runsc");
    assert_int_equal(validate_with(*state, "isolation.min = process\n", by_caller, &err), 0);
    assert_int_equal(by_caller->isolation, ISOLATION_GVISOR);
    scope_spec *module = SPEC("code", "(module)", "language", "wasm");
    assert_true(validate_with(*state, "isolation.min = container\n", module, &err) < 0);
    assert_error(&err, ERROR_SPEC, "isolation", "'wasm' is below");
}

static void operator_can_leave_the_engine_open(void **state)
{
    struct error err;
    scope_spec *open = SPEC("code", "1"), *named = SPEC("code", "1", "isolation", "process"),
               *ours = SPEC("code", "1");
    ours->is_ours = true;
    assert_int_equal(validate_with(*state, "isolation = auto\nisolation.min = process\n", open, &err), 0);
    assert_true(open->is_auto && open->isolation == ISOLATION_CONTAINER);
    assert_int_equal(validate_with(*state, "isolation = auto\n", named, &err), 0);
    assert_true(!named->is_auto && named->isolation == ISOLATION_PROCESS);
    assert_int_equal(validate_with(*state, "isolation = auto\n", ours, &err), 0);
    assert_false(ours->is_auto);
    scope_spec *strong = SPEC("code", "1");
    assert_int_equal(validate_with(*state, "isolation = auto\nisolation.min = gvisor\n", strong, &err), 0);
    assert_true(strong->is_auto && strong->isolation == ISOLATION_GVISOR);
}

static void last_word_on_the_engine_holds(void **state)
{
    struct error err;
    scope_spec *open = SPEC("code", "1", "isolation", "process", "isolation", "auto");
    assert_int_equal(validate_with(*state, "isolation.min = container\n", open, &err), 0);
    assert_true(open->is_auto && open->isolation == ISOLATION_CONTAINER);
    scope_spec *named = SPEC("code", "1", "isolation", "auto", "isolation", "process");
    validate_well(*state, named);
    assert_true(!named->is_auto && named->isolation == ISOLATION_PROCESS);
}

static void engine_that_is_chosen_is_not_below_any_minimum(void **state)
{
    struct error err = {0};
    for (int operators = 0; operators < ISOLATION_COUNT; operators++)
        for (int callers = 0; callers < ISOLATION_COUNT; callers++)
            for (int chosen = 0; chosen < ISOLATION_COUNT; chosen++) {
                struct policy policy;
                write_text(((struct scratch *)*state)->fd, "cloche.conf", "");
                assert_int_equal(policy_load(scratch_path(*state, "cloche.conf"), &policy, &err), 0);
                policy.isolation = policy.isolation_min = (enum isolation)operators;
                scope_spec *spec =
                    SPEC("code", "1", "isolation", "auto", "isolation_min", isolation_names[callers]);
                assert_int_equal(spec_validate(spec, &policy, &err), 0);
                int status = spec_take_isolation(spec, &policy, (enum isolation)chosen, &err);
                assert_int_equal(status == 0, chosen >= operators && chosen >= callers);
                assert_true(status < 0 || chosen != ISOLATION_GVISOR || spec->oci_runtime);
                policy_free(&policy);
            }
}

static void there_must_be_exactly_one_thing_to_run(void **state)
{
    struct scratch *scratch = *state;
    write_text(scratch->fd, "hello.py", "print(1)\n");
    REFUSED(scratch, spec_new(), "code", "nothing to run");
    REFUSED(scratch, SPEC("arg", "x"), "code", "nothing to run");
    REFUSED(scratch, SPEC("code", "1", "command", "true"), "command", "not both");
    REFUSED(scratch, SPEC("code", "1", "file", scratch_path(scratch, "hello.py")), "file", "not both");
    REFUSED(scratch, SPEC("command", "true", "file", scratch_path(scratch, "hello.py")), "command",
            "not both");
    REFUSED(scratch, SPEC("command", ""), "command", "empty");
    scope_spec *empty = SPEC("code", "");
    validate_well(scratch, empty);
}

static void code_file_is_read_once_and_keeps_its_name(void **state)
{
    struct scratch *scratch = *state;
    write_bytes(scratch->fd, "hello.py", "a\0b", 3);
    scope_spec *spec = SPEC("file", scratch_path(scratch, "hello.py"));
    validate_well(scratch, spec);
    assert_true(spec->has_code);
    assert_int_equal(spec->code.length, 3);
    assert_memory_equal(spec->code.data, "a\0b", 3);
    assert_string_equal(spec->code_name, "hello.py");
}

static void name_of_code_must_be_a_files_name(void **state)
{
    static const char *const names[] = {"/etc/profile.d/x.sh", "../x.py", "a/b.py", "..", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        scope_spec *spec = SPEC("code", "1");
        spec->code_name = strdup(names[i]);
        struct policy policy;
        struct error err = {0};
        assert_int_equal(policy_load(NULL, &policy, &err), 0);
        assert_true(spec_validate(spec, &policy, &err) < 0);
        assert_error(&err, ERROR_SPEC, "name", NULL);
        policy_free(&policy);
    }
    (void)state;
}

static void code_file_must_be_a_file_of_bearable_size(void **state)
{
    struct scratch *scratch = *state;
    REFUSED(scratch, SPEC("file", scratch_path(scratch, "absent")), "file", "absent", "No such file");
    REFUSED(scratch, SPEC("file", scratch->path), "file", "not a regular file");
    REFUSED(scratch, SPEC("file", "/dev/zero"), "file", "not a regular file");
    assert_int_equal(mkfifoat(scratch->fd, "fifo", 0600), 0); /* would wait for a writer */
    REFUSED(scratch, SPEC("file", scratch_path(scratch, "fifo")), "file", "not a regular file");
    write_text(scratch->fd, "large", "");
    assert_int_equal(truncate(scratch_path(scratch, "large"), SPEC_CODE_MAX), 0);
    scope_spec *largest = SPEC("file", scratch_path(scratch, "large"));
    validate_well(scratch, largest);
    assert_int_equal(truncate(scratch_path(scratch, "large"), SPEC_CODE_MAX + 1), 0);
    REFUSED(scratch, SPEC("file", scratch_path(scratch, "large")), "file", "16 MiB");
    struct spec *spec = spec_new();
    static const char block[65536];
    spec->has_code = true;
    for (int i = 0; i <= SPEC_CODE_MAX / 65536; i++)
        assert_int_equal(buffer_append(&spec->code, block, sizeof block), 0);
    REFUSED(scratch, spec, "code", "16 MiB");
}

/* ---- grants ---- */

static void granted_paths_become_absolute_and_real(void **state)
{
    struct scratch *scratch = *state;
    assert_int_equal(file_make_directories(scratch_path(scratch, "a/b"), 0755), 0);
    assert_int_equal(symlinkat("a/b", scratch->fd, "link"), 0);
    char wanted[PATH_MAX];
    assert_non_null(realpath(scratch_path(scratch, "a/b"), wanted));
    static const char *const spellings[] = {"a/b", "a/b/", "a/./b", "a/../a/b", "link", "link/."};
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        scope_spec *spec = SPEC("code", "1", "read", scratch_path(scratch, spellings[i]), "write",
                                scratch_path(scratch, "a"));
        validate_well(scratch, spec);
        assert_string_equal(spec->grants[0].host_path, wanted);
    }
    assert_int_equal(fchdir(scratch->fd), 0);
    scope_spec *relative = SPEC("code", "1", "read", "a/b", "input", ".", "input", "link");
    validate_well(scratch, relative);
    assert_int_equal(chdir("/"), 0);
    assert_string_equal(relative->grants[0].host_path, wanted);
    assert_string_equal(relative->grants[1].name, strrchr(scratch->path, '/') + 1);
    assert_string_equal(relative->grants[2].name, "link"); /* as it was given, not what it leads to */
    assert_string_equal(relative->grants[2].host_path, wanted);
}

static void granted_path_must_be_there_and_be_a_file_or_directory(void **state)
{
    struct scratch *scratch = *state;
    static const char *const fields[] = {"input", "read", "write"};
    assert_int_equal(mkfifoat(scratch->fd, "fifo", 0666), 0);
    assert_int_equal(symlinkat("nowhere", scratch->fd, "dangling"), 0);
    assert_int_equal(symlinkat("loop", scratch->fd, "loop"), 0);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        REFUSED(scratch, SPEC("code", "1", fields[i], scratch_path(scratch, "absent")), fields[i], "absent",
                "No such");
        REFUSED(scratch, SPEC("code", "1", fields[i], scratch_path(scratch, "dangling")), fields[i],
                "No such");
        REFUSED(scratch, SPEC("code", "1", fields[i], scratch_path(scratch, "loop")), fields[i],
                "symbolic links");
        REFUSED(scratch, SPEC("code", "1", fields[i], scratch_path(scratch, "fifo")), fields[i], "neither");
        REFUSED(scratch, SPEC("code", "1", fields[i], "/dev/null"), fields[i], "neither");
    }
}

static void grants_that_would_undo_the_box_are_refused(void **state)
{
    struct scratch *scratch = *state;
    static const char *const paths[] = {"/",           "/proc",         "/proc/self", "/sys",
                                        "/sys/kernel", "/dev",          "/run",       "/usr/..",
                                        "/proc/",      "/proc/1/../..", "/dev/shm"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        REFUSED(scratch, SPEC("code", "1", "read", paths[i]), "read", "read: '", "cannot be granted");
        if (geteuid() == 0 && strncmp(paths[i], "/sys", 4) != 0)
            REFUSED(scratch, SPEC("code", "1", "write", paths[i]), "write", "write: '");
    }
    assert_int_equal(symlinkat("/proc", scratch->fd, "innocent"), 0);
    REFUSED(scratch, SPEC("code", "1", "read", scratch_path(scratch, "innocent")), "read",
            "'/proc' cannot be granted");
    assert_int_equal(mkdirat(scratch->fd, "data", 0755), 0);
    scope_spec *spec =
        SPEC("code", "1", "read", scratch_path(scratch, "data"), "read", "/usr", "read", "/etc");
    validate_well(scratch, spec); /* names are only forbidden where they are those of the box */
}

static void permissions_body(void *data)
{
    const struct scratch *scratch = data;
    become_some_user();
    static const char *const rows[][2] = {{"read", "closed"}, {"input", "closed"}, {"write", "read-only"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct policy policy;
        struct error err = {0};
        scope_spec *spec = spec_new();
        must(policy_load(scratch_path(scratch, "cloche.conf"), &policy, &err) == 0);
        must(spec_set(spec, "code", "1", &err) == 0);
        must(spec_set(spec, rows[i][0], scratch_path(scratch, rows[i][1]), &err) == 0);
        must(spec_validate(spec, &policy, &err) < 0);
        must(err.kind == ERROR_SPEC && strcmp(err.subject, rows[i][0]) == 0 &&
             strstr(err.text, "Permission denied"));
        policy_free(&policy);
    }
}

static void caller_grants_only_what_he_may_use_himself(void **state)
{
    struct scratch *scratch = *state;
    need_root(); /* to be two users */
    write_text(scratch->fd, "cloche.conf", "");
    write_text(scratch->fd, "closed", "secret");
    write_text(scratch->fd, "read-only", "x");
    assert_int_equal(fchmodat(scratch->fd, "closed", 0600, 0), 0);
    in_child(permissions_body, scratch);
}

static void inputs_have_names_that_are_names(void **state)
{
    struct scratch *scratch = *state;
    char input[PATH_MAX + 300];
    write_text(scratch->fd, "sales.csv", "1");
    static const char *const wrong[] = {".", ".."};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(input, sizeof input, "%s:%s", scratch_path(scratch, "sales.csv"), wrong[i]);
        REFUSED(scratch, SPEC("code", "1", "input", input), "input", "cannot be a file name");
    }
    REFUSED(scratch, SPEC("code", "1", "input", "/"), "input", "cannot be a file name");
    snprintf(input, sizeof input, "%s:", scratch_path(scratch, "sales.csv"));
    memset(input + strlen(input), 'x', 256);
    input[strlen(scratch_path(scratch, "sales.csv")) + 1 + 256] = '\0';
    REFUSED(scratch, SPEC("code", "1", "input", input), "input", "cannot be a file name");
    input[strlen(input) - 1] = '\0';
    scope_spec *longest = SPEC("code", "1", "input", input);
    validate_well(scratch, longest);
    scope_spec *directory = SPEC("code", "1", "input", scratch_path(scratch, ""));
    validate_well(scratch, directory);
    assert_string_equal(directory->grants[0].name, strrchr(scratch->path, '/') + 1);
}

static void two_inputs_cannot_have_one_name(void **state)
{
    struct scratch *scratch = *state;
    assert_int_equal(mkdirat(scratch->fd, "other", 0755), 0);
    write_text(scratch->fd, "sales.csv", "1");
    write_text(scratch->fd, "other/sales.csv", "2");
    char renamed[PATH_MAX];
    REFUSED(scratch,
            SPEC("code", "1", "input", scratch_path(scratch, "sales.csv"), "input",
                 scratch_path(scratch, "other/sales.csv")),
            "input", "'sales.csv'", "PATH:NAME");
    snprintf(renamed, sizeof renamed, "%s:other.csv", scratch_path(scratch, "other/sales.csv"));
    scope_spec *spec = SPEC("code", "1", "input", scratch_path(scratch, "sales.csv"), "input", renamed);
    validate_well(scratch, spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(what_is_not_given_is_filled_from_the_policy),
        SCRATCH_TEST(what_is_given_stands),
        SCRATCH_TEST(every_limit_has_a_floor_and_a_ceiling),
        SCRATCH_TEST(operators_ceiling_is_kept),
        SCRATCH_TEST(engine_below_the_operators_minimum_is_refused),
        SCRATCH_TEST(default_engine_follows_the_minimum_up),
        SCRATCH_TEST(operator_can_leave_the_engine_open),
        SCRATCH_TEST(last_word_on_the_engine_holds),
        SCRATCH_TEST(engine_that_is_chosen_is_not_below_any_minimum),
        SCRATCH_TEST(there_must_be_exactly_one_thing_to_run),
        SCRATCH_TEST(code_file_is_read_once_and_keeps_its_name),
        SCRATCH_TEST(name_of_code_must_be_a_files_name),
        SCRATCH_TEST(code_file_must_be_a_file_of_bearable_size),
        SCRATCH_TEST(granted_paths_become_absolute_and_real),
        SCRATCH_TEST(granted_path_must_be_there_and_be_a_file_or_directory),
        SCRATCH_TEST(grants_that_would_undo_the_box_are_refused),
        SCRATCH_TEST(caller_grants_only_what_he_may_use_himself),
        SCRATCH_TEST(inputs_have_names_that_are_names),
        SCRATCH_TEST(two_inputs_cannot_have_one_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
