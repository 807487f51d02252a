/* The gateway's own box: what it can still do, and what ends it. Each in a child, for it is for good. */
#include "harness.h"

#include "gateway/confine.h"
#include "os/landlock.h"
#include "os/privileges.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

static int listener = -1, other = -1;

static int port_of(int fd)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    must(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
    return ntohs(address.sin_port);
}

static void confine(void)
{
    struct error err = {0};
    struct fetch_policy policy;
    struct fetch_rule rule = {.host = "127.0.0.1", .kind = FETCH_IPV4, .port = port_of(listener)};
    fetch_policy_init(&policy);
    must(privileges_give_up(geteuid() == 0, 65534) == 0);
    int status = gateway_confine(&rule, 1, &policy.limits, &err);
    if (status < 0)
        fprintf(stderr, "%s\n", err.text);
    must(status == 0);
}

static int connect_to(int port, int type)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    must(fd >= 0);
    int status = connect(fd, (const struct sockaddr *)&address, sizeof address) < 0 ? -errno : 0;
    close(fd);
    return status;
}

static void do_what_a_gateway_does(void *data)
{
    (void)data;
    confine();
    must(connect_to(port_of(listener), SOCK_STREAM) == 0);
    must(connect_to(53, SOCK_DGRAM) == 0); /* a question */
    int fd = open("/etc/hosts", O_RDONLY | O_CLOEXEC);
    must(fd >= 0 && close(fd) == 0);
    must(malloc(10 << 20) != NULL);
}

static void be_refused(void *data)
{
    (void)data;
    confine();
    must(open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0);
    must(open("/etc/hosts", O_RDWR | O_CLOEXEC) < 0);
    must(open("/proc/self/mem", O_RDWR | O_CLOEXEC) < 0);
    must(open("/tmp/x", O_RDWR | O_CREAT | O_CLOEXEC, 0600) < 0);
    if (landlock_abi() >= 4)
        must(connect_to(port_of(other), SOCK_STREAM) == -EACCES);
    static const int families[] = {AF_UNIX, AF_NETLINK, AF_PACKET, AF_VSOCK, AF_ALG};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        must(socket(families[i], SOCK_STREAM | SOCK_CLOEXEC, 0) < 0 && errno == EPERM);
    must(mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
         MAP_FAILED);
    must(mmap(NULL, (size_t)1 << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
         MAP_FAILED);
    static const int kinds[] = {MAP_SHARED, MAP_PRIVATE | MAP_GROWSDOWN};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        must(mmap(NULL, (size_t)1 << 30, PROT_READ | PROT_WRITE, kinds[i] | MAP_ANONYMOUS, -1, 0) ==
             MAP_FAILED);
    must(mmap(NULL, (size_t)1 << 40, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) ==
         MAP_FAILED); /* pages that are never written to have tables, too */
    must(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) < 0 && errno == EPERM);
    must(syscall(SYS_clone3, NULL, 0) < 0 && errno == EPERM);
    must(kill(getppid(), 0) < 0 && setuid(0) < 0);
    must(unlink("/tmp/x") < 0 && errno == EPERM);
    must(syscall(SYS_io_uring_setup, 1, NULL) < 0 && errno == EPERM);
    must(syscall(SYS_memfd_create, "x", 0) < 0 && errno == EPERM);
}

static const struct sockaddr_in *address_of_other(void)
{
    static struct sockaddr_in address;
    socklen_t length = sizeof address;
    must(getsockname(other, (struct sockaddr *)&address, &length) == 0);
    return &address;
}

/* On a new socket: it connects to a port that has no rule. */
static void connect_by_sending(void *data)
{
    (void)data;
    confine();
    struct iovec bytes = {(void *)(uintptr_t) "x", 1};
    struct mmsghdr message = {.msg_hdr = {.msg_name = (void *)(uintptr_t)address_of_other(),
                                          .msg_namelen = sizeof(struct sockaddr_in),
                                          .msg_iov = &bytes,
                                          .msg_iovlen = 1}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
    must(fd >= 0);
    must(sendto(fd, "x", 1, MSG_FASTOPEN, message.msg_hdr.msg_name, message.msg_hdr.msg_namelen) < 0 &&
         errno == EPERM);
    must(sendmsg(fd, &message.msg_hdr, MSG_FASTOPEN | MSG_NOSIGNAL) < 0 && errno == EPERM);
    must(sendmmsg(fd, &message, 1, MSG_FASTOPEN) < 0 && errno == EPERM);
    must(sendto(fd, "x", 1, MSG_NOSIGNAL, NULL, 0) < 0 && errno != EPERM); /* without it that is allowed */
}

/* To close a socket that lingers takes as long as the other side likes, and who closes it last is who was
 * handed it. */
static void hand_out_what_lingers(void *data)
{
    (void)data;
    confine();
    const struct linger hour = {.l_onoff = 1, .l_linger = 3600};
    const int on = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP), pair[2];
    must(fd >= 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    must(setsockopt(fd, SOL_SOCKET, SO_LINGER, &hour, sizeof hour) < 0 && errno == EPERM);
    must(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0);
    char room[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec bytes = {(void *)(uintptr_t) "x", 1};
    struct msghdr message = {
        .msg_iov = &bytes, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    *CMSG_FIRSTHDR(&message) =
        (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &fd, sizeof fd);
    struct mmsghdr several = {.msg_hdr = message};
    must(sendmsg(pair[0], &message, 0) < 0 && errno == EPERM);
    must(sendmmsg(pair[0], &several, 1, 0) < 0 && errno == EPERM);
}

static void open_sockets_of_all_kinds(void *data)
{
    (void)data;
    enum { MPTCP = 262, SMC = 256, LITE = 136 };
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_RDM, SOCK_SEQPACKET, SOCK_DCCP};
    static const int protocols[] = {
        0, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMP, IPPROTO_ICMPV6, IPPROTO_SCTP, LITE, SMC, MPTCP};
    confine();
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (size_t j = 0; j < sizeof protocols / sizeof *protocols; j++)
            for (int family = AF_INET; family <= AF_INET6; family += AF_INET6 - AF_INET) {
                int type = types[i], protocol = protocols[j];
                bool is_usual = (type == SOCK_STREAM && (protocol == 0 || protocol == IPPROTO_TCP)) ||
                                (type == SOCK_DGRAM && (protocol == 0 || protocol == IPPROTO_UDP));
                int fd = socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
                must(is_usual ? fd >= 0 || errno == EAFNOSUPPORT : fd < 0 && errno == EPERM);
                if (fd >= 0)
                    close(fd);
            }
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

static void be_a_server(void)
{
    listen(other, 1);
}

static void take_an_address(void)
{
    const struct sockaddr_in any = {.sin_family = AF_INET};
    bind(other, (const struct sockaddr *)&any, sizeof any);
}

static void leave_namespace(void)
{
    syscall(SYS_unshare, 0x10000000 /* CLONE_NEWUSER */);
}

static void do_fatal(void *data)
{
    void (*const *attempt)(void) = data;
    confine();
    (*attempt)();
}

static void keep_privileges(void *data)
{
    (void)data;
    struct error err = {0};
    struct fetch_policy policy;
    fetch_policy_init(&policy);
    must(gateway_confine(NULL, 0, &policy.limits, &err) < 0);
    must(strstr(err.text, "privileges") != NULL);
}

/* As a kernel that was built without it. */
static void be_without_landlock(void *data)
{
    (void)data;
    struct error err = {0};
    struct fetch_policy policy;
    fetch_policy_init(&policy);
    must(privileges_give_up(geteuid() == 0, 65534) == 0);
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    must(seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(landlock_create_ruleset), 0) == 0);
    must(seccomp_load(filter) == 0 && landlock_abi() == 0);
    must(gateway_confine(NULL, 0, &policy.limits, &err) < 0);
    must(err.kind == ERROR_LAYER && strcmp(err.subject, "landlock") == 0);
    must(strstr(err.text, "Landlock") != NULL);
}

static void an_ordinary_day_is_possible(void **state)
{
    (void)state;
    in_child(do_what_a_gateway_does, NULL);
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
    in_child(hand_out_what_lingers, NULL);
}

static void sockets_are_of_tcp_and_udp(void **state)
{
    (void)state;
    in_child(open_sockets_of_all_kinds, NULL);
}

static void who_has_privileges_is_no_gateway(void **state)
{
    (void)state;
    in_child(keep_privileges, NULL);
}

static void without_landlock_there_is_no_gateway(void **state)
{
    (void)state;
    in_child(be_without_landlock, NULL);
}

static void what_break_ins_are_made_of_ends_it(void **state)
{
    (void)state;
    static void (*const attempts[])(void) = {execute, trace, be_a_server, take_an_address, leave_namespace};
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++) {
        int status = child_run(do_fatal, (void *)(uintptr_t)&attempts[i]);
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), SIGSYS);
    }
}

int main(void)
{
    const struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int *const both[] = {&listener, &other};
    for (int i = 0; i < 2; i++) {
        *both[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (*both[i] < 0 || bind(*both[i], (const struct sockaddr *)&any, sizeof any) < 0 ||
            listen(*both[i], 4) < 0)
            return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ordinary_day_is_possible),
        cmocka_unit_test(everything_else_is_refused),
        cmocka_unit_test(nobody_is_signalled_but_itself),
        cmocka_unit_test(nothing_connects_by_sending),
        SCRATCH_TEST(daemons_of_the_host_are_not_sent_to),
        cmocka_unit_test(sockets_are_of_tcp_and_udp),
        cmocka_unit_test(who_has_privileges_is_no_gateway),
        cmocka_unit_test(without_landlock_there_is_no_gateway),
        cmocka_unit_test(what_break_ins_are_made_of_ends_it),
    };
#ifdef __SANITIZE_ADDRESS__
    (void)tests; /* a sanitizer's own calls are none of a gateway's: it has no filter then */
    return 0;
#else
    return cmocka_run_group_tests(tests, NULL, NULL);
#endif
}
