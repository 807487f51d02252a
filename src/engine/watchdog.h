/* Limits without control groups: sums over the descendants of init, taken from outside every few
 * milliseconds. It is a watchdog and no wall: between two looks a program can pass a limit by what it can do
 * in that time. */
#pragma once

#include "engine/engine.h"

struct watchdog {
    pid_t init;
    int64_t disk_looked_us;
    int64_t disk_bytes;
    int64_t disk_entries;
    int64_t peak_pids;
    pid_t known[256]; /* children that the launcher had before the box */
    size_t known_count;
    pid_t pids[32768 + 64]; /* the ceiling of the pids limit, and some */
};

/* Memory, processes and CPU time. */
void watchdog_measure(struct watchdog *watchdog, const struct box *box, struct measurement *now);

/* The private directory, where it is not a file system with a limit of its own. */
void watchdog_measure_disk(struct watchdog *watchdog, const struct box *box, struct measurement *now);

/* Is this process (or thread) one of the box? */
bool watchdog_owns(const struct watchdog *watchdog, pid_t pid);
