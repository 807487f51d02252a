#include "engine/nameless.h"

#include "base/scope.h"
#include "engine/proc_path.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum { FILES_MOST = 65536 };

struct file_seen {
    ino_t inode;
    int64_t bytes;
};

struct search {
    dev_t device;
    struct file_seen *files;
    size_t count, room;
    bool is_too_much;
};

static void add_file(struct search *search, const struct stat *status)
{
    if (!S_ISREG(status->st_mode) || status->st_nlink > 0 || status->st_dev != search->device)
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

static void add_open(struct search *search, pid_t pid)
{
    char path[96];
    proc_path(pid, "fd", path, sizeof path);
    scope_dir *descriptors = opendir(path);
    struct dirent *entry;
    struct stat status;
    while (descriptors && !search->is_too_much && (entry = readdir(descriptors)))
        if (fstatat(dirfd(descriptors), entry->d_name, &status, 0) == 0)
            add_file(search, &status);
}

static int compare_inodes(const void *one, const void *other)
{
    ino_t a = ((const struct file_seen *)one)->inode, b = ((const struct file_seen *)other)->inode;
    return a < b ? -1 : a > b;
}

bool nameless_sum(const struct watchdog *watchdog, const struct box *box, int64_t *bytes)
{
    struct search search = {0};
    struct stat scratch;
    if (fstat(box->scratch_fd, &scratch) < 0)
        return true;
    search.device = scratch.st_dev;
    for (size_t i = 0; i < watchdog->seen_count && !search.is_too_much; i++) {
        add_program(&search, watchdog->seen[i].pid);
        add_open(&search, watchdog->seen[i].pid);
    }
    if (search.count > 1)
        qsort(search.files, search.count, sizeof *search.files, compare_inodes);
    for (size_t i = 0; i < search.count; i++)
        if (i == 0 || search.files[i].inode != search.files[i - 1].inode)
            *bytes += search.files[i].bytes;
    free(search.files);
    return !search.is_too_much;
}
