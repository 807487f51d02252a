/* cloche sandbox: boxes of a server that stay between runs. */
#include "remote/remote.h"
#include "remote/inputs.h"
#include "remote/run_body.h"
#include "remote/sandbox.h"
#include "remote/upload.h"

#include "cli/command.h"
#include "cli/report.h"

#include "base/scope.h"
#include "base/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int sandbox_path(const char *id, const char *rest, struct buffer *ret, struct error *err)
{
    ret->length = 0;
    int status = buffer_append_text(ret, "/v1/sandboxes/");
    if (status == 0)
        status = http_append_encoded(ret, id);
    if (status == 0)
        status = buffer_append_text(ret, rest);
    return status < 0 ? error_host(err, status, "sandbox") : 0;
}

/* ---- create, list, show ---- */

static int set_pairs(json_t *body, const char *field, const struct string_list *pairs, struct error *err)
{
    for (size_t i = 0; i < pairs->count; i++)
        if (!strchr(pairs->items[i], '='))
            return error_spec(err, field, "%s: '%.64s' is not NAME=VALUE", field, pairs->items[i]);
    if (pairs->count)
        json_object_set_new(body, field, run_body_environment(pairs));
    return 0;
}

static int set_runs(const struct sandbox_options *given, json_t *body, struct error *err)
{
    int64_t runs = 0;
    if (given->runs && !text_parse_count(given->runs, &runs))
        return error_spec(err, "runs", "runs: '%.32s' is not a number", given->runs);
    if (given->runs)
        json_object_set_new(body, "runs_max", json_integer(runs));
    return 0;
}

static int make_body(const struct sandbox_options *given, json_t *body, struct error *err)
{
    const struct spec *spec = given->spec;
    const struct {
        const char *field, *value;
    } texts[] = {{"language", spec->language},
                 {"image", spec->image},
                 {"preload", spec->preload},
                 {"isolation", spec->is_auto         ? "auto"
                               : spec->has_isolation ? isolation_names[spec->isolation]
                                                     : NULL},
                 {"ttl", given->ttl},
                 {"idle", given->idle},
                 {"preset", given->preset}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].value)
            json_object_set_new(body, texts[i].field, json_string(texts[i].value));
    json_object_set_new(body, "limits", run_body_limits(&spec->limits, spec->limit_set));
    int status = set_runs(given, body, err);
    if (status == 0)
        status = set_pairs(body, "metadata", &given->metadata, err);
    return status < 0 ? status : set_pairs(body, "env", &spec->environment, err);
}

static int create(struct sandbox_options *given, struct error *err)
{
    json_t *body = json_object(), *answer = NULL;
    struct string_list uploads = {0}; /* the sandbox holds what was in them */
    int status = make_body(given, body, err);
    if (status == 0)
        status = spec_resolve_grants(given->spec, err);
    if (status == 0 && given->spec->grant_count)
        status = inputs_send(given->http, given->spec, body, &uploads, err);
    if (status == 0)
        status = http_ask(given->http, "POST", "/v1/sandboxes", json_incref(body), &answer, err);
    upload_remove(given->http, &uploads);
    string_list_free(&uploads);
    json_decref(body);
    if (status == 0 && given->json)
        remote_print_json(answer);
    else if (status == 0)
        printf("%s\n", remote_text(answer, "id"));
    json_decref(answer);
    return status;
}

static void print_metadata(const json_t *sandbox)
{
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(sandbox, "metadata"), name, value)
    {
        printf(" %s=%s", name, json_is_string(value) ? json_string_value(value) : "");
    }
}

static void print_row(const struct sandbox_options *given, const json_t *sandbox)
{
    char expires[32];
    if (given->quiet) {
        printf("%s\n", remote_text(sandbox, "id"));
        return;
    }
    printf("%-27s %-8s %-11s %5lld  %-20s", remote_text(sandbox, "id"), remote_text(sandbox, "state"),
           remote_text(sandbox, "language"), (long long)json_integer_value(json_object_get(sandbox, "runs")),
           remote_format_time(remote_text(sandbox, "expires_at"), expires, sizeof expires));
    print_metadata(sandbox);
    printf("\n");
}

static int list_query(const struct sandbox_options *given, const char *cursor, struct buffer *path)
{
    path->length = 0;
    int status = buffer_print(path, "/v1/sandboxes?limit=%d", 500);
    if (given->state) {
        buffer_append_text(path, "&state=");
        status |= http_append_encoded(path, given->state);
    }
    for (size_t i = 0; i < given->metadata.count; i++) {
        const char *pair = given->metadata.items[i], *equals = strchr(pair, '=');
        scope_free char *name = strndup(pair, equals ? (size_t)(equals - pair) : strlen(pair));
        status |= buffer_append_text(path, "&metadata.");
        status |= http_append_encoded(path, name ? name : "");
        status |= buffer_append_text(path, "=");
        status |= http_append_encoded(path, equals ? equals + 1 : "");
    }
    if (cursor && cursor[0]) {
        status |= buffer_append_text(path, "&cursor=");
        status |= http_append_encoded(path, cursor);
    }
    return status;
}

static int list(struct sandbox_options *given, struct error *err)
{
    json_t *all = json_array();
    char cursor[128] = "";
    int status = 0;
    do {
        scope_buffer path = {0};
        json_t *answer = NULL;
        if (list_query(given, cursor, &path) != 0)
            status = error_host(err, -ENOMEM, "list");
        if (status == 0)
            status = http_ask(given->http, "GET", path.data, NULL, &answer, err);
        json_array_extend(all, json_object_get(answer, "sandboxes"));
        snprintf(cursor, sizeof cursor, "%s", remote_text(answer, "next"));
        json_decref(answer);
    } while (status == 0 && cursor[0]);
    size_t index;
    json_t *item;
    if (status == 0 && given->json) {
        json_t *answer = json_pack("{s:O}", "sandboxes", all);
        remote_print_json(answer);
        json_decref(answer);
    } else if (status == 0) {
        if (!given->quiet)
            printf("%-27s %-8s %-11s %5s  %-20s %s\n", "ID", "STATE", "LANGUAGE", "RUNS", "UNTIL",
                   "METADATA");
        json_array_foreach(all, index, item) print_row(given, item);
    }
    json_decref(all);
    return status;
}

static void print_limits(const json_t *limits)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)limits, name, value)
    {
        int field = limit_find(name);
        if (field < 0 || !json_is_number(value))
            continue; /* of a newer server */
        enum limit_unit unit = limit_rows[field].unit;
        double scale = unit == LIMIT_MS || unit == LIMIT_MILLICPUS ? 1000 : 1; /* seconds, and whole CPUs */
        char text[48];
        printf("  %-13s %s\n", name,
               limit_format((enum limit_field)field, (int64_t)(json_number_value(value) * scale + 0.5), text,
                            sizeof text));
    }
}

static int show(struct sandbox_options *given, struct error *err)
{
    static const struct {
        const char *field, *label;
    } rows[] = {{"id", "id"},           {"state", "state"},         {"cause", "cause"},
                {"detail", "detail"},   {"language", "language"},   {"image", "image"},
                {"parent", "parent"},   {"isolation", "isolation"}, {"created_at", "created"},
                {"expires_at", "until"}};
    scope_buffer path = {0};
    json_t *answer = NULL, *item;
    size_t index;
    int status = sandbox_path(given->words.items[0], "", &path, err);
    if (status == 0)
        status = http_ask(given->http, "GET", path.data, NULL, &answer, err);
    if (status == 0 && given->json)
        remote_print_json(answer);
    for (size_t i = 0; status == 0 && !given->json && i < sizeof rows / sizeof *rows; i++) {
        const char *text = remote_text(answer, rows[i].field);
        char time[32];
        bool is_time = strstr(rows[i].field, "_at");
        if (text[0])
            printf("%-11s %s\n", rows[i].label, is_time ? remote_format_time(text, time, sizeof time) : text);
    }
    if (status == 0 && !given->json) {
        printf("%-11s %lld\n%-11s", "runs", (long long)json_integer_value(json_object_get(answer, "runs")),
               "contexts");
        json_array_foreach(json_object_get(answer, "contexts"), index, item)
            printf(" %s", json_is_string(item) ? json_string_value(item) : remote_text(item, "id"));
        printf("\n%-11s", "metadata");
        print_metadata(answer);
        printf("\nlimits\n");
        print_limits(json_object_get(answer, "limits"));
    }
    json_decref(answer);
    return status;
}

/* ---- orders ---- */

/* Of a context: the one that was named, or its first. */
static int order_context(struct sandbox_options *given, const char *verb, struct error *err)
{
    scope_buffer path = {0};
    json_t *sandbox = NULL;
    char rest[160];
    int status = sandbox_path(given->words.items[0], "", &path, err);
    const char *context = given->context;
    if (status == 0 && !context)
        status = http_ask(given->http, "GET", path.data, NULL, &sandbox, err);
    if (status == 0 && !context) {
        const json_t *first = json_array_get(json_object_get(sandbox, "contexts"), 0);
        context = json_is_string(first) ? json_string_value(first) : remote_text(first, "id");
        if (!context[0])
            status = error_spec(err, "context", "the sandbox has no context any more");
    }
    if (status == 0) {
        json_t *answer = NULL;
        snprintf(rest, sizeof rest, "/contexts/%.120s/%s", context, verb);
        status = sandbox_path(given->words.items[0], rest, &path, err);
        if (status == 0)
            status = http_ask(given->http, "POST", path.data, NULL, &answer, err);
        if (status == 0 && given->json)
            remote_print_json(answer);
        json_decref(answer);
    }
    json_decref(sandbox);
    return status;
}

static int restart(struct sandbox_options *given, struct error *err)
{
    return order_context(given, "restart", err);
}

static int interrupt(struct sandbox_options *given, struct error *err)
{
    return order_context(given, "interrupt", err);
}

static int extend(struct sandbox_options *given, struct error *err)
{
    scope_buffer path = {0};
    json_t *answer = NULL;
    const char *ttl = given->words.count > 1 ? given->words.items[1] : given->ttl;
    char until[32];
    if (!ttl && !given->idle && !given->runs)
        return error_spec(err, "ttl", "give a time: cloche sandbox extend %.40s 1h; or --idle, --runs",
                          given->words.items[0]);
    json_t *body = json_pack("{s:s*, s:s*}", "ttl", ttl, "idle", given->idle);
    int status = set_runs(given, body, err);
    if (status == 0)
        status = sandbox_path(given->words.items[0], "/extend", &path, err);
    if (status == 0)
        status = http_ask(given->http, "POST", path.data, json_incref(body), &answer, err);
    json_decref(body);
    if (status == 0 && given->json)
        remote_print_json(answer);
    else if (status == 0 && !given->quiet)
        printf("lives until %s\n",
               remote_format_time(remote_text(answer, "expires_at"), until, sizeof until));
    json_decref(answer);
    return status;
}

static int delete (struct sandbox_options *given, struct error *err)
{
    int status = 0;
    for (size_t i = 0; i < given->words.count && status == 0; i++) {
        scope_buffer path = {0};
        status = sandbox_path(given->words.items[i], "", &path, err);
        if (status == 0)
            status = http_ask(given->http, "DELETE", path.data, NULL, NULL, err);
    }
    return status;
}

static const struct {
    const char *name;
    size_t least, most; /* words after it */
    int (*perform)(struct sandbox_options *given, struct error *err);
} orders[] = {
    {"create", 0, 0, create},
    {"list", 0, 0, list},
    {"show", 1, 1, show},
    {"run", 1, 2, sandbox_run},
    {"exec", 1, 1, sandbox_exec},
    {"restart", 1, 1, restart},
    {"interrupt", 1, 1, interrupt},
    {"extend", 1, 2, extend},
    {"delete", 1, 1000, delete},
    {"context", 2, 3, sandbox_parts},
    {"checkpoint", 2, 3, sandbox_parts},
    {"rollback", 2, 2, sandbox_rollback},
};

static int perform(struct sandbox_options *given, struct error *err)
{
    size_t i = 0, count = sizeof orders / sizeof *orders;
    struct text_guess guess = {.given = given->order};
    for (; i < count && strcmp(orders[i].name, given->order) != 0; i++)
        text_guess_offer(&guess, orders[i].name);
    if (i == count)
        return error_spec(err, "order", "there is no `cloche sandbox %.32s`%s%s%s; see `cloche help sandbox`",
                          given->order, guess.nearest ? " (did you mean " : "",
                          guess.nearest ? guess.nearest : "", guess.nearest ? "?)" : "");
    if (given->words.count < orders[i].least)
        return error_spec(err, "sandbox", "give the sandbox: cloche sandbox %s sbx_…", given->order);
    if (given->words.count > orders[i].most)
        return error_spec(err, "sandbox", "'%.64s' was not expected; see `cloche help sandbox`",
                          given->words.items[orders[i].most]);
    int status = remote_connect(&given->http, err);
    return status < 0 ? status : orders[i].perform(given, err);
}

/* ---- the line ---- */

static int take_option(struct sandbox_options *into, const struct option_row *row, const char *value,
                       struct error *err)
{
    const struct {
        const char *name;
        const char **into;
    } texts[] = {{"ttl", &into->ttl},       {"idle", &into->idle},   {"runs", &into->runs},
                 {"preset", &into->preset}, {"code", &into->code},   {"context", &into->context},
                 {"cwd", &into->cwd},       {"state", &into->state}, {"save", &into->save_path}};
    if (row->field)
        return spec_set(into->spec, row->field, value, err);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(row->name, texts[i].name) == 0)
            *texts[i].into = value;
    if (strcmp(row->name, "metadata") == 0)
        return string_list_add(&into->metadata, value);
    into->json |= strcmp(row->name, "json") == 0;
    into->quiet |= strcmp(row->name, "quiet") == 0;
    return 0;
}

/* 1: help was printed. */
static int parse(int argc, char **argv, struct sandbox_options *into, struct error *err)
{
    struct option_parser parser = {.argc = argc, .argv = argv, .at = 1};
    const struct option_row *row;
    const char *value;
    int status = 0;
    while (status == 0)
        switch (option_next(&parser, &command_sandbox, &row, &value)) {
        case OPTION_END:
            return 0;
        case OPTION_WRONG:
            return error_spec(err, "option", "sandbox: %s", parser.message);
        case OPTION_ROW:
            if (strcmp(row->name, "help") == 0) {
                help_print(&command_sandbox);
                return 1;
            }
            status = take_option(into, row, value, err);
            break;
        case OPTION_REST:
            while (status == 0 && parser.at < argc)
                status = string_list_add(&into->command, argv[parser.at++]);
            break;
        case OPTION_POSITIONAL:
            if (into->order)
                status = string_list_add(&into->words, value);
            else
                into->order = value;
        }
    return status;
}

int sandbox_main(int argc, char **argv)
{
    struct error err = {0};
    scope_spec *spec = spec_new();
    struct sandbox_options given = {.spec = spec};
    int status = spec ? parse(argc, argv, &given, &err) : error_host(&err, -ENOMEM, "sandbox");
    if (status == 0 && !given.order) {
        help_print(&command_sandbox);
        return EXIT_STATUS_BAD_SPEC;
    }
    if (status == 0)
        status = perform(&given, &err);
    int exit_status = status < 0 ? remote_fail(&err) : given.exit_status;
    http_close(given.http);
    struct string_list *lists[] = {&given.words, &given.command, &given.metadata};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        string_list_free(lists[i]);
    return exit_status;
}
