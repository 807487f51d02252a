#include "keeper/handed.h"

#include "base/scope.h"
#include "keeper/data_directory.h"
#include "keeper/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

int handed_place(const json_t *number)
{
    json_int_t place = json_is_integer(number) ? json_integer_value(number) : -1;
    return place >= 0 && place < WIRE_DESCRIPTORS ? (int)place : -1;
}

/* It becomes a part of a path in the box, which the keeper walks with all its rights. */
static bool is_input_name(const char *name)
{
    return name[0] && strlen(name) <= NAME_MAX && !strchr(name, '/') && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

/* A box may read what is granted to it whatever its mode: it must be what the server could read by itself. A
 * descriptor that was opened with O_PATH needs no right on the file. */
static bool is_servers_own(int fd, const struct stat *what)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && !(flags & O_PATH) && (flags & O_ACCMODE) != O_WRONLY &&
           what->st_uid == data_directory_owner();
}

static int take_input(const json_t *item, const int *fds, struct grant *into, struct error *err)
{
    const char *name = json_string_value(json_object_get(item, "name"));
    int place = handed_place(json_object_get(item, "fd"));
    struct stat what;
    if (!name || place < 0 || fds[place] < 0 || fstat(fds[place], &what) < 0)
        return error_spec(err, "files", "files: an input without a name or a file");
    if ((!S_ISREG(what.st_mode) && !S_ISDIR(what.st_mode)) || what.st_nlink == 0)
        return error_spec(err, "files", "files: '%.64s' is neither a file nor a directory", name);
    if (!is_input_name(name))
        return error_spec(err, "files", "files: '%.64s' cannot be a file name in /data/input", name);
    if (!is_servers_own(fds[place], &what))
        return error_spec(err, "files", "files: '%.64s' is not the server's to give", name);
    char link[48], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fds[place]);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0 || path[0] != '/')
        return error_host(err, length < 0 ? -errno : -ENOENT, "cannot find '%.64s'", name);
    path[length] = '\0';
    *into = (struct grant){.kind = GRANT_INPUT,
                           .host_path = strdup(path),
                           .name = strdup(name),
                           .is_pinned = true,
                           .device = what.st_dev,
                           .inode = what.st_ino};
    return into->host_path && into->name ? 0 : error_host(err, -ENOMEM, "files");
}

int handed_take_inputs(const json_t *list, const int *fds, struct spec *into, struct error *err)
{
    size_t index;
    json_t *item;
    json_array_foreach(list, index, item)
    {
        if (into->grant_count == SPEC_GRANTS_MAX)
            return error_spec(err, "files", "files: more than %d", SPEC_GRANTS_MAX);
        int status = take_input(item, fds, &into->grants[into->grant_count++], err);
        if (status < 0)
            return status;
    }
    return 0;
}

int handed_make_output(int parent_fd, struct error *err)
{
    struct stat what;
    /* A descriptor with O_PATH can be had of any directory; only in the server's own may it cause a change.
     */
    if (fstat(parent_fd, &what) < 0 || !S_ISDIR(what.st_mode) || what.st_uid != data_directory_owner())
        return error_spec(err, "output", "the directory for the files is not the server's");
    if (mkdirat(parent_fd, "files", 0700) < 0)
        return error_host(err, -errno, "cannot make a directory for the files");
    scope_fd fd = openat(parent_fd, "files", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &what) < 0)
        return error_host(err, -errno, "cannot open the directory for the files");
    if (what.st_uid != geteuid()) /* another was put in its place */
        return error_host(err, -ESTALE, "the directory for the files is not the keeper's");
    return take_fd(&fd);
}

/* What lies deeper first: a directory that is given is not entered any more. */
static int give_below(int fd, uid_t owner)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scope_dir *dir = copy < 0 ? NULL : fdopendir(copy);
    if (!dir)
        return -errno;
    int status = 0;
    for (struct dirent *entry; status == 0 && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (entry->d_type == DT_DIR) {
            scope_fd below = openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            status = below < 0 ? -errno : give_below(below, owner);
        }
        if (status == 0 && fchownat(fd, entry->d_name, owner, owner, AT_SYMLINK_NOFOLLOW) < 0)
            status = -errno;
    }
    return status;
}

int handed_give_output(int fd)
{
    uid_t owner = data_directory_owner();
    if (owner == geteuid())
        return 0;
    int status = give_below(fd, owner);
    return status < 0 ? status : fchown(fd, owner, owner) < 0 ? -errno : 0;
}
