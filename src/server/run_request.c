#include "server/run_request.h"

#include "base/text.h"
#include "base/base64.h"
#include "server/server.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Those that a spec has too; paths of the host, and limits to do without, are none of a client's business. */
static const char *const spec_fields[] = {"language",       "code",      "command", "args",  "env",
                                          "image",          "isolation", "cwd",     "stdin", "limits",
                                          "compile_limits", "call",      "host",    "fuel",  "vet",
                                          "isolation_min",  "fetch",     "preload", NULL};
static const char *const all_fields[] = {
    "language", "code",   "command", "args",           "env",          "image",       "isolation",
    "cwd",      "stdin",  "limits",  "compile_limits", "files",        "preset",      "collect",
    "warm",     "stream", "name",    "stdin_base64",   "stdin_upload", "code_base64", "call",
    "host",     "fuel",   "vet",     "isolation_min",  "results",      "fetch",       "preload",
    NULL};

static const struct {
    const char *preset, *field, *value;
} presets[] = {
    /* Two cores for two minutes, and room for a data set of a gigabyte in memory. */
    {"analyst", "memory", "4G"}, {"analyst", "cpus", "2"},  {"analyst", "wall", "120s"},
    {"analyst", "cpu", "240s"},  {"analyst", "disk", "1G"}, {"analyst", "pids", "128"},
};

int run_preset_apply(const struct server *server, const char *name, struct spec *spec, struct error *err)
{
    int status = -ENOENT;
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        int field = limit_find(presets[i].field);
        if (strcmp(presets[i].preset, name) != 0 || spec->limit_set[field]) {
            status = strcmp(presets[i].preset, name) == 0 ? 0 : status;
            continue;
        }
        status = spec_set(spec, presets[i].field, presets[i].value, err);
        if (status < 0)
            return status;
        int64_t *value = &spec->limits.value[field]; /* as much of it as the operator allows */
        if (*value > server->policy.ceilings.value[field])
            *value = server->policy.ceilings.value[field];
    }
    return status;
}

static bool is_among(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(name, *list) == 0)
            return true;
    return false;
}

/* What others call a field of ours, and no guess by letters would find. */
static const char *other_name(const char *given, const char *const *known, const char *otherwise)
{
    static const char *const names[][2] = {{"argv", "command"},
                                           {"cmd", "command"},
                                           {"source", "code"},
                                           {"timeout", "limits"},
                                           {"lang", "language"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(given, names[i][0]) == 0 && is_among(names[i][1], known))
            return names[i][1];
    return otherwise;
}

int run_refuse_unknown(struct exchange *exchange, const json_t *object, const char *const *known,
                       const char *what)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        if (is_among(name, known))
            continue;
        struct text_guess guess = {.given = name};
        for (const char *const *word = known; *word; word++)
            text_guess_offer(&guess, *word);
        guess.nearest = other_name(name, known, guess.nearest);
        exchange_reply_error(exchange, 400, "bad_request", name, NULL, "'%.64s' is not a field of %s%s%s%s",
                             name, what, guess.nearest ? "; did you mean '" : "",
                             guess.nearest ? guess.nearest : "", guess.nearest ? "'?" : "");
        return -EINVAL;
    }
    return 0;
}

int run_refuse(struct exchange *exchange, const char *field, const char *message)
{
    exchange_reply_error(exchange, 400, "bad_request", field, NULL, "%s: %s", field, message);
    return -EINVAL;
}

static int read_switch(struct exchange *exchange, const json_t *body, const char *name, bool normal,
                       bool *ret)
{
    const json_t *value = json_object_get(body, name);
    *ret = value ? json_is_true(value) : normal;
    return !value || json_is_boolean(value) ? 0 : run_refuse(exchange, name, "must be true or false");
}

static int read_collect(struct exchange *exchange, const json_t *body, enum run_collect *ret)
{
    const json_t *value = json_object_get(body, "collect");
    const char *text = json_string_value(value);
    *ret = RUN_COLLECT_LIST;
    if (!value || json_is_false(value))
        return 0;
    *ret = text && strcmp(text, "url") == 0 ? RUN_COLLECT_URL : RUN_COLLECT_INLINE;
    if (json_is_true(value) || (text && (strcmp(text, "url") == 0 || strcmp(text, "inline") == 0)))
        return 0;
    return run_refuse(exchange, "collect", "must be true, false, \"inline\" or \"url\"");
}

static int read_preset(struct exchange *exchange, struct run_request *into)
{
    struct error err = {0};
    const json_t *preset = json_object_get(into->body, "preset");
    if (!preset)
        return 0;
    int status = json_is_string(preset) ? run_preset_apply(exchange_server(exchange),
                                                           json_string_value(preset), into->spec, &err)
                                        : -ENOENT;
    return status == -ENOENT ? run_refuse(exchange, "preset", "there is only \"analyst\"") : status;
}

/* Code that is not text: a module. */
static int read_code_bytes(struct exchange *exchange, struct run_request *into)
{
    const json_t *encoded = json_object_get(into->body, "code_base64");
    struct spec *spec = into->spec;
    if (!encoded)
        return 0;
    if (!json_is_string(encoded) || spec->has_code)
        return run_refuse(exchange, "code_base64", "must be a string, and instead of code");
    spec->has_code = true;
    int status =
        base64_decode((struct slice){json_string_value(encoded), json_string_length(encoded)}, &spec->code);
    return status == -EINVAL ? run_refuse(exchange, "code_base64", "is not base64") : status;
}

static int read_spec(struct exchange *exchange, struct run_request *into)
{
    struct error err = {0};
    json_t *part = json_object();
    for (const char *const *name = spec_fields; *name; name++) {
        json_t *value = json_object_get(into->body, *name);
        if (value)
            json_object_set(part, *name, value);
    }
    int status = spec_read_object(into->spec, part, &err);
    json_decref(part);
    if (status < 0) {
        exchange_reply_problem(exchange, &err);
        return status;
    }
    struct spec *spec = into->spec;
    status = read_code_bytes(exchange, into);
    if (status < 0)
        return status;
    if (!spec->has_code && !spec->command.count)
        return run_refuse(exchange, "code", "nothing to run: give code, or a command");
    if (spec->has_code && spec->command.count)
        return run_refuse(exchange, "command", "give code or a command, not both");
    return 0;
}

/* What messages call the code. */
static int read_name(struct exchange *exchange, struct run_request *into)
{
    const json_t *name = json_object_get(into->body, "name");
    struct spec *spec = into->spec;
    if (name &&
        (!json_is_string(name) || !text_is_file_name(json_string_value(name), json_string_length(name))))
        return run_refuse(exchange, "name", "must be the name of a file, without a slash");
    if (name && !(spec->code_name = strdup(json_string_value(name))))
        return -ENOMEM;
    /* The keeper fills in all else by the same policy; this it takes as it comes. */
    spec_take_usual_isolation(spec, &exchange_server(exchange)->policy);
    return 0;
}

/* Stdin that is not text, or more than a request holds. */
static int read_stdin(struct exchange *exchange, struct run_request *into)
{
    const json_t *encoded = json_object_get(into->body, "stdin_base64");
    const json_t *upload = json_object_get(into->body, "stdin_upload");
    struct spec *spec = into->spec;
    if (upload && (!json_is_string(upload) || encoded || spec->stdin_kind != STDIN_NONE))
        return run_refuse(exchange, "stdin_upload", "must be the name of an upload, and instead of stdin");
    into->stdin_upload = json_string_value(upload);
    if (!encoded)
        return 0;
    if (!json_is_string(encoded) || spec->stdin_kind != STDIN_NONE)
        return run_refuse(exchange, "stdin_base64", "must be a string, and instead of stdin");
    spec->stdin_kind = STDIN_BYTES;
    int status = base64_decode((struct slice){json_string_value(encoded), json_string_length(encoded)},
                               &spec->stdin_bytes);
    return status == -EINVAL ? run_refuse(exchange, "stdin_base64", "is not base64") : status;
}

int run_request_read(struct exchange *exchange, struct run_request *ret)
{
    bool is_warm, is_streamed;
    int status = exchange_json(exchange, &ret->body);
    if (status < 0)
        return status;
    if (!(ret->spec = spec_new()))
        return -ENOMEM;
    status = run_refuse_unknown(exchange, ret->body, all_fields, "a run");
    if (status == 0)
        status = read_spec(exchange, ret);
    if (status == 0)
        status = read_name(exchange, ret);
    if (status == 0)
        status = read_stdin(exchange, ret);
    if (status == 0)
        status = read_preset(exchange, ret);
    if (status == 0)
        status = run_files_read(exchange, ret->body, &ret->files);
    if (status == 0)
        status = read_collect(exchange, ret->body, &ret->collect);
    if (status == 0)
        status = read_switch(exchange, ret->body, "warm", true, &is_warm);
    if (status == 0)
        status = read_switch(exchange, ret->body, "results", false, &ret->spec->wants_results);
    if (status == 0)
        status = read_switch(exchange, ret->body, "stream", exchange_wants_events(exchange), &is_streamed);
    if (status < 0)
        return status;
    ret->is_cold = !is_warm;
    ret->wants_events = is_streamed;
    return 0;
}

void run_request_free(struct run_request *request)
{
    run_files_free(&request->files);
    spec_free(request->spec);
    json_decref(request->body);
    *request = (struct run_request){0};
}
