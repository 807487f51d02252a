/* What the launcher hands to init, and how it takes what init says. No box is made. */
#include "harness.h"

#include "engine/launch.h"
#include "os/process.h"

#include <sys/mman.h>
#include <sys/socket.h>

struct world {
    struct box box;
    struct program program;
    struct box_identity identity;
    struct limits limits;
    struct plan_lists lists;
    struct launch launch;
    int peer; /* init's end */
};

static int world_setup(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    box_init(&world->box);
    world->box.engine = &engine_container;
    world->box.program = &world->program;
    world->box.identity = &world->identity;
    world->box.limits = &world->limits;
    world->launch = (struct launch)LAUNCH_UNSET;
    for (int i = 0; i < LIMIT_FIELDS; i++)
        world->limits.value[i] = limit_rows[i].normal;
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    world->box.control_fd = ends[0];
    world->peer = ends[1];
    world->program.working_directory = strdup("/data/output");
    string_list_add(&world->program.arguments, "/usr/bin/python3");
    string_list_add(&world->program.arguments, "");
    string_list_add(&world->program.environment, "A=1");
    string_list_add(&world->lists.read_paths, "/usr");
    string_list_add(&world->lists.read_paths, "/lib");
    string_list_add(&world->lists.write_paths, "/tmp");
    string_list_add(&world->lists.device_paths, "/dev/null");
    *state = world;
    return 0;
}

static int world_teardown(void **state)
{
    struct world *world = *state;
    int *fds[] = {
        &world->box.control_fd,  &world->box.stdin_fd,   &world->box.stdout_fd, &world->box.stderr_fd,
        &world->box.listener_fd, &world->box.scratch_fd, &world->peer};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        scope_close_fd(fds[i]);
    launch_close(&world->launch);
    plan_lists_free(&world->lists);
    program_free(&world->program);
    free(world);
    return 0;
}

/* ---- the plan ---- */

static struct init_plan *read_plan(struct world *world)
{
    struct error err = {0};
    if (launch_write_plan(&world->box, &world->lists, &world->launch, &err) < 0)
        fail_msg("%s", err.text);
    struct stat status;
    assert_int_equal(fstat(world->launch.plan_fd, &status), 0);
    char *block = malloc((size_t)status.st_size);
    assert_non_null(block);
    assert_int_equal(pread(world->launch.plan_fd, block, (size_t)status.st_size, 0), status.st_size);
    struct init_plan *plan = (struct init_plan *)block;
    assert_int_equal(plan->size, status.st_size);
    assert_int_equal(block[status.st_size - 1], '\0');
    return plan;
}

static void plan_is_laid_out_as_init_reads_it(void **state)
{
    struct world *world = *state;
    world->lists.flags = PLAN_CONTAINER | PLAN_LANDLOCK;
    world->box.policy_variant = POLICY_PROCESS;
    struct init_plan *plan = read_plan(world);
    assert_int_equal(plan->magic, PLAN_MAGIC);
    assert_int_equal(plan->flags, PLAN_CONTAINER | PLAN_LANDLOCK);
    assert_int_equal(plan->policy_variant, POLICY_PROCESS);
    assert_int_equal(plan->removed_mask, 0);
    assert_int_equal(plan->verify_removed, 0);
    assert_int_equal(plan->argument_count, 2);
    assert_int_equal(plan->environment_count, 1);
    assert_int_equal(plan->read_count, 2);
    assert_int_equal(plan->write_count, 1);
    assert_int_equal(plan->device_count, 1);
    static const char *const strings[] = {"/data/output", "/usr/bin/python3", "", "A=1", "/usr", "/lib",
                                          "/tmp",         "/dev/null"};
    const char *at = (const char *)(plan + 1), *end = (const char *)plan + plan->size;
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        assert_true(at < end);
        assert_string_equal(at, strings[i]);
        at += strlen(at) + 1;
    }
    assert_ptr_equal(at, end);
    free(plan);
}

static int64_t rlimit_of(const struct init_plan *plan, int resource)
{
    assert_true(plan->rlimit_count <= PLAN_RLIMITS);
    for (uint32_t i = 0; i < plan->rlimit_count; i++)
        if (plan->rlimits[i].resource == (uint32_t)resource)
            return (int64_t)plan->rlimits[i].value;
    return -1;
}

static void resource_limits_follow_the_limits_of_the_step(void **state)
{
    struct world *world = *state;
    world->limits.value[LIMIT_open_files] = 77;
    world->limits.value[LIMIT_disk] = 10 << 20;
    world->limits.value[LIMIT_cpu] = 5500;
    struct init_plan *plan = read_plan(world);
    assert_int_equal(rlimit_of(plan, RLIMIT_CORE), 1); /* exactly 1 keeps crash handlers away */
    assert_int_equal(rlimit_of(plan, RLIMIT_NOFILE), 77);
    assert_true(rlimit_of(plan, RLIMIT_FSIZE) >= 10 << 20 && rlimit_of(plan, RLIMIT_FSIZE) <= 16 << 20);
    assert_true(rlimit_of(plan, RLIMIT_CPU) >= 6 && rlimit_of(plan, RLIMIT_CPU) <= 10);
    free(plan);
}

static void processes_are_bounded_where_the_uid_is_the_boxs_own(void **state)
{
    struct world *world = *state;
    world->limits.value[LIMIT_pids] = 10;
    world->box.is_watched = true;
    struct init_plan *plan = read_plan(world);
    assert_true(rlimit_of(plan, RLIMIT_NPROC) >= 10); /* no group: it is the limit */
    assert_true(rlimit_of(plan, RLIMIT_NPROC) <= 12);
    free(plan);
    launch_close(&world->launch);
    world->box.engine = &engine_process;
    plan = read_plan(world);
    assert_true(rlimit_of(plan, RLIMIT_NPROC) >= 10); /* with the caller's own processes on top */
    assert_true(rlimit_of(plan, RLIMIT_NPROC) <= 10 + 64 + world->box.threads_beside);
    free(plan);
    launch_close(&world->launch);
    world->identity.has_uid = true;
    plan = read_plan(world);
    assert_true(rlimit_of(plan, RLIMIT_NPROC) >= 10);
    free(plan);
}

static void plan_cannot_be_changed_any_more(void **state)
{
    struct world *world = *state;
    free(read_plan(world));
    int fd = world->launch.plan_fd;
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(pwrite(fd, "x", 1, 0), -1);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(ftruncate(fd, 1 << 20), -1);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE), -1);
    assert_ptr_equal(mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
}

static void plan_that_is_too_large_is_a_wrong_spec(void **state)
{
    struct world *world = *state;
    scope_free char *longer = malloc(PLAN_SIZE_MAX + 1);
    memset(longer, 'x', PLAN_SIZE_MAX);
    longer[PLAN_SIZE_MAX] = '\0';
    string_list_add(&world->program.environment, longer);
    struct error err = {0};
    assert_true(launch_write_plan(&world->box, &world->lists, &world->launch, &err) < 0);
    assert_error(&err, ERROR_SPEC, "env", "8 MiB");
    assert_int_equal(world->launch.plan_fd, -1);
}

static void preparation_gives_both_sides_their_ends(void **state)
{
    struct world *world = *state;
    struct error err = {0};
    scope_close_fd(&world->box.control_fd);
    int before = open_descriptors();
    assert_int_equal(launch_open(&world->box, &world->launch, &err), 0);
    assert_int_equal(launch_prepare(&world->box, NULL, &world->launch, &err), 0);
    const int fds[] = {world->launch.child_stdin,   world->launch.child_stdout, world->launch.child_stderr,
                       world->launch.child_control, world->launch.init_fd,      world->box.stdin_fd,
                       world->box.stdout_fd,        world->box.stderr_fd,       world->box.control_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        assert_true(fds[i] >= 0 && (fcntl(fds[i], F_GETFD) & FD_CLOEXEC));
    char text[8] = "";
    assert_int_equal(write(world->launch.child_stdout, "out", 3), 3);
    assert_int_equal(read(world->box.stdout_fd, text, sizeof text), 3);
    assert_int_equal(read(world->box.stdout_fd, text, sizeof text), -1);
    assert_int_equal(errno, EAGAIN); /* our ends never wait */
    assert_int_equal(write(world->box.stdin_fd, "in", 2), 2);
    assert_int_equal(read(world->launch.child_stdin, text, sizeof text), 2);
    char magic[4];
    assert_int_equal(pread(world->launch.init_fd, magic, 4, 0), 4);
    assert_memory_equal(magic,
                        "\x7f"
                        "ELF",
                        4);
    assert_int_equal(pwrite(world->launch.init_fd, "x", 1, 0), -1);
    launch_close(&world->launch);
    launch_close(&world->launch);
    int *own[] = {&world->box.stdin_fd, &world->box.stdout_fd, &world->box.stderr_fd, &world->box.control_fd};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        scope_close_fd(own[i]);
    assert_int_equal(open_descriptors(), before);
}

/* A child is begun with the socket alone, and gets the rest through it. */
static void what_is_given_is_what_the_child_takes(void **state)
{
    struct world *world = *state;
    struct error err = {0};
    scope_close_fd(&world->box.control_fd);
    assert_int_equal(launch_open(&world->box, &world->launch, &err), 0);
    struct launch begun = LAUNCH_UNSET;
    begun.child_control = fcntl(world->launch.child_control, F_DUPFD_CLOEXEC, 0);
    assert_int_equal(launch_prepare(&world->box, NULL, &world->launch, &err), 0);
    assert_int_equal(launch_write_plan(&world->box, &world->lists, &world->launch, &err), 0);
    assert_int_equal(launch_give(&world->box, &world->launch, &err), 0);
    assert_int_equal(world->launch.child_stdout, -1); /* or the end of the pipe would never be seen */
    assert_int_equal(launch_take(&begun), 0);
    char text[8] = "";
    assert_int_equal(write(begun.child_stdout, "out", 3), 3);
    assert_int_equal(read(world->box.stdout_fd, text, sizeof text), 3);
    assert_int_equal(write(begun.child_stderr, "e", 1), 1);
    assert_int_equal(read(world->box.stderr_fd, text, sizeof text), 1);
    assert_int_equal(write(world->box.stdin_fd, "in", 2), 2);
    assert_int_equal(read(begun.child_stdin, text, sizeof text), 2);
    assert_true(begun.init_fd >= 0 && begun.plan_fd >= 0);
    assert_int_equal(begun.child_channel, -1);
    launch_close(&begun);
}

static void a_child_whose_launcher_has_gone_ends(void **state)
{
    struct world *world = *state;
    struct error err = {0};
    scope_close_fd(&world->box.control_fd);
    assert_int_equal(launch_open(&world->box, &world->launch, &err), 0);
    scope_close_fd(&world->box.control_fd);
    pid_t pid = fork();
    if (pid == 0) {
        launch_take(&world->launch);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 71);
}

/* ---- what init says ---- */

static struct init_message message_of(enum init_message_kind kind)
{
    return (struct init_message){.kind = kind, .landlock_abi = 99};
}

static void say(const struct world *world, const struct init_message *message, int fd)
{
    assert_int_equal(process_send(world->peer, message, sizeof *message, fd), 0);
}

static int await(struct world *world, struct error *err)
{
    *err = (struct error){0};
    return launch_await_verified(&world->box, 2000, NULL, NULL, err);
}

static void failure_is_told_in_inits_own_words(void **state)
{
    struct world *world = *state;
    struct error err;
    struct init_message message = message_of(INIT_FAILED);
    message.is_layer = 1;
    message.code = -EPERM;
    strcpy(message.subject, "landlock");
    strcpy(message.text, "cannot enforce: Operation not permitted");
    say(world, &message, -1);
    assert_int_equal(await(world, &err), -EPERM);
    assert_error(&err, ERROR_LAYER, "landlock", "cannot enforce: Operation not permitted");
    message.is_layer = 0;
    message.code = 5; /* never a success */
    say(world, &message, -1);
    assert_true(await(world, &err) < 0);
    assert_int_equal(err.kind, ERROR_HOST);
    assert_true(err.code < 0);
}

static void words_without_an_end_are_ended(void **state)
{
    struct world *world = *state;
    struct error err;
    struct init_message message = message_of(INIT_FAILED);
    message.code = -EIO;
    memset(message.subject, 's', sizeof message.subject);
    memset(message.text, '%', sizeof message.text);
    say(world, &message, -1);
    assert_true(await(world, &err) < 0);
    assert_true(strlen(err.text) <= sizeof message.text);
    assert_true(strlen(err.subject) < sizeof err.subject);
}

static void messages_of_a_wrong_size_are_refused(void **state)
{
    struct world *world = *state;
    struct error err;
    struct init_message message = message_of(INIT_VERIFIED);
    static const uint32_t sizes[] = {1, 4, sizeof message - 1};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        assert_int_equal(process_send(world->peer, &message, sizes[i], -1), 0);
        assert_true(await(world, &err) < 0);
        assert_error(&err, ERROR_HOST, "", "wrong size");
    }
}

static void unknown_messages_are_refused(void **state)
{
    struct world *world = *state;
    struct error err;
    static const uint32_t kinds[] = {0, INIT_ENDED, 99, UINT32_MAX};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct init_message message = message_of((enum init_message_kind)kinds[i]);
        say(world, &message, -1);
        assert_true(await(world, &err) < 0);
        assert_true(err.code < 0);
    }
}

static int count_inspection(void *data, struct error *err)
{
    (void)err;
    return ++*(int *)data, 0;
}

static int find_fault(void *data, struct error *err)
{
    (void)data;
    return error_layer(err, "namespaces", 0, "shared");
}

static void box_is_inspected_once_and_before_the_word(void **state)
{
    struct world *world = *state;
    struct error err = {0};
    int inspections = 0;
    const struct init_message entered = message_of(INIT_ENTERED), listener = message_of(INIT_LISTENER),
                              verified = message_of(INIT_VERIFIED);
    say(world, &listener, -1); /* not inside yet, as far as we know */
    assert_true(launch_await_verified(&world->box, 2000, count_inspection, &inspections, &err) < 0);
    assert_error(&err, ERROR_HOST, "", "did not say that it is inside");
    say(world, &verified, -1);
    assert_true(launch_await_verified(&world->box, 2000, count_inspection, &inspections, &err) < 0);
    assert_int_equal(inspections, 0);
    assert_int_equal(world->box.started_us, 0);
    say(world, &entered, -1);
    say(world, &entered, -1);
    assert_true(launch_await_verified(&world->box, 2000, count_inspection, &inspections, &err) < 0);
    assert_error(&err, ERROR_HOST, "", "twice");
    assert_int_equal(inspections, 1);
    say(world, &entered, -1);
    say(world, &verified, -1);
    assert_true(launch_await_verified(&world->box, 2000, find_fault, NULL, &err) < 0);
    assert_error(&err, ERROR_LAYER, "namespaces", "shared");
    assert_int_equal(world->box.started_us, 0);
}

static void end_without_a_word_is_told(void **state)
{
    struct world *world = *state;
    struct error err;
    scope_close_fd(&world->peer);
    assert_true(await(world, &err) < 0);
    assert_error(&err, ERROR_HOST, "", "ended before it was ready");
}

static void silence_is_not_waited_for_for_ever(void **state)
{
    struct world *world = *state;
    struct error err = {0};
    assert_int_equal(launch_await_verified(&world->box, 20, NULL, NULL, &err), -ETIMEDOUT);
    assert_error(&err, ERROR_HOST, "", "did not come up");
}

static void descriptors_arrive_with_their_messages(void **state)
{
    struct world *world = *state;
    struct error err;
    struct init_message scratch = message_of(INIT_SCRATCH), failed = message_of(INIT_FAILED);
    scope_fd root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    say(world, &scratch, root);
    failed.code = -EIO;
    say(world, &failed, root); /* one that nobody asked for */
    int before = open_descriptors();
    assert_true(await(world, &err) < 0);
    assert_true(world->box.scratch_fd >= 0);
    assert_int_equal(open_descriptors(), before + 1);
}

static void last_word_of_a_child_reaches_the_launcher(void **state)
{
    struct world *world = *state;
    struct error said = {0}, err;
    error_layer(&said, "namespaces", -EPERM, "no user namespace");
    pid_t child = fork();
    if (child == 0) {
        struct launch launch = LAUNCH_UNSET;
        launch.child_control = world->peer;
        launch_child_fail(&launch, &said);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
    assert_int_equal(await(world, &err), -EPERM);
    assert_error(&err, ERROR_LAYER, "namespaces", "no user namespace: Operation not permitted");
}

#define WORLD_TEST(function) cmocka_unit_test_setup_teardown(function, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(plan_is_laid_out_as_init_reads_it),
        WORLD_TEST(resource_limits_follow_the_limits_of_the_step),
        WORLD_TEST(processes_are_bounded_where_the_uid_is_the_boxs_own),
        WORLD_TEST(plan_cannot_be_changed_any_more),
        WORLD_TEST(plan_that_is_too_large_is_a_wrong_spec),
        WORLD_TEST(preparation_gives_both_sides_their_ends),
        WORLD_TEST(what_is_given_is_what_the_child_takes),
        WORLD_TEST(a_child_whose_launcher_has_gone_ends),
        WORLD_TEST(failure_is_told_in_inits_own_words),
        WORLD_TEST(words_without_an_end_are_ended),
        WORLD_TEST(messages_of_a_wrong_size_are_refused),
        WORLD_TEST(unknown_messages_are_refused),
        WORLD_TEST(box_is_inspected_once_and_before_the_word),
        WORLD_TEST(end_without_a_word_is_told),
        WORLD_TEST(silence_is_not_waited_for_for_ever),
        WORLD_TEST(descriptors_arrive_with_their_messages),
        WORLD_TEST(last_word_of_a_child_reaches_the_launcher),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
