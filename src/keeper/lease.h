/* A lease: a box with everything that belongs to it on the host, from its record to its removal. */
#pragma once

#include "engine/engine.h"
#include "engine/supervise.h"
#include "keeper/record.h"

struct lease {
    struct record record;
    struct box box;
    struct program program;
    struct limits limits;
    bool is_open;
};

/* What a box is made of; all of it must live longer than the lease. */
struct lease_terms {
    const struct spec *spec;
    const struct image *image;
    const struct cgroup_layout *cgroups;
    const struct limits *limits;
    int64_t lifetime_ms; /* 0: the limits of wall and CPU time are for the whole; else this is */
    bool limits_stay;    /* they are those of the run that it is for, and its only one */
};

/* Takes a record and fills the box in; nothing runs yet. */
int lease_open(struct lease *lease, const struct lease_terms *terms, struct error *err);

/* Takes the files of a box that has ended. target_fd: where they go; -1: nowhere. */
int lease_collect(struct lease *lease, int target_fd, struct result *result, struct error *err);

/* Adds what the box has written to stderr, cut to its last lines, to an error: for a runner that died. */
void lease_add_last_words(const struct lease *lease, struct error *err);

/* Ends what still runs and gives everything back; harmless when done already. A negative errno when something
 * would not go, for the next reaper. */
int lease_close(struct lease *lease);
void lease_close_at_scope_end(struct lease *lease);
#define scope_lease __attribute__((cleanup(lease_close_at_scope_end))) struct lease
