/* The directory that holds the images.
 *
 * An image is made in STORE/.incoming-PID-RANDOM and renamed to STORE/NAME when it is complete, so that a
 * name always stands for a whole image. Its maker holds a flock on that directory. The kernel drops the lock
 * when the maker dies, however it dies; whoever comes next and gets the lock removes the rest. Removing an
 * image goes the same way backwards. The store itself is locked for the moments in which such a directory is
 * made or looked at, so nobody takes a new one, not yet locked, for an orphan. */
#pragma once

#include "base/error.h"

#include <stdbool.h>

struct store {
    char *path; /* absolute */
    int fd;
};

/* The path of a store, NULL for the default one; to be freed. */
int store_name(const char *path, char **ret, struct error *err);

/* Opens the store at `path`, NULL for the default one. Without `make` a missing store is -ENOENT, with err
 * untouched. The caller closes, also after a failure. */
int store_open(struct store *store, const char *path, bool make, struct error *err);
void store_close(struct store *store);

#define scope_store __attribute__((cleanup(store_close))) struct store

/* Removes what dead makers left behind. Failures are left to the next sweep. */
void store_sweep(const struct store *store);

/* An image in the making. */
struct incoming {
    struct store store;
    int fd; /* the directory, locked */
    char directory[64];
    const char *name; /* the caller's */
};

/* Checks the name and that it is free, sweeps the store and makes the directory. The caller ends it, also
 * after a failure. */
int incoming_begin(struct incoming *incoming, const char *store_path, const char *name, struct error *err);
/* Makes it the image of its name. */
int incoming_commit(struct incoming *incoming, struct error *err);
/* Removes what was not committed. */
void incoming_end(struct incoming *incoming);

#define scope_incoming __attribute__((cleanup(incoming_end))) struct incoming
