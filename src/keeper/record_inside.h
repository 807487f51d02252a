/* What record.c and reap.c share. */
#pragma once

#include "keeper/record.h"

enum {
    RECORDS_MAX = 65536,
    /* Above what systemd gives to containers (to 0x6fffffff) and sssd to foreign users (to 2,000,200,000),
     * below systemd's foreign range (0x7ffe0000). */
    UID_BASE = 0x7d000000,
    UIDS_ALL =
        2 * RECORDS_MAX, /* every box's own, and then every box's helper's: gateway, owner of a stage */
};

/* Where private directories are: on a disk, or in memory. */
enum directory_root { ROOT_ON_DISK, ROOT_IN_MEMORY, DIRECTORY_ROOTS };
void record_directory_root(enum directory_root which, char *into, size_t size);

/* Opens it, if it is there and ours; else -1. */
int record_open_former_root(enum directory_root which);
bool record_directory_is_in_use(int root_fd, const char *name);

void record_name(int number, char *into, size_t size);

/* 1, 0, or a negative errno. */
int record_can_give_uids(void);

int record_open_state(struct error *err);
int record_open_file(int state_fd);
int record_mark(int records_fd, int number, char taken);
int record_lock(int records_fd, int number, bool *ret_is_leftover);
void record_unlock(int records_fd, int number);

/* Removes what a dead owner of this number left. The caller holds its lock. */
int record_sweep_one(int number);

/* The same for all others that are taken by nobody who lives, if there is one: with each box that is made.
 * Returns how many it looked at that are somebody's who does. */
int record_sweep_leftovers(int state_fd, int own_number);
