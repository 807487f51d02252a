#include "keeper/record_inside.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "os/capabilities.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/capability.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define RECORD_FILE "boxes"

/* Anyone may have taken our name in a directory for all, so that we could not work: then the home has to do.
 */
static void evade_squatter(char *path, size_t size, const char *name_at_home)
{
    struct stat there;
    const char *home = getenv("HOME");
    if (lstat(path, &there) == 0 && there.st_uid != geteuid() && home && home[0] == '/' &&
        strlen(home) <= 300)
        snprintf(path, size, "%s/.cache/cloche/%s", home, name_at_home);
}

void record_state_path(char *into, size_t size)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (geteuid() == 0)
        snprintf(into, size, "/run/cloche");
    else if (runtime && runtime[0] == '/' && strlen(runtime) <= 300)
        snprintf(into, size, "%s/cloche", runtime);
    else
        snprintf(into, size, "/tmp/cloche-%u", (unsigned)geteuid());
    evade_squatter(into, size, "state");
}

/* A directory that is really ours: another user could have made one of that name in /tmp before us. */
static int open_own_directory(const char *path, mode_t mode, struct error *err)
{
    enum { FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };
    scope_fd fd = open(path, FLAGS); /* most often it is there */
    if (fd < 0 && errno == ENOENT) {
        int status = file_make_directories(path, 0755);
        if (status < 0)
            return error_host(err, status, "cannot make the state directory %s", path);
        fd = open(path, FLAGS);
    }
    struct stat status_of;
    if (fd < 0 || fstat(fd, &status_of) < 0)
        return error_host(err, -errno, "cannot open the state directory %s", path);
    if (status_of.st_uid != geteuid())
        return error_host(err, -EPERM, "the state directory %s belongs to another user", path);
    if ((status_of.st_mode & 0777) != mode && fchmod(fd, mode) < 0)
        return error_host(err, -errno, "cannot protect the state directory %s", path);
    return take_fd(&fd);
}

#define MEMORY_FILES "/dev/shm"

/* $TMPDIR, if it is one. A longer one would be cut, here or there: then the usual place. */
static const char *chosen_temporary(void)
{
    enum { LONGEST = 300 };
    const char *temporary = getenv("TMPDIR");
    return temporary && temporary[0] == '/' && strlen(temporary) <= LONGEST ? temporary : NULL;
}

void record_directory_root(enum directory_root which, char *into, size_t size)
{
    const char *temporary = chosen_temporary();
    if (which == ROOT_IN_MEMORY)
        snprintf(into, size, MEMORY_FILES "/cloche-%u-box", (unsigned)geteuid());
    else if (geteuid() == 0)
        snprintf(into, size, "/var/lib/cloche/box");
    else
        snprintf(into, size, "%s/cloche-%u-box", temporary ? temporary : "/tmp", (unsigned)geteuid());
    if (which == ROOT_ON_DISK)
        evade_squatter(into, size, "box");
}

/* The directory in which boxes have theirs. Root's boxes have other uids, which must be able to pass through,
 * but not to list. */
static int open_box_root(enum directory_root which, struct error *err)
{
    char root[400];
    record_directory_root(which, root, sizeof root);
    return open_own_directory(root, geteuid() == 0 ? 0711 : 0700, err);
}

/* Anyone can take our name in a directory for all, also from one moment to the next; but what is ours there
 * stays so, if only its owner can remove it. */
static bool has_root_in_memory(void)
{
    struct stat all;
    if (stat(MEMORY_FILES, &all) < 0 || (all.st_mode & S_IWOTH && !(all.st_mode & S_ISVTX)))
        return false;
    scope_fd root_fd = open_box_root(ROOT_IN_MEMORY, NULL);
    return root_fd >= 0;
}

/* To make and remove seven files on a disk takes as long as the rest of a small run's start (each that is
 * removed may be a command to the disk). What is written there is memory then, and is counted as such
 * (box_identity). */
bool record_fits_into_memory(int64_t disk_bytes, int64_t inodes)
{
    enum { OTHERS = 4 }; /* boxes come in numbers */
    struct statfs space;
    if (geteuid() != 0 && chosen_temporary()) /* who says where temporary files go means these, too */
        return false;
    return statfs(MEMORY_FILES, &space) == 0 && space.f_type == TMPFS_MAGIC &&
           !(space.f_flags & (ST_NOEXEC | ST_RDONLY)) &&
           (int64_t)space.f_bavail >= OTHERS * (disk_bytes / (int64_t)space.f_bsize + 1) &&
           (space.f_files == 0 || (int64_t)space.f_ffree >= OTHERS * inodes) && has_root_in_memory();
}

void record_name(int number, char *into, size_t size)
{
    snprintf(into, size, "box-%u-%d", (unsigned)geteuid(), number);
}

/* Root of a user namespace has only the ids that were given to it: all that we would use, or it has none for
 * us. 1, 0, or a negative errno. */
static int ids_are_mapped(const char *map_path)
{
    char text[4096];
    int length = file_read_attribute(AT_FDCWD, map_path, text, sizeof text);
    if (length <= 0) /* a kernel without user namespaces has no map, and all ids */
        return length == -ENOENT ? 1 : length < 0 ? length : -EIO;
    for (char *line = text; line && *line; line = strchr(line, '\n'), line += line ? 1 : 0) {
        unsigned long long inside, outside, count;
        if (sscanf(line, "%llu %llu %llu", &inside, &outside, &count) == 3 && inside <= UID_BASE &&
            inside + count >= UID_BASE + UIDS_ALL)
            return 1;
    }
    return 0;
}

/* The kernel's own, where every id is itself: its number is part of the kernel's interface. */
static bool in_first_user_namespace(void)
{
    enum { NUMBER = 0xeffffffd };
    struct stat own;
    return stat("/proc/self/ns/user", &own) == 0 && own.st_ino == NUMBER;
}

/* Root, with the capabilities that make it so: a hardened container's root has none, and is like any other
 * user. Not knowing is an error: it must not make a box of less. */
int record_can_give_uids(void)
{
    uint64_t held;
    if (geteuid() != 0)
        return 0;
    int status = capabilities_effective(&held);
    if (status < 0)
        return status;
    const uint64_t needed = UINT64_C(1) << CAP_SETUID | UINT64_C(1) << CAP_SETGID | UINT64_C(1) << CAP_CHOWN |
                            UINT64_C(1) << CAP_SETPCAP | UINT64_C(1) << CAP_KILL;
    if ((held & needed) != needed)
        return 0;
    if (in_first_user_namespace())
        return 1;
    status = ids_are_mapped("/proc/self/uid_map");
    return status > 0 ? ids_are_mapped("/proc/self/gid_map") : status;
}

/* Its owner holds a lock on it too: a record of the same number may lie in another state directory, if the
 * environment says another now than it did then. */
bool record_directory_is_in_use(int root_fd, const char *name)
{
    scope_fd fd = openat(root_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

/* The same, if it is there; -1 also where it is another user's, who can put anything into it. */
int record_open_former_root(enum directory_root which)
{
    char root[400];
    struct stat own;
    record_directory_root(which, root, sizeof root);
    scope_fd root_fd = open(root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return root_fd < 0 || fstat(root_fd, &own) < 0 || own.st_uid != geteuid() ? -1 : take_fd(&root_fd);
}

int record_open_file(int state_fd)
{
    int fd = openat(state_fd, RECORD_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd;
}

int record_mark(int records_fd, int number, char taken)
{
    ssize_t written;
    do
        written = pwrite(records_fd, &taken, 1, number);
    while (written < 0 && errno == EINTR);
    return written == 1 ? 0 : written < 0 ? -errno : -EIO;
}

/* Locks the record `number`, which is then in use until the descriptor is closed; -EAGAIN when it has a
 * living owner. *ret_is_leftover: it was taken, by an owner that lives no more. */
int record_lock(int records_fd, int number, bool *ret_is_leftover)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = number, .l_len = 1};
    if (fcntl(records_fd, F_OFD_SETLK, &lock) < 0)
        return errno == EACCES ? -EAGAIN : -errno;
    char taken = 0; /* beyond the end of the file nothing was ever taken */
    if (pread(records_fd, &taken, 1, number) < 0)
        return -errno;
    *ret_is_leftover = taken != 0;
    return 0;
}

void record_unlock(int records_fd, int number)
{
    struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = number, .l_len = 1};
    fcntl(records_fd, F_OFD_SETLK, &lock);
}

int record_open_state(struct error *err)
{
    char path[400];
    record_state_path(path, sizeof path);
    return open_own_directory(path, 0700, err);
}

/* Starting at a place of our own keeps boxes that start together from trying the same numbers; going on from
 * the last one keeps who makes many from trying all that are alive. */
static int next_number(void)
{
    static atomic_uint given;
    unsigned count = atomic_fetch_add_explicit(&given, 1, memory_order_relaxed);
    return (int)(((unsigned)getpid() * 7919U + count) % RECORDS_MAX);
}

/* What somebody else has left is no sooner there because we make many boxes: who finds many that are alive
 * looks again a second later. */
static void sweep(int state_fd, int own_number)
{
    enum { MANY = 8, PAUSE_US = 1000 * 1000 };
    static _Atomic int64_t again_us;
    int64_t now_us = clock_monotonic_us();
    if (now_us >= atomic_load(&again_us) && record_sweep_leftovers(state_fd, own_number) >= MANY)
        atomic_store(&again_us, now_us + PAUSE_US);
}

int record_take(struct record *ret, struct error *err)
{
    *ret = (struct record)RECORD_UNSET;
    scope_fd state_fd = record_open_state(err);
    if (state_fd < 0)
        return state_fd;
    int own_uids = record_can_give_uids();
    if (own_uids < 0)
        return error_host(err, own_uids, "cannot see which capabilities we have");
    scope_fd records_fd = record_open_file(state_fd);
    if (records_fd < 0)
        return error_host(err, records_fd, "cannot open the records of boxes");
    for (int i = 0; i < RECORDS_MAX; i++) {
        int number = next_number();
        bool leftover;
        int status = record_lock(records_fd, number, &leftover);
        if (status == -EAGAIN)
            continue;
        if (status == 0 && leftover && record_sweep_one(number) < 0) {
            record_unlock(records_fd, number); /* its uid may still be somebody's: another number, then */
            continue;
        }
        if (status == 0 && !leftover)
            status = record_mark(records_fd, number, 1);
        if (status < 0)
            return error_host(err, status, "cannot take a record for the box");
        sweep(state_fd, number);
        ret->number = number;
        ret->lock_fd = take_fd(&records_fd);
        ret->state_fd = take_fd(&state_fd);
        ret->identity.state_fd = ret->state_fd;
        record_name(number, ret->identity.name, sizeof ret->identity.name);
        ret->identity.has_uid = own_uids > 0;
        ret->identity.uid = (uid_t)(UID_BASE + number);
        ret->identity.gateway_uid = (uid_t)(UID_BASE + RECORDS_MAX + number);
        ret->identity.first_uid = UID_BASE;
        ret->identity.uid_count = RECORDS_MAX;
        return 0;
    }
    return error_host(err, -EUSERS, "%d boxes are alive already", RECORDS_MAX);
}

static int make_directory_of(struct box_identity *identity, struct error *err)
{
    return record_make_directory((struct record *)((char *)identity - offsetof(struct record, identity)),
                                 err);
}

static enum directory_root root_of(const struct box_identity *identity)
{
    return identity->is_in_memory ? ROOT_IN_MEMORY : ROOT_ON_DISK;
}

void record_name_directory(struct record *record, bool in_memory)
{
    struct box_identity *identity = &record->identity;
    char root[400];
    identity->is_in_memory = in_memory;
    record_directory_root(root_of(identity), root, sizeof root);
    snprintf(identity->directory, sizeof identity->directory, "%s/%.60s", root, identity->name);
    identity->make_directory = make_directory_of;
}

int record_make_directory(struct record *record, struct error *err)
{
    struct box_identity *identity = &record->identity;
    const char *name = identity->name;
    scope_fd root_fd = open_box_root(root_of(identity), err);
    if (root_fd < 0)
        return root_fd;
    record_name_directory(record, identity->is_in_memory);
    int status = record_directory_is_in_use(root_fd, name) ? -EBUSY : file_remove_tree(root_fd, name);
    if (status == 0 && mkdirat(root_fd, name, 0700) < 0)
        status = -errno;
    if (status == 0) {
        record->has_directory = true;
        identity->directory_fd = openat(root_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (identity->directory_fd >= 0)
            flock(identity->directory_fd, LOCK_EX | LOCK_NB);
        /* Root's inputs and code are in it: nobody may pass through but root and the box's own group. */
        bool own = identity->has_uid;
        if (identity->directory_fd < 0 || (own && fchown(identity->directory_fd, 0, identity->uid) < 0) ||
            fchmod(identity->directory_fd, own ? 0710 : 0700) < 0)
            status = -errno;
    }
    return status < 0 ? error_host(err, status, "cannot make the private directory %s", identity->directory)
                      : 0;
}

int record_give_back(struct record *record)
{
    enum { ATTEMPTS = 2 }; /* a passing lack of memory or descriptors must not leave anything */
    int status = 0;
    scope_close_fd(&record->identity.directory_fd);
    for (int i = 0; i < ATTEMPTS && record->has_directory; i++) {
        status = file_remove_tree(AT_FDCWD, record->identity.directory);
        record->has_directory = status < 0;
    }
    bool is_marked = status == 0 && record->lock_fd >= 0;
    for (int i = 0; i < ATTEMPTS && is_marked;
         i++) { /* before the lock goes: who has it next finds nothing */
        status = record_mark(record->lock_fd, record->number, 0);
        is_marked = status < 0;
    }
    if (status < 0) /* kept: a second call, with more descriptors or memory to be had, may do it */
        return status;
    scope_close_fd(&record->lock_fd);
    scope_close_fd(&record->state_fd);
    return 0;
}
