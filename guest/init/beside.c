#include "beside.h"

#include "layers.h"
#include "pump.h"

#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct beside {
    pid_t pid;  /* 0: the place is free */
    int socket; /* -1: the host has closed it */
};
static struct beside programs[BESIDE_MAX];

/* In the order in which they come. */
enum { PLAN, SOCKET, STDIN, STDOUT, STDERR, PROGRAM /* or none */, DESCRIPTORS };
enum { CLEAR_OF_STREAMS = 16 };

static void say(int socket, uint32_t kind, int code, int wait_status)
{
    struct init_message message = {.kind = kind, .code = code, .wait_status = wait_status};
    process_send(socket, &message, sizeof message, -1);
}

/* The block and, in *ret_strings, a list of its strings: directory, arguments, NULL, environment, NULL. */
static struct init_plan *read_plan(int fd, char ***ret_strings)
{
    struct stat status;
    if (fstat(fd, &status) < 0 || status.st_size < (off_t)sizeof(struct init_plan) ||
        status.st_size > PLAN_SIZE_MAX)
        return NULL;
    size_t size = (size_t)status.st_size;
    struct init_plan *plan = malloc(size + 1);
    if (!plan)
        return NULL;
    size_t count = 0;
    if (pread(fd, plan, size, 0) == (ssize_t)size && plan->magic == PLAN_MAGIC && plan->size == size &&
        plan->argument_count > 0 && plan->argument_count < size && plan->environment_count < size)
        count = 1 + (size_t)plan->argument_count + plan->environment_count;
    char **strings = count ? calloc(count + 2, sizeof *strings) : NULL;
    char *at = (char *)(plan + 1), *end = (char *)plan + size;
    *end = '\0';
    for (size_t i = 0, place = 0; strings && i < count; i++) {
        if (at >= end) {
            free(strings);
            strings = NULL;
            break;
        }
        if (i == 1 + (size_t)plan->argument_count)
            place++; /* the NULL after the arguments */
        strings[place++] = at;
        at += strlen(at) + 1;
    }
    if (!strings) {
        free(plan);
        return NULL;
    }
    *ret_strings = strings;
    return plan;
}

/* In the child, which shares our memory until it executes: it only makes system calls. */
__attribute__((noreturn)) static void become(const struct init_plan *box, const struct init_plan *plan,
                                             char **strings, const int *fds)
{
    struct layers_fault fault = {0};
    int code = 0;
    if (setsid() < 0 || dup2(fds[STDIN], 0) < 0 || dup2(fds[STDOUT], 1) < 0 || dup2(fds[STDERR], 2) < 0 ||
        (plan->flags & PLAN_TERMINAL && ioctl(0, TIOCSCTTY, 0) < 0))
        code = -errno;
    umask(022);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (code == 0 && layers_take_program_user(box, &fault) < 0)
        code = fault.code ? fault.code : -EPERM;
    if (code == 0 && layers_put_on_inner_scope(&fault) < 0)
        code = fault.code ? fault.code : -EPERM;
    if (code == 0 && chdir(strings[0]) < 0) {
        say(fds[SOCKET], INIT_CHDIR_FAILED, -errno, 0);
        _exit(127);
    }
    if (code == 0) {
        char **environment = strings + 1 + plan->argument_count + 1;
        if (plan->flags & PLAN_PROGRAM_COMES)
            syscall(SYS_execveat, fds[PROGRAM], "", strings + 1, environment, AT_EMPTY_PATH);
        else
            execve(strings[1], strings + 1, environment);
        code = -errno;
    }
    say(fds[SOCKET], INIT_EXEC_FAILED, code, 0);
    _exit(127);
}

static struct beside *free_place(void)
{
    for (int i = 0; i < BESIDE_MAX; i++)
        if (programs[i].pid == 0)
            return &programs[i];
    return NULL;
}

static int start(const struct init_plan *box, const int *fds)
{
    struct beside *place = free_place();
    char **strings = NULL;
    struct init_plan *plan = place ? read_plan(fds[PLAN], &strings) : NULL;
    if (!plan)
        return place ? -EINVAL : -EAGAIN;
    pid_t pid = vfork();
    if (pid < 0 && errno == EINVAL) /* a time namespace in waiting, see init.c */
        pid = fork();
    if (pid == 0)
        become(box, plan, strings, fds);
    int code = pid < 0 ? -errno : 0;
    if (pid > 0)
        *place = (struct beside){.pid = pid, .socket = fds[SOCKET]};
    free(strings);
    free(plan);
    return code;
}

/* Out of the way of 0, 1 and 2, which are free in us, and are what the program gets. */
static int move_up(int fd)
{
    int moved = fd < 0 || fd >= CLEAR_OF_STREAMS ? fd : fcntl(fd, F_DUPFD_CLOEXEC, CLEAR_OF_STREAMS);
    if (moved != fd)
        close(fd);
    return moved;
}

/* A terminal is no pipe, and is left alone. */
static int pump_output(const struct init_plan *box, int *fds)
{
    struct stat status;
    for (int i = STDOUT; i <= STDERR; i++) {
        if (fstat(fds[i], &status) < 0 || !S_ISFIFO(status.st_mode))
            continue;
        int end = pump_open(fds[i], box->program_uid);
        if (end < 0)
            return end;
        fds[i] = move_up(end);
    }
    return 0;
}

void beside_take_order(const struct init_plan *box)
{
    char order = 0;
    int fds[DESCRIPTORS];
    int length = process_receive_many(INIT_CONTROL_FD, &order, 1, fds, DESCRIPTORS);
    bool is_whole = length == 1;
    for (int i = 0; i < DESCRIPTORS; i++) {
        fds[i] = move_up(fds[i]);
        is_whole = is_whole && (fds[i] >= 0 || i == PROGRAM);
    }
    int code = is_whole ? 0 : -EINVAL;
    if (is_whole && box->flags & PLAN_COUNTED)
        code = pump_output(box, fds);
    if (code == 0)
        code = start(box, fds);
    if (is_whole && code < 0)
        say(fds[SOCKET], INIT_EXEC_FAILED, code, 0);
    for (int i = 0; i < DESCRIPTORS; i++)
        if (fds[i] >= 0 && (i != SOCKET || code < 0))
            close(fds[i]);
}

int beside_watched(struct pollfd *into)
{
    int count = 0;
    for (int i = 0; i < BESIDE_MAX; i++)
        if (programs[i].pid > 0 && programs[i].socket >= 0)
            into[count++] = (struct pollfd){.fd = programs[i].socket, .events = POLLIN};
    return count;
}

static void pass_on(struct beside *program)
{
    unsigned char number = SIGKILL;
    ssize_t length = recv(program->socket, &number, 1, MSG_DONTWAIT);
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (length <= 0) { /* nobody is there any more who could ask how it ends */
        number = SIGKILL;
        close(program->socket);
        program->socket = -1;
    }
    kill(-program->pid, number);
}

void beside_look(const struct pollfd *polled, int count)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; polled[i].revents && k < BESIDE_MAX; k++)
            if (programs[k].pid > 0 && programs[k].socket == polled[i].fd)
                pass_on(&programs[k]);
}

void beside_ended(pid_t pid, int status)
{
    for (int i = 0; i < BESIDE_MAX; i++) {
        if (programs[i].pid != pid)
            continue;
        if (programs[i].socket >= 0) {
            say(programs[i].socket, INIT_ENDED, 0, status);
            close(programs[i].socket);
        }
        programs[i] = (struct beside){.socket = -1};
    }
}
