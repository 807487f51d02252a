/* Commands beside the interpreter of a context, in real boxes. */
#include "context_session.h"

#include "base/clock.h"
#include "engine/beside.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 20000 };

struct command {
    struct context_command order;
    struct beside_end end;
    struct buffer output;
    int socket, pipe;
};

/* `input` (may be NULL) fits into a pipe. */
static void start_words(struct session *session, struct command *command, const char *const *words,
                        const char *input)
{
    int ends[2], in[2];
    assert_true(pipe2(ends, O_CLOEXEC) == 0 && pipe2(in, O_CLOEXEC) == 0);
    if (input)
        assert_int_equal(write(in[1], input, strlen(input)), strlen(input));
    close(in[1]);
    for (; *words; words++)
        assert_int_equal(string_list_add(&command->order.words, *words), 0);
    if (!command->order.window)
        memcpy(command->order.fds, (int[]){in[0], ends[1], ends[1]}, sizeof command->order.fds);
    struct error err = {0};
    int status = context_exec(session->context, &command->order, &command->socket, &err);
    if (status < 0)
        fail_msg("%s", err.text);
    close(in[0]);
    close(ends[1]);
    command->pipe = ends[0];
}

static void start(struct session *session, struct command *command, const char *script)
{
    start_words(session, command, (const char *const[]){"bash", "-c", script, NULL}, NULL);
}

static void await(struct command *command)
{
    char bytes[4096];
    ssize_t length;
    while ((length = read(command->pipe, bytes, sizeof bytes)) > 0)
        assert_int_equal(buffer_append(&command->output, bytes, (size_t)length), 0);
    struct pollfd polled = {.fd = command->socket, .events = POLLIN};
    do
        assert_int_equal(poll(&polled, 1, PATIENCE_MS), 1);
    while (!beside_take_end(command->socket, &command->end));
}

static void forget_command(struct command *command)
{
    string_list_free(&command->order.words);
    string_list_free(&command->order.environment);
    buffer_free(&command->output);
    close(command->socket);
    close(command->pipe);
}

static void command_shares_the_box_and_its_files(void **state)
{
    (void)state;
    need_root();
    struct session *session = open_session("container", NULL, NULL);
    run(session, "open('/data/output/a', 'w').write('from python')");
    struct command command = {0};
    assert_int_equal(string_list_add(&command.order.environment, "WORD=yes"), 0);
    start(session, &command, "cat a; echo \" $WORD $HOME $(id -u)\"; pwd; echo back > b; exit 7");
    await(&command);
    assert_string_equal(command.output.data, "from python yes /home/user 1000\n/data/output\n");
    assert_true(WIFEXITED(command.end.wait_status));
    assert_int_equal(WEXITSTATUS(command.end.wait_status), 7);
    forget_command(&command);
    run(session, "open('/data/output/b').read()");
    assert_string_equal(session->value.data, "'back\\n'");
    close_session(session);
}

/* What the interpreter wears, a command wears: compared line by line. */
static void command_wears_every_layer(void **state)
{
    (void)state;
    need_root();
    struct session *session = open_session("container", NULL, NULL);
    run(session,
        "print(*[l for l in open('/proc/self/status') if l.split(':')[0] in "
        "('Uid', 'Gid', 'Groups', 'CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp', "
        "'Seccomp_filters')], sep='', end='')");
    struct command command = {0};
    start(
        session, &command,
        "grep -E '^(Uid|Gid|Groups|CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp|Seccomp_filters):' "
        "/proc/self/status");
    await(&command);
    assert_non_null(strstr(command.output.data, "Seccomp:\t2\n"));
    assert_string_equal(command.output.data, session->out.data);
    forget_command(&command);
    command = (struct command){0};
    start(session, &command,
          "kill -9 1; kill -0 1 && echo reached; ls -l /proc/self/fd/ | grep -c -E 'socket|memfd'; "
          "echo > /usr/x && echo reached; cat /proc/1/environ && echo reached; true");
    await(&command);
    assert_null(strstr(command.output.data, "reached"));
    assert_non_null(strstr(command.output.data, "\n0\n"));
    forget_command(&command);
    run(session, "1 + 1");
    assert_string_equal(session->value.data, "2");
    close_session(session);
}

static void command_takes_signals_and_dies_with_its_socket(void **state)
{
    (void)state;
    need_root();
    struct session *session = open_session("container", NULL, NULL);
    struct command command = {0};
    start(session, &command, "trap 'echo term; exit 3' TERM; echo ready; while :; do sleep 0.1; done");
    char ready[6];
    assert_int_equal(read(command.pipe, ready, sizeof ready), 6);
    assert_true(beside_signal(command.socket, SIGTERM) >= 0);
    await(&command);
    assert_int_equal(WEXITSTATUS(command.end.wait_status), 3);
    forget_command(&command);
    command = (struct command){0};
    start(session, &command, "echo ready; sleep 1000");
    assert_int_equal(read(command.pipe, ready, sizeof ready), 6);
    close(command.socket);
    assert_int_equal(read(command.pipe, ready, sizeof ready), 0); /* it was killed, with its child */
    command.socket = -1;
    forget_command(&command);
    close_session(session);
}

/* Asks until the box is gone. True: a command ran, and not only for a moment, although the interpreter was
 * there no more. */
static bool outlives_interpreter(struct session *session)
{
    const char *script = "test -e alive || { sleep 0.05; echo late > large; echo outlived; }";
    for (int64_t until_us = clock_monotonic_us() + PATIENCE_MS * 1000; clock_monotonic_us() < until_us;) {
        struct context_command order = {.fds = {-1, -1, -1}};
        char said[16] = {0};
        int ends[2], socket = -1;
        for (const char *const *word = (const char *const[]){"sh", "-c", script, NULL}; *word; word++)
            assert_int_equal(string_list_add(&order.words, *word), 0);
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        memcpy(order.fds, (int[]){ends[0], ends[1], ends[1]}, sizeof order.fds);
        struct error err = {0};
        int status = context_exec(session->context, &order, &socket, &err);
        close(ends[1]);
        ssize_t length = status < 0 ? -1 : read(ends[0], said, sizeof said - 1);
        close(ends[0]);
        if (socket >= 0)
            close(socket);
        string_list_free(&order.words);
        if (status < 0 || length > 0)
            return strcmp(said, "outlived\n") == 0;
        sleep_ms(2); /* at its end the interpreter is to be alone */
    }
    return false;
}

/* Its init stays, and would start one more: in a box whose files are being collected, and whose account is
 * closed. */
static void no_command_runs_when_the_interpreter_has_ended(void **state)
{
    (void)state;
    need_root();
    for (int i = 0; i < 5; i++) {
        struct session *session = open_session("container", NULL, NULL);
        run(session, "import os, threading\n"
                     "open('/data/output/large', 'wb').truncate(60 << 20)\n"
                     "open('alive', 'w').close()\n"
                     "threading.Timer(0.1, lambda: (os.unlink('alive'), os._exit(0))).start()");
        assert_false(outlives_interpreter(session));
        close_session(session);
    }
}

static void what_cannot_be_executed_says_so(void **state)
{
    (void)state;
    need_root();
    struct session *session = open_session("container", NULL, NULL);
    struct command command = {.order.directory = "/nowhere"};
    start(session, &command, "true");
    await(&command);
    assert_int_equal(command.end.failure, -ENOENT);
    forget_command(&command);
    struct context_command wrong = {.fds = {0, 1, 2}};
    struct error err = {0};
    int socket;
    assert_int_equal(string_list_add(&wrong.words, "no-such-program"), 0);
    assert_true(context_exec(session->context, &wrong, &socket, &err) < 0);
    assert_non_null(strstr(err.text, "no-such-program"));
    string_list_free(&wrong.words);
    close_session(session);
}

static void commands_are_at_most_sixteen(void **state)
{
    (void)state;
    need_root();
    struct session *session = open_session("container", NULL, NULL);
    struct command commands[17] = {0};
    for (int i = 0; i < 17; i++)
        start(session, &commands[i], "sleep 1000");
    await(&commands[16]);
    assert_int_equal(commands[16].end.failure, -EAGAIN);
    for (int i = 0; i < 17; i++)
        forget_command(&commands[i]);
    run(session, "1 + 1");
    assert_string_equal(session->value.data, "2");
    close_session(session);
}

static void command_can_have_a_terminal(void **state)
{
    (void)state;
    need_root();
    struct session *session = open_session("container", NULL, NULL);
    int master = -1;
    const struct winsize window = {.ws_row = 24, .ws_col = 80};
    struct command command = {.order = {.window = &window, .ret_master = &master}};
    start(session, &command,
          "test -t 0 && test -t 1 && test \"$(tty)\" = /dev/pts/0 && echo on > /dev/tty && sleep 1000");
    char line[16] = "";
    assert_true(read(master, line, sizeof line - 1) > 0);
    assert_memory_equal(line, "on\r\n", 4);
    assert_int_equal(write(master, "\003", 1), 1); /* Ctrl-C */
    await(&command);
    assert_true(WIFSIGNALED(command.end.wait_status) && WTERMSIG(command.end.wait_status) == SIGINT);
    forget_command(&command);
    close(master);
    close_session(session);
}

static void fork_takes_commands_too(void **state)
{
    (void)state;
    need_root();
    struct session *session = open_session("container", NULL, NULL);
    struct context *first = session->context, *copy = NULL;
    struct error err = {0};
    run(session, "open('/data/output/a', 'w').write('copied')");
    if (context_fork(first, NULL, &copy, &err) < 0)
        fail_msg("%s", err.text);
    session->context = copy;
    struct command command = {0};
    start(session, &command, "cat a; kill -0 1 && echo reached; grep -c . /proc/1/status; id -u");
    await(&command);
    assert_non_null(strstr(command.output.data, "copied"));
    assert_non_null(strstr(command.output.data, "1000\n"));
    assert_null(strstr(command.output.data, "reached"));
    forget_command(&command);
    context_close(copy);
    session->context = first;
    close_session(session);
}

static const char *about_files(struct session *session, struct command *command, const char *input,
                               const char *const *words)
{
    if (command->order.words.count)
        forget_command(command);
    *command = (struct command){.order.is_about_files = true};
    start_words(session, command, words, input);
    await(command);
    return text(&command->output);
}

#define FILES(input, ...) about_files(session, &command, input, (const char *const[]){__VA_ARGS__, NULL})

static void files_are_worked_on_from_inside(void **state)
{
    (void)state;
    need_root();
    struct session *session = open_session("container", NULL, NULL);
    struct command command = {0};
    assert_non_null(strstr(FILES("hello there", "put", "sub/a.txt"), "\"type\":\"file\",\"size\":11,"));
    run(session, "open('sub/a.txt').read()");
    assert_string_equal(session->value.data, "'hello there'");
    assert_non_null(strstr(FILES(NULL, "get", "sub/a.txt", "6", "3"), "}\nthe"));
    assert_string_equal(strchr(command.output.data, '\n'), "\nthe");
    run(session, "import os; os.mkfifo('pipe'); open(b'sub/\\xff\\n\"x', 'w').close(); "
                 "os.symlink('/etc/passwd', 'l')");
    assert_non_null(strstr(FILES(NULL, "list", "/data/output", "2"), "sub/\\ufffd\\u000a\\\"x\""));
    assert_non_null(strstr(command.output.data, "\"type\":\"link\""));
    assert_non_null(strstr(command.output.data, "\"target\":\"/etc/passwd\""));
    assert_non_null(strstr(FILES(NULL, "get", "pipe", "0", "-1"), "not_a_file"));
    assert_non_null(strstr(FILES(NULL, "get", "/etc/shadow", "0", "-1"), "\"error\":"));
    assert_non_null(strstr(FILES(NULL, "get", "nothing", "0", "-1"), "not_found"));
    assert_non_null(strstr(FILES("x", "put", "/usr/lib/x"), "not_allowed"));
    assert_non_null(strstr(FILES(NULL, "mkdir", "deep/er"), "directory"));
    assert_non_null(strstr(FILES(NULL, "move", "sub/a.txt", "deep/er/b.txt"), "deep/er/b.txt"));
    assert_non_null(strstr(FILES(NULL, "remove", "deep"), "removed"));
    assert_non_null(strstr(FILES(NULL, "stat", "deep"), "not_found"));
    assert_non_null(strstr(FILES(NULL, "remove", "/usr"), "\"error\":"));
    assert_true(WIFEXITED(command.end.wait_status) && WEXITSTATUS(command.end.wait_status) == 1);
    forget_command(&command);
    close_session(session);
}

static void changes_of_files_are_told(void **state)
{
    (void)state;
    need_root();
    struct session *session = open_session("container", NULL, NULL);
    struct command command = {.order.is_about_files = true};
    start_words(session, &command, (const char *const[]){"watch", "/data/output", NULL}, NULL);
    char bytes[4096];
    assert_true(read(command.pipe, bytes, sizeof bytes) > 0); /* it is watching */
    run(session, "import os; os.mkdir('d'); import time; time.sleep(0.2); open('d/x', 'w').write('1'); "
                 "os.remove('d/x')");
    static const char *const wanted[] = {"\"created\",\"path\":\"/data/output/d\"",
                                         "\"written\",\"path\":\"/data/output/d/x\"",
                                         "\"removed\",\"path\":\"/data/output/d/x\""};
    for (int found = 0; found < 3;) {
        ssize_t length = read(command.pipe, bytes, sizeof bytes);
        assert_true(length > 0);
        buffer_append(&command.output, bytes, (size_t)length);
        for (found = 0; found < 3 && strstr(command.output.data, wanted[found]);)
            found++;
    }
    assert_true(beside_signal(command.socket, SIGKILL) >= 0);
    await(&command);
    forget_command(&command);
    close_session(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(command_shares_the_box_and_its_files),
        cmocka_unit_test(command_wears_every_layer),
        cmocka_unit_test(command_takes_signals_and_dies_with_its_socket),
        cmocka_unit_test(no_command_runs_when_the_interpreter_has_ended),
        cmocka_unit_test(what_cannot_be_executed_says_so),
        cmocka_unit_test(commands_are_at_most_sixteen),
        cmocka_unit_test(command_can_have_a_terminal),
        cmocka_unit_test(fork_takes_commands_too),
        cmocka_unit_test(files_are_worked_on_from_inside),
        cmocka_unit_test(changes_of_files_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
