/* The room of a container: its root, built in the child before init. */
#pragma once

#include "engine/engine.h"
#include "engine/grants.h"
#include "engine/launch.h"

#include <sys/types.h>

struct room {
    const struct box *box;
    struct launch *launch;
    struct grants grants;
    bool is_started_by_root;
    uid_t owner_uid; /* of the scratch directories, as the kernel of the mounting namespace counts */
    gid_t owner_gid;
    cpu_set_t cpus; /* that the launcher may use: the child is kept off one of them while it starts */
    int files_fd;   /* of a fork: the scratch directory whose files it begins with; -1: none */
    bool has_files; /* there are any */
};

/* Looks at what is granted, in the launcher. */
int room_open(struct room *room, struct error *err);
void room_close(struct room *room);

/* Code that is small is written before the box has its group: pages that are charged to a group which is
 * about to die make its end slower, by more than their worth. What is large counts for the box, unless it is
 * the runner of a spare, which is ours. */
bool room_code_counts(const struct room *room);

/* In the child, with its own mount namespace and the power to mount: first all that needs neither the box's
 * control groups nor its network, … */
int room_furnish(const struct room *room, struct error *err);

/* … then the grants and the locks, and, inside those, code whose pages count for the box. Ends inside the
 * new root; a child of its own is still detaching the old one and masking /proc, and init waits for it
 * (PLAN_HELPED). */
int room_close_off(const struct room *room, struct error *err);

/* Before many boxes are made: what can be found out once is. */
void room_expect_forks(void);

/* Is there anything in a scratch directory that a copy would not have anyway? Also when that cannot be found
 * out. */
bool room_finds_files(int scratch_fd);

/* In a helper of the launcher's: goes into the namespaces of a forked box, and puts scratch space, terminals,
 * grants and a /proc of its own over those of its parent. Those stay below, where nobody can get at them who
 * may not unmount. */
int room_refurnish(const struct room *room, int pidfd, struct error *err);

/* In a helper: takes out of a box that is only there to be forked what each of its forks gets anew. All its
 * mounts are copied with each fork and taken apart again. */
int room_strip(const struct room *room, int pidfd, struct error *err);

/* In a helper: goes into a spare, or a fork that began anew, and shows its inputs, for which there are places
 * by now. */
int room_show_inputs(const struct room *room, int pidfd, struct error *err);

/* Places inside, for Landlock and for programs. */
extern const char *const room_writable_places[];
