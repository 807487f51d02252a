/* cloche-shell: the runner of a bash context.
 *
 *     cloche-shell BASH FD
 *     cloche-shell --wait FD      (the runner of a spare, see wait.h)
 *
 * Theory of operation. Bash can neither copy arbitrary bytes (its variables hold no NUL) nor read JSON, and
 * copying through `head` and `dd` would cost several processes for each piece of output. So this small static
 * program, which needs nothing from the image but bash, stands between: it speaks the protocol on FD, and has
 * a shell as its child, which executes one run after the other in the same scope (shell.c, prelude.sh).
 *
 * What the shell and its commands print goes through two pipes of ours and leaves as frames. A command that
 * has ended has written all that it had to say, so when the shell reports the end of a run, everything of it
 * is in the pipes: what is in them at that moment is sent, then the end. What a job in the background prints
 * later is sent when it comes.
 *
 * A shell that ends (exit, set -e, a signal) leaves its state as a script, and the next one begins with that.
 * One that leaves nothing (exec, kill -9) is the end of the context: we end as it did.
 *
 * SIGINT is passed to the process group of the shell; between runs it is dropped. A loop of short commands
 * may still overlook one, so it is passed again until the run is over, unless the code has a trap of its own.
 * When the host closes the socket we end. Everything is done in one loop over poll. */
#include "shell.h"
#include "wait.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { INTERRUPTED_STATUS = 128 + SIGINT, SYNTAX_STATUS = 2, INSIST_MS = 100 };

enum phase {
    PHASE_IDLE,
    PHASE_RUNNING,
    PHASE_SETTLING, /* the run is over, but a signal is on its way to the shell: wait until it has arrived */
};

struct runner {
    int channel_fd, signal_fd;
    struct shell shell;
    enum phase phase;
    struct order order; /* of the run that is under way */
    int64_t run;        /* its number; -1: none */
    int64_t started_us;
    bool is_interrupted;
    bool is_trapped;        /* then there was a trap for it: the code decides */
    int64_t interrupted_us; /* when the shell was last told */
    int status;             /* of the run, while settling */
    bool is_exit;           /* the shell ended with it */
};

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* At most `limit` bytes of what is in a pipe. */
static void send_output(struct runner *runner, int fd, const char *type, int limit)
{
    static char bytes[65536];
    while (limit > 0) {
        ssize_t length = read(fd, bytes, limit < (int)sizeof bytes ? (size_t)limit : sizeof bytes);
        if (length <= 0)
            return;
        frame_write(runner->channel_fd, type, runner->run, "", bytes, (size_t)length);
        limit -= (int)length;
    }
}

/* What is there now, and no more: a job in the background may never stop. */
static void drain(struct runner *runner)
{
    int output = 0, errors = 0;
    ioctl(runner->shell.output_fd, FIONREAD, &output);
    ioctl(runner->shell.errors_fd, FIONREAD, &errors);
    send_output(runner, runner->shell.output_fd, "stdout", output);
    send_output(runner, runner->shell.errors_fd, "stderr", errors);
}

static void print_error(struct text *fields, const char *name, const char *value, const char *traceback)
{
    text_print(fields, ",\"error\":{\"name\":\"%s\",\"value\":", name);
    text_append_json(fields, value, strlen(value));
    text_print(fields, ",\"traceback\":");
    text_append_json(fields, traceback, strlen(traceback));
    text_print(fields, "}");
}

/* A run whose last command failed has failed. Bash has told of a mistake in the code on stderr already. */
static void print_end(struct runner *runner, int status, bool is_exit, struct text *fields)
{
    char number[16];
    snprintf(number, sizeof number, "%d", status);
    struct text complaint = {0};
    if (runner->is_interrupted && (status == INTERRUPTED_STATUS || (is_exit && status == 0))) {
        text_print(fields, ",\"status\":\"interrupted\"");
        print_error(fields, "Interrupted", "the run was interrupted", "Interrupted\n");
    } else if (is_exit) {
        text_print(fields, ",\"status\":\"exit\",\"exit_code\":%d", status);
    } else if (status == 0) {
        text_print(fields, ",\"status\":\"ok\",\"exit_code\":0");
    } else {
        text_print(fields, ",\"status\":\"error\",\"exit_code\":%d", status);
        if (status == SYNTAX_STATUS && !shell_accepts(&runner->shell, &runner->order.code, &complaint))
            print_error(fields, "SyntaxError", complaint.data ? complaint.data : "", "");
        else
            print_error(fields, "ExitStatus", number, "");
    }
    text_free(&complaint);
}

static void end_run(struct runner *runner, int status, bool is_exit)
{
    struct text fields = {0};
    drain(runner);
    print_end(runner, status, is_exit, &fields);
    text_print(&fields, ",\"duration_us\":%lld", (long long)(now_us() - runner->started_us));
    frame_write(runner->channel_fd, "end", runner->run, fields.data, "", 0);
    text_free(&fields);
    order_free(&runner->order);
    runner->run = -1;
    runner->phase = PHASE_IDLE;
}

static void refuse_run(struct runner *runner, const char *reason)
{
    struct text fields = {0};
    text_print(&fields, ",\"status\":\"error\",\"duration_us\":0");
    print_error(&fields, "RunnerError", reason, "");
    frame_write(runner->channel_fd, "started", runner->run, "", "", 0);
    frame_write(runner->channel_fd, "stderr", runner->run, "", reason, strlen(reason));
    frame_write(runner->channel_fd, "stderr", runner->run, "", "\n", 1);
    frame_write(runner->channel_fd, "end", runner->run, fields.data, "", 0);
    text_free(&fields);
    order_free(&runner->order);
    runner->run = -1;
}

static void begin_run(struct runner *runner)
{
    struct order *order = &runner->order;
    runner->run = order->run < 0 ? 0 : order->run;
    runner->started_us = now_us();
    runner->is_interrupted = false;
    if (memchr(order->code.data, '\0', order->code.length)) {
        refuse_run(runner, "code for bash cannot have a NUL in it");
        return;
    }
    struct text setup = {0};
    text_print(&setup, order->arguments.length ? "set --%s; " : "%s",
               order->arguments.length ? order->arguments.data : "");
    int status = shell_begin(&runner->shell, setup.data, &order->code, &order->input);
    text_free(&setup);
    if (status < 0)
        refuse_run(runner, strerror(-status));
    else {
        runner->phase = PHASE_RUNNING;
        frame_write(runner->channel_fd, "started", runner->run, "", "", 0); /* a signal is for this run now */
    }
}

/* Ends in a backslash that is not itself quoted: the line goes on. */
static bool ends_open(const struct text *code)
{
    size_t count = 0;
    while (count < code->length && code->data[code->length - 1 - count] == '\\')
        count++;
    return count % 2 == 1;
}

static void judge(struct runner *runner, const struct order *order)
{
    struct text complaint = {0};
    bool is_accepted = shell_accepts(&runner->shell, &order->code, &complaint);
    const char *text = complaint.data ? complaint.data : "";
    bool is_open = ends_open(&order->code) || strstr(text, "unexpected end of file") ||
                   strstr(text, "unexpected EOF") || strstr(text, "delimited by end-of-file");
    frame_write(runner->channel_fd, "completeness", -1,
                is_open       ? ",\"text\":\"incomplete\""
                : is_accepted ? ",\"text\":\"complete\""
                              : ",\"text\":\"invalid\"",
                "", 0);
    text_free(&complaint);
}

static void obey(struct runner *runner)
{
    struct order order;
    if (!order_read(runner->channel_fd, &order)) {
        kill(-runner->shell.pid, SIGKILL);
        _exit(0);
    }
    if (order.kind == ORDER_RUN) {
        runner->order = order;
        begin_run(runner);
        return;
    }
    if (order.kind == ORDER_COMPLETE)
        judge(runner, &order);
    else
        frame_write(runner->channel_fd, "refused", -1, ",\"text\":\"there is no such message\"", "", 0);
    order_free(&order);
}

/* The shell waits. If it was sent a signal that it may not have taken yet, it is made to do a little more
 * first: a signal that ends it then must not fall into the next run. */
static void shell_waits(struct runner *runner, int status)
{
    static const struct text nothing = {":", 1};
    if (runner->phase == PHASE_RUNNING && runner->is_interrupted) {
        runner->status = status;
        runner->phase = PHASE_SETTLING;
        if (shell_begin(&runner->shell, "", &nothing, NULL) == 0)
            return;
    }
    if (runner->phase != PHASE_IDLE)
        end_run(runner, runner->phase == PHASE_SETTLING ? runner->status : status, false);
}

static void die_like(int status)
{
    if (WIFSIGNALED(status)) {
        sigset_t none;
        sigemptyset(&none);
        signal(WTERMSIG(status), SIG_DFL);
        sigprocmask(SIG_SETMASK, &none, NULL);
        raise(WTERMSIG(status));
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 70);
}

/* For the first report of a shell that was started: it has taken over the state of the last. */
static void wait_for_shell(struct runner *runner)
{
    int ignored, wait_status;
    while (!shell_hear(&runner->shell, &ignored)) {
        struct pollfd polled = {.fd = runner->shell.reports_fd, .events = POLLIN};
        poll(&polled, 1, -1);
        if (polled.revents & POLLIN || waitpid(runner->shell.pid, &wait_status, 0) != runner->shell.pid)
            continue;
        drain(runner); /* it said why */
        die_like(wait_status);
    }
}

/* Its status is that of the run, unless that was over. */
static void replace_shell(struct runner *runner, int wait_status)
{
    int status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
    if (!shell_left_state(&runner->shell) || shell_start(&runner->shell) < 0)
        die_like(wait_status);
    wait_for_shell(runner);
    if (runner->phase == PHASE_SETTLING)
        end_run(runner, runner->status, false);
    else if (runner->phase == PHASE_RUNNING)
        end_run(runner, status, true);
}

static void take_signals(struct runner *runner)
{
    struct signalfd_siginfo info;
    while (read(runner->signal_fd, &info, sizeof info) == sizeof info)
        if (info.ssi_signo == SIGINT && runner->phase == PHASE_RUNNING && !runner->is_interrupted) {
            runner->is_interrupted = true;
            runner->is_trapped = runner->shell.traps_interrupt;
            runner->interrupted_us = now_us();
            kill(-runner->shell.pid, SIGINT);
        }
    int status;
    if (waitpid(runner->shell.pid, &status, WNOHANG) == runner->shell.pid) {
        int last = 0;
        if (shell_hear(&runner->shell, &last)) /* it had ended its run before it ended itself */
            shell_waits(runner, last);
        replace_shell(runner, status);
    }
}

static bool insists(const struct runner *runner)
{
    return runner->phase == PHASE_RUNNING && runner->is_interrupted && !runner->is_trapped &&
           !runner->shell.traps_interrupt && !runner->shell.is_leaving;
}

/* While there is output poll() does not wait, so the time is counted here. */
static void insist(struct runner *runner)
{
    if (!insists(runner) || now_us() - runner->interrupted_us < INSIST_MS * 1000)
        return;
    runner->interrupted_us = now_us();
    kill(-runner->shell.pid, SIGINT);
}

static void serve(struct runner *runner)
{
    for (;;) {
        bool is_idle = runner->phase == PHASE_IDLE;
        struct pollfd polled[] = {{.fd = runner->shell.output_fd, .events = POLLIN},
                                  {.fd = runner->shell.errors_fd, .events = POLLIN},
                                  {.fd = runner->shell.reports_fd, .events = POLLIN},
                                  {.fd = runner->signal_fd, .events = POLLIN},
                                  {.fd = runner->channel_fd, .events = is_idle ? POLLIN : POLLRDHUP}};
        if (poll(polled, 5, insists(runner) ? INSIST_MS : -1) < 0 && errno != EINTR)
            _exit(70);
        if (polled[0].revents & POLLIN)
            send_output(runner, runner->shell.output_fd, "stdout", 1 << 16);
        if (polled[1].revents & POLLIN)
            send_output(runner, runner->shell.errors_fd, "stderr", 1 << 16);
        int status = 0;
        if (polled[2].revents & POLLIN && shell_hear(&runner->shell, &status))
            shell_waits(runner, status);
        else if (polled[2].revents && !(polled[2].revents & POLLIN))
            usleep(1000); /* it has closed its end, or has just ended: the signal tells which */
        if (polled[3].revents)
            take_signals(runner);
        if (polled[4].revents && (is_idle || polled[4].revents & (POLLRDHUP | POLLHUP | POLLERR))) {
            if (!is_idle) {
                kill(-runner->shell.pid, SIGKILL);
                _exit(0);
            }
            obey(runner);
        }
        insist(runner);
    }
}

static void tell_ready(struct runner *runner)
{
    struct text fields = {0};
    text_print(&fields, ",\"protocol\":1,\"language\":\"bash\",\"version\":");
    text_append_json(&fields, runner->shell.version, strlen(runner->shell.version));
    frame_write(runner->channel_fd, "ready", -1, fields.data, "", 0);
    text_free(&fields);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        dprintf(STDERR_FILENO, "usage: cloche-shell BASH FD\n       cloche-shell --wait FD\n");
        return 64;
    }
    if (strcmp(argv[1], "--wait") == 0)
        wait_for_program(atoi(argv[2]));
    struct runner runner = {.channel_fd = atoi(argv[2]), .run = -1};
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    runner.signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    int status = runner.signal_fd < 0 ? -errno : shell_init(&runner.shell, argv[1]);
    if (status == 0 && fcntl(runner.channel_fd, F_SETFD, FD_CLOEXEC) < 0)
        status = -errno;
    if (status == 0)
        status = shell_start(&runner.shell);
    if (status < 0) {
        dprintf(STDERR_FILENO, "cannot start a shell: %s\n", strerror(-status));
        return 70;
    }
    wait_for_shell(&runner);
    tell_ready(&runner);
    serve(&runner);
}
