/* cloche --server URL run: one run by a server, with the same words as by ourselves. */
#include "remote/remote.h"
#include "remote/result_read.h"
#include "remote/event_reader.h"
#include "remote/given_stdin.h"
#include "remote/inputs.h"
#include "remote/run_body.h"
#include "remote/saved_files.h"
#include "remote/upload.h"

#include "cli/command.h"
#include "cli/progress_line.h"
#include "cli/report.h"

#include "base/file.h"
#include "base/json_text.h"
#include "base/scope.h"

#include <errno.h>
#include <string.h>

enum { HTTP_UNPROCESSABLE = 422 };

struct remote_run {
    struct http *http;
    const struct run_options *given;
    int output_fd; /* -1: files are only listed */
    struct string_list uploads;
    struct progress_line line;
    struct limits limits; /* for the line */
    bool shows_progress;
    json_t *result; /* when it has come */
    struct error *err;
};

static void show_output(struct remote_run *run, const json_t *event, enum supervise_stream stream)
{
    scope_buffer bytes = {0};
    if (event_bytes(event, &bytes) < 0 || !bytes.length)
        return;
    if (run->shows_progress)
        progress_line_output(&run->line, stream, bytes.data, bytes.length);
    report_text(stream == STREAM_STDOUT ? STDOUT_FILENO : STDERR_FILENO, bytes.data, bytes.length);
}

static void show_progress(struct remote_run *run, const json_t *event)
{
    struct measurement now = {.cpu_user_us =
                                  (int64_t)(json_number_value(json_object_get(event, "cpu_ms")) * 1000),
                              .memory_bytes = json_integer_value(json_object_get(event, "memory_bytes")),
                              .pids = json_integer_value(json_object_get(event, "pids"))};
    progress_line_show(&run->line, (int64_t)(json_number_value(json_object_get(event, "wall_ms")) * 1000),
                       &now);
}

static int take_event(void *data, const char *name, const json_t *event)
{
    struct remote_run *run = data;
    if (strcmp(name, "stdout") == 0)
        show_output(run, event, STREAM_STDOUT);
    else if (strcmp(name, "stderr") == 0)
        show_output(run, event, STREAM_STDERR);
    else if (strcmp(name, "progress") == 0 && run->shows_progress)
        show_progress(run, event);
    else if (strcmp(name, "error") == 0)
        return http_refusal(json_object_get(event, "error"), 0, run->err);
    else if (strcmp(name, "end") == 0)
        run->result = json_incref((json_t *)(uintptr_t)event);
    return 0;
}

static int feed(void *data, struct slice bytes)
{
    return event_reader_feed(data, bytes);
}

/* Waits for the result; what comes meanwhile is shown, unless JSON is wanted. */
static int ask(struct remote_run *run, json_t *body, struct error *err)
{
    struct event_reader reader = {.take = take_event, .data = run};
    bool is_streamed = !run->given->json;
    json_object_set_new(body, "stream", json_boolean(is_streamed));
    scope_free char *text = json_text(body, JSON_COMPACT);
    if (!text)
        return error_host(err, -ENOMEM, "run");
    struct http_call call = {.method = "POST",
                             .path = "/v1/run",
                             .body = {text, strlen(text)},
                             .headers = {is_streamed ? "Accept: text/event-stream" : NULL},
                             .take = is_streamed ? feed : NULL,
                             .data = &reader,
                             .ends_gently = true};
    int status = http_perform(run->http, &call, err);
    bool is_refused = status < 0 && call.status == HTTP_UNPROCESSABLE;
    if ((status == 0 && !is_streamed) || is_refused)
        run->result =
            json_loadb(call.answer.data ? call.answer.data : "", call.answer.length, JSON_ALLOW_NUL, NULL);
    if (is_refused && json_object_get(run->result, "vet")) { /* a refusal that is a result, too */
        json_object_del(run->result, "error");
        *err = (struct error){0};
        status = 0;
    }
    if (status == 0 && !run->result)
        status = error_host(err, -EPROTO, "the server's answer has no result");
    buffer_free(&call.answer);
    event_reader_free(&reader);
    return status;
}

/* As the embedded mode has it, which knows neither contents nor addresses. */
static void forget_contents(json_t *result)
{
    size_t index;
    json_t *file;
    json_array_foreach(json_object_get(result, "files"), index, file)
    {
        json_object_del(file, "content_base64");
        json_object_del(file, "url");
    }
}

static int finish(const struct remote_run *run)
{
    struct result *result = result_new();
    const json_t *compile = json_object_get(run->result, "compile");
    int status = result ? result_read(run->result, result) : -ENOMEM;
    int exit_status = status < 0 ? EXIT_STATUS_HOST_FAILURE : result_exit_status(result);
    if (status < 0) {
        report_error("the server's answer is not a result");
    } else if (run->given->json) {
        if (remote_print_json(run->result) < 0)
            exit_status = EXIT_STATUS_HOST_FAILURE;
    } else {
        const char *words = remote_text(run->result, "stderr");
        if (compile && !result->layer_count) /* it did not come to a run: these are the compiler's words */
            report_text(STDERR_FILENO, words, strlen(words));
        report_returned(result);
        if (!run->given->quiet)
            report_remarks(result, run->given->spec->code_name);
    }
    result_free(result);
    return exit_status;
}

static int perform(struct remote_run *run, struct error *err)
{
    struct spec *spec = run->given->spec;
    struct run_options given = *run->given;
    struct given_stdin stdin_given = {0};
    json_t *body = NULL;
    int status = run_body_make(&given, &body, err);
    if (status == 0 && spec->output_directory)
        status = run->output_fd = file_open_target(spec->output_directory, err);
    if (status >= 0)
        status = spec_resolve_grants(spec, err);
    if (status == 0)
        status = given_stdin_begin(&stdin_given, &given, err);
    if (status == 0)
        status = remote_connect(&run->http, err);
    if (status == 0 && spec->grant_count)
        status = inputs_send(run->http, spec, body, &run->uploads, err);
    if (status == 0)
        status = given_stdin_send(&stdin_given, run->http, body, &run->uploads, err);
    if (status == 0)
        status = ask(run, body, err);
    progress_line_clear(&run->line);
    if (run->http)
        upload_remove(run->http, &run->uploads);
    if (status == 0 && run->output_fd >= 0)
        status = saved_files_take(run->http, run->output_fd, run->result, err);
    else if (status == 0)
        forget_contents(run->result);
    buffer_free(&stdin_given.bytes);
    json_decref(body);
    return status;
}

/* As a run that was cancelled here would end, where the server could not tell any more. */
static int finish_cancelled(const struct run_options *given)
{
    if (!given->quiet || given->json)
        report_error("cancelled");
    return 128 + 9;
}

int run_perform(struct run_options *given)
{
    struct error err = {0};
    const struct spec *spec = given->spec;
    struct remote_run run = {.given = given, .output_fd = -1, .err = &err};
    for (int i = 0; i < LIMIT_FIELDS; i++)
        run.limits.value[i] = spec->limit_set[i] ? spec->limits.value[i] : limit_rows[i].normal;
    run.shows_progress = !given->quiet && !given->json && isatty(STDERR_FILENO);
    progress_line_init(&run.line, &run.limits);
    int status = perform(&run, &err);
    int exit_status = status == 0            ? finish(&run)
                      : status == -ECANCELED ? finish_cancelled(given)
                                             : run_options_fail(&err, given->json);
    json_decref(run.result);
    string_list_free(&run.uploads);
    scope_close_fd(&run.output_fd);
    http_close(run.http);
    return exit_status;
}
