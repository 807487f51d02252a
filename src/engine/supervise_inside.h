/* The inside of the supervisor, for the files that make it up: supervise.c (limits, the cause),
 * supervise_streams.c (what goes in and comes out). */
#pragma once

#include "base/bytes.h"
#include "engine/supervise.h"
#include "engine/terminal_text.h"

struct stream_state {
    int *guest_fd;
    struct result_stream *kept;
    struct terminal_text terminal;
    struct buffer pending; /* not yet taken by forward_fd */
    size_t pending_sent;
    int64_t seen_bytes;
    bool forward_broken;
};

struct supervisor {
    struct box *box;
    const struct supervise_io *io;
    struct result *result;
    struct stream_state streams[STREAM_COUNT];
    struct buffer input; /* read from the caller, not yet taken by the guest */
    size_t input_sent;
    bool input_ended;
    int64_t started_us, stopped_us;
    bool stopping, cancelled, process_gone;
    bool has_cause;
    enum cause cause;
    bool program_ended;
    bool has_listened; /* for a farewell, once */
    bool has_word;     /* the one that is waited for has come */
    int wait_status;
    int exec_error;
    bool chdir_failed;
    int forward_error, read_error; /* positive errno: output could not be handed on, or not be read */
    int oom_fd;
    short oom_events;
    struct measurement now;
    int64_t peak_pids, peak_memory, disk_bytes;
    bool disk_was_full, inodes_were_full;
    bool had_listener;
};

/* Ends the box; the first cause counts. */
void supervise_stop(struct supervisor *self, enum cause cause);

/* Somebody else may be reading the streams; see supervise.h. */
bool supervise_streams_take(const struct supervisor *self);
void supervise_streams_leave(const struct supervisor *self);
bool supervise_streams_are_ours(const struct supervisor *self);

/* True: there was something. */
bool supervise_stream_read(struct supervisor *self, enum supervise_stream which);
void supervise_stream_end(struct supervisor *self, enum supervise_stream which);
void supervise_stream_forward(struct supervisor *self, enum supervise_stream which);

bool supervise_may_be_read(int fd);
void supervise_input_close(struct supervisor *self);
void supervise_input_read(struct supervisor *self);
void supervise_input_write(struct supervisor *self);
