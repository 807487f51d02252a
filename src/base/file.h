/* Whole small files, directories made and removed; every path is relative to a directory descriptor. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/types.h>

/* Writes all of it, also across short writes and EINTR. 0 or a negative errno. */
int file_write_all(int fd, const void *data, size_t length);

/* One write(2) of a short text to an existing file (a sysfs, procfs or cgroupfs attribute). */
int file_write_attribute(int dir_fd, const char *path, const char *text);

/* Reads at most size - 1 bytes and terminates them; returns the length or a negative errno. */
int file_read_attribute(int dir_fd, const char *path, char *into, size_t size);

/* The whole file; more than limit_bytes is -EFBIG. */
int file_read_whole(int dir_fd, const char *path, size_t limit_bytes, struct buffer *ret);

/* Was nothing written or put in its place between these two looks? Zeroes stand for no file. */
bool file_is_same_version(const struct stat *one, const struct stat *other);

/* mkdir -p of an absolute or relative path. An existing directory is fine. */
int file_make_directories(const char *path, unsigned mode);

/* A directory that a user named for what is written to it, made where it is not there: a descriptor. */
int file_open_target(const char *path, struct error *err);

/* The directory that a path's last part is in, below dir_fd, with those on the way made where they are not
 * there; *ret_name is that part, inside of `path`. For paths of others' making: nothing leads out, and no
 * link is followed. */
int file_open_parent(int dir_fd, const char *path, mode_t mode, const char **ret_name);

/* chmod of the thing itself: never of what a link points to. */
int file_change_mode(int dir_fd, const char *name, mode_t mode);

/* Opens a directory that is not a link, with rights given back to ourselves if its owner took them away. */
int file_open_directory(int dir_fd, const char *name);

/* Removes the entry and all below it without following links or crossing into other mounts; 0 when it is not
 * there. */
int file_remove_tree(int dir_fd, const char *name);
