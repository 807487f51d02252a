/* A context in a real box, and what it said. */
#pragma once

#include "harness.h"

#include "keeper/context.h"

#include <time.h>

static inline void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

struct session {
    struct policy policy;
    struct context *context;
    struct context_outcome outcome;
    struct buffer out, err, value, error_name, raw;
    int pictures, progress;
    /* What was watched in the last run. */
    int watched;
    struct context_usage usage;
    bool usage_went_back;
};

static inline void raw_output(void *data, enum supervise_stream stream, struct slice bytes, bool is_runs)
{
    struct session *session = data;
    (void)stream, (void)is_runs;
    buffer_append(&session->raw, bytes.data, bytes.length);
}

static inline void take_usage(void *data, const struct context_usage *usage)
{
    struct session *session = data;
    session->usage_went_back |=
        session->watched &&
        (usage->elapsed_us <= session->usage.elapsed_us || usage->cpu_us < session->usage.cpu_us ||
         usage->peak_memory_bytes < session->usage.peak_memory_bytes);
    session->watched++;
    session->usage = *usage;
}

static inline void take_event(void *data, const struct runner_event *event)
{
    struct session *session = data;
    if (event->kind == RUNNER_stdout)
        buffer_append(&session->out, event->body.data, event->body.length);
    if (event->kind == RUNNER_stderr)
        buffer_append(&session->err, event->body.data, event->body.length);
    if (event->kind == RUNNER_progress)
        session->progress++;
    for (size_t i = 0; i < event->media_count; i++) {
        if (event->is_value && strcmp(event->media[i].type, "text/plain") == 0)
            buffer_append(&session->value, event->media[i].content.data, event->media[i].content.length);
        session->pictures += strcmp(event->media[i].type, "image/png") == 0;
    }
    if (event->kind == RUNNER_end && event->error_name)
        buffer_append_text(&session->error_name, event->error_name);
}

static inline void forget(struct session *session)
{
    struct buffer *buffers[] = {&session->out, &session->err, &session->value, &session->error_name};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        buffer_free(buffers[i]);
    session->pictures = session->progress = session->watched = 0;
    session->usage_went_back = false;
}

static inline int try_run(struct session *session, const char *code, struct error *err)
{
    const struct runner_order order = {.code = {code, strlen(code)}};
    forget(session);
    return context_run(session->context, &order, take_event, session, &session->outcome, err);
}

static inline void run(struct session *session, const char *code)
{
    struct error err = {0};
    if (try_run(session, code, &err) < 0)
        fail_msg("%s", err.text);
}

static inline const char *text(const struct buffer *buffer)
{
    return buffer->data ? buffer->data : "";
}

static inline struct session *open_session(const char *isolation, const char *const *fields,
                                           const struct context_options *wanted)
{
    struct session *session = calloc(1, sizeof *session);
    struct error err = {0};
    assert_int_equal(policy_load(NULL, &session->policy, &err), 0);
    struct spec *spec = spec_new();
    assert_int_equal(spec_set(spec, "isolation", isolation, &err), 0);
    for (; fields && fields[0]; fields += 2)
        assert_int_equal(spec_set(spec, fields[0], fields[1], &err), 0);
    struct context_options options = wanted ? *wanted : (struct context_options){0};
    options.output = raw_output;
    options.watch = take_usage;
    options.data = session;
    if (context_open(spec, &session->policy, &options, &session->context, &err) < 0)
        fail_msg("%s", err.text);
    return session;
}

static inline void close_session(struct session *session)
{
    context_close(session->context);
    forget(session);
    buffer_free(&session->raw);
    policy_free(&session->policy);
    free(session);
}

static const char *const engines[] = {"container", "process"};
#define EACH_ENGINE for (size_t e = 0; e < sizeof engines / sizeof *engines; e++)
