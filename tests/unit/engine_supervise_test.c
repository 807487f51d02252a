/* The supervisor with an engine of the test's own: a plain child plays init and program at once. Each test
 * says what the child does and what is measured; what comes out is the cause. */
#include "harness.h"

#include "base/clock.h"
#include "engine/supervise.h"
#include "os/process.h"
#include "plan.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

struct world {
    struct box box;
    struct spec *spec;
    struct limits limits;
    struct image image;
    struct program program;
    struct supervise_io io;
    struct result *result;
    struct error err;
    struct measurement measured; /* what the engine will say */
    char output[STREAM_COUNT][256];
    int control, in, out, errors; /* the child's ends */
};

static struct world *current; /* engines have no data of the caller's */

static void measure(struct box *box, struct measurement *now)
{
    (void)box;
    *now = current->measured;
}

static bool answer(struct box *box, const char **ret_call)
{
    uint64_t count;
    (void)!read(box->listener_fd, &count, sizeof count);
    *ret_call = "mount";
    return true;
}

static void stop(struct box *box)
{
    box->stops++;
    process_pidfd_kill(box->pidfd, SIGKILL);
}

static const struct engine engine_of_the_test = {
    .isolation = ISOLATION_CONTAINER, .name = "test", .measure = measure, .answer = answer, .stop = stop};

static void keep_output(void *data, enum supervise_stream stream, const char *bytes, size_t length)
{
    struct world *world = data;
    size_t room = sizeof world->output[0] - 1 - strlen(world->output[stream]);
    strncat(world->output[stream], bytes, length < room ? length : room);
}

static int world_setup(void **state)
{
    static char image_name[] = "test", root[] = "/nonexistent";
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    box_init(&world->box);
    world->spec = spec_new();
    world->image = (struct image){.name = image_name, .root = root};
    world->program.working_directory = strdup("/data/output");
    string_list_add(&world->program.arguments, "/usr/bin/absent");
    for (int i = 0; i < LIMIT_FIELDS; i++)
        world->limits.value[i] = limit_rows[i].normal;
    world->measured = (struct measurement){.memory_bytes = 1 << 20, .pids = 1};
    world->box.engine = &engine_of_the_test;
    world->box.spec = world->spec;
    world->box.image = &world->image;
    world->box.program = &world->program;
    world->box.limits = &world->limits;
    world->io =
        (struct supervise_io){.forward_fd = {-1, -1}, .output = keep_output, .data = world, .cancel_fd = -1};
    world->result = result_new();
    int control[2], in[2], out[2], errors[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control), 0);
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(errors, O_CLOEXEC), 0);
    world->box.control_fd = control[0], world->control = control[1];
    world->box.stdin_fd = in[1], world->in = in[0];
    world->box.stdout_fd = out[0], world->out = out[1];
    world->box.stderr_fd = errors[0], world->errors = errors[1];
    fcntl(in[1], F_SETFL, O_NONBLOCK);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(errors[0], F_SETFL, O_NONBLOCK);
    current = world;
    *state = world;
    return 0;
}

static int world_teardown(void **state)
{
    struct world *world = *state;
    int *fds[] = {&world->box.pidfd,     &world->box.control_fd,   &world->box.stdin_fd,
                  &world->box.stdout_fd, &world->box.stderr_fd,    &world->box.listener_fd,
                  &world->io.cancel_fd,  &world->io.forward_fd[0], &world->io.forward_fd[1]};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        scope_close_fd(fds[i]);
    program_free(&world->program);
    spec_free(world->spec);
    result_free(world->result);
    free(world);
    return 0;
}

/* ---- what the child does ---- */

static void say(const struct world *world, enum init_message_kind kind, int code, int wait_status)
{
    struct init_message message = {.kind = kind, .code = code, .wait_status = wait_status};
    strcpy(message.text, "init's own words");
    must(process_send(world->control, &message, sizeof message, -1) == 0);
}

static void end_with(const struct world *world, int wait_status)
{
    say(world, INIT_ENDED, 0, wait_status);
}

static void exit_0(const struct world *world)
{
    end_with(world, 0);
}

static void exit_3(const struct world *world)
{
    end_with(world, 3 << 8);
}

static void die_of_11(const struct world *world)
{
    end_with(world, SIGSEGV);
}

static void sleep_on(const struct world *world)
{
    (void)world;
    sleep(20);
}

static void end_without_a_word(const struct world *world)
{
    (void)world;
}

static void put(int fd, const char *text)
{
    must(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static void write_a_little(const struct world *world)
{
    put(world->out, "to \x1b[31mstdout\n");
    put(world->errors, "to stderr\n");
    end_with(world, 0);
}

static void write_much(const struct world *world)
{
    static char block[65536];
    memset(block, 'x', sizeof block);
    for (int i = 0; i < 64; i++)
        if (write(world->out, block, sizeof block) < 0)
            _exit(1);
    end_with(world, 0);
}

static void copy_input(const struct world *world)
{
    char text[256];
    for (ssize_t length; (length = read(world->in, text, sizeof text)) > 0;)
        must(write(world->out, text, (size_t)length) == length);
    end_with(world, 0);
}

/* ---- one run ---- */

static int run(struct world *world, void (*body)(const struct world *))
{
    fflush(NULL);
    world->box.pid = process_clone(0, -1, &world->box.pidfd);
    if (world->box.pid == 0) {
        int *ours[] = {&world->box.control_fd, &world->box.stdin_fd, &world->box.stdout_fd,
                       &world->box.stderr_fd};
        for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
            close(*ours[i]);
        body(world);
        _exit(0);
    }
    assert_true(world->box.pid > 0);
    close(world->control);
    close(world->in);
    close(world->out);
    close(world->errors);
    world->box.started_us = clock_monotonic_us();
    int status = supervise_run(&world->box, &world->io, world->result, &world->err);
    assert_true(world->box.is_reaped);
    assert_int_equal(waitpid(world->box.pid, NULL, WNOHANG), -1); /* nothing is left to wait for */
    return status;
}

static void run_well(struct world *world, void (*body)(const struct world *))
{
    if (run(world, body) < 0)
        fail_msg("%s", world->err.text);
}

static void check_cause(const struct world *world, enum cause cause, int exit_code, int signal_number)
{
    if (world->result->cause != cause)
        fail_msg("the cause is %s (%s), not %s", cause_names[world->result->cause], world->result->detail,
                 cause_names[cause]);
    assert_int_equal(world->result->exit_code, exit_code);
    assert_int_equal(world->result->signal, signal_number);
    assert_int_equal(world->result->timed_out, cause == CAUSE_wall_time || cause == CAUSE_cpu_time);
}

/* ---- how it ended ---- */

static void program_that_exits_is_told_with_its_code(void **state)
{
    run_well(*state, exit_3);
    check_cause(*state, CAUSE_exit, 3, 0);
}

static void program_that_a_signal_ended_is_told_with_it(void **state)
{
    run_well(*state, die_of_11);
    check_cause(*state, CAUSE_signal, -1, SIGSEGV);
}

static void end_impossibly(const struct world *world)
{
    end_with(world, 0xff); /* neither an exit nor a signal */
}

static void status_that_cannot_be_is_no_success(void **state)
{
    run_well(*state, end_impossibly);
    check_cause(*state, CAUSE_host_failure, -1, 0);
}

static void box_that_ends_without_a_word_is_a_failure_of_the_host(void **state)
{
    run_well(*state, end_without_a_word);
    check_cause(*state, CAUSE_host_failure, -1, 0);
}

static void say_failed(const struct world *world)
{
    say(world, INIT_FAILED, -EIO, 0);
}

static void failure_of_init_is_told_in_its_words(void **state)
{
    struct world *world = *state;
    run_well(world, say_failed);
    check_cause(world, CAUSE_host_failure, -1, 0);
    assert_non_null(strstr(world->result->detail, "init's own words"));
}

static void say_exec_failed(const struct world *world)
{
    say(world, INIT_EXEC_FAILED, -ENOENT, 0);
    end_with(world, 127 << 8);
}

static void program_that_cannot_be_started_is_a_wrong_spec(void **state)
{
    struct world *world = *state;
    assert_true(run(world, say_exec_failed) < 0);
    assert_error(&world->err, ERROR_SPEC, "command", "/usr/bin/absent", "'test'", "no such program");
}

static void say_chdir_failed(const struct world *world)
{
    say(world, INIT_CHDIR_FAILED, -EACCES, 0);
    end_with(world, 127 << 8);
}

static void directory_that_cannot_be_entered_is_a_wrong_spec(void **state)
{
    struct world *world = *state;
    assert_true(run(world, say_chdir_failed) < 0);
    assert_error(&world->err, ERROR_SPEC, "cwd", "/data/output", "Permission denied");
}

static void say_end_then_more(const struct world *world)
{
    end_with(world, 0);
    say(world, INIT_EXEC_FAILED, -ENOENT, 0); /* what comes after the end is the guest's at best */
    say(world, INIT_FAILED, -EIO, 0);
}

static void words_after_the_end_change_nothing(void **state)
{
    run_well(*state, say_end_then_more);
    check_cause(*state, CAUSE_exit, 0, 0);
}

/* ---- limits ---- */

static void wall_time_ends_a_run(void **state)
{
    struct world *world = *state;
    world->limits.value[LIMIT_wall] = 100;
    run_well(world, sleep_on);
    check_cause(world, CAUSE_wall_time, -1, SIGKILL);
    assert_true(world->result->usage.wall_us >= 100000 && world->result->usage.wall_us < 3000000);
    assert_non_null(strstr(world->result->detail, "wall is 100 ms"));
}

static void cpu_time_ends_a_run(void **state)
{
    struct world *world = *state;
    world->measured.cpu_user_us = 40000000;
    run_well(world, sleep_on);
    check_cause(world, CAUSE_cpu_time, -1, SIGKILL);
    assert_int_equal(world->result->usage.cpu_user_us, 40000000);
}

static void lack_of_memory_is_never_a_plain_signal(void **state)
{
    struct world *world = *state;
    world->measured.oom_kills = 1;
    run_well(world, sleep_on);
    check_cause(world, CAUSE_memory, -1, SIGKILL);
}

static void die_of_9(const struct world *world)
{
    end_with(world, SIGKILL);
}

static void lack_of_memory_is_seen_after_the_end_too(void **state)
{
    struct world *world = *state;
    world->measured.oom_kills = 1;
    run_well(world, die_of_9);
    check_cause(world, CAUSE_memory, -1, SIGKILL);
}

static void storm_of_refused_forks_ends_a_run(void **state)
{
    struct world *world = *state;
    world->measured.pids_refused = 1000;
    run_well(world, sleep_on);
    check_cause(world, CAUSE_pids, -1, SIGKILL);
}

static void failure_after_refused_forks_is_about_them(void **state)
{
    struct world *world = *state;
    world->measured.pids_refused = 1;
    run_well(world, exit_3);
    check_cause(world, CAUSE_pids, 3, 0);
}

static void success_after_refused_forks_is_a_success(void **state)
{
    struct world *world = *state;
    world->measured.pids_refused = 1;
    run_well(world, exit_0);
    check_cause(world, CAUSE_exit, 0, 0);
}

static void what_no_kernel_limit_holds_is_ended_by_measure(void **state)
{
    struct world *world = *state;
    world->box.is_watched = true;
    world->measured.memory_bytes = world->limits.value[LIMIT_memory] + 1;
    run_well(world, sleep_on);
    check_cause(world, CAUSE_memory, -1, SIGKILL);
    assert_int_equal(world->result->usage.peak_memory_bytes, world->measured.memory_bytes);
}

static void limit_that_is_seen_to_be_broken_too_late_is_the_cause(void **state)
{
    struct world *world = *state;
    world->box.is_watched = true;
    world->limits.value[LIMIT_wall] = 0; /* over before the first look */
    world->measured.pids = (int)world->limits.value[LIMIT_pids] + 1;
    run_well(world, sleep_on);
    check_cause(world, CAUSE_pids, -1, SIGKILL);
}

static void failure_on_a_full_disk_is_about_the_disk(void **state)
{
    struct world *world = *state;
    world->measured.disk_is_full = true;
    world->measured.disk_bytes = 4711;
    run_well(world, exit_3);
    check_cause(world, CAUSE_disk, 3, 0);
    assert_int_equal(world->result->usage.disk_bytes, 4711);
}

static void call_that_ends_the_box_is_named(void **state)
{
    struct world *world = *state;
    world->box.listener_fd = eventfd(1, EFD_CLOEXEC);
    run_well(world, sleep_on);
    check_cause(world, CAUSE_denied_syscall, -1, SIGKILL);
    assert_string_equal(world->result->denied_syscall, "mount");
}

struct word {
    int fd, count, answers[3]; /* what hear() returns, one after the other */
};

static int hear(void *data)
{
    struct word *word = data;
    char byte;
    assert_int_equal(read(word->fd, &byte, 1), 1);
    return word->answers[word->count++];
}

/* Three bytes can be read at once; how often it is asked is what counts. */
static void run_with_word(struct world *world, struct word *word, void (*body)(const struct world *))
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "abc", 3), 3);
    word->fd = ends[0];
    const struct supervise_word heard = {.fd = ends[0], .hear = hear, .data = word};
    world->io.word = &heard;
    run_well(world, body);
    close(ends[0]);
    close(ends[1]);
}

static void word_that_forbids_the_program_ends_the_box_as_vetted(void **state)
{
    struct world *world = *state;
    struct word word = {.answers = {0, -EPERM}};
    run_with_word(world, &word, sleep_on);
    check_cause(world, CAUSE_vetted, -1, SIGKILL);
    assert_int_equal(word.count, 2);
    assert_int_equal(world->box.stops > 0, 1);
}

static void word_that_allows_it_is_the_last_that_is_heard(void **state)
{
    struct world *world = *state;
    struct word word = {.answers = {0, 1, -EPERM}};
    run_with_word(world, &word, exit_3);
    check_cause(world, CAUSE_exit, 3, 0);
    assert_true(word.count <= 2);
}

static void cancelled_run_is_told(void **state)
{
    struct world *world = *state;
    world->io.cancel_fd = eventfd(1, EFD_CLOEXEC);
    run_well(world, sleep_on);
    check_cause(world, CAUSE_cancelled, -1, SIGKILL);
}

/* ---- streams ---- */

static void output_is_kept_and_handed_on(void **state)
{
    struct world *world = *state;
    run_well(world, write_a_little);
    check_cause(world, CAUSE_exit, 0, 0);
    assert_string_equal(world->result->output.kept.data, "to \x1b[31mstdout\n");
    assert_string_equal(world->result->errors.kept.data, "to stderr\n");
    assert_string_equal(world->output[STREAM_STDOUT], "to \x1b[31mstdout\n");
    assert_string_equal(world->output[STREAM_STDERR], "to stderr\n");
    assert_int_equal(world->result->output.dropped_bytes, 0);
}

static void output_past_the_limit_is_cut_and_counted(void **state)
{
    struct world *world = *state;
    world->limits.value[LIMIT_output_limit] = 5;
    run_well(world, write_a_little);
    check_cause(world, CAUSE_exit, 0, 0);
    assert_int_equal(world->result->output.kept.length, 5);
    assert_int_equal(world->result->output.dropped_bytes, 10);
    assert_int_equal(world->result->errors.dropped_bytes, 5);
    assert_int_equal(strlen(world->output[STREAM_STDOUT]), 5);
}

static void limit_of_nothing_keeps_nothing(void **state)
{
    struct world *world = *state;
    world->limits.value[LIMIT_output_limit] = 0;
    run_well(world, write_a_little);
    assert_int_equal(world->result->output.kept.length, 0);
    assert_int_equal(world->result->output.dropped_bytes, 15);
}

static void flood_ends_a_run(void **state)
{
    struct world *world = *state;
    world->limits.value[LIMIT_output_limit] = 100;
    run_well(world, write_much);
    assert_int_equal(world->result->cause, CAUSE_output);
    assert_int_equal(world->result->output.kept.length, 100);
    assert_true(world->result->output.dropped_bytes > 1 << 20);
}

static void terminal_gets_no_escapes(void **state)
{
    struct world *world = *state;
    int ends[2];
    char seen[64] = "";
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    world->io.forward_fd[STREAM_STDOUT] = ends[1];
    world->io.for_terminal[STREAM_STDOUT] = true;
    run_well(world, write_a_little);
    assert_true(read(ends[0], seen, sizeof seen - 1) > 0);
    assert_string_equal(seen, "to ^[[31mstdout\n");
    assert_string_equal(world->result->output.kept.data,
                        "to \x1b[31mstdout\n"); /* the result has it as it was */
    close(ends[0]);
}

static void reader_that_goes_away_cancels_the_run(void **state)
{
    struct world *world = *state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    world->io.forward_fd[STREAM_STDOUT] = ends[1];
    run_well(world, write_much);
    check_cause(world, CAUSE_cancelled, -1, SIGPIPE);
}

static void full_disk_of_the_caller_is_never_a_success(void **state)
{
    struct world *world = *state;
    world->io.forward_fd[STREAM_STDOUT] = open("/dev/full", O_WRONLY | O_CLOEXEC);
    run_well(world, write_a_little);
    assert_int_equal(world->result->cause, CAUSE_host_failure);
    assert_non_null(strstr(world->result->detail, "No space left"));
    assert_int_equal(result_exit_status(world->result), EXIT_STATUS_HOST_FAILURE);
}

static void input_comes_from_bytes(void **state)
{
    struct world *world = *state;
    assert_int_equal(spec_set(world->spec, "stdin", "some input", &world->err), 0);
    run_well(world, copy_input);
    assert_string_equal(world->result->output.kept.data, "some input");
}

static void input_comes_from_a_descriptor(void **state)
{
    struct world *world = *state;
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], "from a pipe", 11), 11);
    close(ends[1]);
    world->spec->stdin_kind = STDIN_DESCRIPTOR;
    world->spec->stdin_fd = ends[0];
    run_well(world, copy_input);
    assert_string_equal(world->result->output.kept.data, "from a pipe");
    close(ends[0]);
}

static void without_input_the_program_reads_the_end(void **state)
{
    struct world *world = *state;
    run_well(world, copy_input);
    check_cause(world, CAUSE_exit, 0, 0);
    assert_int_equal(world->result->output.kept.length, 0);
}

#define WORLD_TEST(function) cmocka_unit_test_setup_teardown(function, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(program_that_exits_is_told_with_its_code),
        WORLD_TEST(program_that_a_signal_ended_is_told_with_it),
        WORLD_TEST(status_that_cannot_be_is_no_success),
        WORLD_TEST(box_that_ends_without_a_word_is_a_failure_of_the_host),
        WORLD_TEST(failure_of_init_is_told_in_its_words),
        WORLD_TEST(program_that_cannot_be_started_is_a_wrong_spec),
        WORLD_TEST(directory_that_cannot_be_entered_is_a_wrong_spec),
        WORLD_TEST(words_after_the_end_change_nothing),
        WORLD_TEST(wall_time_ends_a_run),
        WORLD_TEST(cpu_time_ends_a_run),
        WORLD_TEST(lack_of_memory_is_never_a_plain_signal),
        WORLD_TEST(lack_of_memory_is_seen_after_the_end_too),
        WORLD_TEST(storm_of_refused_forks_ends_a_run),
        WORLD_TEST(failure_after_refused_forks_is_about_them),
        WORLD_TEST(success_after_refused_forks_is_a_success),
        WORLD_TEST(what_no_kernel_limit_holds_is_ended_by_measure),
        WORLD_TEST(limit_that_is_seen_to_be_broken_too_late_is_the_cause),
        WORLD_TEST(limit_that_is_seen_to_be_broken_too_late_is_the_cause),
        WORLD_TEST(failure_on_a_full_disk_is_about_the_disk),
        WORLD_TEST(call_that_ends_the_box_is_named),
        WORLD_TEST(word_that_forbids_the_program_ends_the_box_as_vetted),
        WORLD_TEST(word_that_allows_it_is_the_last_that_is_heard),
        WORLD_TEST(cancelled_run_is_told),
        WORLD_TEST(output_is_kept_and_handed_on),
        WORLD_TEST(output_past_the_limit_is_cut_and_counted),
        WORLD_TEST(limit_of_nothing_keeps_nothing),
        WORLD_TEST(flood_ends_a_run),
        WORLD_TEST(terminal_gets_no_escapes),
        WORLD_TEST(reader_that_goes_away_cancels_the_run),
        WORLD_TEST(full_disk_of_the_caller_is_never_a_success),
        WORLD_TEST(input_comes_from_bytes),
        WORLD_TEST(input_comes_from_a_descriptor),
        WORLD_TEST(without_input_the_program_reads_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
