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
    ssize_t written;
    do
        written = write(fd, text, length);
    while (written < 0 && errno == EINTR); /* cgroup files may take long, and say so to a signal */
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

bool file_is_same_version(const struct stat *one, const struct stat *other)
{
    return one->st_ino == other->st_ino && one->st_size == other->st_size &&
           one->st_mtim.tv_sec == other->st_mtim.tv_sec && one->st_mtim.tv_nsec == other->st_mtim.tv_nsec &&
           one->st_ctim.tv_sec == other->st_ctim.tv_sec && one->st_ctim.tv_nsec == other->st_ctim.tv_nsec;
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

static int file_remove_opened(int top_fd, int parent_fd, const char *name, int fd, dev_t device, int depth);

static bool file_is_plain_name(const char *name, size_t length)
{
    return length > 0 && length <= NAME_MAX && !(length <= 2 && strncmp(name, "..", length) == 0);
}

int file_open_parent(int dir_fd, const char *path, mode_t mode, const char **ret_name)
{
    scope_fd at = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *slash;
    for (; at >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
        char part[NAME_MAX + 1];
        if (!file_is_plain_name(path, (size_t)(slash - path)))
            return -EINVAL;
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        if (mkdirat(at, part, mode) < 0 && errno != EEXIST)
            return -errno;
        int next = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
            return -errno;
        close(at);
        at = next;
    }
    if (!file_is_plain_name(path, strlen(path)))
        return -EINVAL;
    *ret_name = path;
    return at < 0 ? -errno : take_fd(&at);
}

int file_change_mode(int dir_fd, const char *name, mode_t mode)
{
    scope_fd fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return chmod(path, mode) < 0 ? -errno : 0; /* of a link it fails: EOPNOTSUPP */
}

int file_open_directory(int dir_fd, const char *name)
{
    const int how = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    int fd = openat(dir_fd, name, how);
    if (fd < 0 && errno == EACCES) { /* its owner took his own rights away; ours to open nevertheless */
        int status = file_change_mode(dir_fd, name, 0700);
        if (status < 0)
            return status;
        fd = openat(dir_fd, name, how);
    }
    return fd < 0 ? -errno : fd;
}

/* Too deep: hangs it under the top directory, where a later pass finds it, by a name that nobody could have
 * taken. Moving a directory to another parent writes its "..", so it must be writable itself. */
static int file_hang_higher(int top_fd, int parent_fd, const char *name)
{
    int status = file_change_mode(parent_fd, name, 0700);
    if (status < 0)
        return status;
    uint64_t serial;
    char fresh[48];
    if (getrandom(&serial, sizeof serial, 0) != sizeof serial)
        return -EIO;
    snprintf(fresh, sizeof fresh, ".cloche-deep-%016llx", (unsigned long long)serial);
    return renameat(parent_fd, name, top_fd, fresh) < 0 ? -errno : 0;
}

static int file_remove_directory(int top_fd, int parent_fd, const char *name, dev_t device, int depth)
{
    if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0) /* most are empty, and that needs no descriptor */
        return 0;
    if (depth >= REMOVE_DEPTH)
        return file_hang_higher(top_fd, parent_fd, name);
    int fd = file_open_directory(parent_fd, name);
    return fd < 0 ? fd : file_remove_opened(top_fd, parent_fd, name, fd, device, depth + 1);
}

/* Removes what is in a directory; returns whether it saw any entry. */
static int file_remove_below(int top_fd, DIR *dir, dev_t device, int depth)
{
    int seen = 0;
    struct dirent *entry;
    rewinddir(dir);
    while ((entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        seen = 1;
        if (unlinkat(dirfd(dir), entry->d_name, 0) == 0)
            continue;
        if (errno != EISDIR && errno != EPERM && errno != EACCES)
            return -errno;
        int status = file_remove_directory(top_fd, dirfd(dir), entry->d_name, device, depth);
        if (status < 0)
            return status;
    }
    return seen;
}

/* Takes the descriptor: one for each level is all that is needed, when they are scarce. top_fd -1: it is the
 * top. */
static int file_remove_opened(int top_fd, int parent_fd, const char *name, int fd, dev_t device, int depth)
{
    scope_dir *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return -ENOMEM;
    }
    struct stat status;
    if (fstat(fd, &status) < 0)
        return -errno;
    if (top_fd < 0) {
        top_fd = fd;
        device = status.st_dev;
    }
    if (status.st_dev != device)
        return -EXDEV;
    if ((status.st_mode & 0700) != 0700)
        fchmod(fd, 0700);
    for (;;) { /* moved-up directories and late entries make more than one pass */
        int seen = file_remove_below(top_fd, dir, device, depth);
        if (seen < 0)
            return seen;
        if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0)
            return 0;
        if (!seen || (errno != ENOTEMPTY && errno != EEXIST))
            return -errno;
    }
}

int file_remove_tree(int dir_fd, const char *name)
{
    if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM && errno != EACCES)
        return -errno;
    if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0)
        return 0;
    int fd = file_open_directory(dir_fd, name);
    return fd < 0 ? fd : file_remove_opened(-1, dir_fd, name, fd, 0, 0);
}

int file_open_target(const char *path, struct error *err)
{
    int status = file_make_directories(path, 0777);
    int fd = status < 0 ? status : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (status == 0 && fd < 0)
        status = -errno;
    if (status == -ENOTDIR || status == -EEXIST)
        return error_spec(err, "output", "output: '%.256s' is not a directory", path);
    return status < 0 ? error_host(err, status, "cannot open the output directory '%s'", path) : fd;
}
