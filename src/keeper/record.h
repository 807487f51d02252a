/* Records: who owns which box on this host.
 *
 * Theory of operation. A box has a number, which gives it its name (groups, private directory) and, under
 * root, its uid. STATE/boxes has a byte for each: it is set while the number is taken, and locked by the
 * process that owns the box. A lock dies with its owner, however it dies: what is taken and can be locked
 * belongs to nobody, and what it names is left over. The next run, or `cloche reap`, removes it: processes,
 * groups, directory. One file for all, which stays: to make and remove one for each box costs far more than a
 * lock, on file systems that are slow to reuse an inode above all.
 *
 * STATE is /run/cloche for root; for others $XDG_RUNTIME_DIR/cloche, or /tmp/cloche-UID. */
#pragma once

#include "base/error.h"
#include "engine/engine.h"

struct record {
    struct box_identity identity;
    bool has_directory; /* which was made, and is to be removed */
    int number;
    int lock_fd;
    int state_fd;
};

#define RECORD_UNSET                                                                                         \
    {                                                                                                        \
        .identity = {.directory_fd = -1, .state_fd = -1}, .number = -1, .lock_fd = -1, .state_fd = -1        \
    }

/* The state directory's path; it may not exist yet. */
void record_state_path(char *into, size_t size);

/* Takes a free number; sweeps one leftover if it meets any. */
int record_take(struct record *ret, struct error *err);

/* Is there room for the files of a box with these limits where files are in memory? */
bool record_fits_into_memory(int64_t disk_bytes, int64_t inodes);

/* Names the private directory of the box; identity.make_directory makes it, when its engine comes to it. */
void record_name_directory(struct record *record, bool in_memory);
int record_make_directory(struct record *record, struct error *err);

/* Removes the directory and the record. Accepts a half-made one, and one that is given back already. A
 * negative errno when something would not go; the record then stays too, so that a reaper finds it. */
int record_give_back(struct record *record);

struct reap_report {
    int boxes;
    int groups;
    int directories;
    int failures;
};

/* Removes everything that dead owners left. */
int record_reap_all(const struct cgroup_layout *cgroups, struct reap_report *ret, struct error *err);
