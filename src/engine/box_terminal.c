#include "engine/box_terminal.h"

#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { MULTIPLEXER_MAJOR = 5, MULTIPLEXER_MINOR = 2 };

/* Is this the door to terminals, and not to the host's? */
static bool is_boxs_own(int fd)
{
    struct statfs system;
    struct stat door, hosts;
    return fstatfs(fd, &system) == 0 && system.f_type == DEVPTS_SUPER_MAGIC && fstat(fd, &door) == 0 &&
           S_ISCHR(door.st_mode) && door.st_rdev == makedev(MULTIPLEXER_MAJOR, MULTIPLEXER_MINOR) &&
           stat("/dev/pts", &hosts) == 0 && hosts.st_dev != door.st_dev;
}

/* The places were made by us, below a root of the box's; they are looked at all the same before anything is
 * opened. */
static int open_in_box(const struct box *box)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/root", (int)box->pid);
    struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    scope_fd root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    scope_fd place = root < 0 ? -1 : (int)syscall(SYS_openat2, root, "dev/pts/ptmx", &how, sizeof how);
    if (place < 0)
        return -errno;
    struct pollfd init = {.fd = box->pidfd, .events = POLLIN};
    if (poll(&init, 1, 0) != 0) /* it has ended, and its number may be somebody else's */
        return -ESRCH;
    if (!is_boxs_own(place))
        return -ENODEV;
    snprintf(path, sizeof path, "/proc/self/fd/%d", place);
    int fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* By the master, and not by a name. */
static int open_slave(int master)
{
    int unlocked = 0;
    if (ioctl(master, TIOCSPTLCK, &unlocked) < 0)
        return -errno;
    int fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int box_terminal_open(const struct box *box, const struct winsize *window, int *ret_master, int *ret_slave,
                      struct error *err)
{
    bool is_seen = box->engine->isolation == ISOLATION_CONTAINER;
    scope_fd master = is_seen ? open_in_box(box) : -1;
    bool is_own = master >= 0;
    if (!is_own) /* or the box has used up all that it may have */
        master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0)
        return error_host(err, -errno, "cannot open a terminal");
    scope_fd slave = open_slave(master);
    if (slave < 0)
        return error_host(err, slave, "cannot open a terminal");
    if (ioctl(master, TIOCSWINSZ, window) < 0)
        return error_host(err, -errno, "cannot open a terminal");
    if (is_own && box->identity->has_uid) /* so that its programs can open it by its name */
        (void)!fchown(slave, box->identity->uid, box->identity->uid);
    *ret_master = take_fd(&master);
    *ret_slave = take_fd(&slave);
    return 0;
}
