/* Commands beside the interpreter of a context, in real boxes. */
#include "context_session.h"

#include "engine/beside.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 20000 };

struct command {
    struct context_command order;
    struct beside_end end;
    struct buffer output;
    int socket, pipe;
};

static void start(struct session *session, struct command *command, const char *script)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    static const char *const words[] = {"bash", "-c"};
    for (int i = 0; i < 2; i++)
        assert_int_equal(string_list_add(&command->order.words, words[i]), 0);
    assert_int_equal(string_list_add(&command->order.words, script), 0);
    if (!command->order.has_terminal)
        memcpy(command->order.fds, (int[]){nothing, ends[1], ends[1]}, sizeof command->order.fds);
    struct error err = {0};
    int status = context_exec(session->context, &command->order, &command->socket, &err);
    if (status < 0)
        fail_msg("%s", err.text);
    close(nothing);
    close(ends[1]);
    command->pipe = ends[0];
}

static void await(struct session *session, struct command *command)
{
    char bytes[4096];
    ssize_t length;
    while ((length = read(command->pipe, bytes, sizeof bytes)) > 0)
        assert_int_equal(buffer_append(&command->output, bytes, (size_t)length), 0);
    struct pollfd polled = {.fd = command->socket, .events = POLLIN};
    do
        assert_int_equal(poll(&polled, 1, PATIENCE_MS), 1);
    while (!beside_take_end(command->socket, &command->end));
    context_exec_over(session->context);
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
    await(session, &command);
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
    await(session, &command);
    assert_non_null(strstr(command.output.data, "Seccomp:\t2\n"));
    assert_string_equal(command.output.data, session->out.data);
    forget_command(&command);
    command = (struct command){0};
    start(session, &command,
          "kill -9 1; kill -0 1 && echo reached; ls -l /proc/self/fd/ | grep -c -E 'socket|memfd'; "
          "echo > /usr/x && echo reached; cat /proc/1/environ && echo reached; true");
    await(session, &command);
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
    await(session, &command);
    assert_int_equal(WEXITSTATUS(command.end.wait_status), 3);
    forget_command(&command);
    command = (struct command){0};
    start(session, &command, "echo ready; sleep 1000");
    assert_int_equal(read(command.pipe, ready, sizeof ready), 6);
    close(command.socket);
    assert_int_equal(read(command.pipe, ready, sizeof ready), 0); /* it was killed, with its child */
    context_exec_over(session->context);
    command.socket = -1;
    forget_command(&command);
    close_session(session);
}

static void what_cannot_be_executed_says_so(void **state)
{
    (void)state;
    need_root();
    struct session *session = open_session("container", NULL, NULL);
    struct command command = {.order.directory = "/nowhere"};
    start(session, &command, "true");
    await(session, &command);
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
    await(session, &commands[16]);
    assert_int_equal(commands[16].end.failure, -EAGAIN);
    for (int i = 0; i < 17; i++) {
        if (i < 16)
            context_exec_over(session->context);
        forget_command(&commands[i]);
    }
    run(session, "1 + 1");
    assert_string_equal(session->value.data, "2");
    close_session(session);
}

static void command_can_have_a_terminal(void **state)
{
    (void)state;
    need_root();
    struct session *session = open_session("container", NULL, NULL);
    int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    int slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(slave >= 0);
    struct command command = {.order = {.has_terminal = true, .fds = {slave, slave, slave}}};
    start(session, &command, "test -t 0 && test -t 1 && echo on > /dev/tty && sleep 1000");
    close(slave);
    char line[16] = "";
    assert_true(read(master, line, sizeof line - 1) > 0);
    assert_memory_equal(line, "on\r\n", 4);
    assert_int_equal(write(master, "\003", 1), 1); /* Ctrl-C */
    await(session, &command);
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
    await(session, &command);
    assert_non_null(strstr(command.output.data, "copied"));
    assert_non_null(strstr(command.output.data, "1000\n"));
    assert_null(strstr(command.output.data, "reached"));
    forget_command(&command);
    context_close(copy);
    session->context = first;
    close_session(session);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(command_shares_the_box_and_its_files),
        cmocka_unit_test(command_wears_every_layer),
        cmocka_unit_test(command_takes_signals_and_dies_with_its_socket),
        cmocka_unit_test(what_cannot_be_executed_says_so),
        cmocka_unit_test(commands_are_at_most_sixteen),
        cmocka_unit_test(command_can_have_a_terminal),
        cmocka_unit_test(fork_takes_commands_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
