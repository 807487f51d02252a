/* Ownership by scope: what is declared with scope_* is released when the block is left; take_* hands it over.
 * An unset descriptor is -1. */
#pragma once

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void scope_close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static inline void scope_free_pointer(void *pointer)
{
    free(*(void **)pointer);
}

static inline void scope_close_file(FILE **file)
{
    if (*file)
        fclose(*file);
}

static inline void scope_close_dir(DIR **dir)
{
    if (*dir)
        closedir(*dir);
}

#define scope_fd   __attribute__((cleanup(scope_close_fd))) int
#define scope_free __attribute__((cleanup(scope_free_pointer)))
#define scope_file __attribute__((cleanup(scope_close_file))) FILE
#define scope_dir  __attribute__((cleanup(scope_close_dir))) DIR

static inline int take_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

#define take_pointer(pointer)                                                                                \
    ({                                                                                                       \
        __typeof__(pointer) taken_pointer = (pointer);                                                       \
        (pointer) = NULL;                                                                                    \
        taken_pointer;                                                                                       \
    })
