/* Attacks on things that have a path. The rows of many groups differ in nothing but the path. */
#include "probe.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Tries one path: 0 where it gave way, or an errno. */
typedef int attempt_on_path(const char *path);

static enum verdict try_paths(const char *paths, const char *action, attempt_on_path *attempt)
{
    char list[2048], path[4096], first[4096] = "";
    int first_error = 0;
    if ((size_t)snprintf(list, sizeof list, "%s", paths) >= sizeof list)
        return undecided("the list of paths is too long");
    char *rest = list, *item;
    while ((item = strsep(&rest, ":"))) {
        if (!path_expand(item, path, sizeof path))
            return undecided("the runner did not say what %s stands for", item);
        int error = attempt(path);
        if (error == 0)
            return broke("%s can be %s", path, action);
        /* The most telling error is that of the first path that exists. */
        if (first_error == 0 || first_error == ENOENT) {
            first_error = error;
            memcpy(first, path, sizeof first);
        }
    }
    return held("%s: %s", first, error_name(first_error));
}

static int attempt_see(const char *path)
{
    struct stat status;
    return stat(path, &status) < 0 ? errno : 0;
}

enum verdict path_cannot_be_seen(const void *paths)
{
    return try_paths(paths, "seen", attempt_see);
}

/* Non-blocking and never a controlling terminal: a FIFO must not hang the probe, a tty must not adopt it. A
 * file that is masked by the null device is as good as closed; but the device must be that one, whatever it
 * is called (runc, CVE-2025-31133). */
static int open_and_close(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errno;
    struct stat status;
    bool masked = fstat(fd, &status) == 0 && S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3);
    close(fd);
    return masked ? ENODEV : 0;
}

static int attempt_open(const char *path)
{
    return open_and_close(path, O_RDONLY);
}

enum verdict file_cannot_be_opened(const void *paths)
{
    return try_paths(paths, "opened", attempt_open);
}

/* Never with O_TRUNC or O_CREAT: run without a box, this must change nothing. A program that is running
 * cannot be opened for writing whoever asks; the kernel says so after the permission of the file, so that
 * waiting for the program's end would do (runc, CVE-2019-5736). */
static int attempt_open_for_writing(const char *path)
{
    int error = open_and_close(path, O_WRONLY | O_APPEND);
    return error == ETXTBSY && access(path, W_OK) == 0 ? 0 : error;
}

enum verdict file_cannot_be_opened_for_writing(const void *paths)
{
    return try_paths(paths, "opened for writing", attempt_open_for_writing);
}

static int attempt_read(const char *path)
{
    char buffer[65]; /* 64 bytes: some files are read by whole numbers */
    ssize_t length = file_read(path, buffer, sizeof buffer);
    if (length < 0)
        return errno;
    return length == 0 ? ENODATA : 0;
}

enum verdict file_has_no_content(const void *paths)
{
    return try_paths(paths, "read", attempt_read);
}

static int attempt_list(const char *path)
{
    DIR *directory = opendir(path);
    if (!directory)
        return errno;
    int error = ENODATA;
    const struct dirent *entry;
    while (error && (entry = readdir(directory)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            error = 0;
    closedir(directory);
    return error;
}

enum verdict directory_cannot_be_listed(const void *paths)
{
    return try_paths(paths, "listed", attempt_list);
}

static int attempt_make_directory(const char *path)
{
    char name[4200];
    snprintf(name, sizeof name, "%s/cloche-probe.%d", path, (int)getpid());
    if (mkdir(name, 0700) < 0)
        return errno;
    rmdir(name);
    return 0;
}

enum verdict directory_cannot_be_made(const void *paths)
{
    return try_paths(paths, "divided", attempt_make_directory);
}

/* An unnamed file needs the same rights as a named one, and leaves nothing behind. */
static int attempt_write_directory(const char *path)
{
    int fd = open(path, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0) {
        close(fd);
        return 0;
    }
    return errno == EOPNOTSUPP || errno == EISDIR ? attempt_make_directory(path) : errno;
}

enum verdict directory_cannot_be_written(const void *paths)
{
    return try_paths(paths, "written to", attempt_write_directory);
}

/* rmdir() of a file: the kernel checks the right to delete the entry first, and that it is no directory last.
 */
static int attempt_delete(const char *path)
{
    struct stat status;
    if (lstat(path, &status) < 0)
        return errno;
    if (S_ISDIR(status.st_mode))
        return EISDIR;
    if (rmdir(path) == 0 || errno == ENOTDIR)
        return 0;
    return errno;
}

enum verdict entry_cannot_be_deleted(const void *paths)
{
    return try_paths(paths, "deleted", attempt_delete);
}

static int attempt_read_link(const char *path)
{
    char buffer[4096];
    return readlink(path, buffer, sizeof buffer) < 0 ? errno : 0;
}

enum verdict link_cannot_be_read(const void *paths)
{
    return try_paths(paths, "followed", attempt_read_link);
}
