#include "shell.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern const char prelude[];
__asm__(".pushsection .rodata\n"
        "prelude: .incbin \"" PRELUDE "\"\n"
        ".byte 0\n"
        ".popsection\n");

/* On one line: bash counts the lines of code from that of its eval. The loops stand around it and not a
 * function, in which `declare` would make locals; two of them, so that a `break` of the code's own does not
 * end the shell. The code finds $? as the last run left it: behind ||, set -e overlooks the failure that is
 * made for that, and not one in the code. */
static const char serve[] =
    "__cloche_code=$1; shift; eval -- \"$__cloche_code\"; eval -- \"$__cloche_options\"; "
    "while :; do while __cloche_next; do "
    "case $__cloche_status in 0) eval -- \"$__cloche_code\" <&101;; "
    "*) __cloche_fail || eval -- \"$__cloche_code\" <&101;; esac; "
    "done; done";

/* Boxes without namespaces have no memfd_create. */
static int open_unnamed(void)
{
    int fd = memfd_create("run", MFD_CLOEXEC);
    if (fd >= 0)
        return fd;
    const char *folder = getenv("TMPDIR");
    char path[4096];
    snprintf(path, sizeof path, "%.4000s/run-XXXXXX", folder && *folder ? folder : "/tmp");
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        unlink(path);
    return fd;
}

static int make_pipe(int *ret_read, int *ret_write)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    *ret_read = ends[0];
    *ret_write = ends[1];
    return 0;
}

int shell_init(struct shell *shell, const char *program)
{
    *shell = (struct shell){.program = program, .orders_fd = -1, .reports_fd = -1};
    int *files[] = {&shell->code_fd, &shell->input_fd, &shell->state_fd};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if ((*files[i] = open_unnamed()) < 0)
            return -errno;
    int status = make_pipe(&shell->output_fd, &shell->output_end);
    if (status == 0)
        status = make_pipe(&shell->errors_fd, &shell->errors_end);
    if (status == 0 && (fcntl(shell->output_fd, F_SETFL, O_NONBLOCK) < 0 ||
                        fcntl(shell->errors_fd, F_SETFL, O_NONBLOCK) < 0))
        status = -errno;
    return status;
}

static int fill(int fd, const struct text *first, const struct text *second, const char *end,
                size_t end_length)
{
    const struct text *parts[] = {first, second};
    if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return -errno;
    for (size_t i = 0; i < 2; i++)
        for (size_t at = 0; parts[i] && at < parts[i]->length;) {
            ssize_t written = write(fd, parts[i]->data + at, parts[i]->length - at);
            if (written <= 0)
                return written < 0 ? -errno : -ENOSPC;
            at += (size_t)written;
        }
    if (write(fd, end, end_length) != (ssize_t)end_length)
        return -ENOSPC;
    return lseek(fd, 0, SEEK_SET) < 0 ? -errno : 0;
}

static void default_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void become_shell(struct shell *shell, int orders_end, int reports_end, bool is_next)
{
    setpgid(0, 0);
    const int places[][2] = {{shell->code_fd, SHELL_CODE},      {shell->input_fd, SHELL_INPUT},
                             {shell->state_fd, SHELL_STATE},    {orders_end, SHELL_ORDERS},
                             {reports_end, SHELL_REPORTS},      {shell->output_end, STDOUT_FILENO},
                             {shell->errors_end, STDERR_FILENO}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (dup2(places[i][0], places[i][1]) < 0)
            _exit(126);
    default_signals();
    char *nothing[] = {NULL};
    char *arguments[] = {
        "bash", "--noprofile", "--norc", "-c", (char *)(uintptr_t)serve, "bash", (char *)(uintptr_t)prelude,
        NULL};
    extern char **environ;
    execve(shell->program, arguments, is_next ? nothing : environ); /* what it exports is in the state */
    dprintf(STDERR_FILENO, "cannot execute %s: %s\n", shell->program, strerror(errno));
    _exit(127);
}

int shell_start(struct shell *shell)
{
    int orders_end = -1, reports_end = -1;
    if (shell->orders_fd >= 0)
        close(shell->orders_fd);
    if (shell->reports_fd >= 0)
        close(shell->reports_fd);
    text_free(&shell->line);
    shell->traps_interrupt = shell->is_leaving = false;
    int status = make_pipe(&orders_end, &shell->orders_fd);
    if (status == 0)
        status = make_pipe(&shell->reports_fd, &reports_end);
    if (status < 0)
        return status;
    bool is_next = shell_left_state(shell);
    if (lseek(shell->state_fd, 0, SEEK_SET) < 0 || fcntl(shell->reports_fd, F_SETFL, O_NONBLOCK) < 0)
        return -errno;
    shell->pid = fork();
    if (shell->pid < 0)
        return -errno;
    if (shell->pid == 0)
        become_shell(shell, orders_end, reports_end, is_next);
    setpgid(shell->pid, shell->pid);
    close(orders_end);
    close(reports_end);
    return 0;
}

int shell_begin(struct shell *shell, const char *setup, const struct text *code, const struct text *input)
{
    struct text first = {(char *)(uintptr_t)setup, strlen(setup)};
    int status = fill(shell->code_fd, &first, code, "", 1);
    if (status == 0)
        status = fill(shell->input_fd, input, NULL, "", 0);
    if (status == 0 && write(shell->orders_fd, "\n", 1) != 1)
        status = -errno;
    return status;
}

/* True when it says that the shell waits. */
static bool take_report(struct shell *shell, const char *line, int *ret_status)
{
    switch (*line) {
    case 'v': /* it has taken the state: what is written there next is its own */
        (void)!fill(shell->state_fd, NULL, NULL, "", 0);
        snprintf(shell->version, sizeof shell->version, "%.60s", line + 1);
        return false;
    case 't':
        shell->traps_interrupt = line[1] != '\0';
        return false;
    case 'l':
        shell->is_leaving = true;
        return false;
    default:
        *ret_status = atoi(line) & 0xff;
        return true;
    }
}

bool shell_hear(struct shell *shell, int *ret_status)
{
    bool waits = false;
    char bytes[256];
    ssize_t length;
    while ((length = read(shell->reports_fd, bytes, sizeof bytes)) > 0)
        for (ssize_t i = 0; i < length; i++)
            if (bytes[i] == '\n') {
                waits |= take_report(shell, shell->line.data ? shell->line.data : "", ret_status);
                text_free(&shell->line);
            } else if (shell->line.length < sizeof bytes) {
                text_append(&shell->line, &bytes[i], 1);
            }
    return waits;
}

bool shell_left_state(const struct shell *shell)
{
    static const char mark[3] = "#\n"; /* and its NUL */
    char last[sizeof mark];
    off_t end = lseek(shell->state_fd, 0, SEEK_END);
    return end >= (off_t)sizeof mark &&
           pread(shell->state_fd, last, sizeof last, end - (off_t)sizeof last) == (ssize_t)sizeof last &&
           memcmp(last, mark, sizeof mark) == 0;
}

bool shell_accepts(struct shell *shell, const struct text *code, struct text *ret_complaint)
{
    int complaints = -1, end = -1;
    bool ends_line = code->length && code->data[code->length - 1] == '\n';
    if (fill(shell->code_fd, code, NULL, "\n", ends_line ? 0 : 1) < 0 || make_pipe(&complaints, &end) < 0)
        return true;
    pid_t pid = fork();
    if (pid == 0) {
        dup2(shell->code_fd, STDIN_FILENO);
        dup2(end, STDERR_FILENO);
        default_signals();
        char *arguments[] = {"bash", "--noprofile", "--norc", "-O", "extglob", "-n", NULL};
        char *environment[] = {"LC_ALL=C", NULL}; /* its words are read */
        execve(shell->program, arguments, environment);
        _exit(127);
    }
    close(end);
    char bytes[4096];
    ssize_t length;
    while ((length = read(complaints, bytes, sizeof bytes)) > 0)
        if (ret_complaint->length < sizeof bytes)
            text_append(ret_complaint, bytes, (size_t)length);
    close(complaints);
    int status = 0;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid < 0 || status == 0;
}
