#include "keeper/record.h"

#include "base/file.h"
#include "base/scope.h"
#include "os/capabilities.h"
#include "os/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    RECORDS_MAX = 65536,
    /* Above what systemd gives to containers (to 0x6fffffff) and sssd to foreign users (to 2,000,200,000),
     * below systemd's foreign range (0x7ffe0000). */
    UID_BASE = 0x7d000000,
};

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
    int status = file_make_directories(path, 0755);
    if (status < 0)
        return error_host(err, status, "cannot make the state directory %s", path);
    scope_fd fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat status_of;
    if (fd < 0 || fstat(fd, &status_of) < 0)
        return error_host(err, -errno, "cannot open the state directory %s", path);
    if (status_of.st_uid != geteuid())
        return error_host(err, -EPERM, "the state directory %s belongs to another user", path);
    if ((status_of.st_mode & 0777) != mode && fchmod(fd, mode) < 0)
        return error_host(err, -errno, "cannot protect the state directory %s", path);
    return take_fd(&fd);
}

static void box_directory_root(char *into, size_t size)
{
    enum { LONGEST = 300 }; /* a longer TMPDIR would be cut, here or there: then the usual place */
    const char *temporary = getenv("TMPDIR");
    if (!temporary || temporary[0] != '/' || strlen(temporary) > LONGEST)
        temporary = "/tmp";
    if (geteuid() == 0)
        snprintf(into, size, "/var/lib/cloche/box");
    else
        snprintf(into, size, "%s/cloche-%u-box", temporary, (unsigned)geteuid());
    evade_squatter(into, size, "box");
}

static void name_of(int number, char *into, size_t size)
{
    snprintf(into, size, "box-%u-%d", (unsigned)geteuid(), number);
}

/* Root of a user namespace has only the ids that were given to it. 1, 0, or a negative errno. */
static int ids_are_mapped(const char *map_path)
{
    char text[4096];
    int length = file_read_attribute(AT_FDCWD, map_path, text, sizeof text);
    if (length <= 0) /* a kernel without user namespaces has no map, and all ids */
        return length == -ENOENT ? 1 : length < 0 ? length : -EIO;
    for (char *line = text; line && *line; line = strchr(line, '\n'), line += line ? 1 : 0) {
        unsigned long long inside, outside, count;
        if (sscanf(line, "%llu %llu %llu", &inside, &outside, &count) == 3 && inside <= UID_BASE &&
            inside + count >= UID_BASE + RECORDS_MAX)
            return 1;
    }
    return 0;
}

/* Root, with the capabilities that make it so: a hardened container's root has none, and is like any other
 * user. Not knowing is an error: it must not make a box of less. */
static int can_give_uids(void)
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
    status = ids_are_mapped("/proc/self/uid_map");
    return status > 0 ? ids_are_mapped("/proc/self/gid_map") : status;
}

/* Its owner holds a lock on it too: a record of the same number may lie in another state directory, if the
 * environment says another now than it did then. */
static bool directory_is_in_use(int root_fd, const char *name)
{
    scope_fd fd = openat(root_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

static void sweep_box(int number, const struct cgroup_layout *cgroups, struct reap_report *report)
{
    char name[64];
    name_of(number, name, sizeof name);
    if (can_give_uids() > 0) /* the process engine's boxes have no group to kill */
        process_kill_uid((uid_t)(UID_BASE + number));
    struct cgroup group;
    cgroup_open_leftover(cgroups, name, &group);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        if (group.dir_fd[i] >= 0) {
            report->groups++;
            break;
        }
    if (cgroup_destroy(&group) < 0)
        report->failures++;
    char root[400];
    box_directory_root(root, sizeof root);
    scope_fd root_fd = open(root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (root_fd >= 0 && faccessat(root_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0 &&
        !directory_is_in_use(root_fd, name)) {
        report->directories++;
        if (file_remove_tree(root_fd, name) < 0)
            report->failures++;
    }
}

static int open_records(int state_fd)
{
    int fd = openat(state_fd, RECORD_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd;
}

static int mark(int records_fd, int number, char taken)
{
    ssize_t written;
    do
        written = pwrite(records_fd, &taken, 1, number);
    while (written < 0 && errno == EINTR);
    return written == 1 ? 0 : written < 0 ? -errno : -EIO;
}

/* Locks the record `number`, which is then in use until the descriptor is closed; -EAGAIN when it has a
 * living owner. *ret_is_leftover: it was taken, by an owner that lives no more. */
static int lock_record(int records_fd, int number, bool *ret_is_leftover)
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

static int open_state(struct error *err)
{
    char path[400];
    record_state_path(path, sizeof path);
    return open_own_directory(path, 0700, err);
}

int record_take(struct record *ret, struct error *err)
{
    *ret = (struct record)RECORD_UNSET;
    scope_fd state_fd = open_state(err);
    if (state_fd < 0)
        return state_fd;
    int own_uids = can_give_uids();
    if (own_uids < 0)
        return error_host(err, own_uids, "cannot see which capabilities we have");
    scope_fd records_fd = open_records(state_fd);
    if (records_fd < 0)
        return error_host(err, records_fd, "cannot open the records of boxes");
    /* Starting at a place of our own keeps boxes that start together from trying the same numbers. */
    int first = (int)((unsigned)getpid() * 7919U % RECORDS_MAX);
    for (int i = 0; i < RECORDS_MAX; i++) {
        int number = (first + i) % RECORDS_MAX;
        bool leftover;
        int status = lock_record(records_fd, number, &leftover);
        if (status == -EAGAIN)
            continue;
        if (status == 0 && leftover) {
            struct reap_report report = {0};
            struct cgroup_layout cgroups;
            cgroup_layout_find(&cgroups);
            sweep_box(number, &cgroups, &report);
        } else if (status == 0) {
            status = mark(records_fd, number, 1);
        }
        if (status < 0)
            return error_host(err, status, "cannot take a record for the box");
        ret->number = number;
        ret->lock_fd = take_fd(&records_fd);
        ret->state_fd = take_fd(&state_fd);
        ret->identity.state_fd = ret->state_fd;
        name_of(number, ret->identity.name, sizeof ret->identity.name);
        ret->identity.has_uid = own_uids > 0;
        ret->identity.uid = (uid_t)(UID_BASE + number);
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

void record_name_directory(struct record *record)
{
    struct box_identity *identity = &record->identity;
    char root[400];
    box_directory_root(root, sizeof root);
    snprintf(identity->directory, sizeof identity->directory, "%s/%.60s", root, identity->name);
    identity->make_directory = make_directory_of;
}

int record_make_directory(struct record *record, struct error *err)
{
    struct box_identity *identity = &record->identity;
    const char *name = identity->name;
    char root[400];
    box_directory_root(root, sizeof root);
    /* Root's boxes have other uids, which must be able to pass through, but not to list. */
    scope_fd root_fd = open_own_directory(root, geteuid() == 0 ? 0711 : 0700, err);
    if (root_fd < 0)
        return root_fd;
    record_name_directory(record);
    int status = directory_is_in_use(root_fd, name) ? -EBUSY : file_remove_tree(root_fd, name);
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
    return status < 0 ? error_host(err, status, "cannot make the private directory %s/%s", root, name) : 0;
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
        status = mark(record->lock_fd, record->number, 0);
        is_marked = status < 0;
    }
    if (status < 0) /* kept: a second call, with more descriptors or memory to be had, may do it */
        return status;
    scope_close_fd(&record->lock_fd);
    scope_close_fd(&record->state_fd);
    return 0;
}

/* Boxes whose record is gone but whose group or directory is not: a kill between two steps of giving back. */
struct orphan_search {
    int state_fd;
    const struct cgroup_layout *cgroups;
    struct reap_report *report;
};

static void reap_number(struct orphan_search *search, int number)
{
    bool leftover;
    scope_fd records_fd = open_records(search->state_fd);
    if (records_fd < 0 || lock_record(records_fd, number, &leftover) < 0)
        return; /* alive */
    sweep_box(number, search->cgroups, search->report);
    search->report->boxes++;
    if (leftover && mark(records_fd, number, 0) < 0)
        search->report->failures++;
}

static void visit_name(void *data, const char *name)
{
    unsigned uid;
    int number;
    if (sscanf(name, "box-%u-%d", &uid, &number) == 2 && uid == (unsigned)geteuid() && number >= 0 &&
        number < RECORDS_MAX)
        reap_number(data, number);
}

static void each_entry(const char *path, const char *prefix, void (*visit)(void *, const char *), void *data)
{
    scope_dir *dir = opendir(path);
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            visit(data, entry->d_name);
}

/* Those that are taken; whether by somebody who lives, the lock tells. */
static int reap_taken(struct orphan_search *search)
{
    scope_fd records_fd = open_records(search->state_fd);
    if (records_fd < 0)
        return records_fd;
    char taken[4096];
    ssize_t length = 0;
    /* Not to the end: a file that is longer is so by somebody's mistake, and may be of any length. */
    for (int first = 0; first < RECORDS_MAX && (length = pread(records_fd, taken, sizeof taken, first)) > 0;
         first += (int)length)
        for (int i = 0; i < (int)length && first + i < RECORDS_MAX; i++)
            if (taken[i])
                reap_number(search, first + i);
    return length < 0 ? -errno : 0;
}

int record_reap_all(const struct cgroup_layout *cgroups, struct reap_report *ret, struct error *err)
{
    *ret = (struct reap_report){0};
    scope_fd state_fd = open_state(err);
    if (state_fd < 0)
        return state_fd;
    struct orphan_search search = {.state_fd = state_fd, .cgroups = cgroups, .report = ret};
    int status = reap_taken(&search);
    if (status < 0)
        return error_host(err, status, "cannot read the records of boxes");
    char path[400];
    cgroup_each(cgroups, "box-", visit_name, &search);
    box_directory_root(path, sizeof path);
    each_entry(path, "box-", visit_name, &search);
    return 0;
}
