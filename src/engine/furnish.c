#include "engine/furnish.h"

#include "base/file.h"
#include "base/scope.h"
#include "base/text.h"
#include "image/host_view.h"
#include "os/directory.h"
#include "os/hardening.h"
#include "os/mount.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static unsigned image_flags(void)
{
    return MOUNT_RECURSIVE | MOUNT_NO_DEVICES | (hardening_removed(root_read_only) ? 0 : MOUNT_READ_ONLY) |
           (hardening_removed(mount_nosuid) ? 0 : MOUNT_NO_SUID);
}

int furnish_make_private(struct error *err)
{
    int status = mount_make_private();
    if (status == -EINVAL)
        return error_layer(
            err, "root", status,
            "cannot make mounts private: the root here is that of a chroot, where no such box can be made. "
            "Enter it with pivot_root, or use --isolation process");
    return status < 0 ? error_host(err, status, "cannot make mounts private") : 0;
}

int furnish_directory(const char *name, mode_t mode)
{
    return mkdir(name, mode) < 0 && errno != EEXIST ? -errno : 0;
}

int furnish_file(const char *name, const void *data, size_t length, mode_t mode)
{
    scope_fd fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return -errno;
    return length ? file_write_all(fd, data, length) : 0; /* the umask is 0 here: the mode is as given */
}

/* A directory of the image and the one of the new root in which its entries appear; paths end in a slash. */
struct shown_directory {
    int from_fd, into_fd;
    const char *from_path, *into_path;
};

/* Shows one entry at the same name: links are copied, all else is bound. The flags come later, for all at
 * once. The image belongs to the launcher's user, so nobody puts a link in an entry's place meanwhile. */
static int show_entry(const struct shown_directory *shown, const char *name)
{
    struct stat status;
    if (fstatat(shown->from_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (S_ISLNK(status.st_mode)) {
        char target[PATH_MAX];
        ssize_t length = readlinkat(shown->from_fd, name, target, sizeof target - 1);
        if (length < 0)
            return -errno;
        target[length] = '\0';
        return symlinkat(target, shown->into_fd, name) < 0 ? -errno : 0;
    }
    if (S_ISDIR(status.st_mode)) {
        if (mkdirat(shown->into_fd, name, 0755) < 0 && errno != EEXIST)
            return -errno;
    } else if (S_ISREG(status.st_mode)) {
        scope_fd place = openat(shown->into_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0444);
        if (place < 0)
            return -errno;
    } else {
        return 0; /* devices, sockets and pipes of an image are not shown */
    }
    char from[PATH_MAX], into[PATH_MAX];
    if (snprintf(from, sizeof from, "%s%s", shown->from_path, name) >= (int)sizeof from ||
        snprintf(into, sizeof into, "%s%s", shown->into_path, name) >= (int)sizeof into)
        return -ENAMETOOLONG;
    return mount_show(from, into);
}

static int show_host_etc(void)
{
    if (mkdir("etc", 0755) < 0 || mkdir("etc/ssl", 0755) < 0)
        return -errno;
    scope_fd from = open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    scope_fd into = open("etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (from < 0 || into < 0)
        return -errno;
    const struct shown_directory shown = {from, into, "/etc/", "etc/"};
    int status = 0;
    for (size_t i = 0; status == 0 && host_view_etc[i]; i++)
        status = show_entry(&shown, host_view_etc[i]);
    return status;
}

static bool is_our_own_place(const char *name)
{
    static const char *const ours[] = {"proc", "sys", "dev", "tmp", "run", "data", "code", "home", ".", ".."};
    if (hardening_removed(private_root) && (strcmp(name, "run") == 0 || strcmp(name, "home") == 0))
        return false;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (strcmp(name, ours[i]) == 0)
            return true;
    return false;
}

static int show_directory_image(const struct shown_directory *shown)
{
    scope_fd list = openat(shown->from_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (list < 0)
        return -errno;
    struct directory_reader reader;
    directory_reader_start(&reader, list);
    const char *name;
    int status;
    while ((status = directory_reader_next(&reader, &name)) > 0) {
        if (!is_our_own_place(name) && (status = show_entry(shown, name)) < 0)
            break;
    }
    return status;
}

static int show_image_entries(const struct image *image)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s%s", image->root, strcmp(image->root, "/") ? "/" : "") >=
        (int)sizeof path)
        return -ENAMETOOLONG;
    scope_fd from = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    scope_fd into = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (from < 0 || into < 0)
        return -errno;
    const struct shown_directory shown = {from, into, path, ""};
    if (!image->is_host || hardening_removed(private_root)) /* removed: all of the host's tree */
        return show_directory_image(&shown);
    int status = 0;
    for (size_t i = 0; status == 0 && host_view_trees[i]; i++)
        status = show_entry(&shown, host_view_trees[i]);
    return status < 0 ? status : show_host_etc();
}

int furnish_image(const struct image *image)
{
    int status = show_image_entries(image);
    if (status == 0)
        status = mount_restrict(AT_FDCWD, ".", image_flags());
    return status < 0 ? status : mount_make_writable(AT_FDCWD, ".");
}

static const struct {
    const char *name, *text;
} identity_files[] = {
    {"passwd", "root:x:0:0:root:/root:/usr/sbin/nologin\nuser:x:1000:1000:user:/home/user:/bin/bash\n"
               "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
    {"group", "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n"},
    {"hostname", "cloche\n"},
    {"hosts", "127.0.0.1 localhost cloche\n::1 localhost\n"},
    {"nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"},
};

/* An image's own /etc is bound read-only: our file goes on top of its plain file of that name, if it has one.
 */
static int cover_identity_file(int etc_fd, const char *name, const char *text)
{
    struct stat there;
    if (fstatat(etc_fd, name, &there, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(there.st_mode))
        return 0;
    char spare[64];
    snprintf(spare, sizeof spare, "code/.empty-%s", name);
    int status = furnish_file(spare, text, strlen(text), 0444);
    if (status == 0)
        status =
            mount_bind(AT_FDCWD, spare, etc_fd, name, MOUNT_READ_ONLY | MOUNT_NO_SUID | MOUNT_NO_DEVICES);
    if (status == 0 && unlink(spare) < 0) /* the mount keeps it */
        status = -errno;
    return status;
}

int furnish_identity(const struct image *image)
{
    if (hardening_removed(private_root))
        return 0;
    if (mkdir("etc", 0755) < 0 && errno != EEXIST)
        return -errno;
    scope_fd etc = open("etc", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (etc < 0)
        return errno == ELOOP || errno == ENOTDIR ? 0
                                                  : -errno; /* an image whose /etc is a link keeps its own */
    int status = 0;
    for (size_t i = 0; status == 0 && i < sizeof identity_files / sizeof *identity_files; i++) {
        const char *text = identity_files[i].text;
        char path[64];
        snprintf(path, sizeof path, "etc/%s", identity_files[i].name);
        status = image->is_host ? furnish_file(path, text, strlen(text), 0444)
                                : cover_identity_file(etc, identity_files[i].name, text);
    }
    return status;
}

int furnish_code(const struct program *program, const char *directory)
{
    if (!program->code_name)
        return 0;
    if (!text_is_file_name(program->code_name, strlen(program->code_name)))
        return -EINVAL; /* it was checked before; but this is where it would matter */
    char path[NAME_MAX + 16];
    snprintf(path, sizeof path, "%s/%s", directory, program->code_name);
    mode_t mode = program->code_executable ? 0555 : 0444;
    return furnish_file(path, program->code.data, program->code.length,
                        hardening_removed(code_read_only) ? mode | 0222 : mode);
}

const struct scratch_place scratch_places[SCRATCH_PLACES] = {
    {"tmp", 01777}, {"home", 0755}, {"output", 0755}, {"shm", 01777}, {"run", 0755}};

int furnish_scratch(const struct box *box, const char *path, uid_t owner_uid, gid_t owner_gid)
{
    const int64_t *limit = box->limits->value;
    char options[128];
    int length = snprintf(options, sizeof options, "mode=0755");
    if (!hardening_removed(scratch_size))
        length += snprintf(options + length, sizeof options - (size_t)length, ",size=%lld",
                           (long long)limit[LIMIT_disk]);
    if (!hardening_removed(scratch_inodes))
        snprintf(options + length, sizeof options - (size_t)length, ",nr_inodes=%lld",
                 (long long)limit[LIMIT_inodes]);
    unsigned flags = MOUNT_NO_DEVICES | (hardening_removed(mount_nosuid) ? 0 : MOUNT_NO_SUID);
    int status = mount_new("tmpfs", path, flags, options);
    for (size_t i = 0; status == 0 && i < SCRATCH_PLACES; i++) {
        char place[64];
        snprintf(place, sizeof place, "%s/%s", path, scratch_places[i].name);
        if (mkdir(place, 0700) < 0 || chown(place, owner_uid, owner_gid) < 0 ||
            chmod(place, scratch_places[i].mode) < 0)
            status = -errno;
    }
    return status;
}

const char *furnish_path_of(const struct box *box, const char *which, char *into, size_t size)
{
    (void)box, (void)into, (void)size;
    static const struct {
        const char *which, *path;
    } paths[] = {{"home", "/home/user"},
                 {"tmp", "/tmp"},
                 {"input", "/data/input"},
                 {"output", "/data/output"},
                 {"code", "/code"}};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (strcmp(which, paths[i].which) == 0)
            return paths[i].path;
    return "/";
}
