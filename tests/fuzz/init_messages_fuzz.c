/* Any bytes from init: while a box is made, and while it runs, when what init says may be the guest's words.
 *
 * No box is made: the control socket is a pair whose other end says what the input says. A message is a byte
 * of flags (its size, how many descriptors come with it), then its bytes. The first part of the input is said
 * to the launcher, the second to the supervisor, whose box has ended already. */
#include "fuzz.h"

#include "base/clock.h"
#include "base/scope.h"
#include "engine/launch.h"
#include "engine/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MESSAGES_MAX = 12 };

/* ---- an engine of nothing ---- */

static void measure(struct box *box, struct measurement *now)
{
    (void)box;
    *now = (struct measurement){.pids = 1};
}

static bool answer(struct box *box, const char **ret_call)
{
    (void)box;
    *ret_call = "mount";
    return true;
}

static void stop(struct box *box)
{
    box->stops++;
}

static const struct engine engine_of_nothing = {
    .isolation = ISOLATION_CONTAINER, .name = "nothing", .measure = measure, .answer = answer, .stop = stop};

/* ---- messages ---- */

/* What was said that counts: messages of the right size. */
struct said {
    bool ended, exited_well;
};

static void send_message(int socket_fd, const void *bytes, size_t length, int descriptors)
{
    union {
        char bytes[CMSG_SPACE(4 * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec vector = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    if (descriptors > 0) {
        const int fds[4] = {0, 1, 2, 0}; /* not an end of the pair, or it would never be seen to end */
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE((size_t)descriptors * sizeof(int));
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN((size_t)descriptors * sizeof(int));
        memcpy(CMSG_DATA(header), fds, (size_t)descriptors * sizeof(int));
    }
    (void)!sendmsg(socket_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void say(struct fuzz_input *input, int socket_fd, struct said *said)
{
    uint8_t flags = fuzz_byte(input);
    struct {
        struct init_message message;
        char more[8];
    } block = {0};
    uint8_t kind = fuzz_byte(input), count = fuzz_byte(input);
    size_t size = sizeof block.message;
    if (flags & 0x80) /* another size: shorter, empty, longer */
        size = flags & 0x40 ? sizeof block.message + flags % 8 : fuzz_byte(input) * 3U % sizeof block.message;
    for (size_t i = 0; i < count && i < sizeof block; i++)
        ((uint8_t *)&block)[i] = fuzz_byte(input);
    if (flags & 0x20) /* text without an end */
        memset(block.message.text, flags, sizeof block.message.text);
    block.message.kind = kind % (INIT_INTERRUPTED + 2); /* and one that is none */
    send_message(socket_fd, &block, size, flags & 3);
    if (said && size >= sizeof block.message && block.message.kind == INIT_ENDED) {
        said->ended = true;
        said->exited_well |=
            WIFEXITED(block.message.wait_status) && WEXITSTATUS(block.message.wait_status) == 0;
    }
}

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 128; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void open_control(struct box *box, int *ret_peer)
{
    int ends[2];
    check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0, "a pair can be made");
    box->control_fd = ends[0];
    *ret_peer = ends[1];
}

static void close_box(struct box *box)
{
    int *fds[] = {&box->pidfd,     &box->control_fd,  &box->stdin_fd,   &box->stdout_fd,
                  &box->stderr_fd, &box->listener_fd, &box->scratch_fd, &box->ruleset_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        scope_close_fd(fds[i]);
}

/* ---- while a box is made ---- */

static int inspect(void *data, struct error *err)
{
    return *(bool *)data ? error_host(err, -EIO, "seen from outside") : 0;
}

static void fuzz_launch(struct fuzz_input *input)
{
    struct box box;
    struct error err = {0};
    scope_fd peer = -1;
    bool fails = fuzz_byte(input) & 1;
    box_init(&box);
    box.engine = &engine_of_nothing;
    open_control(&box, &peer);
    for (int i = fuzz_byte(input) % MESSAGES_MAX; i >= 0 && input->left; i--)
        say(input, peer, NULL);
    scope_close_fd(&peer);
    int status = launch_await_verified(&box, 0, inspect, &fails, &err);
    check(status <= 0, "an answer is yes or an errno");
    check(status == 0 || (err.kind != ERROR_NONE && err.code < 0), "a failure is one");
    check(memchr(err.text, '\0', sizeof err.text) && memchr(err.subject, '\0', sizeof err.subject),
          "that ends");
    check(!(status == 0 && fails), "what was seen from outside counts");
    close_box(&box);
}

/* ---- while it runs ---- */

static int pipe_with(const uint8_t *data, size_t size)
{
    int ends[2];
    check(pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0, "a pipe can be made");
    (void)!write(ends[1], data, size < 256 ? size : 256);
    close(ends[1]);
    return ends[0];
}

static void check_result(const struct result *result, const struct said *said)
{
    check(result->cause < CAUSE_COUNT, "there is one cause");
    check(result->exit_code >= -1 && result->exit_code <= 255, "exit codes are those of a process");
    check(result->signal >= 0 && result->signal < 128, "so are signals");
    check(memchr(result->detail, '\0', sizeof result->detail), "the detail ends");
    check(result->cause != CAUSE_exit || said->ended, "no program exits that was not said to");
    check(result->exit_code != 0 || said->exited_well, "nothing is made a success");
    int exit_status = result_exit_status(result);
    check(exit_status != 0 || said->exited_well, "nor shown as one");
    char *json = result_to_json(result, false);
    check(json != NULL, "there is always a result");
    free(json);
}

static void fuzz_supervise(struct fuzz_input *input)
{
    static struct limits limits;
    char name[] = "test", root[] = "/nonexistent", directory[] = "/data/output";
    struct image image = {.name = name, .root = root};
    struct program program = {.working_directory = directory};
    struct box box;
    struct error err = {0};
    struct said said = {0};
    scope_fd peer = -1;
    for (int i = 0; i < LIMIT_FIELDS; i++)
        limits.value[i] = limit_rows[i].normal;
    check(string_list_add(&program.arguments, "/usr/bin/true") == 0, "there is memory");
    box_init(&box);
    scope_spec *spec = spec_new();
    box.engine = &engine_of_nothing;
    box.spec = spec;
    box.program = &program;
    box.image = &image;
    box.limits = &limits;
    box.pid = getpid(); /* nobody's child: there is nothing to wait for */
    box.pidfd = eventfd(1, EFD_CLOEXEC);
    box.started_us = clock_monotonic_us();
    box.stdout_fd = pipe_with(input->data, input->left);
    box.stderr_fd = pipe_with(input->data, input->left / 2);
    if (fuzz_byte(input) % 4 == 0)
        box.listener_fd = eventfd(1, EFD_CLOEXEC);
    open_control(&box, &peer);
    for (int i = 0; i < MESSAGES_MAX && input->left; i++)
        say(input, peer, &said);
    scope_close_fd(&peer);
    struct supervise_io io = {.forward_fd = {-1, -1}, .cancel_fd = -1};
    struct result *result = result_new();
    int status = supervise_run(&box, &io, result, &err);
    if (status < 0)
        check(err.kind == ERROR_SPEC && err.text[0], "a program that cannot be started is named");
    else
        check_result(result, &said);
    result_free(result);
    close_box(&box);
    string_list_free(&program.arguments);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    int before = open_descriptors();
    fuzz_launch(&input);
    check(open_descriptors() == before, "no descriptor stays after a launch");
    fuzz_supervise(&input);
    check(open_descriptors() == before, "no descriptor stays after a run");
    return 0;
}
