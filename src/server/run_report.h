/* One run in a context, put together from what the keeper tells frame by frame (keeper/session_service.h):
 * as events while it goes on, and as one object at its end. */
#pragma once

#include "base/identifier.h"
#include "base/bytes.h"
#include "base/base64.h"

#include <jansson.h>
#include <stdbool.h>

struct run_report {
    char id[IDENTIFIER_SIZE];
    int branch; /* -1: it is none of several */
    struct buffer streams[2];
    size_t told[2]; /* of them, as events: a character that is not whole yet waits */
    json_t *results;
    json_t *outcome, *refusal; /* one of them at the end */
    json_t *files;             /* that were asked for: an array, or null where the box cannot tell; or NULL */
    bool files_are_cut;        /* there are more */
};

int run_report_open(struct run_report *report, int branch);
void run_report_close(struct run_report *report);

/* Takes a frame of its own; appends events, if they are wanted (NULL: not). -EPROTO: it makes no sense. */
int run_report_take(struct run_report *report, const json_t *frame, struct slice body, struct buffer *events);

/* An event for each of its files. */
int run_report_tell_files(const struct run_report *report, struct buffer *events);

/* The whole, when it has its outcome; to be freed. */
json_t *run_report_to_json(const struct run_report *report);
