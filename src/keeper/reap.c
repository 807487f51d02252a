#include "keeper/record_inside.h"

#include "base/file.h"
#include "base/scope.h"
#include "os/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void sweep_directory(enum directory_root which, const char *name, struct reap_report *report)
{
    scope_fd root_fd = record_open_former_root(which);
    if (root_fd < 0)
        return;
    if (faccessat(root_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) < 0 || record_directory_is_in_use(root_fd, name))
        return;
    report->directories++;
    if (file_remove_tree(root_fd, name) < 0)
        report->failures++;
}

/* False: it is somebody's. The record may lie in another state directory, as a service with a /run of its own
 * has one. */
static bool sweep(int number, const struct cgroup_layout *cgroups, struct reap_report *report)
{
    char name[64];
    record_name(number, name, sizeof name);
    struct cgroup group;
    if (!cgroup_open_leftover(cgroups, name, &group))
        return false;
    if (record_can_give_uids() > 0) { /* the process engine's boxes have no group to kill */
        report->failures += process_kill_uid((uid_t)(UID_BASE + number)) < 0;
        report->failures += process_kill_uid((uid_t)(UID_BASE + RECORDS_MAX + number)) < 0;
    }
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        if (group.dir_fd[i] >= 0) {
            report->groups++;
            break;
        }
    if (cgroup_destroy(&group) < 0)
        report->failures++;
    for (enum directory_root which = 0; which < DIRECTORY_ROOTS; which++)
        sweep_directory(which, name, report);
    return true;
}

int record_sweep_one(int number)
{
    struct reap_report report = {0};
    struct cgroup_layout cgroups;
    cgroup_layout_find(&cgroups);
    return sweep(number, &cgroups, &report) && !report.failures ? 0 : -EBUSY;
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
    scope_fd records_fd = record_open_file(search->state_fd);
    if (records_fd < 0 || record_lock(records_fd, number, &leftover) < 0)
        return; /* alive */
    if (!sweep(number, search->cgroups, search->report))
        return;
    search->report->boxes++;
    if (leftover && record_mark(records_fd, number, 0) < 0)
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

static void each_directory(enum directory_root which, struct orphan_search *search)
{
    scope_fd root_fd = record_open_former_root(which);
    scope_dir *dir = root_fd < 0 ? NULL : fdopendir(root_fd);
    struct dirent *entry;
    if (dir)
        take_fd(&root_fd); /* the list has it now */
    while (dir && (entry = readdir(dir)))
        visit_name(search, entry->d_name);
}

/* Nearly all are 0, and each box that is made goes through them: by words. */
static const char *find_taken(const char *from, const char *end)
{
    uint64_t word = 0;
    for (; from < end; from++) {
        while (end - from >= (ptrdiff_t)sizeof word && memcpy(&word, from, sizeof word) && !word)
            from += sizeof word;
        if (from < end && *from)
            return from;
    }
    return NULL;
}

/* Those that are taken; whether by somebody who lives, the lock tells. `visit` says whether to go on. */
static int each_taken(int records_fd, bool (*visit)(void *data, int records_fd, int number), void *data)
{
    char taken[16384];
    ssize_t length = 0;
    /* Not to the end: a file that is longer is so by somebody's mistake, and may be of any length. */
    for (int first = 0; first < RECORDS_MAX && (length = pread(records_fd, taken, sizeof taken, first)) > 0;
         first += (int)length)
        for (const char *at = taken; (at = find_taken(at, taken + length)); at++)
            if (first + (at - taken) < RECORDS_MAX && !visit(data, records_fd, first + (int)(at - taken)))
                return 0;
    return length < 0 ? -errno : 0;
}

static bool reap_if_left(void *data, int records_fd, int number)
{
    (void)records_fd;
    reap_number(data, number);
    return true;
}

struct leftovers {
    int state_fd, own_number;
    int looks_left;
    struct cgroup_layout cgroups;
    bool has_cgroups;
    struct reap_report report;
};

/* With many boxes alive it would take longer to look at all of them than to make one. */
enum { LOOKS_MOST = 64 };

static bool is_locked(int records_fd, int number)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = number, .l_len = 1};
    return fcntl(records_fd, F_OFD_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

static bool sweep_if_left(void *data, int records_fd, int number)
{
    struct leftovers *leftovers = data;
    if (number == leftovers->own_number || is_locked(records_fd, number))
        return --leftovers->looks_left > 0;
    if (!leftovers->has_cgroups)
        cgroup_layout_find(&leftovers->cgroups);
    leftovers->has_cgroups = true;
    struct orphan_search search = {
        .state_fd = leftovers->state_fd, .cgroups = &leftovers->cgroups, .report = &leftovers->report};
    reap_number(&search, number);
    return true;
}

int record_sweep_leftovers(int state_fd, int own_number)
{
    struct leftovers leftovers = {.state_fd = state_fd, .own_number = own_number, .looks_left = LOOKS_MOST};
    scope_fd records_fd = record_open_file(state_fd);
    if (records_fd >= 0)
        each_taken(records_fd, sweep_if_left, &leftovers);
    return LOOKS_MOST - leftovers.looks_left;
}

int record_reap_all(const struct cgroup_layout *cgroups, struct reap_report *ret, struct error *err)
{
    *ret = (struct reap_report){0};
    scope_fd state_fd = record_open_state(err);
    if (state_fd < 0)
        return state_fd;
    struct orphan_search search = {.state_fd = state_fd, .cgroups = cgroups, .report = ret};
    scope_fd records_fd = record_open_file(state_fd);
    int status = records_fd < 0 ? records_fd : each_taken(records_fd, reap_if_left, &search);
    if (status < 0)
        return error_host(err, status, "cannot read the records of boxes");
    cgroup_each(cgroups, "box-", visit_name, &search);
    for (enum directory_root which = 0; which < DIRECTORY_ROOTS; which++)
        each_directory(which, &search);
    return 0;
}
