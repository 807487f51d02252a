#include "os/copy_tree.h"

#include "base/scope.h"
#include "os/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 200 };

struct copying {
    uid_t uid;
    gid_t gid;
    int depth;
};

static int copy_range(int from_fd, int to_fd, off_t at, off_t end)
{
    if (lseek(to_fd, at, SEEK_SET) < 0)
        return -errno;
    while (at < end) {
        ssize_t length = sendfile(to_fd, from_fd, &at, (size_t)(end - at));
        if (length < 0 && errno != EINTR)
            return -errno;
        if (length == 0)
            break; /* it was cut meanwhile */
    }
    return 0;
}

/* Holes stay holes: a file can be far larger than the space that it takes. */
static int copy_content(int from_fd, int to_fd, off_t size)
{
    off_t at = 0;
    while (at < size && (at = lseek(from_fd, at, SEEK_DATA)) >= 0) {
        off_t end = lseek(from_fd, at, SEEK_HOLE);
        int status = end < 0 ? -errno : copy_range(from_fd, to_fd, at, end < size ? end : size);
        if (status < 0)
            return status;
        at = end;
    }
    if (at < 0 && errno != ENXIO)
        return -errno;
    return ftruncate(to_fd, size) < 0 ? -errno : 0;
}

/* Owner before mode: a change of owner takes set-id bits away. Times last. */
static int copy_marks(int to_fd, const struct stat *marks, const struct copying *copying)
{
    const struct timespec times[] = {marks->st_atim, marks->st_mtim};
    if (fchown(to_fd, copying->uid, copying->gid) < 0 || fchmod(to_fd, marks->st_mode & 01777) < 0 ||
        futimens(to_fd, times) < 0)
        return -errno;
    return 0;
}

static int copy_file(int from_dir, int to_dir, const char *name, const struct copying *copying)
{
    /* Not blocking: it could be a pipe by now. */
    scope_fd from = openat(from_dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat marks;
    if (from < 0 || fstat(from, &marks) < 0)
        return -errno;
    if (!S_ISREG(marks.st_mode))
        return -ESTALE;
    scope_fd to = openat(to_dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0)
        return -errno;
    int status = copy_content(from, to, marks.st_size);
    return status < 0 ? status : copy_marks(to, &marks, copying);
}

static int copy_link(int from_dir, int to_dir, const char *name, const struct copying *copying)
{
    char target[PATH_MAX];
    ssize_t length = readlinkat(from_dir, name, target, sizeof target - 1);
    if (length < 0)
        return -errno;
    target[length] = '\0';
    if (symlinkat(target, to_dir, name) < 0 ||
        fchownat(to_dir, name, copying->uid, copying->gid, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return 0;
}

static int copy_pipe(int to_dir, const char *name, mode_t mode, const struct copying *copying)
{
    if (mkfifoat(to_dir, name, mode & 0777) < 0 ||
        fchownat(to_dir, name, copying->uid, copying->gid, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    return 0;
}

static int copy_entries(int from_fd, int to_fd, const struct copying *copying);

static int copy_directory(int from_dir, int to_dir, const char *name, const struct copying *copying)
{
    struct copying below = *copying;
    if (++below.depth > DEPTH_MAX)
        return -ELOOP;
    scope_fd from = openat(from_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat marks;
    if (from < 0 || fstat(from, &marks) < 0 || mkdirat(to_dir, name, 0700) < 0)
        return -errno;
    scope_fd to = openat(to_dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (to < 0)
        return -errno;
    int status = copy_entries(from, to, &below);
    return status < 0 ? status : copy_marks(to, &marks, copying);
}

static int copy_entry(int from_fd, int to_fd, const char *name, const struct copying *copying)
{
    struct stat status;
    if (fstatat(from_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    switch (status.st_mode & S_IFMT) {
    case S_IFREG:
        return copy_file(from_fd, to_fd, name, copying);
    case S_IFDIR:
        return copy_directory(from_fd, to_fd, name, copying);
    case S_IFLNK:
        return copy_link(from_fd, to_fd, name, copying);
    case S_IFIFO:
        return copy_pipe(to_fd, name, status.st_mode, copying);
    default:
        return 0;
    }
}

static int copy_entries(int from_fd, int to_fd, const struct copying *copying)
{
    struct directory_reader reader;
    directory_reader_start(&reader, from_fd);
    const char *name;
    int more;
    while ((more = directory_reader_next(&reader, &name)) > 0) {
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        int status = copy_entry(from_fd, to_fd, name, copying);
        if (status < 0)
            return status;
    }
    return more;
}

int copy_tree(int from_fd, int to_fd, uid_t uid, gid_t gid)
{
    const struct copying copying = {.uid = uid, .gid = gid};
    return copy_entries(from_fd, to_fd, &copying);
}
