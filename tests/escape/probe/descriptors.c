/* Descriptors: what was open at the first instruction, and what can be got from others. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static int descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_max > 1 << 20)
        return 1 << 20; /* the hard limit: what was open before it was lowered stays open */
    return limit.rlim_max < 4096 ? 4096 : (int)limit.rlim_max;
}

static enum verdict only_standard_descriptors(const void *unused)
{
    (void)unused;
    for (int fd = 3; fd < descriptor_limit(); fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            return broke("descriptor %d is open", fd);
    return held("nothing is open but 0, 1 and 2");
}

/* A pipe is all that the box needs; a file or a directory of the host is a handle on the host, whichever
 * number it has. */
static enum verdict no_descriptor_of_the_host(const void *unused)
{
    (void)unused;
    for (int fd = 0; fd < descriptor_limit(); fd++) {
        struct stat status;
        if (fstat(fd, &status) < 0)
            continue;
        if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) || S_ISBLK(status.st_mode))
            return broke("descriptor %d is a file or directory (inode %lu)", fd,
                         (unsigned long)status.st_ino);
    }
    return held("no descriptor is a file or a directory");
}

static enum verdict no_descriptor_of_a_network(const void *unused)
{
    (void)unused;
    for (int fd = 0; fd < descriptor_limit(); fd++) {
        int domain;
        socklen_t size = sizeof domain;
        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && (fd > 2 || domain != AF_UNIX))
            return broke("descriptor %d is a socket of family %d", fd, domain);
    }
    return held("no descriptor is a socket");
}

static int connect_to_host(void)
{
    const char *name = host_value("ABSTRACT");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = name ? strnlen(name, sizeof address.sun_path - 1) : 0;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    memcpy(address.sun_path + 1, name, length);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
    return connect(fd, (struct sockaddr *)&address, size) < 0 ? -1 : fd;
}

/* A descriptor that is given to a process of the host, or taken from one, carries its rights with it. */
static enum verdict descriptor_cannot_be_passed(const void *unused)
{
    (void)unused;
    if (!host_value("ABSTRACT"))
        return undecided("the runner named no abstract socket");
    int fd = connect_to_host(), own = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return judge_reach("a socket of the host", fd);
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    char byte = 0;
    struct iovec vector = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof own);
    memcpy(CMSG_DATA(header), &own, sizeof own);
    return judge_reach("a descriptor, passed to a process of the host", sendmsg(fd, &message, MSG_NOSIGNAL));
}

/* The owner of a descriptor is sent its signals: SIGIO is a kill() by another name. */
static enum verdict owner_cannot_be_set(const void *raw_call)
{
    struct raw_call call = *(const struct raw_call *)raw_call;
    if (!host_pid())
        return undecided("the runner named no process");
    call.arguments[2] = host_pid();
    return call_is_refused(&call);
}

static const struct probe rows[] = {
    {"only_standard_descriptors_are_open", ON_BOTH, RETURNS, "close_descriptors", only_standard_descriptors,
     NULL, "Nothing but 0, 1 and 2 is open at the first instruction."},
    {"no_descriptor_is_a_file_of_the_host", ON_BOTH, RETURNS, "close_descriptors", no_descriptor_of_the_host,
     NULL, "No open descriptor is a file or directory (runc, CVE-2024-21626)."},
    /* The control needs a launcher that has a socket open on a number above 2. */
    {"no_descriptor_is_a_socket", ON_BOTH, RETURNS, "close_descriptors", no_descriptor_of_a_network, NULL,
     "No open descriptor is a socket of the host."},
    {"descriptor_cannot_be_passed_to_the_host", ON_BOTH, RETURNS, "seccomp,network_namespace,landlock_scope",
     descriptor_cannot_be_passed, NULL, "No descriptor can be handed to a process of the host."},
    {"descriptor_owner_cannot_be_set", ON_BOTH, RETURNS, "seccomp", owner_cannot_be_set,
     CALL("fcntl F_SETOWN of a process of the host", SYS_fcntl, 0, F_SETOWN),
     "Signals of a descriptor cannot be sent to a process of the host."},
};

PROBE_GROUP(descriptors, rows);
