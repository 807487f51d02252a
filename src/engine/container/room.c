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
#include "engine/furnish.h"
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
#include <pthread.h>
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
    grants_close(&room->grants);
}

int room_open(struct room *room, struct error *err)
{
    const struct box *box = room->box;
    room->files_fd = -1;
    room->is_started_by_root = geteuid() == 0;
    CPU_ZERO(&room->cpus);
    sched_getaffinity(0, sizeof room->cpus, &room->cpus); /* none: nobody is placed anywhere */
    bool mapped = box->identity->has_uid && !hardening_removed(box_uid);
    room->owner_uid = mapped ? box->identity->uid : box->identity->has_uid ? 0 : BOX_UID_INSIDE;
    room->owner_gid = mapped ? box->identity->uid : box->identity->has_uid ? 0 : BOX_GID_INSIDE;
    return grants_open(box, box->identity->uid, &room->grants, err);
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
    int status = room->box->is_spare ? furnish_code(room->box->program, places[0].from) : 0;
    for (size_t i = 0; status == 0 && i < sizeof places / sizeof *places; i++)
        status = mount_bind(AT_FDCWD, places[i].from, AT_FDCWD, places[i].to,
                            MOUNT_READ_ONLY | MOUNT_NO_SUID | MOUNT_NO_DEVICES);
    return status;
}

static bool is_untouched(int scratch_fd, const struct scratch_place *place)
{
    scope_fd dir = openat(scratch_fd, place->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat now;
    if (dir < 0 || fstat(dir, &now) < 0 || (now.st_mode & 07777) != place->mode)
        return false;
    return directory_is_empty(dir);
}

bool room_finds_files(int scratch_fd)
{
    for (size_t i = 0; i < SCRATCH_PLACES; i++)
        if (!is_untouched(scratch_fd, &scratch_places[i]))
            return true;
    return false;
}

/* A fork that goes on begins with the files of its parent. What they take counts for the fork. */
static int copy_places(const struct room *room, int scratch_fd)
{
    int status = cgroup_join_self(&room->box->group);
    for (size_t i = 0; status == 0 && i < SCRATCH_PLACES; i++) {
        const char *name = scratch_places[i].name;
        scope_fd from = openat(room->files_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        scope_fd to = openat(scratch_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat marks;
        if (from < 0 || to < 0 || fstat(from, &marks) < 0 || fchmod(to, (marks.st_mode & 01777) | 0700) < 0)
            return -errno;
        status = copy_tree(from, to, room->owner_uid, room->owner_gid);
    }
    return status;
}

/* Mounted at /tmp, and in the end covered there by its own subdirectory. */
static int make_scratch(const struct room *room)
{
    int status = furnish_scratch(room->box, "tmp", room->owner_uid, room->owner_gid);
    if (status < 0)
        return status;
    scope_fd scratch = open("tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (scratch < 0)
        return -errno;
    struct init_message message = {.kind = INIT_SCRATCH};
    status = process_send(room->launch->child_control, &message, sizeof message, scratch);
    if (status == 0 && room->has_files)
        status = copy_places(room, scratch);
    else if (status == 0 && room->files_fd < 0 && (room->box->is_fork || room->box->is_spare))
        status = show_later_places(room);
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
        int status = furnish_file(to, NULL, 0, 0666);
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

/* Entries that are known to be covered, for who makes many boxes: each spares the child a question. Filled in
 * once, before there is a child; what it lacks is asked for, and what it has too much does no harm. */
static struct {
    char name[32];
    bool is_directory;
} covered[64];
static size_t covered_count;

static int ask_kind(int proc_fd, const char *name, bool *ret_is_covered, bool *ret_is_directory)
{
    struct stat status;
    long result = raw_call(SYS_newfstatat, proc_fd, RAW(name), RAW(&status), AT_SYMLINK_NOFOLLOW, 0);
    *ret_is_covered =
        result == 0 && !S_ISLNK(status.st_mode) && ((status.st_mode & 0007) != 0 || is_roots_uid);
    *ret_is_directory = result == 0 && S_ISDIR(status.st_mode);
    return result == -ENOENT ? 0 : (int)result;
}

static void learn_covered(void)
{
    scope_fd list = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct directory_reader reader;
    const char *name;
    directory_reader_start(&reader, list);
    while (list >= 0 && directory_reader_next(&reader, &name) > 0) {
        bool is_covered, is_directory;
        if (is_open_proc_entry(name) || ask_kind(list, name, &is_covered, &is_directory) < 0 || !is_covered ||
            strlen(name) >= sizeof covered->name || covered_count == sizeof covered / sizeof *covered)
            continue;
        strcpy(covered[covered_count].name, name);
        covered[covered_count++].is_directory = is_directory;
    }
}

/* `*at` is where the last one was found: they come in the same order. */
static bool find_covered(const char *name, size_t *at, bool *ret_is_directory)
{
    for (size_t tries = 0; tries < covered_count; tries++) {
        size_t here = (*at + tries) % covered_count;
        if (strcmp(covered[here].name, name) != 0)
            continue;
        *at = here + 1;
        *ret_is_directory = covered[here].is_directory;
        return true;
    }
    return false;
}

/* Covers one entry of /proc, unless only root may read it: that is out of reach already for another uid, by a
 * check that the box has no capability to pass, and every mount costs when a box starts and when it ends. */
static int mask_entry(int proc_fd, const char *name, size_t *at)
{
    bool is_covered = true, is_directory;
    int status =
        find_covered(name, at, &is_directory) ? 0 : ask_kind(proc_fd, name, &is_covered, &is_directory);
    if (status < 0 || !is_covered)
        return status;
    char path[NAME_MAX + 8] = "/proc/";
    size_t length = strlen(name);
    if (length > NAME_MAX)
        return -ENAMETOOLONG;
    memcpy(path + 6, name, length + 1);
    const char *cover = is_directory ? "/code/.empty" : "/dev/null";
    long result = raw_call(SYS_mount, RAW(cover), RAW(path), 0, MS_BIND, 0);
    return result == -ENOENT ? 0 : (int)result;
}

void room_expect_forks(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, learn_covered);
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
    int more = 0;
    size_t at = 0;
    while (more >= 0 && (more = directory_reader_next(&reader, &name)) > 0)
        if (!is_open_proc_entry(name) && mask_entry(list, name, &at) < 0)
            more = -EIO;
    raw_call(SYS_close, list, 0, 0, 0, 0);
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
        int status = furnish_directory(places[i], 0755);
        if (status < 0)
            return status;
    }
    return 0;
}

int room_furnish(const struct room *room, struct error *err)
{
    int status = furnish_make_private(err);
    if (status < 0)
        return status;
    char options[96];
    snprintf(options, sizeof options, "mode=0755,nr_inodes=4096,size=%zu",
             room->box->program->code.length + (1 << 20));
    status = mount_new("tmpfs", "/proc",
                       (hardening_removed(mount_nosuid) ? 0 : MOUNT_NO_SUID) | MOUNT_NO_DEVICES, options);
    if (status < 0 || chdir("/proc") < 0)
        return error_host(err, status < 0 ? status : -errno, "cannot mount the new root");
    umask(0);
    if ((status = make_places()) < 0)
        return error_host(err, status, "cannot make the directories of the root");
    if ((status = furnish_image(room->box->image)) < 0)
        return error_host(err, status, "cannot show the image '%s'", room->box->image->name);
    if ((status = furnish_identity(room->box->image)) < 0)
        return error_host(err, status, "cannot write the files of /etc");
    if ((status = make_devices()) < 0)
        return error_host(err, status, "cannot make /dev");
    if ((status = make_scratch(room)) < 0)
        return error_host(err, status, "cannot make the scratch space");
    if ((status = make_proc(err)) < 0)
        return status;
    if ((status = make_sys()) < 0)
        return error_host(err, status, "cannot make /sys");
    if (!room_code_counts(room) && !room->box->is_spare &&
        (status = furnish_code(room->box->program, "code")) < 0)
        return error_host(err, status, "cannot write the code into the box");
    return 0;
}

int room_close_off(const struct room *room, struct error *err)
{
    int status = room_code_counts(room) ? furnish_code(room->box->program, "code") : 0;
    if (status < 0)
        return error_host(err, status, "cannot write the code into the box");
    if ((status = grants_show(&room->grants, err)) < 0)
        return status;
    if (!hardening_removed(root_read_only) && (status = mount_restrict(AT_FDCWD, ".", MOUNT_READ_ONLY)) < 0)
        return error_host(err, status, "cannot make the root read-only");
    /* The masks come after that, because a bind takes over the flags of where it comes from: so the covers
     * are read-only too. */
    is_roots_uid = !room->box->identity->has_uid && room->is_started_by_root;
    status = mount_pivot(".", "code/.empty", hardening_removed(proc_mask) ? NULL : mask_proc, &room->cpus);
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
    scope_close_fd(&proc);
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
    if (room->has_files && status == -ELOOP)
        return error_host(err, 0, "fork: the files cannot be copied: directories are nested too deep");
    if (room->has_files && status == -ENOSPC)
        return error_host(err, 0, "fork: the files do not fit into a copy (each name of a file becomes one)");
    return error_host(err, status, "cannot make the scratch space");
}

/* What is granted, taken while the host's files can be seen. */
struct trees {
    int fds[SPEC_GRANTS_MAX];
    size_t count;
};

static void trees_close(struct trees *trees)
{
    for (size_t i = 0; i < trees->count; i++)
        scope_close_fd(&trees->fds[i]);
}
#define scope_trees __attribute__((cleanup(trees_close))) struct trees

static int take_trees(const struct room *room, struct trees *ret, struct error *err)
{
    for (size_t i = 0; i < room->grants.count; i++) {
        int tree = grant_clone(&room->grants.shown[i]);
        if (tree < 0)
            return grant_error(&room->grants.shown[i], tree, err);
        ret->fds[ret->count++] = tree;
    }
    return 0;
}

int room_refurnish(const struct room *room, int pidfd, struct error *err)
{
    scope_trees trees = {.count = 0};
    int status = take_trees(room, &trees, err);
    if (status < 0)
        return status;
    is_roots_uid = !room->box->identity->has_uid && room->is_started_by_root;
    status = make_own_proc(pidfd, err);
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
    for (size_t i = 0; i < room->grants.count; i++)
        if ((status = grant_place(&room->grants.shown[i], trees.fds[i])) < 0)
            return grant_error(&room->grants.shown[i], status, err);
    status = room->files_fd < 0 ? send_ruleset(room) : 0;
    return status < 0 ? error_layer(err, "landlock", status, "cannot make the rules of a forked box") : 0;
}

int room_strip(const struct room *room, int pidfd, struct error *err)
{
    /* The scratch space is below its own /tmp; all its other places are binds of it. */
    static const char *const renewed[] = {"/tmp",     "/tmp", "/home/user", "/data/output",
                                          "/dev/shm", "/run", "/dev/pts",   "/proc"};
    (void)room;
    if (setns(pidfd, CLONE_NEWNS) < 0)
        return error_layer(err, "namespaces", -errno, "cannot enter a zygote");
    for (size_t i = 0; i < sizeof renewed / sizeof *renewed; i++)
        mount_detach(renewed[i]); /* what stays is covered in each fork, as it is in those of contexts */
    return 0;
}

int room_show_inputs(const struct room *room, int pidfd, struct error *err)
{
    scope_trees trees = {.count = 0};
    int status = take_trees(room, &trees, err);
    if (status == 0 && setns(pidfd, CLONE_NEWNS) < 0)
        return error_layer(err, "namespaces", -errno, "cannot enter a box");
    for (size_t i = 0; status == 0 && i < room->grants.count; i++)
        if ((status = mount_attach(trees.fds[i], AT_FDCWD, room->grants.shown[i].path)) < 0)
            return grant_error(&room->grants.shown[i], status, err);
    return status;
}
