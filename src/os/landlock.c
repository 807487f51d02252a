#include "os/landlock.h"

#include "base/scope.h"
#include "os/hardening.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FS_EXECUTE                 (UINT64_C(1) << 0)
#define FS_WRITE_FILE              (UINT64_C(1) << 1)
#define FS_READ_FILE               (UINT64_C(1) << 2)
#define FS_READ_DIR                (UINT64_C(1) << 3)
#define FS_REMOVE_DIR              (UINT64_C(1) << 4)
#define FS_REMOVE_FILE             (UINT64_C(1) << 5)
#define FS_MAKE_CHAR               (UINT64_C(1) << 6)
#define FS_MAKE_DIR                (UINT64_C(1) << 7)
#define FS_MAKE_REG                (UINT64_C(1) << 8)
#define FS_MAKE_SOCK               (UINT64_C(1) << 9)
#define FS_MAKE_FIFO               (UINT64_C(1) << 10)
#define FS_MAKE_BLOCK              (UINT64_C(1) << 11)
#define FS_MAKE_SYM                (UINT64_C(1) << 12)
#define FS_REFER                   (UINT64_C(1) << 13) /* ABI 2 */
#define FS_TRUNCATE                (UINT64_C(1) << 14) /* ABI 3 */
#define FS_IOCTL_DEV               (UINT64_C(1) << 15) /* ABI 5 */
#define NET_BIND_TCP               (UINT64_C(1) << 0)  /* ABI 4 */
#define NET_CONNECT_TCP            (UINT64_C(1) << 1)
#define SCOPE_ABSTRACT_UNIX_SOCKET (UINT64_C(1) << 0) /* ABI 6 */
#define SCOPE_SIGNAL               (UINT64_C(1) << 1)

enum { RULE_PATH_BENEATH = 1, RULE_NET_PORT = 2, CREATE_RULESET_VERSION = 1 };

struct ruleset_attributes {
    uint64_t handled_access_fs;
    uint64_t handled_access_net;
    uint64_t scoped;
};

struct path_beneath_attributes {
    uint64_t allowed_access;
    int32_t parent_fd;
} __attribute__((packed));

struct net_port_attributes {
    uint64_t allowed_access;
    uint64_t port;
};

int landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_RULESET_VERSION);
    if (abi < 0)
        return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : -errno;
    return (int)abi;
}

static uint64_t landlock_known_rights(int abi)
{
    uint64_t rights = (UINT64_C(1) << 13) - 1;
    if (abi >= 2)
        rights |= FS_REFER;
    if (abi >= 3)
        rights |= FS_TRUNCATE;
    if (abi >= 5)
        rights |= FS_IOCTL_DEV;
    return rights;
}

/* A ruleset that does not speak of files denies one thing all the same, next to one that does: what is moved
 * to another directory fails with EXDEV. So it allows that by name, wherever the other one does. */
static bool speaks_of_moves(int abi)
{
    return abi >= 2 && !hardening_removed(landlock); /* without the other one there is nothing to mend */
}

static int allow_moves(int ruleset_fd)
{
    scope_fd root = open("/", O_PATH | O_CLOEXEC);
    struct path_beneath_attributes attributes = {.allowed_access = FS_REFER, .parent_fd = root};
    if (root < 0 || syscall(SYS_landlock_add_rule, ruleset_fd, RULE_PATH_BENEATH, &attributes, 0) < 0)
        return -errno;
    return 0;
}

int landlock_ruleset_new(int abi, bool files, unsigned scopes)
{
    struct ruleset_attributes attributes = {0};
    if (files)
        attributes.handled_access_fs = landlock_known_rights(abi);
    else if (speaks_of_moves(abi))
        attributes.handled_access_fs = FS_REFER;
    if (files && abi >= 4)
        attributes.handled_access_net = NET_BIND_TCP | NET_CONNECT_TCP;
    if (abi >= 6) {
        if (scopes & LANDLOCK_SCOPE_SIGNALS)
            attributes.scoped |= SCOPE_SIGNAL;
        if (scopes & LANDLOCK_SCOPE_ABSTRACT_SOCKETS)
            attributes.scoped |= SCOPE_ABSTRACT_UNIX_SOCKET;
    }
    /* Older kernels refuse a larger struct only when the bytes they do not know are set; they are zero then.
     */
    scope_fd fd = (int)syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0);
    if (fd < 0)
        return -errno;
    int status = !files && speaks_of_moves(abi) ? allow_moves(fd) : 0;
    return status < 0 ? status : take_fd(&fd);
}

static uint64_t landlock_grant_rights(enum landlock_grant grant)
{
    switch (grant) {
    case LANDLOCK_READ:
        return FS_READ_FILE | FS_READ_DIR;
    case LANDLOCK_READ_EXEC:
        return FS_READ_FILE | FS_READ_DIR | FS_EXECUTE;
    case LANDLOCK_READ_WRITE:
        return FS_READ_FILE | FS_READ_DIR | FS_EXECUTE | FS_WRITE_FILE | FS_REMOVE_DIR | FS_REMOVE_FILE |
               FS_MAKE_DIR | FS_MAKE_REG | FS_MAKE_SOCK | FS_MAKE_FIFO | FS_MAKE_SYM | FS_REFER | FS_TRUNCATE;
    case LANDLOCK_DEVICE:
        return FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV;
    }
    return 0;
}

int landlock_ruleset_grant(int ruleset_fd, int abi, const char *path, enum landlock_grant grant)
{
    /* musl's open() asks for close-on-exec a second time; and there are forty of these before a box begins.
     */
    scope_fd fd = openat(AT_FDCWD, path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    struct path_beneath_attributes attributes = {
        .allowed_access = landlock_grant_rights(grant) & landlock_known_rights(abi),
        .parent_fd = fd,
    };
    long status = syscall(SYS_landlock_add_rule, ruleset_fd, RULE_PATH_BENEATH, &attributes, 0);
    if (status < 0 && errno == EINVAL) { /* rights on directories are refused for files */
        attributes.allowed_access &= FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV;
        status = syscall(SYS_landlock_add_rule, ruleset_fd, RULE_PATH_BENEATH, &attributes, 0);
    }
    return status < 0 ? -errno : 0;
}

int landlock_ruleset_grant_port(int ruleset_fd, int abi, int port)
{
    const struct net_port_attributes attributes = {.allowed_access = NET_CONNECT_TCP, .port = (uint64_t)port};
    if (abi < 4)
        return 0;
    return syscall(SYS_landlock_add_rule, ruleset_fd, RULE_NET_PORT, &attributes, 0) < 0 ? -errno : 0;
}

int landlock_ruleset_of_box(int abi)
{
    unsigned scopes = hardening_removed(landlock_scope)
                          ? LANDLOCK_SCOPE_NONE
                          : LANDLOCK_SCOPE_SIGNALS | LANDLOCK_SCOPE_ABSTRACT_SOCKETS;
    return landlock_ruleset_new(abi, !hardening_removed(landlock), scopes);
}

int landlock_ruleset_grant_all(int ruleset_fd, int abi, const struct landlock_paths *groups,
                               size_t group_count, const char **ret_path)
{
    *ret_path = NULL;
    for (size_t group = 0; group < group_count && !hardening_removed(landlock); group++) {
        for (size_t i = 0; i < groups[group].count; i++) {
            int status = landlock_ruleset_grant(ruleset_fd, abi, groups[group].paths[i], groups[group].grant);
            if (status < 0 && status != -ENOENT && status != -EACCES) {
                *ret_path = groups[group].paths[i];
                return status;
            }
        }
    }
    return 0;
}

int landlock_ruleset_build(int abi, const struct landlock_paths *groups, size_t group_count,
                           const char **ret_path)
{
    *ret_path = NULL;
    scope_fd ruleset = landlock_ruleset_of_box(abi);
    int status =
        ruleset < 0 ? ruleset : landlock_ruleset_grant_all(ruleset, abi, groups, group_count, ret_path);
    return status < 0 ? status : take_fd(&ruleset);
}

int landlock_ruleset_enforce(int ruleset_fd)
{
    return syscall(SYS_landlock_restrict_self, ruleset_fd, 0) < 0 ? -errno : 0;
}
