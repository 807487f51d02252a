/* Runs and branches, told as they go. */
#include "keeper/session_request.h"

#include "base/identifier.h"
#include "base/scope.h"
#include "keeper/wire.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { USAGE_EVERY = 5 /* looks, of five a second */ };

/* Where the words of a run go. */
struct telling {
    const struct session_request *request;
    pthread_mutex_t *lock; /* of the connection, which branches share */
    int branch;            /* -1: it is none */
    bool *is_broken;       /* of all: nobody listens */
    json_t *error;         /* what the run ended with, of the guest's words */
    int looks;
};

static void send_frame(struct telling *telling, json_t *header, struct slice body)
{
    if (header && telling->branch >= 0)
        json_object_set_new(header, "branch", json_integer(telling->branch));
    pthread_mutex_lock(telling->lock);
    if (*telling->is_broken)
        json_decref(header);
    else if (wire_send(telling->request->fd, header, body, NULL, 0) < 0)
        *telling->is_broken = true;
    pthread_mutex_unlock(telling->lock);
}

static void tell_result(struct telling *telling, const struct runner_event *event)
{
    json_t *media = json_array();
    scope_buffer contents = {0};
    for (size_t i = 0; i < event->media_count; i++) {
        json_array_append_new(media, json_pack("{s:s, s:I}", "type", event->media[i].type, "length",
                                               (json_int_t)event->media[i].content.length));
        if (buffer_append(&contents, event->media[i].content.data, event->media[i].content.length) < 0) {
            json_decref(media);
            return;
        }
    }
    send_frame(telling,
               json_pack("{s:s, s:b, s:o}", "event", "result", "is_value", event->is_value, "media", media),
               (struct slice){contents.data ? contents.data : "", contents.length});
}

static void tell_event(void *data, const struct runner_event *event)
{
    struct telling *telling = data;
    const struct slice nothing = {"", 0};
    switch (event->kind) {
    case RUNNER_stdout:
    case RUNNER_stderr:
        send_frame(telling, json_pack("{s:s}", "event", runner_event_names[event->kind]), event->body);
        break;
    case RUNNER_result:
        tell_result(telling, event);
        break;
    case RUNNER_progress:
        send_frame(telling,
                   json_pack("{s:s, s:f, s:s}", "event", "progress", "fraction", event->fraction, "text",
                             event->text ? event->text : ""),
                   nothing);
        break;
    case RUNNER_started:
        send_frame(telling, json_pack("{s:s}", "event", "started"), nothing);
        break;
    case RUNNER_end:
        json_decref(telling->error);
        telling->error = !event->error_name
                             ? NULL
                             : json_pack("{s:s, s:s?, s:s?}", "name", event->error_name, "value",
                                         event->error_value, "traceback", event->traceback);
        break;
    default:
        break;
    }
}

static void tell_output(void *data, enum supervise_stream stream, struct slice bytes)
{
    send_frame(data, json_pack("{s:s}", "event", stream == STREAM_STDOUT ? "stdout" : "stderr"), bytes);
}

static void tell_usage(void *data, const struct context_usage *usage)
{
    struct telling *telling = data;
    if (++telling->looks % USAGE_EVERY)
        return;
    send_frame(telling,
               json_pack("{s:s, s:f, s:I, s:f, s:f, s:I, s:I, s:I}", "event", "usage", "wall_ms",
                         (double)usage->elapsed_us / 1000, "wall_limit_ms",
                         (json_int_t)(usage->wall_limit_us / 1000), "cpu_ms", (double)usage->cpu_us / 1000,
                         "silent_ms", (double)usage->silent_us / 1000, "memory_bytes",
                         (json_int_t)usage->memory_bytes, "pids", (json_int_t)usage->pids, "disk_bytes",
                         (json_int_t)usage->disk_bytes),
               (struct slice){"", 0});
}

static bool is_gone(void *data)
{
    const struct telling *telling = data;
    struct pollfd polled = {.fd = telling->request->fd, .events = POLLRDHUP};
    return *telling->is_broken || poll(&polled, 1, 0) > 0;
}

static json_t *truncation_to_json(const struct context_outcome *is)
{
    return json_pack(
        "{s:I, s:I, s:I}", "stdout", (json_int_t)is->truncated_stdout_bytes, "stderr",
        (json_int_t)is->truncated_stderr_bytes, "results",
        (json_int_t)(is->truncated_bytes - is->truncated_stdout_bytes - is->truncated_stderr_bytes));
}

static json_t *outcome_to_json(const struct session_outcome *outcome, json_t *guest_error)
{
    const struct context_outcome *is = &outcome->is;
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:i, s:I, s:b, s:o, s:b, s:I, s:I, s:I, s:I, s:I}", "language",
                  outcome->language, "isolation", isolation_names[outcome->isolation], "status",
                  runner_status_names[is->status], "cause", cause_names[is->cause], "exit_code",
                  (json_int_t)is->exit_code, "signal", outcome->signal, "duration_us",
                  (json_int_t)is->duration_us, "timed_out", is->timed_out, "truncated",
                  truncation_to_json(is), "died", is->died, "cpu_us", (json_int_t)is->cpu_us, "charge_us",
                  (json_int_t)is->charge_us, "peak_memory_bytes", (json_int_t)is->peak_memory_bytes, "pids",
                  (json_int_t)is->pids, "disk_bytes", (json_int_t)is->disk_bytes);
    if (object && outcome->detail[0]) /* may hold the guest's words: what is not UTF-8 is left out */
        json_object_set_new(object, "detail", json_string(outcome->detail));
    if (object && guest_error)
        json_object_set(object, "error", guest_error);
    return object;
}

static struct session_listener listener_for(struct telling *telling)
{
    return (struct session_listener){
        .event = tell_event, .output = tell_output, .watch = tell_usage, .is_gone = is_gone, .data = telling};
}

/* -EPIPE when a part of the conversation is lost: what comes next could not be told apart. */
static int end_of(const bool *is_broken, int status)
{
    return *is_broken ? -EPIPE : status;
}

/* What the server calls a run; NULL: nothing that could be a name. */
static const char *run_id(const struct session_request *request, size_t index)
{
    const json_t *name = json_array_get(json_object_get(request->header, "runs"), index);
    return json_string_length(name) < IDENTIFIER_SIZE ? json_string_value(name) : NULL;
}

int session_answer_run(struct session_request *request)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    bool is_broken = false;
    struct telling telling = {.request = request, .lock = &lock, .branch = -1, .is_broken = &is_broken};
    const json_t *stdin_text = json_object_get(request->header, "stdin");
    const struct slice given = {json_string_value(stdin_text), json_string_length(stdin_text)};
    const struct session_order order = {.context = request_text(request, "context"),
                                        .id = run_id(request, 0),
                                        .code = request->body,
                                        .stdin_text = given.data ? &given : NULL,
                                        .wall_ms = request_number(request, "wall_ms"),
                                        .cpu_ms = request_number(request, "cpu_ms")};
    const struct session_listener listener = listener_for(&telling);
    struct session_outcome outcome;
    struct error err = {0};
    int status = session_run(request->session, &order, &listener, &outcome, &err);
    if (status < 0)
        status = end_of(&is_broken, request_reply_error(request, &err));
    else
        status = end_of(
            &is_broken,
            request_reply(request, json_pack("{s:o}", "outcome", outcome_to_json(&outcome, telling.error))));
    json_decref(telling.error);
    pthread_mutex_destroy(&lock);
    return status;
}

/* One frame for the end of each branch. */
static void tell_branch_end(void *data, struct session_branch *branch)
{
    struct telling *telling = data;
    json_t *end = branch->status < 0
                      ? json_pack("{s:s, s:o}", "event", "end", "error", wire_from_error(&branch->error))
                      : json_pack("{s:s, s:o}", "event", "end", "outcome",
                                  outcome_to_json(&branch->outcome, telling->error));
    send_frame(telling, end, (struct slice){"", 0});
}

/* The codes stand one after the other in the body. */
static int cut_codes(const struct session_request *request, struct session_branch *branches, size_t count,
                     struct error *err)
{
    const json_t *lengths = json_object_get(request->header, "lengths");
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        json_int_t length = json_integer_value(json_array_get(lengths, i));
        if (length < 0 || (size_t)length > request->body.length - at)
            return error_host(err, -EPROTO, "branches that cannot be read");
        branches[i].order = (struct session_order){.context = request_text(request, "context"),
                                                   .id = run_id(request, i),
                                                   .code = {request->body.data + at, (size_t)length},
                                                   .wall_ms = request_number(request, "wall_ms"),
                                                   .cpu_ms = request_number(request, "cpu_ms")};
        at += (size_t)length;
    }
    return 0;
}

int session_answer_branches(struct session_request *request)
{
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    bool is_broken = false;
    struct error err = {0};
    size_t count = json_array_size(json_object_get(request->header, "lengths"));
    if (count < 1 || count > SESSION_FORKS_MAX) {
        error_spec(&err, "runs", "runs: must be between 1 and %d", SESSION_FORKS_MAX);
        return request_reply_error(request, &err);
    }
    scope_free struct session_branch *branches = calloc(count, sizeof *branches);
    scope_free struct telling *tellings = calloc(count, sizeof *tellings);
    int status = branches && tellings ? cut_codes(request, branches, count, &err)
                                      : error_host(&err, -ENOMEM, "no memory for branches");
    for (size_t i = 0; status == 0 && i < count; i++) {
        tellings[i] =
            (struct telling){.request = request, .lock = &lock, .branch = (int)i, .is_broken = &is_broken};
        branches[i].listener = listener_for(&tellings[i]);
        branches[i].ended = tell_branch_end;
    }
    if (status == 0)
        status = session_run_branches(request->session, branches, count, &err);
    for (size_t i = 0; tellings && i < count; i++)
        json_decref(tellings[i].error);
    status =
        status < 0 ? request_reply_error(request, &err) : request_reply(request, json_pack("{s:b}", "ok", 1));
    pthread_mutex_destroy(&lock);
    return end_of(&is_broken, status);
}
