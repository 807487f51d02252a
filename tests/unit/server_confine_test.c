/* The server's own box: what it can still do, and what ends it. Each in a child, for it is for good. */
#include "harness.h"

#include "server/confine.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
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
