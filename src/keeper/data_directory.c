#include "keeper/data_directory.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Below the range of the boxes' uids (record.c). */
enum { OWN_UID = 0x7cff0001, NOBODY_UID = 65534 };

int data_directory_default(char *into, size_t size)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int length;
    if (geteuid() == 0)
        length = snprintf(into, size, "/var/lib/cloche/server"); /* beside the images and the boxes */
    else if (data && data[0] == '/')
        length = snprintf(into, size, "%s/cloche/server", data);
    else if (home && home[0] == '/')
        length = snprintf(into, size, "%s/.local/share/cloche/server", home);
    else
        return -ENOENT;
    return length < (int)size ? 0 : -ENAMETOOLONG;
}

static bool is_mapped(const char *path, uint32_t id)
{
    unsigned inside, outside, count;
    scope_file *file = fopen(path, "re");
    while (file && fscanf(file, "%u %u %u", &inside, &outside, &count) == 3)
        if (id >= inside && id - inside < count)
            return true;
    return false;
}

/* In a user namespace of few ids the usual one may not exist. */
uid_t data_directory_owner(void)
{
    if (geteuid() != 0)
        return geteuid();
    static const uint32_t wanted[] = {OWN_UID, NOBODY_UID};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (is_mapped("/proc/self/uid_map", wanted[i]) && is_mapped("/proc/self/gid_map", wanted[i]))
            return wanted[i];
    return 0;
}

static bool is_empty(int fd)
{
    scope_dir *dir = fdopendir(dup(fd));
    if (!dir)
        return false;
    for (struct dirent *entry; (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            return false;
    return true;
}

enum { LEFTOVER_MS = 3000 };

int data_directory_open(const char *path, struct error *err)
{
    uid_t owner = data_directory_owner();
    int status = file_make_directories(path, 0755);
    scope_fd fd = status < 0 ? -1 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat there;
    if (fd < 0 || fstat(fd, &there) < 0)
        return error_host(err, status < 0 ? status : -errno, "cannot make the data directory %s", path);
    if (there.st_uid != owner && (there.st_uid != geteuid() || !is_empty(fd)))
        return error_spec(
            err, "data", "data: %s belongs to uid %u and is not a server's; give an empty or a new directory",
            path, there.st_uid);
    if (there.st_uid != owner && fchown(fd, owner, owner) < 0)
        return error_host(err, -errno, "cannot give %s to the server's user", path);
    if ((there.st_mode & 07777) != 0700 && fchmod(fd, 0700) < 0)
        return error_host(err, -errno, "cannot close %s to others", path);
    return take_fd(&fd);
}

int data_directory_lock(int fd, const char *path, struct error *err)
{
    /* Of a server that was killed a moment ago, a part may still be on its way out. */
    int64_t until_us = clock_monotonic_us() + LEFTOVER_MS * 1000;
    int code;
    do {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return 0;
        code = -errno;
    } while (code == -EWOULDBLOCK && clock_monotonic_us() < until_us && usleep(20000) == 0);
    if (code == -EWOULDBLOCK)
        return error_spec(err, "data", "data: another server is running with %s", path), -EBUSY;
    return error_host(err, code, "cannot lock %s", path);
}
