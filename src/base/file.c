#include "base/file.h"
#include "base/scope.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

int file_write_all(int fd, const void *data, size_t length)
{
    const char *at = data;
    while (length) {
        ssize_t written = write(fd, at, length);
        if (written < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        at += written;
        length -= (size_t)written;
    }
    return 0;
}

int file_write_attribute(int dir_fd, const char *path, const char *text)
{
    scope_fd fd = openat(dir_fd, path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return -errno;
    size_t length = strlen(text);
    ssize_t written = write(fd, text, length);
    if (written < 0)
        return -errno;
    return (size_t)written == length ? 0 : -EIO;
}

int file_read_attribute(int dir_fd, const char *path, char *into, size_t size)
{
    scope_fd fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t length = read(fd, into, size - 1);
    if (length < 0)
        return -errno;
    into[length] = '\0';
    return (int)length;
}

int file_read_whole(int dir_fd, const char *path, size_t limit_bytes, struct buffer *ret)
{
    scope_fd fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    char chunk[16384];
    for (;;) {
        ssize_t length = read(fd, chunk, sizeof chunk);
        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0)
            return -errno;
        if (length == 0)
            return ret->data ? 0 : buffer_append(ret, "", 0);
        if (ret->length + (size_t)length > limit_bytes)
            return -EFBIG;
        int status = buffer_append(ret, chunk, (size_t)length);
        if (status < 0)
            return status;
    }
}

int file_make_directories(const char *path, unsigned mode)
{
    char partial[PATH_MAX];
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof partial)
        return -ENAMETOOLONG;
    memcpy(partial, path, length + 1);
    for (size_t i = 1; i <= length; i++) {
        if (partial[i] != '/' && partial[i] != '\0')
            continue;
        char kept = partial[i];
        partial[i] = '\0';
        if (mkdir(partial, mode) < 0 && errno != EEXIST)
            return -errno;
        partial[i] = kept;
    }
    struct stat status;
    if (stat(path, &status) < 0)
        return -errno;
    return S_ISDIR(status.st_mode) ? 0 : -ENOTDIR;
}

/* The depth is bounded by the kernel's own path depth only; a guest can nest far deeper than our stack likes,
 * so each level is moved up instead of descended into when it is too deep. */
enum { REMOVE_DEPTH = 200 };

static int file_remove_below(int top_fd, int dir_fd, dev_t device, int depth);

/* Too deep: hangs it under the top directory, where a later pass finds it, by a name that nobody could have
 * taken. Moving a directory to another parent writes its "..", so it must be writable itself. */
static int file_hang_higher(int top_fd, int parent_fd, const char *name)
{
    if (fchmodat(parent_fd, name, 0700, 0) < 0)
        return -errno;
    uint64_t serial;
    char fresh[48];
    if (getrandom(&serial, sizeof serial, 0) != sizeof serial)
        return -EIO;
    snprintf(fresh, sizeof fresh, ".cloche-deep-%016llx", (unsigned long long)serial);
    return renameat(parent_fd, name, top_fd, fresh) < 0 ? -errno : 0;
}

static int file_remove_directory(int top_fd, int parent_fd, const char *name, dev_t device, int depth)
{
    if (depth >= REMOVE_DEPTH) {
        return file_hang_higher(top_fd, parent_fd, name);
    }
    scope_fd fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == EACCES) {
        /* A directory whose owner took his own rights away; ours to remove nevertheless. */
        if (fchmodat(parent_fd, name, 0700, 0) < 0)
            return -errno;
        fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    }
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0)
        return -errno;
    if (status.st_dev != device)
        return -EXDEV;
    if ((status.st_mode & 0700) != 0700)
        fchmod(fd, 0700);
    int removed = file_remove_below(top_fd, fd, device, depth + 1);
    if (removed < 0)
        return removed;
    return unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

static int file_remove_below(int top_fd, int dir_fd, dev_t device, int depth)
{
    int again;
    do {
        again = 0;
        int copy = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0);
        if (copy < 0)
            return -errno;
        scope_dir *dir = fdopendir(copy);
        if (!dir) {
            close(copy);
            return -ENOMEM;
        }
        rewinddir(dir);
        struct dirent *entry;
        while ((entry = readdir(dir))) {
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                continue;
            again = 1;
            if (unlinkat(dir_fd, entry->d_name, 0) == 0)
                continue;
            if (errno != EISDIR && errno != EPERM && errno != EACCES)
                return -errno;
            int status = file_remove_directory(top_fd, dir_fd, entry->d_name, device, depth);
            if (status < 0)
                return status;
        }
    } while (again); /* until a whole pass finds nothing: moved-up directories and late entries are seen */
    return 0;
}

int file_remove_tree(int dir_fd, const char *name)
{
    scope_fd top = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat what;
    if (top < 0 && errno == EACCES && fstatat(dir_fd, name, &what, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISDIR(what.st_mode) &&
        fchmodat(dir_fd, name, 0700, 0) == 0) /* its owner closed it; ours to remove nevertheless */
        top = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (top < 0) {
        if (errno == ENOENT)
            return 0;
        return unlinkat(dir_fd, name, 0) < 0 ? -errno : 0;
    }
    struct stat status;
    if (fstat(top, &status) < 0)
        return -errno;
    if ((status.st_mode & 0700) != 0700)
        fchmod(top, 0700);
    int removed = file_remove_below(top, top, status.st_dev, 0);
    if (removed < 0)
        return removed;
    return unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}
