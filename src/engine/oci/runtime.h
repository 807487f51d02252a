/* Which OCI runtime makes a box, and how that one is called. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "engine/engine.h"

/* Where the runtime finds things, in the root that stage.h builds for it. */
#define STAGE_PROGRAM "/runtime"
#define STAGE_STATE   "/state"
#define STAGE_BUNDLE  "/bundle"
#define STAGE_ROOT    "/box"
#define STAGE_SCRATCH "/scratch"
#define STAGE_INIT    "/.cloche-init" /* in the box */

struct runtime_row {
    const char *name;              /* the last part of its path; NULL: any other */
    const char *least;             /* the oldest version that will do; NULL: any */
    bool counts_itself;            /* the processes of its boxes are not the host's */
    bool is_alone;                 /* it needs no libraries of the host's */
    bool sees_groups;              /* it does not start where it finds no control groups */
    bool has_platform;             /* it is told by --platform how to catch system calls */
    bool numbers_fds;              /* descriptors are passed one by one, with their numbers; else from 3 on */
    bool waits_at_start;           /* for the host's kernel, which it can be spared: see stage.c */
    int64_t memory_bytes;          /* what it takes for itself in a box, beside the program's */
    int64_t threads;               /* and how many */
    const char *const *before_run; /* arguments, NULL-terminated */
};

struct runtime {
    const struct runtime_row *row;
    char path[4096]; /* on the host */
    char version[64];
};

/* Finds the spec's runtime and asks for its version, unless that is known from before. The error names what
 * is missing or too old, and where to get it. */
int runtime_find(const struct box *box, struct runtime *ret, struct error *err);

/* The whole command line that makes and runs the box. */
int runtime_arguments(const struct runtime *runtime, const struct box *box, struct string_list *ret);

/* Is the version, of numbers with dots or tildes between them, at least that? */
bool runtime_version_reaches(const char *version, const char *least);
