/* The server's own box: what it can still do, and what ends it. Each in a child, for it is for good. */
#include "harness.h"

#include "server/confine.h"

#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

static int data_fd = -1, shown_fd = -1;

static void confine(void)
{
    struct error err = {0};
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    int status = confine_self(data_fd, shown_fd, &err);
    if (status < 0)
        fprintf(stderr, "%s\n", err.text);
    must(status == 0);
}

static void *add_one(void *data)
{
    ++*(int *)data;
    return NULL;
}

static void do_what_a_server_does(void *data)
{
    (void)data;
    int pair[2], value = 1;
    pthread_t thread;
    confine();
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    must(write(pair[0], "x", 1) == 1 && read(pair[1], &value, 1) == 1);
    must(pthread_create(&thread, NULL, add_one, &value) == 0 && pthread_join(thread, NULL) == 0);
    int fd = openat(data_fd, "file", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    must(fd >= 0 && write(fd, "x", 1) == 1);
    must(mkdirat(data_fd, "folder", 0700) == 0 && renameat(data_fd, "file", data_fd, "folder/file") == 0);
    must(unlinkat(data_fd, "folder/file", 0) == 0 && unlinkat(data_fd, "folder", AT_REMOVEDIR) == 0);
    must(memfd_create("memory", MFD_CLOEXEC) >= 0);
    must(openat(shown_fd, "shown", O_RDONLY | O_CLOEXEC) >= 0);
}

static void be_refused(void *data)
{
    (void)data;
    confine();
    must(open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES);
    must(open("/proc/self/mem", O_RDWR | O_CLOEXEC) < 0 && errno == EACCES);
    must(openat(shown_fd, "shown", O_RDWR | O_CLOEXEC) < 0 && errno == EACCES);
    must(openat(shown_fd, "new", O_RDWR | O_CREAT | O_CLOEXEC, 0600) < 0 && errno == EACCES);
    must(openat(data_fd, "../../etc/passwd", O_RDONLY | O_CLOEXEC) < 0);
    static const int families[] = {AF_INET, AF_INET6, AF_UNIX, AF_NETLINK, AF_PACKET, AF_VSOCK};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        must(socket(families[i], SOCK_STREAM | SOCK_CLOEXEC, 0) < 0 && errno == EPERM);
    must(mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
         MAP_FAILED);
    must(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) < 0 && errno == EPERM);
    must(syscall(SYS_clone3, NULL, 0) < 0 && errno == ENOSYS);
    must(kill(getppid(), 0) < 0);
    must(setuid(0) < 0);
    must(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0);
    must(chmod("/tmp", 01777) < 0);
    must(syscall(SYS_io_uring_setup, 1, NULL) < 0 && errno == EPERM);
}

/* The one socket with a protocol that a server has listens. Shut down, it is like a new one. */
static void connect_by_sending(void *data)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, there;
    socklen_t length = sizeof there;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
        goal = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)data;
    must(bind(listener, (struct sockaddr *)&address, sizeof address) == 0 && listen(listener, 4) == 0);
    must(bind(goal, (struct sockaddr *)&address, sizeof address) == 0 && listen(goal, 4) == 0);
    must(getsockname(goal, (struct sockaddr *)&there, &length) == 0);
    confine();
    struct iovec bytes = {(void *)(uintptr_t) "x", 1};
    const struct msghdr message = {
        .msg_name = &there, .msg_namelen = sizeof there, .msg_iov = &bytes, .msg_iovlen = 1};
    must(shutdown(listener, SHUT_RDWR) == 0);
    must(sendto(listener, "x", 1, MSG_FASTOPEN, (struct sockaddr *)&there, sizeof there) < 0 &&
         errno == EPERM);
    must(sendmsg(listener, &message, MSG_FASTOPEN | MSG_NOSIGNAL) < 0 && errno == EPERM);
    must(sendmsg(listener, &message, MSG_NOSIGNAL) < 0 && errno != EPERM); /* without it they are allowed */
}

/* A daemon of the host's, whose socket is for all: what would be sent to it must not come from here. */
static void send_to_a_daemon(void *data)
{
    const struct scratch *scratch = data;
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    snprintf(name.sun_path, sizeof name.sun_path, "%s/daemon", scratch->path);
    int daemon = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), pair[2];
    must(daemon >= 0 && bind(daemon, (struct sockaddr *)&name, sizeof name) == 0);
    must(chmod(name.sun_path, 0666) == 0);
    confine();
    if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) == 0)
        must(sendto(pair[0], "forged", 6, 0, (struct sockaddr *)&name, sizeof name) < 0);
    must(errno == EPERM);
    must(socketpair(AF_UNIX, SOCK_RAW | SOCK_CLOEXEC, 0, pair) < 0 && errno == EPERM); /* the same */
    must(socketpair(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 && errno == EPERM);
    static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET};
    for (int i = 0; i < 2; i++) {
        must(socketpair(AF_UNIX, types[i] | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
        sendto(pair[0], "forged", 6, MSG_NOSIGNAL, (struct sockaddr *)&name, sizeof name);
    }
    must(recv(daemon, pair, sizeof pair, MSG_DONTWAIT) < 0 && errno == EAGAIN);
}

/* To a process of the same user, which need not be there: that is looked at after the filter. */
static void signal_others(void *data)
{
    (void)data;
    enum { NOBODY = 0x3fffffff };
    const struct f_owner_ex owner = {F_OWNER_PID, getppid()};
    int pair[2];
    confine();
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    must(fcntl(pair[0], F_SETOWN, getppid()) < 0 && errno == EPERM);
    must(fcntl(pair[0], F_SETOWN_EX, &owner) < 0 && errno == EPERM);
    must(fcntl(pair[0], F_SETSIG, SIGKILL) < 0 && errno == EPERM);
    must(fcntl(pair[0], F_SETLEASE, F_RDLCK) < 0 && errno == EPERM);
    must(fcntl(pair[0], F_NOTIFY, 0) < 0 && errno == EPERM);
    must(syscall(SYS_tgkill, NOBODY, NOBODY, SIGABRT) < 0 && errno == EPERM);
    must(fcntl(pair[0], F_SETFL, fcntl(pair[0], F_GETFL) | O_NONBLOCK) == 0);
    must(fcntl(pair[0], F_SETFD, fcntl(pair[0], F_GETFD) | FD_CLOEXEC) == 0);
    must(fcntl(pair[0], F_DUPFD_CLOEXEC, 0) >= 0 && fcntl(pair[0], F_DUPFD, 0) >= 0);
}

static void give_up(void *data)
{
    (void)data;
    const struct rlimit none = {0, 0};
    must(setrlimit(RLIMIT_CORE, &none) == 0);
    confine();
    abort();
}

static void execute(void)
{
    execl("/bin/true", "true", NULL);
}

static void trace(void)
{
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static void connect_out(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "/run/x"};
    connect(data_fd, (struct sockaddr *)&address, sizeof address);
}

static void leave_namespace(void)
{
    syscall(SYS_unshare, 0x10000000 /* CLONE_NEWUSER */);
}

static void mount_something(void)
{
    syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, NULL);
}

static void do_fatal(void *data)
{
    void (*const *attempt)(void) = data;
    confine();
    (*attempt)();
}

static void an_ordinary_day_is_possible(void **state)
{
    (void)state;
    in_child(do_what_a_server_does, NULL);
}

static void everything_else_is_refused(void **state)
{
    (void)state;
    in_child(be_refused, NULL);
}

static void daemons_of_the_host_are_not_sent_to(void **state)
{
    in_child(send_to_a_daemon, *state);
}

static void nobody_is_signalled_but_itself(void **state)
{
    (void)state;
    in_child(signal_others, NULL);
    int status = child_run(give_up, NULL);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void nothing_connects_by_sending(void **state)
{
    (void)state;
    in_child(connect_by_sending, NULL);
}

static void what_break_ins_are_made_of_ends_it(void **state)
{
    (void)state;
    static void (*const attempts[])(void) = {execute, trace, connect_out, leave_namespace, mount_something};
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++) {
        int status = child_run(do_fatal, (void *)(uintptr_t)&attempts[i]);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGSYS);
    }
}

static char place[] = "/tmp/cloche-confine-XXXXXX", shown[] = "/tmp/cloche-shown-XXXXXX";

static int make_data(void **state)
{
    (void)state;
    if (!mkdtemp(place) || !mkdtemp(shown))
        return -1;
    data_fd = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    shown_fd = open(shown, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (data_fd < 0 || shown_fd < 0)
        return -1;
    int fd = openat(shown_fd, "shown", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    return fd < 0 ? -1 : close(fd);
}

static int remove_data(void **state)
{
    (void)state;
    unlinkat(shown_fd, "shown", 0);
    close(data_fd);
    close(shown_fd);
    return rmdir(place) | rmdir(shown);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ordinary_day_is_possible),
        cmocka_unit_test(everything_else_is_refused),
        cmocka_unit_test(nobody_is_signalled_but_itself),
        cmocka_unit_test(nothing_connects_by_sending),
        SCRATCH_TEST(daemons_of_the_host_are_not_sent_to),
        cmocka_unit_test(what_break_ins_are_made_of_ends_it),
    };
#ifdef __SANITIZE_ADDRESS__
    (void)tests; /* a sanitizer's own calls are none of a server's: it is not confined then */
    (void)make_data;
    (void)remove_data;
    return 0;
#else
    return cmocka_run_group_tests(tests, make_data, remove_data);
#endif
}
