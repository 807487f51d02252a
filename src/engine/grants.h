/* Files and directories of the host that a spec grants, shown in the root of a box while that is built. */
#pragma once

#include "engine/engine.h"

#include <sys/types.h>

/* Who granted it knows it by this: the server's clients must not learn where it has their files. */
const char *grant_name(const struct grant *grant);

struct grant_shown {
    const char *host_path; /* opened in the child, whose mounts must be copied, without following links … */
    dev_t device;          /* … and it must be what the launcher saw */
    ino_t inode;
    bool is_directory;
    bool writable;
    const char *path; /* in the box, without the leading slash */
    char *own_path;   /* where `path` had to be put together: owned */
    int userns_fd;    /* maps the owner of the source to the box's uid; -1: as it is */
};

struct grants {
    struct grant_shown shown[SPEC_GRANTS_MAX];
    size_t count;
};

/* Looks at what is granted, in the launcher. Where the box has a uid of its own, what is shown belongs to
 * `owner`. */
int grants_open(const struct box *box, uid_t owner, struct grants *ret, struct error *err);
void grants_close(struct grants *grants);

/* In the child: what a grant shows, not yet at its place; a descriptor. */
int grant_clone(const struct grant_shown *grant);
/* A place for it below the working directory: a descriptor. */
int grant_make_place(const char *path, bool is_directory);
/* Attached at its place there. */
int grant_place(const struct grant_shown *grant, int tree);
int grant_error(const struct grant_shown *grant, int status, struct error *err);

/* Both, for all of them. */
int grants_show(const struct grants *grants, struct error *err);
