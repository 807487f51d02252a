/* Processes by descriptor, and descriptors by message. */
#include "harness.h"

#include "os/process.h"

#include <poll.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>

struct pair {
    int ends[2];
};

static int pair_setup(void **state)
{
    struct pair *pair = calloc(1, sizeof *pair);
    assert_non_null(pair);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair->ends), 0);
    *state = pair;
    return 0;
}

static int pair_teardown(void **state)
{
    struct pair *pair = *state;
    scope_close_fd(&pair->ends[0]);
    scope_close_fd(&pair->ends[1]);
    free(pair);
    return 0;
}

static void bytes_arrive_without_a_descriptor(void **state)
{
    struct pair *pair = *state;
    char text[16];
    int fd = 99;
    assert_int_equal(process_send(pair->ends[0], "hello", 6, -1), 0);
    assert_int_equal(process_receive(pair->ends[1], text, sizeof text, &fd), 6);
    assert_string_equal(text, "hello");
    assert_int_equal(fd, -1);
}

static void descriptor_arrives_closed_on_exec(void **state)
{
    struct pair *pair = *state;
    char text[16];
    int fd = -1, pipe_ends[2];
    assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
    assert_int_equal(process_send(pair->ends[0], "x", 1, pipe_ends[1]), 0);
    close(pipe_ends[1]);
    assert_int_equal(process_receive(pair->ends[1], text, sizeof text, &fd), 1);
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(write(fd, "through", 7), 7);
    assert_int_equal(read(pipe_ends[0], text, sizeof text), 7);
    close(fd);
    close(pipe_ends[0]);
}

static void end_is_told_from_failure(void **state)
{
    struct pair *pair = *state;
    char text[16];
    int fd = 99;
    scope_close_fd(&pair->ends[0]);
    assert_int_equal(process_receive(pair->ends[1], text, sizeof text, &fd), 0);
    assert_int_equal(fd, -1);
    assert_true(process_receive(-1, text, sizeof text, &fd) == -EBADF);
}

static void sending_to_nobody_is_an_errno_and_no_signal(void **state)
{
    struct pair *pair = *state;
    scope_close_fd(&pair->ends[1]);
    assert_int_equal(process_send(pair->ends[0], "x", 1, -1), -EPIPE);
}

/* Who started it takes that for what it is, and hears its last words. */
static void who_died_before_it_read_is_gone_as_any_other(void **state)
{
    struct pair *pair = *state;
    char text[8] = "";
    int fd;
    assert_int_equal(process_send(pair->ends[0], "unread", 6, -1), 0);
    assert_int_equal(process_send(pair->ends[1], "why", 3, -1), 0);
    scope_close_fd(&pair->ends[1]);
    assert_int_equal(process_send(pair->ends[0], "x", 1, -1), -EPIPE);
    assert_int_equal(process_receive(pair->ends[0], text, sizeof text, &fd), 3);
    assert_string_equal(text, "why");
}

/* Whoever holds the other end may send what he likes. */
static void send_descriptors(int socket_fd, const int *fds, size_t count)
{
    union {
        char bytes[CMSG_SPACE(8 * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    char byte = 'x';
    struct iovec vector = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(header), fds, count * sizeof(int));
    assert_int_equal(sendmsg(socket_fd, &message, 0), 1);
}

static void descriptors_that_nobody_asked_for_do_not_pile_up(void **state)
{
    struct pair *pair = *state;
    char text[16];
    const int fds[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    int before = open_descriptors();
    for (size_t count = 2; count <= 8; count++) {
        int fd = -1;
        send_descriptors(pair->ends[0], fds, count);
        assert_int_equal(process_receive(pair->ends[1], text, sizeof text, &fd), 1);
        scope_close_fd(&fd);
    }
    assert_int_equal(open_descriptors(), before);
}

static void several_descriptors_arrive_in_order(void **state)
{
    struct pair *pair = *state;
    int sent[PROCESS_DESCRIPTORS_MAX], got[PROCESS_DESCRIPTORS_MAX];
    char text[16];
    for (int i = 0; i < PROCESS_DESCRIPTORS_MAX; i++)
        sent[i] = open(i % 2 ? "/dev/zero" : "/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(process_send_many(pair->ends[0], "x", 1, sent, 3), 0);
    assert_int_equal(process_receive_many(pair->ends[1], text, sizeof text, got, PROCESS_DESCRIPTORS_MAX), 1);
    for (int i = 0; i < PROCESS_DESCRIPTORS_MAX; i++) {
        char byte;
        assert_true((got[i] >= 0) == (i < 3));
        if (i < 3)
            assert_int_equal(read(got[i], &byte, 1), i % 2); /* zero gives a byte, null the end */
        scope_close_fd(&got[i]);
    }
    assert_int_equal(process_send_many(pair->ends[0], "x", 1, sent, PROCESS_DESCRIPTORS_MAX + 1), -EINVAL);
    for (int i = 0; i < PROCESS_DESCRIPTORS_MAX; i++)
        close(sent[i]);
}

static void child_placed_elsewhere_may_run_anywhere(void **state)
{
    (void)state;
    int pidfd = -1;
    cpu_set_t ours, theirs;
    pid_t pid = process_clone(0, -1, &pidfd);
    if (pid == 0)
        for (;;)
            pause();
    process_place_elsewhere(pid, NULL);
    assert_int_equal(sched_getaffinity(0, sizeof ours, &ours), 0);
    assert_int_equal(sched_getaffinity(pid, sizeof theirs, &theirs), 0);
    assert_true(CPU_EQUAL(&ours, &theirs));
    assert_int_equal(process_pidfd_kill(pidfd, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(pidfd);
}

static void child_starts_with_all_signals_blocked(void **state)
{
    (void)state;
    int pidfd = -1, status;
    sigset_t before, after, now;
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &before), 0);
    pid_t pid = process_clone(0, -1, &pidfd);
    if (pid == 0) {
        sigprocmask(SIG_BLOCK, NULL, &now);
        _exit(sigismember(&now, SIGINT) == 1 && sigismember(&now, SIGTERM) == 1 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &after), 0);
    assert_int_equal(sigismember(&before, SIGINT), sigismember(&after, SIGINT));
    close(pidfd);
}

static void close_body(void *data)
{
    (void)data;
    int fds[6];
    for (int i = 0; i < 6; i++)
        must((fds[i] = fcntl(0, F_DUPFD_CLOEXEC, 40 + 7 * i)) >= 0);
    const int kept[] = {fds[4], -1, fds[1], fds[1], 1};
    must(process_close_all_but(kept, sizeof kept / sizeof *kept) == 0);
    for (int i = 0; i < 6; i++)
        must((fcntl(fds[i], F_GETFD) >= 0) == (i == 1 || i == 4));
    must(fcntl(0, F_GETFD) >= 0 && fcntl(1, F_GETFD) >= 0 && fcntl(2, F_GETFD) >= 0);
}

static void all_descriptors_but_some_are_closed(void **state)
{
    (void)state;
    in_child(close_body, NULL);
}

static void long_message_does_not_overrun(void **state)
{
    struct pair *pair = *state;
    struct {
        char into[8];
        char behind[8];
    } guarded = {.behind = "behind!"};
    int fd = -1;
    assert_int_equal(process_send(pair->ends[0], "0123456789abcdef", 16, -1), 0);
    assert_true(process_receive(pair->ends[1], guarded.into, sizeof guarded.into, &fd) <= 8);
    assert_string_equal(guarded.behind, "behind!");
}

static void clone_gives_a_pidfd_that_becomes_ready(void **state)
{
    (void)state;
    int pidfd = -1;
    pid_t pid = process_clone(0, -1, &pidfd);
    if (pid == 0) {
        pause();
        _exit(1);
    }
    assert_true(pid > 0 && pidfd >= 0);
    assert_true(fcntl(pidfd, F_GETFD) & FD_CLOEXEC);
    struct pollfd polled = {.fd = pidfd, .events = POLLIN};
    assert_int_equal(poll(&polled, 1, 0), 0);
    assert_int_equal(process_pidfd_kill(pidfd, SIGKILL), 0);
    assert_int_equal(poll(&polled, 1, 5000), 1);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_int_equal(process_pidfd_kill(pidfd, SIGKILL), -ESRCH);
    close(pidfd);
}

static void pidfd_is_of_that_process(void **state)
{
    (void)state;
    scope_fd own = process_pidfd_open(getpid());
    assert_true(own >= 0);
    assert_int_equal(process_pidfd_kill(own, 0), 0);
    pid_t gone = fork();
    if (gone == 0)
        _exit(0);
    assert_int_equal(waitpid(gone, NULL, 0), gone);
    assert_int_equal(process_pidfd_open(gone), -ESRCH);
    assert_true(process_pidfd_open(-1) < 0);
}

static void clone_that_the_kernel_refuses_is_an_errno(void **state)
{
    (void)state;
    int pidfd = -1;
    assert_true(process_clone(CLONE_THREAD, -1, &pidfd) < 0); /* without CLONE_SIGHAND: nonsense */
    assert_int_equal(pidfd, -1);
    scope_fd no_group = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(process_clone(0, no_group, &pidfd) < 0);
}

#define PAIR_TEST(function) cmocka_unit_test_setup_teardown(function, pair_setup, pair_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR_TEST(bytes_arrive_without_a_descriptor),
        PAIR_TEST(descriptor_arrives_closed_on_exec),
        PAIR_TEST(end_is_told_from_failure),
        PAIR_TEST(sending_to_nobody_is_an_errno_and_no_signal),
        PAIR_TEST(who_died_before_it_read_is_gone_as_any_other),
        PAIR_TEST(descriptors_that_nobody_asked_for_do_not_pile_up),
        PAIR_TEST(child_starts_with_all_signals_blocked),
        PAIR_TEST(all_descriptors_but_some_are_closed),
        PAIR_TEST(long_message_does_not_overrun),
        PAIR_TEST(several_descriptors_arrive_in_order),
        PAIR_TEST(child_placed_elsewhere_may_run_anywhere),
        cmocka_unit_test(clone_gives_a_pidfd_that_becomes_ready),
        cmocka_unit_test(pidfd_is_of_that_process),
        cmocka_unit_test(clone_that_the_kernel_refuses_is_an_errno),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
