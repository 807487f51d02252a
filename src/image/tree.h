/* The tree that becomes an image, while untrusted layers are put into it.
 *
 * Parents of an entry are resolved the way the finished image would see them: a link /bin -> usr/bin of an
 * earlier layer leads a later layer's bin/sh to usr/bin/sh, and a link to /etc or ../../etc leads to the
 * tree's own etc. The kernel does it (openat2, RESOLVE_IN_ROOT), so there is no check to race with. The last
 * part of a name is never followed: what stands there is replaced. Nothing else writes to the tree meanwhile.
 *
 * Owners, extended attributes, set-user-id and set-group-id bits are not kept. */
#pragma once

#include "base/error.h"
#include "image/image.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct tree_directory_time;

struct tree {
    int root_fd;
    struct image_import_limits limits;
    int64_t bytes;   /* taken so far, of limits.unpacked_bytes */
    int64_t entries; /* taken so far, of limits.entries; parents that no entry named count too */

    /* The parent of the last entry, which most often is the parent of the next one too. */
    char *parent_name;
    int parent_fd;
    bool parent_is_stale;

    /* Times of directories, set when a layer is complete, because each new entry in a directory touches it.
     */
    struct tree_directory_time *times;
    size_t time_count, time_name_bytes;
};

/* Makes the directory `name` in dir_fd and opens it. The caller closes, also after a failure. */
int tree_make(struct tree *tree, int dir_fd, const char *name, const struct image_import_limits *limits,
              struct error *err);
void tree_close(struct tree *tree);

#define scope_tree __attribute__((cleanup(tree_close))) struct tree

/* Takes from the limits; an error when there is not that much left. */
int tree_take_bytes(struct tree *tree, int64_t bytes, const char *name, struct error *err);
int tree_take_entry(struct tree *tree, struct error *err);

/* All names below are clean (entry_name_clean). What stands at the name is replaced, but for a directory by a
 * directory. */
int tree_add_directory(struct tree *tree, const char *name, mode_t mode, struct timespec modified,
                       struct error *err);
int tree_add_symlink(struct tree *tree, const char *name, const char *target, struct error *err);
int tree_add_hardlink(struct tree *tree, const char *name, const char *target, struct error *err);

/* An empty file, open for writing; the caller closes. */
int tree_add_file(struct tree *tree, const char *name, int *ret_fd, struct error *err);
/* Gives the file its final mode and time. */
int tree_finish_file(int fd, const char *name, mode_t mode, struct timespec modified, struct error *err);
/* A whole file of ours. */
int tree_put_file(struct tree *tree, const char *name, const char *text, struct error *err);

/* Removes the entry and what is below it; fine when it is not there. */
int tree_remove(struct tree *tree, const char *name, struct error *err);
/* Removes what is in the directory; fine when there is none. */
int tree_empty_directory(struct tree *tree, const char *name, struct error *err);

/* To be called after each layer. */
void tree_finish_layer(struct tree *tree);
