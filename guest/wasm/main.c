/* cloche-wasm: the program with Wasmtime in it. It runs inside a box of the process engine, so that a fault
 * of the compiler is still in a box, and takes orders over its channel (order.h).
 *
 *   cloche-wasm CHANNEL
 *   cloche-wasm compile FROM.wasm INTO.cwasm     at set-up: compiles ahead what is then mapped */
#include "plan.h"
#include "run.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREAD_STACK_BYTES = MACHINE_STACK_BYTES + (8 << 20) };

struct received {
    struct order_call call;
    _Alignas(struct order_head) char bytes[ORDER_SHORT_MAX];
    int fds[ORDER_FDS_MAX];
    size_t fd_count;
};

static bool receive_rest(int channel, char *into, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t got = recv(channel, into + done, length - done, MSG_WAITALL);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        done += got > 0 ? (size_t)got : 0;
    }
    return true;
}

/* False: there are no more. */
static bool receive(int channel, struct received *ret)
{
    union {
        char space[CMSG_SPACE(ORDER_FDS_MAX * sizeof(int))];
        struct cmsghdr aligned;
    } control;
    struct iovec parts[] = {{&ret->call, sizeof ret->call}, {ret->bytes, sizeof ret->bytes}};
    struct msghdr message = {
        .msg_iov = parts, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t length;
    while ((length = recvmsg(channel, &message, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    ret->fd_count = 0;
    struct cmsghdr *head = length >= (ssize_t)sizeof ret->call ? CMSG_FIRSTHDR(&message) : NULL;
    if (!head || head->cmsg_type != SCM_RIGHTS || ret->call.short_length > sizeof ret->bytes)
        return false;
    ret->fd_count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(ret->fds, CMSG_DATA(head), ret->fd_count * sizeof(int));
    size_t got = (size_t)length - sizeof ret->call;
    return got <= ret->call.short_length &&
           receive_rest(channel, ret->bytes + got, ret->call.short_length - got);
}

static bool read_task(const struct received *received, struct task *ret)
{
    if (received->call.short_length)
        return task_parse(received->bytes, received->call.short_length, ret);
    return received->fd_count > 0 && task_read(received->fds[received->fd_count - 1], ret);
}

static struct machine *machine_for(const struct task *task)
{
    static struct machine *usual;
    if (task->fuel >= 0)
        return machine_open(true); /* only in a process that ends with the run */
    if (!usual)
        usual = machine_open(false);
    return usual;
}

static void tell_end(int fd, int code)
{
    struct init_message message = {.kind = INIT_ENDED, .wait_status = W_EXITCODE(code, 0)};
    while (send(fd, &message, sizeof message, MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
}

static int obey(int channel, struct received *received)
{
    static struct report report;
    static struct task task;
    int *fds = received->fds;
    report.length = 0;
    size_t streams = received->fd_count - (received->call.short_length == 0);
    bool serves = received->call.kind == ORDER_SERVE;
    if (!read_task(received, &task) || (serves && streams < ORDER_STDIN)) {
        report_add(&report, REPORT_REFUSED, "the order was not understood");
        report_send(&report, channel);
        return EXIT_TRAPPED;
    }
    if (serves) {
        task.stdin_fd = streams > ORDER_STDIN ? fds[ORDER_STDIN] : -1;
        task.stdout_fd = fds[ORDER_STDOUT];
        task.stderr_fd = fds[ORDER_STDERR];
        task.owns_stdin = true;
    } else if (streams > ORDER_GATEWAY) {
        task.fetch_fd = fds[ORDER_GATEWAY];
    }
    struct machine *machine = machine_for(&task);
    int code = EXIT_TRAPPED;
    if (machine)
        code = run_task(machine, &task, &report);
    else
        report_add(&report, REPORT_REFUSED, "Wasmtime cannot be started");
    report_send(&report, channel);
    for (size_t i = ORDER_STDOUT; serves && i < ORDER_END; i++) {
        close(fds[i]); /* its streams end with it */
        fds[i] = -1;
    }
    if (serves)
        tell_end(fds[ORDER_END], code);
    task_release(&task);
    return code;
}

static void *serve(void *data)
{
    static struct received received;
    int channel = *(int *)data;
    while (receive(channel, &received)) {
        int code = obey(channel, &received);
        for (size_t i = 0; i < received.fd_count; i++)
            if (received.fds[i] >= 0)
                close(received.fds[i]);
        if (received.call.kind != ORDER_SERVE)
            _exit(code); /* Wasmtime's threads have nothing to put in order */
    }
    _exit(0);
}

int main(int count, char **words)
{
    signal(SIGPIPE, SIG_IGN);
    if (count == 4 && strcmp(words[1], "compile") == 0) {
        struct machine *machine = machine_open(false);
        return machine ? machine_compile(machine, words[2], words[3]) : 1;
    }
    if (count != 2) {
        fprintf(stderr, "cloche-wasm is started by cloche\n");
        return 2;
    }
    int channel = atoi(words[1]);
    pthread_attr_t attributes; /* modules have the stack of the thread that calls them */
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, THREAD_STACK_BYTES);
    if (pthread_create(&thread, &attributes, serve, &channel) != 0)
        return 1;
    pthread_join(thread, NULL);
    return 0;
}
