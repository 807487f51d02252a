#include "image/in_root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

static int in_root_open_resolved(int root_fd, const char *path, int flags, unsigned long long resolve)
{
    struct open_how how = {
        .flags = (unsigned long long)(unsigned)flags | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | resolve,
    };
    /* The kernel gives EAGAIN when something on the system was renamed while it looked at a `..` of a link,
     * because it then cannot prove that the walk stayed inside. */
    for (int attempt = 0;; attempt++) {
        long fd = syscall(SYS_openat2, root_fd, path, &how, sizeof how);
        if (fd >= 0)
            return (int)fd;
        if ((errno != EAGAIN && errno != EINTR) || attempt >= 1000)
            return -errno;
    }
}

int in_root_open(int root_fd, const char *path, int flags)
{
    return in_root_open_resolved(root_fd, path, flags, RESOLVE_NO_XDEV);
}

int in_root_open_across_mounts(int root_fd, const char *path, int flags)
{
    return in_root_open_resolved(root_fd, path, flags, 0);
}
