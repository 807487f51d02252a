/* mmdebstrap as a child process: a tar on its stdout, what it is doing on its stderr.
 *
 * It works in a directory of hundreds of megabytes, which it removes in the end; but not when we are killed,
 * as then it dies of the closed pipes. So that directory is in the image's incoming one where that is
 * possible, and mmdebstrap shares the lock on that: the next sweep takes it, and not before mmdebstrap is
 * gone. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "image/image.h"

#include <sys/types.h>

struct mmdebstrap_request {
    const char *suite;
    const struct string_list *packages;
    const char *work_directory;            /* NULL: where it likes, which is $TMPDIR or /tmp */
    int kept_fd;                           /* stays open in the child */
    const struct image_progress *progress; /* may be NULL */
};

struct mmdebstrap {
    pid_t pid; /* 0: not started or reaped */
    int tar_fd, message_fd;
    const struct image_progress *progress; /* the caller's; may be NULL */
    char *block;                           /* what was last read from tar_fd */
    struct buffer line;                    /* an unfinished line of messages */
    struct buffer tail;                    /* the last complaints, for the error text */
};

/* The caller ends it, also after a failure. */
int mmdebstrap_start(struct mmdebstrap *child, const struct mmdebstrap_request *request, struct error *err);

/* A tar_stream_source: the next block of the tar. Messages that come meanwhile are passed on as progress. */
ssize_t mmdebstrap_read(void *child, const void **ret_block);

/* Waits for the child's end after the tar was read; an error with its last words when it failed. */
int mmdebstrap_finish(struct mmdebstrap *child, struct error *err);

/* Stops the child if it still runs. */
void mmdebstrap_end(struct mmdebstrap *child);

#define scope_mmdebstrap __attribute__((cleanup(mmdebstrap_end))) struct mmdebstrap
