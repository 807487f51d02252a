/* Landlock, each time in a child that gives itself up to it. */
#include "harness.h"

#include "os/landlock.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

struct rules {
    const struct scratch *scratch;
    enum landlock_grant grant;
    int listener; /* of an abstract socket outside */
    struct sockaddr_un address;
    socklen_t address_length;
};

static int abi_or_skip(int least)
{
    int abi = landlock_abi();
    if (abi < least)
        skip_because("the kernel's Landlock is too old for this");
    return abi;
}

static int new_ruleset(void)
{
    int abi = landlock_abi(), fd = landlock_ruleset_new(abi, true, LANDLOCK_SCOPE_NONE);
    must(fd >= 0);
    must(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    return fd;
}

static void grant(int ruleset, const char *path, enum landlock_grant kind)
{
    must(landlock_ruleset_grant(ruleset, landlock_abi(), path, kind) == 0);
}

static void enforce(int ruleset)
{
    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    must(landlock_ruleset_enforce(ruleset) == 0);
    close(ruleset);
}

static bool can_open(const struct scratch *scratch, const char *name, int flags)
{
    errno = 0;
    int fd = open(scratch_path(scratch, name), flags | O_CLOEXEC, 0644);
    if (fd >= 0)
        close(fd);
    else
        must(errno == EACCES);
    return fd >= 0;
}

static void make_files(const struct scratch *scratch)
{
    assert_int_equal(mkdirat(scratch->fd, "inside", 0777), 0);
    assert_int_equal(mkdirat(scratch->fd, "outside", 0777), 0);
    write_text(scratch->fd, "inside/file", "inside");
    write_text(scratch->fd, "outside/file", "outside");
}

static void nothing_granted_body(void *data)
{
    const struct rules *rules = data;
    enforce(new_ruleset());
    must(!can_open(rules->scratch, "inside/file", O_RDONLY));
    must(!can_open(rules->scratch, "inside", O_RDONLY | O_DIRECTORY));
    must(!can_open(rules->scratch, "inside/new", O_WRONLY | O_CREAT));
    must(mkdirat(rules->scratch->fd, "inside/new", 0755) < 0 &&
         errno == EACCES); /* by an open directory too */
    must(unlinkat(rules->scratch->fd, "inside/file", 0) < 0 && errno == EACCES);
    execl("/bin/true", "true", (char *)NULL);
    must(errno == EACCES);
}

static void what_is_not_granted_is_closed(void **state)
{
    struct rules rules = {.scratch = *state};
    abi_or_skip(1);
    make_files(rules.scratch);
    in_child(nothing_granted_body, &rules);
}

static void read_body(void *data)
{
    const struct rules *rules = data;
    int ruleset = new_ruleset();
    grant(ruleset, scratch_path(rules->scratch, "inside"), rules->grant);
    enforce(ruleset);
    must(can_open(rules->scratch, "inside/file", O_RDONLY));
    must(can_open(rules->scratch, "inside", O_RDONLY | O_DIRECTORY));
    must(!can_open(rules->scratch, "inside/file", O_WRONLY));
    must(!can_open(rules->scratch, "inside/file", O_RDWR));
    must(!can_open(rules->scratch, "inside/new", O_WRONLY | O_CREAT));
    must(!can_open(rules->scratch, "outside/file", O_RDONLY));
    must(!can_open(rules->scratch, "inside/../outside/file", O_RDONLY));
    must(!can_open(rules->scratch, "inside/link", O_RDONLY));
    must(unlinkat(rules->scratch->fd, "inside/file", 0) < 0);
    if (landlock_abi() >= 3)
        must(truncate(scratch_path(rules->scratch, "inside/file"), 0) < 0 && errno == EACCES);
}

static void read_grant_reads_and_no_more(void **state)
{
    struct rules rules = {.scratch = *state, .grant = LANDLOCK_READ};
    abi_or_skip(1);
    make_files(rules.scratch);
    assert_int_equal(symlinkat("../outside/file", rules.scratch->fd, "inside/link"), 0);
    in_child(read_body, &rules);
    rules.grant = LANDLOCK_READ_EXEC;
    in_child(read_body, &rules);
    assert_file_holds(rules.scratch->fd, "inside/file", "inside");
}

static void exec_body(void *data)
{
    const struct rules *rules = data;
    int ruleset = new_ruleset();
    grant(ruleset, "/usr", rules->grant);
    grant(ruleset, "/lib", rules->grant);
    if (access("/lib64", F_OK) == 0)
        grant(ruleset, "/lib64", rules->grant);
    grant(ruleset, "/etc/ld.so.cache", LANDLOCK_READ);
    enforce(ruleset);
    execl("/usr/bin/true", "true", (char *)NULL);
    _exit(errno == EACCES ? 13 : 1);
}

static void only_an_exec_grant_runs_programs(void **state)
{
    struct rules rules = {.scratch = *state, .grant = LANDLOCK_READ_EXEC};
    abi_or_skip(1);
    in_child(exec_body, &rules);
    rules.grant = LANDLOCK_READ;
    int status = child_run(exec_body, &rules);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 13);
}

static void write_body(void *data)
{
    const struct rules *rules = data;
    int ruleset = new_ruleset(), dir_fd = rules->scratch->fd;
    grant(ruleset, scratch_path(rules->scratch, "inside"), LANDLOCK_READ_WRITE);
    enforce(ruleset);
    must(can_open(rules->scratch, "inside/new", O_RDWR | O_CREAT));
    must(mkdirat(dir_fd, "inside/a", 0755) == 0 && mkdirat(dir_fd, "inside/b", 0755) == 0);
    must(renameat(dir_fd, "inside/new", dir_fd, "inside/a/new") == 0 || landlock_abi() < 2);
    must(linkat(dir_fd, "inside/file", dir_fd, "inside/hard", 0) == 0);
    must(symlinkat("x", dir_fd, "inside/soft") == 0 && mkfifoat(dir_fd, "inside/fifo", 0600) == 0);
    must(truncate(scratch_path(rules->scratch, "inside/file"), 1) == 0);
    must(unlinkat(dir_fd, "inside/b", AT_REMOVEDIR) == 0 && unlinkat(dir_fd, "inside/soft", 0) == 0);
    must(mknodat(dir_fd, "inside/device", S_IFCHR | 0600, makedev(1, 3)) < 0);
    must(mknodat(dir_fd, "inside/block", S_IFBLK | 0600, makedev(7, 0)) < 0);
    must(renameat(dir_fd, "inside/file", dir_fd, "outside/gone") < 0);
    must(linkat(dir_fd, "outside/file", dir_fd, "inside/stolen", 0) < 0);
    must(!can_open(rules->scratch, "outside/new", O_WRONLY | O_CREAT));
}

static void write_grant_makes_everything_but_devices(void **state)
{
    struct rules rules = {.scratch = *state};
    abi_or_skip(1);
    make_files(rules.scratch);
    in_child(write_body, &rules);
}

static void one_file_body(void *data)
{
    const struct rules *rules = data;
    int ruleset = new_ruleset();
    grant(ruleset, scratch_path(rules->scratch, "inside/file"), LANDLOCK_READ_WRITE);
    grant(ruleset, "/dev/null", LANDLOCK_DEVICE);
    must(landlock_ruleset_grant(ruleset, landlock_abi(), scratch_path(rules->scratch, "absent"),
                                LANDLOCK_READ) == -ENOENT);
    enforce(ruleset);
    must(can_open(rules->scratch, "inside/file", O_RDWR));
    must(can_open(rules->scratch, "../../dev/null", O_RDWR));
    must(!can_open(rules->scratch, "../../dev/zero", O_RDONLY));
    must(!can_open(rules->scratch, "inside", O_RDONLY | O_DIRECTORY));
    must(!can_open(rules->scratch, "inside/new", O_WRONLY | O_CREAT));
}

static void one_file_can_be_granted(void **state)
{
    struct rules rules = {.scratch = *state};
    abi_or_skip(1);
    make_files(rules.scratch);
    in_child(one_file_body, &rules);
}

static void old_kernel_body(void *data)
{
    const struct rules *rules = data;
    for (int abi = landlock_abi(); abi >= 1; abi--) {
        int ruleset =
            landlock_ruleset_new(abi, true, LANDLOCK_SCOPE_SIGNALS | LANDLOCK_SCOPE_ABSTRACT_SOCKETS);
        must(ruleset >= 0);
        for (int kind = LANDLOCK_READ; kind <= LANDLOCK_DEVICE; kind++) {
            must(landlock_ruleset_grant(ruleset, abi, scratch_path(rules->scratch, "inside"),
                                        (enum landlock_grant)kind) == 0);
            must(landlock_ruleset_grant(ruleset, abi, scratch_path(rules->scratch, "inside/file"),
                                        (enum landlock_grant)kind) == 0);
        }
        enforce(ruleset);
        must(can_open(rules->scratch, "inside/file", O_RDWR));
        must(!can_open(rules->scratch, "outside/file", O_RDONLY));
    }
}

static void every_version_of_the_interface_can_be_spoken(void **state)
{
    struct rules rules = {.scratch = *state};
    abi_or_skip(1);
    make_files(rules.scratch);
    in_child(old_kernel_body, &rules);
}

static void tcp_body(void *data)
{
    (void)data;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    enforce(new_ruleset());
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(fd >= 0);
    must(bind(fd, (struct sockaddr *)&address, sizeof address) < 0 && errno == EACCES);
    address.sin_port = htons(1);
    must(connect(fd, (struct sockaddr *)&address, sizeof address) < 0 && errno == EACCES);
}

static void tcp_is_closed(void **state)
{
    (void)state;
    abi_or_skip(4);
    in_child(tcp_body, NULL);
}

static void scope_body(void *data)
{
    const struct rules *rules = data;
    pid_t outside = getppid();
    int ruleset =
        landlock_ruleset_new(landlock_abi(), false, LANDLOCK_SCOPE_SIGNALS | LANDLOCK_SCOPE_ABSTRACT_SOCKETS);
    must(ruleset >= 0);
    must(kill(outside, 0) == 0);
    enforce(ruleset);
    must(kill(outside, 0) < 0 && errno == EPERM);
    must(kill(getpid(), 0) == 0);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(connect(fd, (const struct sockaddr *)&rules->address, rules->address_length) < 0 && errno == EPERM);
    must(can_open(rules->scratch, "inside/new", O_WRONLY | O_CREAT)); /* files are not its business */
}

static void scope_keeps_signals_and_abstract_sockets_inside(void **state)
{
    struct rules rules = {.scratch = *state, .address = {.sun_family = AF_UNIX}};
    abi_or_skip(6);
    make_files(rules.scratch);
    scope_fd listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    /* An address of two bytes is the kernel's to choose: abstract, and nobody else's. */
    assert_int_equal(bind(listener, (struct sockaddr *)&rules.address, sizeof(sa_family_t)), 0);
    rules.address_length = sizeof rules.address;
    assert_int_equal(getsockname(listener, (struct sockaddr *)&rules.address, &rules.address_length), 0);
    assert_int_equal(listen(listener, 1), 0);
    in_child(scope_body, &rules);
}

static void without_no_new_privs_body(void *data)
{
    (void)data;
    become_some_user();
    int ruleset = new_ruleset();
    must(landlock_ruleset_enforce(ruleset) == -EPERM);
}

static void failure_to_enforce_is_told(void **state)
{
    (void)state;
    abi_or_skip(1);
    in_child(without_no_new_privs_body, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(what_is_not_granted_is_closed),
        SCRATCH_TEST(read_grant_reads_and_no_more),
        SCRATCH_TEST(only_an_exec_grant_runs_programs),
        SCRATCH_TEST(write_grant_makes_everything_but_devices),
        SCRATCH_TEST(one_file_can_be_granted),
        SCRATCH_TEST(every_version_of_the_interface_can_be_spoken),
        SCRATCH_TEST(tcp_is_closed),
        SCRATCH_TEST(scope_keeps_signals_and_abstract_sockets_inside),
        SCRATCH_TEST(failure_to_enforce_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
