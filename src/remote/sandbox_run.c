/* Code in a sandbox's interpreter, and commands beside it. */
#include "remote/event_reader.h"
#include "remote/given_stdin.h"
#include "remote/remote.h"
#include "remote/run_body.h"
#include "remote/sandbox.h"
#include "remote/screen.h"

#include "cli/report.h"

#include "base/file.h"
#include "base/json_text.h"
#include "base/scope.h"
#include "spec/result.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

struct talk {
    struct screen screen;
    struct error *err;
    bool has_ended;
};

static int take_event(void *data, const char *name, const json_t *event)
{
    struct talk *talk = data;
    if (strcmp(name, "error") == 0)
        return http_refusal(json_object_get(event, "error"), 0, talk->err);
    talk->has_ended |= strcmp(name, "end") == 0;
    screen_show(&talk->screen, name, event);
    return 0;
}

static int feed(void *data, struct slice bytes)
{
    return event_reader_feed(data, bytes);
}

static int talk_in_events(struct sandbox_options *given, struct http_call *call, struct error *err)
{
    struct talk talk = {.screen = {.save_path = given->save_path, .quiet = given->quiet}, .err = err};
    struct event_reader reader = {.take = take_event, .data = &talk};
    call->headers[0] = "Accept: text/event-stream";
    call->take = feed;
    call->data = &reader;
    int status = http_perform(given->http, call, err);
    event_reader_free(&reader);
    if (status == 0 && !talk.has_ended)
        status = error_host(err, -EPROTO, "the server's answer has no end");
    given->exit_status = talk.screen.exit_status;
    return status;
}

static int talk_in_json(struct sandbox_options *given, struct http_call *call, struct error *err)
{
    int status = http_perform(given->http, call, err);
    if (status < 0)
        return status;
    json_t *answer =
        json_loadb(call->answer.data ? call->answer.data : "", call->answer.length, JSON_ALLOW_NUL, NULL);
    const json_t *code = json_object_get(answer, "exit_code");
    if (!answer)
        return error_host(err, -EPROTO, "the server's answer is not JSON");
    given->exit_status = json_is_integer(code) ? (int)json_integer_value(code) & 0xff : 128 + 9;
    remote_print_json(answer);
    json_decref(answer);
    return 0;
}

int sandbox_talk(struct sandbox_options *given, const char *path, json_t *takes, struct error *err)
{
    scope_free char *body = takes ? json_text(takes, JSON_COMPACT) : NULL;
    json_decref(takes);
    if (!body)
        return error_host(err, -ENOMEM, "no memory for the request");
    struct http_call call = {
        .method = "POST", .path = path, .body = {body, strlen(body)}, .ends_gently = false};
    int status = given->json ? talk_in_json(given, &call, err) : talk_in_events(given, &call, err);
    buffer_free(&call.answer);
    if (status != -ECANCELED)
        return status;
    report_error("interrupted"); /* the server sees us go */
    given->exit_status = 128 + 2;
    return 0;
}

static int read_code(const struct sandbox_options *given, struct buffer *ret, struct error *err)
{
    if (given->code)
        return given->words.count == 1 ? buffer_append_text(ret, given->code)
                                       : error_spec(err, "file", "file: give a file or code, not both");
    if (given->words.count < 2)
        return error_spec(err, "code", "nothing to run: give a file (- for stdin), or --code");
    const char *path = given->words.items[1];
    int status = file_read_whole(AT_FDCWD, strcmp(path, "-") == 0 ? "/dev/stdin" : path, SPEC_CODE_MAX, ret);
    return status < 0 ? error_spec(err, "file", "file: '%.256s': %s", path,
                                   status == -EFBIG ? "larger than 16 MiB" : strerror(-status))
                      : 0;
}

/* Stdin goes along unless the code was read from it, or a person sits there. */
static int add_stdin(json_t *body, const struct sandbox_options *given, struct error *err)
{
    struct run_options options = {.spec = given->spec, .quiet = given->quiet};
    options.spec_from_stdin = given->words.count > 1 && strcmp(given->words.items[1], "-") == 0;
    int status = given_stdin_add(body, &options, err);
    if (status == 0 && json_object_get(body, "stdin_base64"))
        return error_spec(err, "stdin",
                          "stdin: is not UTF-8, which a sandbox asks for; put it there as a file");
    return status;
}

int sandbox_run(struct sandbox_options *given, struct error *err)
{
    scope_buffer code = {0}, path = {0};
    int status = read_code(given, &code, err);
    if (status == 0)
        status = sandbox_path(given->words.items[0], "/run", &path, err);
    if (status < 0)
        return status;
    json_t *body = json_pack("{s:o}", "code", json_stringn(code.data ? code.data : "", code.length));
    if (!body)
        return error_spec(err, "code", "code: is not UTF-8, which a server asks for");
    if (given->context)
        json_object_set_new(body, "context", json_string(given->context));
    json_t *limits = run_body_limits(&given->spec->limits, given->spec->limit_set);
    if (json_object_size(limits))
        json_object_set(body, "limits", limits);
    json_decref(limits);
    status = add_stdin(body, given, err);
    if (status < 0) {
        json_decref(body);
        return status;
    }
    return sandbox_talk(given, path.data, body, err);
}

int sandbox_exec(struct sandbox_options *given, struct error *err)
{
    scope_buffer path = {0};
    if (!given->command.count)
        return error_spec(err, "command", "give a command: cloche sandbox exec %.40s -- ls",
                          given->words.items[0]);
    int status = sandbox_path(given->words.items[0], "/exec", &path, err);
    if (status < 0)
        return status;
    json_t *command = json_array(), *body = json_pack("{s:o}", "command", command);
    for (size_t i = 0; i < given->command.count && status == 0; i++)
        if (json_array_append_new(command, json_string(given->command.items[i])) < 0)
            status = error_spec(err, "command", "command: '%.64s' is not UTF-8, which a server asks for",
                                given->command.items[i]);
    if (given->cwd)
        json_object_set_new(body, "cwd", json_string(given->cwd));
    if (given->spec->environment.count)
        json_object_set_new(body, "env", run_body_environment(&given->spec->environment));
    if (status == 0)
        status = add_stdin(body, given, err);
    if (status < 0) {
        json_decref(body);
        return status;
    }
    return sandbox_talk(given, path.data, body, err);
}
