#include "base/identifier.h"
#include "server/run_report.h"

#include "base/scope.h"
#include "base/text.h"
#include "server/event.h"
#include "spec/media.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const stream_names[] = {"stdout", "stderr"};

int run_report_open(struct run_report *report, int branch)
{
    *report = (struct run_report){.branch = branch, .results = json_array()};
    identifier_make("run_", report->id);
    return report->results ? 0 : -ENOMEM;
}

void run_report_close(struct run_report *report)
{
    for (int i = 0; i < 2; i++)
        buffer_free(&report->streams[i]);
    json_decref(report->results);
    json_decref(report->outcome);
    json_decref(report->refusal);
    json_decref(report->files);
}

static int add_event(const struct run_report *report, struct buffer *events, const char *name, json_t *takes)
{
    if (takes && report->branch >= 0)
        json_object_set_new(takes, "branch", json_integer(report->branch));
    return event_append(events, name, takes);
}

static json_t *base64_of(struct slice bytes)
{
    scope_free char *encoded = base64_encode(bytes);
    return encoded ? json_string(encoded) : NULL;
}

/* What has come and was not told; at the end all of it. */
static int tell_stream(struct run_report *report, int stream, bool is_end, struct buffer *events)
{
    const struct buffer *bytes = &report->streams[stream];
    size_t told = report->told[stream], length = bytes->length - told;
    if (!is_end)
        length -= event_incomplete_tail(bytes->data + told, length);
    if (length == 0)
        return 0;
    const char *from = bytes->data + told;
    report->told[stream] += length;
    json_t *event = text_is_utf8(from, length)
                        ? json_pack("{s:o}", "text", json_stringn(from, length))
                        : json_pack("{s:o}", "bytes", base64_of((struct slice){from, length}));
    return add_event(report, events, stream_names[stream], event);
}

static int take_result(struct run_report *report, const json_t *frame, struct slice body,
                       struct buffer *events)
{
    json_t *media = json_object(), *item;
    size_t index, at = 0;
    json_array_foreach(json_object_get(frame, "media"), index, item)
    {
        const char *type = json_string_value(json_object_get(item, "type"));
        json_int_t length = json_integer_value(json_object_get(item, "length"));
        if (!type || length < 0 || (size_t)length > body.length - at) {
            json_decref(media);
            return -EPROTO;
        }
        json_object_set_new(media, type, media_to_json(type, (struct slice){body.data + at, (size_t)length}));
        at += (size_t)length;
    }
    json_t *result =
        json_pack("{s:b, s:o}", "is_value", json_is_true(json_object_get(frame, "is_value")), "media", media);
    if (!result)
        return -ENOMEM;
    json_array_append_new(report->results, result);
    return events ? add_event(report, events, "result", json_copy(result)) : 0;
}

static int take_output(struct run_report *report, int stream, struct slice body, struct buffer *events)
{
    int status = buffer_append(&report->streams[stream], body.data, body.length);
    return status == 0 && events ? tell_stream(report, stream, false, events) : status;
}

/* What the code says of its progress, and now and then what it uses. */
static int take_progress(const struct run_report *report, const json_t *frame, struct buffer *events)
{
    json_t *event = json_copy((json_t *)(uintptr_t)frame);
    json_object_del(event, "event");
    json_object_del(event, "branch");
    if (json_real_value(json_object_get(event, "fraction")) < 0)
        json_object_del(event, "fraction");
    return add_event(report, events, "progress", event);
}

static int take_end(struct run_report *report, const json_t *frame, struct buffer *events)
{
    report->outcome = json_incref(json_object_get(frame, "outcome"));
    report->refusal = json_incref(json_object_get(frame, "error"));
    int status = 0;
    for (int i = 0; i < 2 && status == 0 && events; i++)
        status = tell_stream(report, i, true, events);
    return status;
}

int run_report_take(struct run_report *report, const json_t *frame, struct slice body, struct buffer *events)
{
    const char *event = json_string_value(json_object_get(frame, "event"));
    if (!event || strcmp(event, "end") == 0)
        return json_object_get(frame, "outcome") || json_object_get(frame, "error")
                   ? take_end(report, frame, events)
                   : -EPROTO;
    for (int i = 0; i < 2; i++)
        if (strcmp(event, stream_names[i]) == 0)
            return take_output(report, i, body, events);
    if (strcmp(event, "result") == 0)
        return take_result(report, frame, body, events);
    if (!events)
        return 0;
    if (strcmp(event, "started") == 0)
        return add_event(report, events, "started", json_pack("{s:s}", "id", report->id));
    return take_progress(report, frame, events);
}

int run_report_tell_files(const struct run_report *report, struct buffer *events)
{
    size_t index;
    json_t *file;
    int status = 0;
    json_array_foreach(report->files, index, file)
    {
        if (status == 0)
            status = add_event(report, events, "file", json_copy(file));
    }
    return status;
}

static json_t *milliseconds(const json_t *outcome, const char *name)
{
    return json_real((double)json_integer_value(json_object_get(outcome, name)) / 1000);
}

/* An interrupt has none, nor has a death that was not the interpreter's own doing; an exception counts as 1,
 * as it would for a program. */
static json_t *exit_code_of(const json_t *outcome)
{
    const char *status = json_string_value(json_object_get(outcome, "status"));
    json_int_t code = json_integer_value(json_object_get(outcome, "exit_code"));
    if (json_is_true(json_object_get(outcome, "died")))
        return code < 0 ? json_null() : json_integer(code);
    if (status && strcmp(status, "interrupted") == 0)
        return json_null();
    return json_integer(status && strcmp(status, "error") == 0 && code == 0 ? 1 : code);
}

json_t *run_report_to_json(const struct run_report *report)
{
    static const char *const same[] = {"status", "cause", "timed_out", "died",
                                       "detail", "error", "truncated"};
    static const char *const used[] = {"peak_memory_bytes", "pids", "disk_bytes"};
    const json_t *outcome = report->outcome;
    bool died = json_is_true(json_object_get(outcome, "died"));
    json_t *object = json_object(), *usage = json_object();
    json_object_set_new(object, "id", json_string(report->id));
    if (report->branch >= 0)
        json_object_set_new(object, "branch", json_integer(report->branch));
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (json_object_get(outcome, same[i]))
            json_object_set(object, same[i], json_object_get(outcome, same[i]));
    if (died) /* what the runner would have said is not known */
        json_object_set_new(object, "status", json_string("exit"));
    json_object_set_new(object, "exit_code", exit_code_of(outcome));
    json_int_t signal = json_integer_value(json_object_get(outcome, "signal"));
    json_object_set_new(object, "signal", signal ? json_integer(signal) : json_null());
    json_object_set_new(object, "duration_ms", milliseconds(outcome, "duration_us"));
    for (int i = 0; i < 2; i++)
        event_set_output(object, stream_names[i],
                         (struct slice){report->streams[i].data ? report->streams[i].data : "",
                                        report->streams[i].length});
    json_object_set(object, "results", report->results);
    if (report->files) {
        json_object_set(object, "files", report->files);
        json_object_set_new(object, "files_truncated", json_boolean(report->files_are_cut));
    }
    json_object_set_new(usage, "wall_ms", milliseconds(outcome, "duration_us"));
    json_object_set_new(usage, "cpu_ms", milliseconds(outcome, "cpu_us"));
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        json_object_set(usage, used[i], json_object_get(outcome, used[i]));
    json_object_set_new(object, "usage", usage);
    return object;
}
