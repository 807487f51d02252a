#include "server/run_talk.h"

#include "base/scope.h"
#include "keeper/wire.h"
#include "server/event.h"
#include "server/file_talk.h"
#include "server/gate.h"
#include "server/keeper_link.h"
#include "server/metrics.h"
#include "server/run_job.h"
#include "server/run_report.h"
#include "server/sandbox_gate.h"
#include "server/sandbox_request.h"
#include "server/server.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PULSE_MS = 15000 };

#define OUTPUT_PLACE "/data/output"

struct talk {
    struct exchange *exchange;
    int link;
    bool is_threads_own; /* the link is the thread's, and goes back to it when the talk came to its end */
    bool is_branched, is_over;
    bool with_files;
    char context[IDENTIFIER_SIZE]; /* "": the first */
    int64_t begun_ns;              /* since 1970, by the clock that files get their times from */
    struct buffer first;           /* events of the first frame */
    json_t *refusal;               /* of the whole */
    struct gate_pass *pass;
    size_t count;
    struct run_report reports[];
};

static void talk_free(void *data)
{
    struct talk *talk = data;
    if (!talk)
        return;
    /* If it is not over, the keeper sees us go and interrupts. */
    if (!talk->is_threads_own)
        scope_close_fd(&talk->link);
    else if (!talk->is_over)
        keeper_link_drop(exchange_server(talk->exchange));
    gate_leave(&talk->pass);
    buffer_free(&talk->first);
    for (size_t i = 0; i < talk->count; i++)
        run_report_close(&talk->reports[i]);
    json_decref(talk->refusal);
    free(talk);
}

static struct talk *talk_new(struct exchange *exchange, size_t branches)
{
    size_t count = branches ? branches : 1;
    struct talk *talk = calloc(1, sizeof *talk + count * sizeof talk->reports[0]);
    if (!talk)
        return NULL;
    talk->exchange = exchange;
    talk->link = -1;
    talk->is_branched = branches > 0;
    for (; talk->count < count; talk->count++)
        if (run_report_open(&talk->reports[talk->count], talk->is_branched ? (int)talk->count : -1) < 0) {
            talk_free(talk);
            return NULL;
        }
    return talk;
}

/* 1: a frame is there; 0: it takes long; -EPIPE: the client, or the keeper, is gone. */
static int await_frame(const struct talk *talk)
{
    struct pollfd polled[] = {{.fd = talk->link, .events = POLLIN},
                              {.fd = exchange_client_fd(talk->exchange), .events = POLLRDHUP}};
    int ready;
    do
        ready = poll(polled, 2, PULSE_MS);
    while (ready < 0 && errno == EINTR);
    if (ready < 0 || polled[1].revents)
        return -EPIPE;
    return polled[0].revents ? 1 : 0;
}

static void count_run(const struct talk *talk, const struct run_report *report)
{
    const char *cause = json_string_value(json_object_get(report->outcome, "cause"));
    int64_t duration_us = json_integer_value(json_object_get(report->outcome, "duration_us"));
    for (int i = 0; cause && i < CAUSE_COUNT; i++)
        if (strcmp(cause, cause_names[i]) == 0)
            gate_count_run(talk->exchange, (enum cause)i, duration_us);
}

static json_t *report_end(const struct run_report *report)
{
    if (report->outcome)
        return run_report_to_json(report);
    json_t *refused = sandbox_refusal_to_json(report->refusal);
    if (report->branch >= 0)
        json_object_set_new(refused, "branch", json_integer(report->branch));
    return refused;
}

static int64_t clock_of_files_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A box that died took its files along. */
static void list_files(const struct talk *talk, struct run_report *report)
{
    const char *context = talk->context[0] ? talk->context : NULL;
    bool died = json_is_true(json_object_get(report->outcome, "died"));
    json_t *files = died ? NULL
                         : file_talk_changed(talk->exchange, context, OUTPUT_PLACE, talk->begun_ns,
                                             &report->files_are_cut);
    size_t index;
    json_t *file;
    json_array_foreach(files, index, file)
    {
        scope_buffer url = {0};
        buffer_print(&url, "/v1/sandboxes/%s/files?path=" OUTPUT_PLACE "/", exchange_part(talk->exchange, 0));
        run_append_encoded(&url, json_string_value(json_object_get(file, "path")));
        if (context)
            buffer_print(&url, "&context=%s", context);
        json_object_set_new(file, "url", json_string(url.data ? url.data : ""));
    }
    report->files = files ? files : json_null();
}

static int take_frame(struct talk *talk, const json_t *frame, struct slice body, struct buffer *events)
{
    const json_t *branch = json_object_get(frame, "branch");
    json_int_t index = talk->is_branched ? json_integer_value(branch) : 0;
    bool is_whole = talk->is_branched && !branch; /* the end of all of them, or their refusal */
    if (is_whole) {
        talk->is_over = true;
        talk->refusal = json_incref(json_object_get(frame, "error"));
        for (size_t i = 0; talk->refusal && i < talk->count; i++)
            sandbox_gate_refuse(talk->pass, i, talk->refusal);
        gate_leave(&talk->pass);
        return 0;
    }
    if (index < 0 || (size_t)index >= talk->count)
        return -EPROTO;
    struct run_report *report = &talk->reports[index];
    int status = run_report_take(report, frame, body, events);
    if (status < 0 || (!report->outcome && !report->refusal))
        return status;
    if (!talk->is_branched) {
        talk->is_over = true;
        talk->refusal = json_incref(report->refusal);
    }
    count_run(talk, report);
    if (report->outcome)
        sandbox_gate_end(talk->pass, (size_t)index, report->outcome);
    else
        sandbox_gate_refuse(talk->pass, (size_t)index, report->refusal);
    if (talk->is_over)
        gate_leave(&talk->pass);
    if (talk->with_files && report->outcome)
        list_files(talk, report);
    if (events)
        status = run_report_tell_files(report, events);
    if (status == 0 && events && !(talk->refusal && !talk->is_branched))
        status = event_append(events, talk->is_branched ? "branch_end" : "end", report_end(report));
    return status;
}

static int receive(struct talk *talk, struct buffer *events)
{
    json_t *frame = NULL;
    scope_buffer body = {0};
    int status = wire_receive(talk->link, &frame, &body, NULL);
    if (status == 0)
        status = take_frame(talk, frame, (struct slice){body.data ? body.data : "", body.length}, events);
    json_decref(frame);
    return status;
}

static json_t *whole(const struct talk *talk)
{
    if (!talk->is_branched)
        return report_end(&talk->reports[0]);
    json_t *results = json_array();
    for (size_t i = 0; i < talk->count; i++)
        json_array_append_new(results, report_end(&talk->reports[i]));
    return json_pack("{s:o}", "results", results);
}

static int reply_broken(struct exchange *exchange, int status)
{
    struct error err = {0};
    error_host(&err, status, "the run was broken off");
    return exchange_reply_problem(exchange, &err);
}

/* One frame more, as events. */
static int add_events(struct talk *talk, struct buffer *into)
{
    int status = await_frame(talk);
    if (status == 0)
        return event_append_pulse(into);
    if (status > 0)
        status = receive(talk, into);
    if (status == 0 && talk->is_over && talk->refusal)
        return event_append(into, "error", sandbox_refusal_to_json(talk->refusal));
    if (status == 0 && talk->is_over && talk->is_branched)
        return event_append(into, "end", whole(talk));
    return status;
}

static int next_events(void *data, struct buffer *into)
{
    struct talk *talk = data;
    int status = buffer_append(into, talk->first.data ? talk->first.data : "", talk->first.length);
    talk->first.length = 0;
    while (status == 0 && into->length == 0 && !talk->is_over)
        status = add_events(talk, into);
    return status < 0 ? status : !talk->is_over;
}

/* What is refused at once is an answer of its own, with its status; so the first frame is waited for. */
static int reply_events(struct talk *talk)
{
    struct exchange *exchange = talk->exchange;
    int status = 0;
    while (status == 0 && talk->first.length == 0 && !talk->is_over)
        status = add_events(talk, &talk->first);
    if (status == 0 && !talk->refusal)
        return exchange_reply_stream(exchange, "text/event-stream", next_events, talk_free, talk);
    if (status == 0)
        status = sandbox_reply_refusal(exchange, talk->refusal);
    else
        status = reply_broken(exchange, status);
    talk_free(talk);
    return status;
}

static int reply_whole(struct talk *talk)
{
    int status = 0;
    while (status >= 0 && !talk->is_over)
        if ((status = await_frame(talk)) > 0)
            status = receive(talk, NULL);
    if (status == 0 || talk->is_over) {
        status = talk->refusal ? sandbox_reply_refusal(talk->exchange, talk->refusal)
                               : exchange_reply_json(talk->exchange, 200, whole(talk));
    } else {
        status = reply_broken(talk->exchange, status);
    }
    talk_free(talk);
    return status;
}

/* Admission, then a note of each: their codes follow each other in the body. */
static int pass_gate(struct talk *talk, const json_t *lengths, struct slice body)
{
    json_t *terms = NULL;
    int status = lengths ? sandbox_gate_enter_copies(talk->exchange, talk->count, &terms, &talk->pass)
                         : sandbox_gate_enter(talk->exchange, talk->count, false, &terms, &talk->pass);
    for (size_t i = 0, at = 0; status == 0 && i < talk->count; i++) {
        size_t length = lengths ? (size_t)json_integer_value(json_array_get(lengths, i)) : body.length;
        sandbox_gate_note(talk->exchange, talk->pass, terms, talk->reports[i].id,
                          (struct slice){body.data + at, length});
        at += length;
    }
    json_decref(terms);
    return status;
}

int run_talk(struct exchange *exchange, json_t *request, struct slice body, const struct run_wish *wish)
{
    struct error err = {0};
    bool as_events = wish->as_events;
    struct talk *talk = talk_new(exchange, wish->branches);
    if (!talk) {
        json_decref(request);
        return -ENOMEM;
    }
    const char *context = json_string_value(json_object_get(request, "context"));
    talk->with_files = wish->with_files;
    snprintf(talk->context, sizeof talk->context, "%s", context ? context : "");
    talk->begun_ns = clock_of_files_ns();
    json_t *runs = json_array();
    for (size_t i = 0; i < talk->count; i++)
        json_array_append_new(runs, json_string(talk->reports[i].id));
    json_object_set_new(request, "runs", runs); /* what its events call them */
    if (pass_gate(talk, json_object_get(request, "lengths"), body) < 0) {
        talk->is_over = true; /* nothing was begun */
        json_decref(request);
        talk_free(talk);
        return 0;
    }
    talk->is_threads_own = !as_events;
    talk->link = as_events ? keeper_link_take(exchange_server(exchange), &err)
                           : keeper_link(exchange_server(exchange), &err);
    if (talk->link < 0) {
        json_decref(request);
        talk_free(talk);
        return exchange_reply_problem(exchange, &err);
    }
    if (sandbox_send(exchange, talk->link, request, body) < 0) {
        talk_free(talk);
        return 0;
    }
    return as_events ? reply_events(talk) : reply_whole(talk);
}
