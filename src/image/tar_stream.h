/* A tar archive, plain or under gzip or zstd, read once from front to back. Everything in it is untrusted.
 *
 * libarchive does the parsing; this file keeps it on a short lead: only the tar format and those two filters
 * are linked in, one layer of compression and no more, and the unpacked stream has a limit in bytes, whatever
 * the headers say. zstd refuses by itself windows past 128 MiB, so memory is bounded too. */
#pragma once

#include "base/error.h"

#include <stdint.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

enum tar_entry_type {
    TAR_ENTRY_FILE,
    TAR_ENTRY_DIRECTORY,
    TAR_ENTRY_SYMLINK,
    TAR_ENTRY_HARDLINK,
    TAR_ENTRY_CHARACTER_DEVICE,
    TAR_ENTRY_BLOCK_DEVICE,
    TAR_ENTRY_FIFO,
    TAR_ENTRY_SOCKET,
    TAR_ENTRY_UNKNOWN,
};

const char *tar_entry_type_name(enum tar_entry_type type);

/* The strings belong to the stream and live until the next call of tar_stream_next. */
struct tar_entry {
    enum tar_entry_type type;
    const char *name;   /* as it is in the archive */
    const char *target; /* of a symlink or hardlink, else NULL */
    mode_t mode;
    int64_t size_bytes; /* as the header says */
    struct timespec modified;
    unsigned device_major, device_minor;
};

struct tar_stream;

/* Reads the next block: its length, 0 at the end, or a negative errno. The block lives until the next call.
 */
typedef ssize_t (*tar_stream_source)(void *data, const void **ret_block);

/* `fd` stays the caller's. `limit_bytes` counts the unpacked stream, headers included. The caller closes. */
int tar_stream_open(int fd, int64_t limit_bytes, struct tar_stream **ret, struct error *err);
int tar_stream_open_source(tar_stream_source source, void *data, int64_t limit_bytes, struct tar_stream **ret,
                           struct error *err);
void tar_stream_close(struct tar_stream *stream);

#define scope_tar_stream __attribute__((cleanup(tar_stream_close_pointer))) struct tar_stream
static inline void tar_stream_close_pointer(struct tar_stream **stream)
{
    tar_stream_close(*stream);
}

/* 1 with an entry, 0 at the end, or a negative errno. What is left of the previous entry's data is skipped.
 */
int tar_stream_next(struct tar_stream *stream, struct tar_entry *ret, struct error *err);

/* The next piece of the entry's data and where it belongs (a gap is a hole); 1, 0 at the end, or a negative
 * errno. */
int tar_stream_data(struct tar_stream *stream, const void **ret_data, size_t *ret_length, int64_t *ret_offset,
                    struct error *err);

/* How much of the source was taken, for progress. */
int64_t tar_stream_bytes_taken(const struct tar_stream *stream);
