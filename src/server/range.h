/* The headers that name a part of a file. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Range of a file of this length. 1: a part is asked for; 0: the whole; -ERANGE: what is not there. Several
 * parts at once are not offered: the whole is a right answer to that. */
int range_read(const char *text, uint64_t length, uint64_t *ret_first, uint64_t *ret_last);

struct range_content {
    bool is_check; /* no part: is what is there already all? */
    int64_t first, last, total;
};

/* Content-Range: bytes 0-99/300; or bytes and a star instead of the numbers. -EINVAL: it is none. */
int range_read_content(const char *text, struct range_content *ret);
