/* Limits without control groups: sums over the descendants of init, taken from outside every few
 * milliseconds. It is a watchdog and no wall: between two looks a program can pass a limit by what it can do
 * in that time. */
#pragma once

#include "engine/engine.h"

enum { WATCHDOG_PROCESSES = 1024, WATCHDOG_PIDS = 32768 + 64 /* the ceiling of the pids limit, and some */ };

struct watched_process {
    pid_t pid;
    unsigned long long started; /* with the pid, it names the process for good */
    int64_t user_ticks, system_ticks;
};

struct watched_weight {
    pid_t pid;
    int64_t bytes;
    pid_t twin_of; /* whose memory is its own, and counted there; 0: nobody's */
};

/* What a file system has left. */
struct watched_room {
    bool is_known;
    int64_t bytes, inodes;
};

struct watchdog {
    pid_t init;
    int64_t disk_looked_us;
    int64_t disk_bytes;
    int64_t disk_entries;
    bool is_uncountable;              /* there is what cannot be counted, which counts as too much */
    bool look_is_partial;             /* for want of something on our side */
    struct watched_room room_at_look; /* where files are in memory */
    int64_t peak_pids;
    struct watched_process seen[WATCHDOG_PROCESSES];
    size_t seen_count;
    int64_t gone_user_ticks, gone_system_ticks;
    int64_t close_look_bytes, plain_at_close_look, close_looked_us; /* see sum_memory */
    pid_t known[256]; /* children that the launcher had before the box */
    size_t known_count;
    pid_t pids[WATCHDOG_PIDS]; /* that the last look found */
    size_t pid_count;
    int closed_looks; /* in a row, that somebody kept from us what he has open */
    struct watched_weight weights[WATCHDOG_PIDS];
};

/* Processes and CPU time, and memory where no group counts it. */
void watchdog_measure(struct watchdog *watchdog, const struct box *box, struct measurement *now);

/* The private directory, where it is not a file system with a limit of its own. */
void watchdog_measure_disk(struct watchdog *watchdog, const struct box *box, struct measurement *now);

/* Does its line of parents lead to this init? */
bool watchdog_is_below(pid_t init, pid_t pid);

/* Is this process (or thread) one of the box? */
bool watchdog_owns(const struct watchdog *watchdog, pid_t pid);
