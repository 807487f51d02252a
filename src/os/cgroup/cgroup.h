/* Control groups, v1 and v2 behind one face.
 *
 * Theory of operation. A layout says where groups can be made on this machine, and is found once. A group is
 * made under it; all limits are written, and read back (cgroup_verify), before a guest runs in it. On v2 a
 * child is born inside (CLONE_INTO_CGROUP); on v1 the child writes itself into each hierarchy, because a
 * write by the parent waits for an RCU grace period. The group's name carries its owner (see
 * keeper/record.h), so that a reaper can tell what a dead owner left.
 *
 * v1 hierarchies are used at their mount's root, v2 at the highest group that we may write to: the machine's
 * root for root, the delegated subtree for others. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum cgroup_version {
    CGROUP_NONE,
    CGROUP_V1,
    CGROUP_V2,
};

enum cgroup_controller {
    CGROUP_MEMORY,
    CGROUP_PIDS,
    CGROUP_CPU,
    CGROUP_CPUACCT, /* v1 only; part of cpu in v2 */
    CGROUP_CONTROLLERS,
};

extern const char *const cgroup_controller_names[CGROUP_CONTROLLERS];

struct cgroup_layout {
    enum cgroup_version version;
    char base[CGROUP_CONTROLLERS]
             [256];    /* directory that groups are made in; empty: controller not to be had */
    char why_not[512]; /* CGROUP_NONE or a controller missing: what is in the way */
};

/* Never fails: where nothing can be had, the version is CGROUP_NONE and why_not says why. */
void cgroup_layout_find(struct cgroup_layout *ret);

bool cgroup_layout_has(const struct cgroup_layout *layout, enum cgroup_controller controller);

/* The same machine, for groups that limit memory only: on v1 each controller that is left out is one
 * directory less to make, to join and to remove. */
void cgroup_layout_for_memory(const struct cgroup_layout *all, struct cgroup_layout *ret);

struct cgroup_limits {
    int64_t memory_bytes; /* swap included; 0: none */
    int64_t pids;
    int64_t millicpus;
};

enum { CGROUP_USAGE_ROWS = 8 };

struct cgroup {
    enum cgroup_version version;
    char name[80];
    char base[CGROUP_CONTROLLERS][256];
    int dir_fd[CGROUP_CONTROLLERS];  /* -1 where not used; on v2 all is in [CGROUP_MEMORY] */
    int join_fd[CGROUP_CONTROLLERS]; /* v1: the files that a child writes "0" to */
    int usage_fd[CGROUP_USAGE_ROWS]; /* the files that cgroup_usage_read reads */
};

#define CGROUP_UNSET                                                                                         \
    {                                                                                                        \
        .dir_fd = {-1, -1, -1, -1}, .join_fd = {-1, -1, -1, -1}, .usage_fd = {                               \
            -1,                                                                                              \
            -1,                                                                                              \
            -1,                                                                                              \
            -1,                                                                                              \
            -1,                                                                                              \
            -1,                                                                                              \
            -1,                                                                                              \
            -1                                                                                               \
        }                                                                                                    \
    }

/* Makes the group in every hierarchy and writes the limits (NULL: later). Takes back what it made when it
 * fails. */
int cgroup_create(const struct cgroup_layout *layout, const char *name, const struct cgroup_limits *limits,
                  struct cgroup *ret, struct error *err);
int cgroup_limit(const struct cgroup *group, const struct cgroup_limits *limits, struct error *err);

/* On v2 a child is born in its group; this is for one that is not, and joins as on v1. */
int cgroup_join_open(struct cgroup *group, struct error *err);

/* In the child: join by the files that are open for that. Async-signal-safe. */
int cgroup_join_self(const struct cgroup *group);

/* Reads back that the limits stand. */
int cgroup_verify_limits(const struct cgroup *group, const struct cgroup_limits *limits, struct error *err);

/* The same, and that the process is inside: the layer's proof. */
int cgroup_verify(const struct cgroup *group, const struct cgroup_limits *limits, pid_t pid,
                  struct error *err);

/* The second half of it, for another process of the same group. */
int cgroup_verify_member(const struct cgroup *group, pid_t pid, struct error *err);

struct cgroup_usage {
    int64_t memory_bytes;
    int64_t memory_peak_bytes;
    int64_t oom_kills;
    int64_t pids_now;
    int64_t pids_peak;    /* -1: the kernel does not keep it */
    int64_t pids_refused; /* how often a fork was refused */
    int64_t cpu_user_us;
    int64_t cpu_system_us;
};

/* Opens the files of usage ahead: a first open in the group's directory costs ten times a read. */
int cgroup_usage_open(struct cgroup *group, struct error *err);
void cgroup_usage_read(const struct cgroup *group, struct cgroup_usage *ret);
int64_t cgroup_pids_now(const struct cgroup *group); /* -1: it cannot be told */

/* Closes those and the ones that children join by: what is left to do with the group is to end it. */
void cgroup_read_no_more(struct cgroup *group);

/* A descriptor that becomes ready (for *ret_events) when the group runs out of memory, or -1. */
int cgroup_watch_oom(const struct cgroup *group, short *ret_events);

/* Are its directories still there? */
bool cgroup_exists(const struct cgroup *group);

/* Ends every process in the group: cgroup.kill, or a signal to each, when none can be added. */
void cgroup_kill(const struct cgroup *group);

/* The same, but for one, which can start nothing any more. */
void cgroup_kill_all_but(const struct cgroup *group, pid_t spared);

/* From now on, when there is no memory left, the kernel may end one of its processes and leave the others. */
void cgroup_end_singly(const struct cgroup *group);

/* Kills what is left inside, waits for it briefly, removes the directories, closes. Accepts a half-made
 * group. A negative errno when a directory would not go. */
int cgroup_destroy(struct cgroup *group);

/* Opens an existing group by name for destruction by a reaper; the directories that are there. False: its
 * owner lives, or another reaper is there. */
bool cgroup_open_leftover(const struct cgroup_layout *layout, const char *name, struct cgroup *ret);

/* Calls `visit` with the name of every group under the layout that starts with prefix. */
void cgroup_each(const struct cgroup_layout *layout, const char *prefix,
                 void (*visit)(void *data, const char *name), void *data);
