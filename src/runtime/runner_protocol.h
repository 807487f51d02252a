/* The host's side of the runner protocol (docs/runner-protocol.md): frames out, events in.
 *
 * Everything that comes from a runner is the guest's. A frame is looked at only when it is whole; its
 * lengths, types and numbers are checked; what does not fit is -EPROTO, after which the connection is of no
 * use any more. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    RUNNER_PROTOCOL = 1,
    RUNNER_HEADER_MAX = 1 << 20,
    RUNNER_BODY_MAX = 64 << 20,
    RUNNER_MEDIA_MAX = 16,
    RUNNER_MEDIA_TYPE_MAX = 127,
    RUNNER_RESULTS_MAX = 1000, /* of a run that are kept: each takes room, even if there is nothing in it */
};

#define RUNNER_EVENTS(X)                                                                                     \
    X(ready)                                                                                                 \
    X(started)                                                                                               \
    X(stdout)                                                                                                \
    X(stderr)                                                                                                \
    X(result)                                                                                                \
    X(progress)                                                                                              \
    X(refused)                                                                                               \
    X(completeness)                                                                                          \
    X(vet)                                                                                                   \
    X(end)

enum runner_event_kind {
#define X(name) RUNNER_##name,
    RUNNER_EVENTS(X)
#undef X
        RUNNER_EVENT_KINDS,
};

#define RUNNER_STATUSES(X)                                                                                   \
    X(ok)                                                                                                    \
    X(error)                                                                                                 \
    X(exit)                                                                                                  \
    X(interrupted)

enum runner_status {
#define X(name) RUNNER_STATUS_##name,
    RUNNER_STATUSES(X)
#undef X
        RUNNER_STATUS_COUNT,
};

extern const char *const runner_event_names[RUNNER_EVENT_KINDS];
extern const char *const runner_status_names[RUNNER_STATUS_COUNT];

struct runner_media {
    const char *type;
    struct slice content;
};

/* One thing that a runner said. All that it points to is the reader's, until the next call. */
struct runner_event {
    enum runner_event_kind kind;
    int64_t run; /* -1: between runs */
    struct slice body;
    bool is_value; /* result: of the last expression, not displayed by the code */
    struct runner_media media[RUNNER_MEDIA_MAX];
    size_t media_count;
    double fraction;  /* progress: 0 to 1; -1: unknown */
    const char *text; /* progress, refused, completeness */
    enum runner_status status;
    int exit_code; /* end with exit; of the last command, where the language has such */
    int64_t duration_us;
    const char *error_name, *error_value, *traceback; /* end with error or interrupted */
    const char *language, *version;                   /* ready */
};

struct runner_reader {
    struct buffer pending;
    size_t consumed; /* of pending, by events given out */
    void *header;    /* the JSON that the last event points into */
};

void runner_reader_free(struct runner_reader *reader);
#define scope_runner_reader __attribute__((cleanup(runner_reader_free))) struct runner_reader

/* Takes bytes as they come from the socket. -EPROTO when they can only belong to a frame that is too large.
 */
int runner_reader_feed(struct runner_reader *reader, const void *data, size_t length, struct error *err);

/* The next whole event: 1; 0 when more bytes are needed; -EPROTO with the reason. */
int runner_reader_next(struct runner_reader *reader, struct runner_event *ret, struct error *err);

struct runner_order {
    int64_t run;
    struct slice code;
    const struct slice *stdin_text; /* NULL: none is given */
    const struct string_list *arguments;
    const char *name; /* in tracebacks; NULL: the runner's own choice */
    bool is_typed;    /* line by line: every value is shown, and figures stay open */
};

/* Appends the frame that starts a run. -EINVAL for text that is not UTF-8, -EFBIG for more than a frame
 * holds. */
int runner_write_run(struct buffer *into, const struct runner_order *order);

/* Asks whether this code, typed so far, is complete; the answer is an event. */
int runner_write_question(struct buffer *into, struct slice code);

/* Who waits for a copy: nobody; a run, and it does nothing ahead that it may have no use for; a run that has
 * the machine to itself, and it does that while it waits itself. */
enum runner_haste {
    RUNNER_AHEAD,
    RUNNER_AWAITED,
    RUNNER_AWAITED_ALONE,
    RUNNER_PLACE, /* nobody yet: only its box is made, by a zygote */
};

/* Tells it to fork itself into the box whose descriptors come with the frame. */
int runner_write_fork(struct buffer *into, int landlock_abi, enum runner_haste haste);

/* Tells it to do nothing but that from now on, for every frame that brings descriptors; with `is_plain` into
 * boxes without namespaces. Answered by `ready`, which must be waited for: what comes before would be read by
 * the interpreter. */
int runner_write_zygote(struct buffer *into, int landlock_abi, bool is_plain);

/* Tells it to import these, and perhaps to get ready to be forked many times; answered by `ready`. */
int runner_write_preload(struct buffer *into, const struct string_list *modules, bool for_forks);

struct runner_rlimit {
    int resource;
    int64_t value;
};

struct runner_program {
    const char *path; /* where the code is in the box too */
    const struct string_list *arguments, *environment;
    const struct string_list *command; /* all of it, for a runner that executes it; may be NULL */
    struct slice code;
    const struct runner_rlimit *rlimits; /* that it puts on first */
    size_t rlimit_count;
    bool waits;               /* for a byte behind the frame, until which it only prepares */
    bool shows;               /* as a cell of a notebook: `result` events come while it runs */
    const struct json_t *vet; /* what its vetter is told; NULL: nothing */
};

/* To an interpreter that waits to become a program: that order may come at any moment. */
struct slice runner_soon(void);

/* To a context's interpreter: the order to fork follows, and it may look around for that already. */
struct slice runner_look(void);

/* Tells it to become a program: but what it shows, no word of the protocol comes from it any more. */
int runner_write_main(struct buffer *into, const struct runner_program *program);
