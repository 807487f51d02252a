#include "engine/nameless.h"

#include "base/file.h"
#include "base/scope.h"
#include "engine/proc_path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* One look may come while a program is begun, which nobody may look at for a moment. */
enum { FILES_MOST = 65536, CLOSED_LOOKS_MOST = 3 };

struct file_seen {
    ino_t inode;
    int64_t bytes;
};

struct search {
    dev_t device;
    struct file_seen *files;
    size_t count, room;
    bool is_too_much, is_closed;
};

static void add_file(struct search *search, const struct stat *status)
{
    if (status->st_nlink > 0 || status->st_dev != search->device)
        return;
    if (search->count == search->room) {
        size_t room = search->room ? 2 * search->room : 64;
        struct file_seen *files =
            room > FILES_MOST ? NULL : realloc(search->files, room * sizeof *search->files);
        search->is_too_much |= !files;
        if (!files)
            return;
        search->files = files;
        search->room = room;
    }
    search->files[search->count++] = (struct file_seen){status->st_ino, (int64_t)status->st_blocks * 512};
}

/* Also when it has unmapped all of itself, the program that a process runs is there until it runs another. */
static void add_program(struct search *search, pid_t pid)
{
    char path[96];
    struct stat status;
    proc_path(pid, "exe", path, sizeof path);
    if (stat(path, &status) == 0)
        add_file(search, &status);
}

/* Has no files any more, and may be closed for that. */
static bool is_ending(pid_t pid)
{
    enum { PF_EXITING_ = 4 };
    char path[96], text[1024];
    unsigned flags = 0;
    proc_path(pid, "stat", path, sizeof path);
    const char *rest = file_read_attribute(AT_FDCWD, path, text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
    return !rest || sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) != 1 || flags & PF_EXITING_;
}

static void add_open(struct search *search, pid_t pid)
{
    char path[96];
    proc_path(pid, "fd", path, sizeof path);
    scope_dir *descriptors = opendir(path);
    struct dirent *entry;
    struct stat status;
    bool is_closed = !descriptors && (errno == EACCES || errno == EPERM);
    while (descriptors && !search->is_too_much && (entry = readdir(descriptors)))
        if (fstatat(dirfd(descriptors), entry->d_name, &status, 0) == 0)
            add_file(search, &status);
        else
            is_closed |= errno == EACCES || errno == EPERM;
    search->is_closed |= is_closed && !is_ending(pid);
}

static int compare_inodes(const void *one, const void *other)
{
    ino_t a = ((const struct file_seen *)one)->inode, b = ((const struct file_seen *)other)->inode;
    return a < b ? -1 : a > b;
}

static void look(struct search *search, const struct watchdog *watchdog)
{
    search->count = 0;
    search->is_closed = false;
    for (size_t i = 0; i < watchdog->pid_count && !search->is_too_much; i++) {
        add_program(search, watchdog->pids[i]);
        add_open(search, watchdog->pids[i]);
    }
}

/* Root without CAP_SYS_PTRACE, as it is in many containers, may look at what is its own only: so it looks as
 * the box's user. For that the kernel takes two things of ours away, which are put back. */
static void look_as(uid_t user, struct search *search, const struct watchdog *watchdog)
{
    int death_signal = 0, is_dumpable = prctl(PR_GET_DUMPABLE);
    prctl(PR_GET_PDEATHSIG, &death_signal);
    setfsgid(user);
    setfsuid(user);
    look(search, watchdog);
    setfsuid(geteuid());
    setfsgid(getegid());
    prctl(PR_SET_DUMPABLE, is_dumpable);
    prctl(PR_SET_PDEATHSIG, death_signal);
}

bool nameless_sum(struct watchdog *watchdog, const struct box *box, int64_t *bytes)
{
    struct search search = {0};
    struct stat scratch;
    if (fstat(box->scratch_fd, &scratch) < 0)
        return true;
    search.device = scratch.st_dev;
    look(&search, watchdog);
    if (search.is_closed && box->identity->has_uid)
        look_as(box->identity->uid, &search, watchdog);
    watchdog->closed_looks = search.is_closed ? watchdog->closed_looks + 1 : 0;
    search.is_too_much |= watchdog->closed_looks >= CLOSED_LOOKS_MOST;
    if (search.count > 1)
        qsort(search.files, search.count, sizeof *search.files, compare_inodes);
    for (size_t i = 0; i < search.count; i++)
        if (i == 0 || search.files[i].inode != search.files[i - 1].inode)
            *bytes += search.files[i].bytes;
    free(search.files);
    return !search.is_too_much;
}
