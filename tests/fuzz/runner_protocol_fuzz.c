/* Any bytes from a runner, cut anyhow: what is given out lies within what came, and is the same however it
 * was cut. */
#include "fuzz.h"

#include "runtime/runner_protocol.h"

#include <string.h>

struct seen {
    size_t events;
    size_t bytes;
    int64_t sum;
    uint64_t content;
    int end;
};

/* Reads it all: the address sanitizer sees what lies outside, and the sum is compared. */
static void check_part(struct slice part, size_t size, struct seen *seen)
{
    check(part.length <= size, "no part is longer than all");
    for (size_t i = 0; i < part.length; i++)
        seen->content = seen->content * 31 + (unsigned char)part.data[i];
}

static void check_event(const struct runner_event *event, size_t size, struct seen *seen)
{
    size_t media_bytes = 0;
    check_part(event->body, size, seen);
    for (size_t i = 0; i < event->media_count; i++) {
        check_part(event->media[i].content, size, seen);
        check(strlen(event->media[i].type) <= RUNNER_MEDIA_TYPE_MAX, "media types are short");
        media_bytes += event->media[i].content.length;
    }
    check(event->kind != RUNNER_result || media_bytes == event->body.length, "media share out the body");
    check(event->run >= -1 && event->duration_us >= 0, "numbers are not negative");
    check(event->fraction == -1 || (event->fraction >= 0 && event->fraction <= 1), "progress is a fraction");
    check(event->exit_code >= 0 && event->exit_code <= 255, "exit codes are bytes");
    if (event->kind == RUNNER_end && event->status == RUNNER_STATUS_error)
        seen->bytes += strlen(event->error_name) + strlen(event->error_value) + strlen(event->traceback);
    seen->events++;
    seen->bytes += event->body.length;
    seen->sum += event->run + (int64_t)event->kind * 7 + event->exit_code;
}

static struct seen read_all(const uint8_t *data, size_t size, size_t step)
{
    scope_runner_reader reader = {0};
    struct seen seen = {0};
    struct error err = {0};
    for (size_t at = 0; at < size && seen.end >= 0; at += step) {
        size_t length = size - at < step ? size - at : step;
        struct runner_event event;
        seen.end = runner_reader_feed(&reader, data + at, length, &err);
        while (seen.end >= 0 && (seen.end = runner_reader_next(&reader, &event, &err)) > 0)
            check_event(&event, size, &seen);
    }
    check(seen.end >= 0 || err.text[0], "a refusal has a reason");
    return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen whole = read_all(data, size, size ? size : 1), pieces = read_all(data, size, 3);
    check(whole.events == pieces.events && whole.bytes == pieces.bytes && whole.sum == pieces.sum &&
              whole.content == pieces.content,
          "pieces say the same as the whole");
    return 0;
}
