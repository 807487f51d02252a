/* Entries of a directory without the heap and without errno: for a child between clone and exec, where
 * another thread of the parent may have held the allocator's lock at the moment of the clone. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct directory_reader {
    int fd;
    long length, at;
    _Alignas(8) char block[4096];
};

/* False also when it cannot be known. */
bool directory_is_empty(int fd);

/* Starts at the beginning. The descriptor stays the caller's. */
void directory_reader_start(struct directory_reader *reader, int fd);

/* The next name but "." and "..": 1 with *ret_name set (valid until the next call), 0 at the end, a negative
 * errno. */
int directory_reader_next(struct directory_reader *reader, const char **ret_name);
