/* Theory of operation. The new root is a small tmpfs, mounted on /proc of the child's own mount namespace (a
 * directory that every system has, and whose content is not needed below). Into it go: read-only binds of the
 * image's top-level directories; one size-limited tmpfs, the scratch, whose subdirectories are bound to /tmp,
 * the home, /data/output, /dev/shm and /run, so that one limit covers them all; a new /proc with everything
 * masked that is not in the table; a /dev of six devices; the code; the inputs. Then the root itself is made
 * read-only and becomes the root.
 *
 * Until the pivot the host's tree is still around us, so no path is walked through anything that an image or
 * a guest could have put a link into: names are single components below descriptors that we made. */
#include "engine/container/room.h"

#include "base/file.h"
#include "base/scope.h"
#include "engine/container/identity.h"
#include "image/host_view.h"
#include "os/copy_tree.h"
#include "os/directory.h"
#include "os/hardening.h"
#include "os/landlock.h"
#include "os/mount.h"
#include "os/process.h"
#include "os/raw.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const room_writable_places[] = {"/tmp", "/home/user", "/data/output", "/dev/shm", NULL};

void room_close(struct room *room)
{
    for (size_t i = 0; i < room->grant_count; i++) {
        scope_close_fd(&room->grants[i].userns_fd);
        free(room->grants[i].own_path);
    }
}

static int open_grant(const struct box *box, const struct grant *grant, struct room_grant *ret,
                      struct error *err)
{
    struct stat status;
    if (lstat(grant->host_path, &status) < 0)
        return error_host(err, -errno, "cannot look at '%s'", grant->host_path);
    if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode))
        return error_spec(err, "input", "'%s' is neither a file nor a directory", grant->host_path);
    if (grant->is_pinned && (status.st_dev != grant->device || status.st_ino != grant->inode))
        return error_host(err, -ESTALE, "'%s' is not what was granted", grant->host_path);
    ret->host_path = grant->host_path;
    ret->device = status.st_dev;
    ret->inode = status.st_ino;
    ret->is_directory = S_ISDIR(status.st_mode);
    ret->writable = grant->kind == GRANT_WRITE;
    ret->path = grant->host_path + 1;
    if (grant->kind == GRANT_INPUT) {
        if (asprintf(&ret->own_path, "data/input/%s", grant->name) < 0)
            return error_host(err, -ENOMEM, "input");
        ret->path = ret->own_path;
    }
    if (box->identity->has_uid && !hardening_removed(box_uid)) {
        ret->userns_fd = identity_mapping_namespace(status.st_uid, status.st_gid, box->identity->uid);
        bool unsupported = ret->userns_fd == -EPERM || ret->userns_fd == -ENOSYS || ret->userns_fd == -EINVAL;
        if (ret->userns_fd < 0 && (ret->writable || !unsupported))
            return error_host(err, ret->userns_fd, "cannot map the owner of '%s'", grant->host_path);
    }
    return 0;
}

/* Shorter paths first, so that a grant inside another is not covered by it. */
static int compare_grants(const void *one, const void *other)
{
    size_t a = strlen(((const struct room_grant *)one)->path),
           b = strlen(((const struct room_grant *)other)->path);
    return a < b ? -1 : a > b;
}

int room_open(struct room *room, struct error *err)
{
    const struct box *box = room->box;
    room->files_fd = -1;
    for (size_t i = 0; i < box->spec->grant_count; i++) {
        struct room_grant *grant = &room->grants[room->grant_count++];
        *grant = (struct room_grant){.userns_fd = -1};
        int status = open_grant(box, &box->spec->grants[i], grant, err);
        if (status < 0)
            return status;
    }
    room->is_started_by_root = geteuid() == 0;
    qsort(room->grants, room->grant_count, sizeof *room->grants, compare_grants);
    bool mapped = box->identity->has_uid && !hardening_removed(box_uid);
    room->owner_uid = mapped ? box->identity->uid : box->identity->has_uid ? 0 : BOX_UID_INSIDE;
    room->owner_gid = mapped ? box->identity->uid : box->identity->has_uid ? 0 : BOX_GID_INSIDE;
    return 0;
}

static unsigned image_flags(void)
{
    return MOUNT_RECURSIVE | MOUNT_NO_DEVICES | (hardening_removed(root_read_only) ? 0 : MOUNT_READ_ONLY) |
           (hardening_removed(mount_nosuid) ? 0 : MOUNT_NO_SUID);
}

static int make_directory(const char *name, mode_t mode)
{
    return mkdir(name, mode) < 0 && errno != EEXIST ? -errno : 0;
}

static int make_file(const char *name, const void *data, size_t length, mode_t mode)
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

static int show_image_entries(const struct room *room)
{
    const struct image *image = room->box->image;
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

/* One call for the flags of all mounts so far; the root itself gets its own when it is complete. */
static int show_image(const struct room *room)
{
    int status = show_image_entries(room);
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
    int status = make_file(spare, text, strlen(text), 0444);
    if (status == 0)
        status =
            mount_bind(AT_FDCWD, spare, etc_fd, name, MOUNT_READ_ONLY | MOUNT_NO_SUID | MOUNT_NO_DEVICES);
    if (status == 0 && unlink(spare) < 0) /* the mount keeps it */
        status = -errno;
    return status;
}

/* Files of /etc that name the box's own user and host. */
static int write_identity_files(const struct room *room)
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
        status = room->box->image->is_host ? make_file(path, text, strlen(text), 0444)
                                           : cover_identity_file(etc, identity_files[i].name, text);
    }
    return status;
}

static int make_code(const struct room *room, const char *directory)
{
    const struct program *program = room->box->program;
    if (!program->code_name)
        return 0;
    char path[NAME_MAX + 16];
    snprintf(path, sizeof path, "%s/%s", directory, program->code_name);
    mode_t mode = program->code_executable ? 0555 : 0444;
    return make_file(path, program->code.data, program->code.length,
                     hardening_removed(code_read_only) ? mode | 0222 : mode);
}

/* A spare, and a fork that begins anew, get their code and their inputs later, into directories that are the
 * launcher's. The runner of a spare is there until then. Before the scratch space is covered at its own
 * place. */
static int show_later_places(const struct room *room)
{
    static const struct {
        const char *from, *to;
    } places[] = {{"tmp/" BOX_CODE, "code"}, {"tmp/" BOX_INPUT, "data/input"}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (mkdir(places[i].from, 0755) < 0)
            return -errno;
    if (mkdir("tmp/" BOX_CODE "/.empty", 0755) < 0) /* as below any /code: see room_close_off */
        return -errno;
    int status = room->box->is_spare ? make_code(room, places[0].from) : 0;
    for (size_t i = 0; status == 0 && i < sizeof places / sizeof *places; i++)
        status = mount_bind(AT_FDCWD, places[i].from, AT_FDCWD, places[i].to,
                            MOUNT_READ_ONLY | MOUNT_NO_SUID | MOUNT_NO_DEVICES);
    return status;
}

static const struct {
    const char *name;
    mode_t mode;
} scratch_places[] = {{"tmp", 01777}, {"home", 0755}, {"output", 0755}, {"shm", 01777}, {"run", 0755}};

/* A fork that goes on begins with the files of its parent. What they take counts for the fork. */
static int copy_places(const struct room *room, int scratch_fd)
{
    int status = cgroup_join_self(&room->box->group);
    for (size_t i = 0; status == 0 && i < sizeof scratch_places / sizeof *scratch_places; i++) {
        const char *name = scratch_places[i].name;
        scope_fd from = openat(room->files_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        scope_fd to = openat(scratch_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        status = from < 0 || to < 0 ? -errno : copy_tree(from, to, room->owner_uid, room->owner_gid);
    }
    return status;
}

/* One tmpfs behind all writable places, mounted at /tmp and in the end covered there by its own subdirectory.
 */
static int make_scratch(const struct room *room)
{
    const int64_t *limit = room->box->limits->value;
    char options[128];
    int length = snprintf(options, sizeof options, "mode=0755");
    if (!hardening_removed(scratch_size))
        length += snprintf(options + length, sizeof options - (size_t)length, ",size=%lld",
                           (long long)limit[LIMIT_disk]);
    if (!hardening_removed(scratch_inodes))
        snprintf(options + length, sizeof options - (size_t)length, ",nr_inodes=%lld",
                 (long long)limit[LIMIT_inodes]);
    unsigned flags = MOUNT_NO_DEVICES | (hardening_removed(mount_nosuid) ? 0 : MOUNT_NO_SUID);
    int status = mount_new("tmpfs", "tmp", flags, options);
    for (size_t i = 0; status == 0 && i < sizeof scratch_places / sizeof *scratch_places; i++) {
        char path[32];
        snprintf(path, sizeof path, "tmp/%s", scratch_places[i].name);
        if (mkdir(path, 0700) < 0 || chown(path, room->owner_uid, room->owner_gid) < 0 ||
            chmod(path, scratch_places[i].mode) < 0)
            status = -errno;
    }
    if (status < 0)
        return status;
    scope_fd scratch = open("tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (scratch < 0)
        return -errno;
    struct init_message message = {.kind = INIT_SCRATCH};
    status = process_send(room->launch->child_control, &message, sizeof message, scratch);
    if (status == 0 && (room->box->is_fork || room->box->is_spare))
        status = room->files_fd < 0 ? show_later_places(room) : copy_places(room, scratch);
    static const struct {
        const char *from, *to;
    } binds[] = {{"tmp/home", "home/user"},
                 {"tmp/output", "data/output"},
                 {"tmp/run", "run"},
                 {"tmp/shm", "dev/shm"},
                 {"tmp/tmp", "tmp"}};
    for (size_t i = 0; status == 0 && i < sizeof binds / sizeof *binds; i++)
        if (!hardening_removed(private_root) || i == 1 || i >= 3)
            status = mount_cover(binds[i].from, binds[i].to);
    return status;
}

static int make_terminals(void)
{
    return mount_new("devpts", "dev/pts", MOUNT_NO_SUID | MOUNT_NO_EXEC,
                     "newinstance,ptmxmode=0666,mode=0620");
}

static int make_devices(void)
{
    if (hardening_removed(minimal_dev))
        return mount_bind(AT_FDCWD, "/dev", AT_FDCWD, "dev", MOUNT_RECURSIVE);
    static const char *const devices[] = {"null", "zero", "full", "random", "urandom", "tty"};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        char from[32], to[32];
        snprintf(from, sizeof from, "/dev/%s", devices[i]);
        snprintf(to, sizeof to, "dev/%s", devices[i]);
        int status = make_file(to, NULL, 0, 0666);
        if (status == 0)
            status = mount_cover(from, to);
        if (status < 0)
            return status;
    }
    static const struct {
        const char *target, *name;
    } links[] = {{"/proc/self/fd", "dev/fd"},
                 {"/proc/self/fd/0", "dev/stdin"},
                 {"/proc/self/fd/1", "dev/stdout"},
                 {"/proc/self/fd/2", "dev/stderr"},
                 {"pts/ptmx", "dev/ptmx"}};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        if (symlink(links[i].target, links[i].name) < 0)
            return -errno;
    if (mkdir("dev/pts", 0755) < 0 || mkdir("dev/shm", 0755) < 0)
        return -errno;
    return make_terminals();
}

/* Entries of /proc that stay; all others that are not processes are covered. */
static bool is_open_proc_entry(const char *name)
{
    static const char *const open_entries[] = {"cpuinfo",     "filesystems", "loadavg", "meminfo",
                                               "mounts",      "net",         "self",    "stat",
                                               "thread-self", "uptime",      "version"};
    for (size_t i = 0; i < sizeof open_entries / sizeof *open_entries; i++)
        if (strcmp(name, open_entries[i]) == 0)
            return true;
    return name[0] == '.' || (name[0] >= '0' && name[0] <= '9');
}

/* Is the box's uid on the host that of root? Set before the child that masks is made, and read by it. */
static bool is_roots_uid;

/* Covers one entry of /proc, unless only root may read it: that is out of reach already for another uid, by a
 * check that the box has no capability to pass, and every mount costs when a box starts and when it ends. */
static int mask_entry(int proc_fd, const char *name)
{
    struct stat status;
    long result = raw_call(SYS_newfstatat, proc_fd, RAW(name), RAW(&status), AT_SYMLINK_NOFOLLOW, 0);
    if (result == -ENOENT)
        return 0;
    if (result < 0 || S_ISLNK(status.st_mode) || ((status.st_mode & 0007) == 0 && !is_roots_uid))
        return (int)result;
    char path[NAME_MAX + 8] = "/proc/";
    size_t length = strlen(name);
    if (length > NAME_MAX)
        return -ENAMETOOLONG;
    memcpy(path + 6, name, length + 1);
    const char *cover = S_ISDIR(status.st_mode) ? "/code/.empty" : "/dev/null";
    result = raw_call(SYS_mount, RAW(cover), RAW(path), 0, MS_BIND, 0);
    return result == -ENOENT ? 0 : (int)result;
}

/* Everything that is not in the table is covered. In a child that shares our memory, see mount_pivot: while
 * it is at work, we are on our way to become init. */
static int mask_proc(void)
{
    int list = (int)raw_call(SYS_open, RAW("/proc"), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0, 0);
    if (list < 0)
        return INIT_HELPER_UNMASKED;
    struct directory_reader reader;
    directory_reader_start(&reader, list);
    const char *name;
    int more;
    while ((more = directory_reader_next(&reader, &name)) > 0)
        if (!is_open_proc_entry(name) && mask_entry(list, name) < 0)
            return INIT_HELPER_UNMASKED;
    return more < 0 ? INIT_HELPER_UNMASKED : 0;
}

/* A helper of ours is in the pid namespace of a box that is forked, for a moment: what may not be traced is
 * not there, or the box that it is forked from could read the host's mounts, network and command line from
 * it. */
static const char *hidden_processes(void)
{
    return hardening_removed(pid_namespace) || hardening_removed(init_dumpable) ? "0" : "2";
}

static int make_proc(struct error *err)
{
    char options[16];
    snprintf(options, sizeof options, "hidepid=%s", hidden_processes());
    int status = mount_new("proc", "proc", MOUNT_NO_SUID | MOUNT_NO_DEVICES | MOUNT_NO_EXEC, options);
    if (status == -EPERM)
        return error_layer(
            err, "root", 0,
            "a new /proc cannot be mounted: an outer container masks its own. Start it with an "
            "unmasked /proc (podman or docker: --security-opt unmask=ALL, "
            "--security-opt systempaths=unconfined), or use --isolation process");
    if (status < 0)
        return error_host(err, status, "cannot mount /proc");
    return 0;
}

/* The number and kind of CPUs, which numeric libraries ask for; nothing else of /sys. */
static int make_sys(void)
{
    if (hardening_removed(sys_mask))
        return mount_bind(AT_FDCWD, "/sys", AT_FDCWD, "sys", MOUNT_RECURSIVE);
    int status = file_make_directories("sys/devices/system/cpu", 0755);
    if (status < 0)
        return status;
    if (access("/sys/devices/system/cpu", F_OK) < 0)
        return errno == ENOENT ? 0 : -errno;
    status = mount_bind(AT_FDCWD, "/sys/devices/system/cpu", AT_FDCWD, "sys/devices/system/cpu",
                        MOUNT_RECURSIVE | MOUNT_READ_ONLY | MOUNT_NO_SUID | MOUNT_NO_DEVICES | MOUNT_NO_EXEC);
    return status == -EINVAL || status == -ENOENT ? 0 : status; /* not a mount that we may copy: do without */
}

/* Opens the parent of a path below the new root, making directories on the way; no link is followed. */
static int open_parent(const char *path, char *ret_last)
{
    scope_fd at = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (const char *slash; at >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
        char component[NAME_MAX + 1];
        size_t length = (size_t)(slash - path);
        if (length == 0 || length > NAME_MAX)
            return -ENAMETOOLONG;
        memcpy(component, path, length);
        component[length] = '\0';
        if (mkdirat(at, component, 0755) < 0 && errno != EEXIST)
            return -errno;
        int next = openat(at, component, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (next < 0)
            return -errno;
        close(at);
        at = next;
    }
    snprintf(ret_last, NAME_MAX + 1, "%s", path);
    return at < 0 ? -errno : take_fd(&at);
}

/* What the launcher resolved and looked at, and nothing that was put in its place since. */
static int open_source(const struct room_grant *grant)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    scope_fd fd = (int)syscall(SYS_openat2, AT_FDCWD, grant->host_path, &how, sizeof how);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0)
        return -errno;
    return status.st_dev == grant->device && status.st_ino == grant->inode ? take_fd(&fd) : -ESTALE;
}

/* What a grant shows, not yet at its place. */
static int clone_grant(const struct room_grant *grant)
{
    scope_fd source = open_source(grant);
    if (source < 0)
        return source;
    unsigned flags = MOUNT_NO_DEVICES | (hardening_removed(mount_nosuid) ? 0 : MOUNT_NO_SUID);
    if (!grant->writable && !hardening_removed(input_read_only))
        flags |= MOUNT_READ_ONLY;
    int tree = -1;
    if (grant->userns_fd >= 0)
        tree = mount_clone_tree(source, "", flags, grant->userns_fd);
    if (grant->userns_fd >= 0 && tree < 0 && tree != -EINVAL && tree != -EOPNOTSUPP && tree != -EPERM)
        return tree;
    if (tree < 0) /* a file system without mapped mounts: rights are then those of a stranger */
        tree = mount_clone_tree(source, "", flags | MOUNT_RECURSIVE, -1);
    return tree;
}

static int place_grant(const struct room_grant *grant, int tree)
{
    char name[NAME_MAX + 1];
    scope_fd parent = open_parent(grant->path, name);
    if (parent < 0)
        return parent;
    if (grant->is_directory && mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
        return -errno;
    if (!grant->is_directory) {
        scope_fd place = openat(parent, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0444);
        if (place < 0 && faccessat(parent, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
            return -errno;
    }
    scope_fd target = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return target < 0 ? -errno : mount_attach(tree, target, "");
}

static int grant_error(const struct room_grant *grant, int status, struct error *err)
{
    if (status == -EROFS || status == -ENOTDIR || status == -ELOOP)
        return error_layer(err, "root", status, "/%s cannot be shown in this image", grant->path);
    return error_host(err, status, "cannot show /%s in the box", grant->path);
}

static int show_grants(const struct room *room, struct error *err)
{
    for (size_t i = 0; i < room->grant_count; i++) {
        scope_fd tree = clone_grant(&room->grants[i]);
        int status = tree < 0 ? tree : place_grant(&room->grants[i], tree);
        if (status < 0)
            return grant_error(&room->grants[i], status, err);
    }
    return 0;
}

bool room_code_counts(const struct room *room)
{
    return room->box->program->code.length > (64 << 10) && !room->box->is_spare;
}

static int make_places(void)
{
    static const char *const places[] = {"proc",       "sys",         "dev",       "tmp",
                                         "run",        "home",        "home/user", "data",
                                         "data/input", "data/output", "code",      "code/.empty"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int status = make_directory(places[i], 0755);
        if (status < 0)
            return status;
    }
    return 0;
}

int room_furnish(const struct room *room, struct error *err)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return error_host(err, -errno, "cannot make mounts private");
    char options[96];
    snprintf(options, sizeof options, "mode=0755,nr_inodes=4096,size=%zu",
             room->box->program->code.length + (1 << 20));
    int status = mount_new("tmpfs", "/proc",
                           (hardening_removed(mount_nosuid) ? 0 : MOUNT_NO_SUID) | MOUNT_NO_DEVICES, options);
    if (status < 0 || chdir("/proc") < 0)
        return error_host(err, status < 0 ? status : -errno, "cannot mount the new root");
    umask(0);
    if ((status = make_places()) < 0)
        return error_host(err, status, "cannot make the directories of the root");
    if ((status = show_image(room)) < 0)
        return error_host(err, status, "cannot show the image '%s'", room->box->image->name);
    if ((status = write_identity_files(room)) < 0)
        return error_host(err, status, "cannot write the files of /etc");
    if ((status = make_devices()) < 0)
        return error_host(err, status, "cannot make /dev");
    if ((status = make_scratch(room)) < 0)
        return error_host(err, status, "cannot make the scratch space");
    if ((status = make_proc(err)) < 0)
        return status;
    if ((status = make_sys()) < 0)
        return error_host(err, status, "cannot make /sys");
    if (!room_code_counts(room) && !room->box->is_spare && (status = make_code(room, "code")) < 0)
        return error_host(err, status, "cannot write the code into the box");
    return 0;
}

int room_close_off(const struct room *room, struct error *err)
{
    int status = room_code_counts(room) ? make_code(room, "code") : 0;
    if (status < 0)
        return error_host(err, status, "cannot write the code into the box");
    if ((status = show_grants(room, err)) < 0)
        return status;
    if (!hardening_removed(root_read_only) && (status = mount_restrict(AT_FDCWD, ".", MOUNT_READ_ONLY)) < 0)
        return error_host(err, status, "cannot make the root read-only");
    /* The masks come after that, because a bind takes over the flags of where it comes from: so the covers
     * are read-only too. */
    is_roots_uid = !room->box->identity->has_uid && room->is_started_by_root;
    status = mount_pivot(".", "code/.empty", hardening_removed(proc_mask) ? NULL : mask_proc);
    return status < 0 ? error_host(err, status, "cannot change into the new root") : 0;
}

struct proc_errand {
    int pidfd;
    int status;
};

/* In a child that is born in the box's pid namespace, which is what its /proc shows, and is still in our
 * mount namespace: into one that belongs to a box the kernel lets nobody mount a /proc that is not masked
 * yet. */
static int refurnish_proc(void *data)
{
    struct proc_errand *errand = data;
    int proc = mount_detached("proc", MOUNT_NO_SUID | MOUNT_NO_DEVICES | MOUNT_NO_EXEC, "hidepid",
                              hidden_processes());
    if (proc >= 0 && setns(errand->pidfd, CLONE_NEWNS) == 0 && mount_attach(proc, AT_FDCWD, "/proc") == 0)
        errand->status = hardening_removed(proc_mask) ? 0 : mask_proc();
    _exit(0);
}

static int make_own_proc(int pidfd, struct error *err)
{
    struct proc_errand errand = {.pidfd = pidfd, .status = INIT_HELPER_UNMASKED};
    int status = setns(pidfd, CLONE_NEWPID) < 0 ? -errno : process_call_apart(refurnish_proc, &errand);
    if (status == 0 && errand.status == 0)
        return 0;
    return error_layer(err, "proc_mask", status, "the /proc of a forked box cannot be made");
}

/* Rules name the files of one box, so they are made for each fork, by who can see its root. */
static int send_ruleset(const struct room *room)
{
    int abi = landlock_abi();
    if (abi <= 0)
        return abi;
    char *const read_paths[] = {(char[]){"/"}}, *const device_paths[] = {(char[]){"/dev"}};
    size_t writable = 0;
    while (room_writable_places[writable])
        writable++;
    const struct landlock_paths groups[] = {
        {read_paths, 1, LANDLOCK_READ_EXEC},
        {(char *const *)(uintptr_t)room_writable_places, writable, LANDLOCK_READ_WRITE},
        {device_paths, 1, LANDLOCK_DEVICE},
    };
    const char *path;
    scope_fd ruleset = landlock_ruleset_build(abi, groups, sizeof groups / sizeof *groups, &path);
    if (ruleset < 0)
        return ruleset;
    struct init_message message = {.kind = INIT_RULESET};
    return process_send(room->launch->child_control, &message, sizeof message, ruleset);
}

static int scratch_error(const struct room *room, int status, struct error *err)
{
    if (room->files_fd >= 0 && status == -ELOOP)
        return error_host(err, 0, "fork: the files cannot be copied: directories are nested too deep");
    if (room->files_fd >= 0 && status == -ENOSPC)
        return error_host(err, 0, "fork: the files do not fit into a copy (each name of a file becomes one)");
    return error_host(err, status, "cannot make the scratch space");
}

int room_refurnish(const struct room *room, int pidfd, struct error *err)
{
    int trees[SPEC_GRANTS_MAX]; /* taken while the host's files can be seen */
    for (size_t i = 0; i < room->grant_count; i++)
        if ((trees[i] = clone_grant(&room->grants[i])) < 0)
            return grant_error(&room->grants[i], trees[i], err);
    is_roots_uid = !room->box->identity->has_uid && room->is_started_by_root;
    int status = make_own_proc(pidfd, err);
    if (status < 0)
        return status;
    if (setns(pidfd, CLONE_NEWNS) < 0)
        return error_layer(err, "namespaces", -errno, "cannot enter a forked box");
    umask(0);
    status = make_scratch(room);
    if (status < 0)
        return scratch_error(room, status, err);
    if ((status = make_terminals()) < 0)
        return error_host(err, status, "cannot make /dev/pts");
    for (size_t i = 0; i < room->grant_count; i++)
        if ((status = place_grant(&room->grants[i], trees[i])) < 0)
            return grant_error(&room->grants[i], status, err);
    status = room->files_fd < 0 ? send_ruleset(room) : 0;
    return status < 0 ? error_layer(err, "landlock", status, "cannot make the rules of a forked box") : 0;
}

int room_show_inputs(const struct room *room, int pidfd, struct error *err)
{
    int trees[SPEC_GRANTS_MAX];
    for (size_t i = 0; i < room->grant_count; i++)
        if ((trees[i] = clone_grant(&room->grants[i])) < 0)
            return grant_error(&room->grants[i], trees[i], err);
    if (setns(pidfd, CLONE_NEWNS) < 0)
        return error_layer(err, "namespaces", -errno, "cannot enter a box");
    int status = 0;
    for (size_t i = 0; status == 0 && i < room->grant_count; i++)
        if ((status = mount_attach(trees[i], AT_FDCWD, room->grants[i].path)) < 0)
            return grant_error(&room->grants[i], status, err);
    return status;
}
