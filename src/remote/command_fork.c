/* cloche fork: copies of a server's sandbox. */
#include "remote/event_reader.h"
#include "remote/remote.h"
#include "remote/sandbox.h"
#include "remote/screen.h"

#include "cli/command.h"
#include "cli/report.h"

#include "base/json_text.h"
#include "base/scope.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct fork_options {
    struct http *http;
    const char *sandbox, *context, *count;
    struct string_list codes;
    struct screen screen;
    bool json;
    struct error *err;
};

static void print_heading(size_t branch, const char *code)
{
    size_t length = strcspn(code, "\n");
    char line[160];
    snprintf(line, sizeof line, "--- %zu: %.*s%s\n", branch, (int)(length > 70 ? 70 : length), code,
             code[length] || length > 70 ? " …" : "");
    report_text(STDOUT_FILENO, line, strlen(line));
}

/* Branches run side by side; each is shown when it is over, so that their outputs are not mixed. */
static int take_event(void *data, const char *name, const json_t *event)
{
    struct fork_options *given = data;
    if (strcmp(name, "error") == 0)
        return http_refusal(json_object_get(event, "error"), 0, given->err);
    size_t branch = (size_t)json_integer_value(json_object_get(event, "branch"));
    if (strcmp(name, "branch_end") != 0 || branch >= given->codes.count)
        return 0;
    if (!given->screen.quiet)
        print_heading(branch, given->codes.items[branch]);
    screen_show_whole(&given->screen, event);
    return 0;
}

static int feed(void *data, struct slice bytes)
{
    return event_reader_feed(data, bytes);
}

static json_t *make_body(const struct fork_options *given, struct error *err)
{
    json_t *body = json_object(), *runs = json_array();
    int64_t count = 0;
    for (size_t i = 0; i < given->codes.count; i++)
        json_array_append_new(runs, json_pack("{s:s}", "code", given->codes.items[i]));
    if (given->count && !text_parse_count(given->count, &count)) {
        error_spec(err, "count", "count: '%.32s' is not a number", given->count);
        json_decref(body);
        body = NULL;
    }
    if (given->count)
        json_object_set_new(body, "count", json_integer(count));
    if (given->context)
        json_object_set_new(body, "context", json_string(given->context));
    if (given->codes.count)
        json_object_set(body, "runs", runs);
    json_decref(runs);
    return body;
}

static int run_branches(struct fork_options *given, const char *path, json_t *takes, struct error *err)
{
    struct event_reader reader = {.take = take_event, .data = given};
    scope_free char *body = json_text(takes, JSON_COMPACT);
    json_decref(takes);
    if (!body)
        return error_host(err, -ENOMEM, "fork");
    struct http_call call = {.method = "POST",
                             .path = path,
                             .body = {body, strlen(body)},
                             .headers = {"Accept: text/event-stream"},
                             .take = feed,
                             .data = &reader};
    int status = http_perform(given->http, &call, err);
    buffer_free(&call.answer);
    event_reader_free(&reader);
    return status;
}

static int perform(struct fork_options *given, struct error *err)
{
    scope_buffer path = {0};
    json_t *answer = NULL, *item;
    size_t index;
    int status = sandbox_path(given->sandbox, "/fork", &path, err);
    json_t *body = status == 0 ? make_body(given, err) : NULL;
    if (!body)
        return err->code;
    status = remote_connect(&given->http, err);
    if (status < 0) {
        json_decref(body);
        return status;
    }
    if (given->codes.count && !given->json)
        return run_branches(given, path.data, body, err);
    status = http_ask(given->http, "POST", path.data, body, &answer, err);
    if (status == 0 && given->json)
        remote_print_json(answer);
    else
        json_array_foreach(json_object_get(answer, "sandboxes"), index, item)
            printf("%s\n", remote_text(item, "id"));
    json_decref(answer);
    return status;
}

static int take_option(struct fork_options *into, const struct option_row *row, const char *value)
{
    if (strcmp(row->name, "run") == 0)
        return string_list_add(&into->codes, value);
    if (strcmp(row->name, "count") == 0)
        into->count = value;
    else if (strcmp(row->name, "context") == 0)
        into->context = value;
    else if (strcmp(row->name, "save") == 0)
        into->screen.save_path = value;
    else if (strcmp(row->name, "json") == 0)
        into->json = true;
    else
        into->screen.quiet = true;
    return 0;
}

int fork_main(int argc, char **argv)
{
    struct error err = {0};
    struct fork_options given = {.err = &err};
    struct option_parser parser = {.argc = argc, .argv = argv, .at = 1};
    const struct option_row *row;
    const char *value;
    for (enum option_kind kind; (kind = option_next(&parser, &command_fork, &row, &value)) != OPTION_END;) {
        if (kind == OPTION_ROW && strcmp(row->name, "help") == 0) {
            help_print(&command_fork);
            return 0;
        }
        if (kind == OPTION_ROW && take_option(&given, row, value) == 0)
            continue;
        if (kind != OPTION_POSITIONAL || given.sandbox)
            return option_refuse(&parser, &command_fork);
        given.sandbox = value;
    }
    int status = given.sandbox ? perform(&given, &err)
                               : error_spec(&err, "sandbox", "give the sandbox: cloche fork sbx_…");
    int exit_status = status < 0 ? remote_fail(&err) : given.screen.exit_status;
    string_list_free(&given.codes);
    http_close(given.http);
    return exit_status;
}
