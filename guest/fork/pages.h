/* The pages that every fork of a zygote uses, made ready ahead. */
#pragma once

#include <stdint.h>

struct stretch {
    uint64_t start, length; /* whole pages */
    uint64_t advice;        /* for madvise: to have them for writing, or for reading */
};

/* Lists the memory that this process shares with no other, and what it has used of files. Returns how many
 * stretches there are, at most `room`. */
__attribute__((visibility("default"))) long cloche_pages_list(struct stretch *into, long room);

/* The list must stay. */
__attribute__((visibility("default"))) void cloche_pages_remember(const struct stretch *stretches,
                                                                  long count);

/* Has them made ready now, in a fork. */
__attribute__((visibility("hidden"))) void pages_take(void);
