#include "remote/run_body.h"

#include "base/base64.h"
#include "base/file.h"
#include "base/scope.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

/* ---- what is refused ---- */

static int refuse_what_is_here(const struct run_options *given, struct error *err)
{
    const struct spec *spec = given->spec;
    for (size_t i = 0; i < spec->grant_count; i++)
        if (spec->grants[i].kind != GRANT_INPUT) {
            const char *field = spec->grants[i].kind == GRANT_READ ? "read" : "write";
            return error_spec(err, field,
                              "%s: a server cannot show a path of this machine at its own place; use --input "
                              "and --output, or run it without --server",
                              field);
        }
    if (spec->accepted.count)
        return error_spec(
            err, "accept",
            "accept: it is for the server's operator to do without a limit; run it without --server");
    if (given->config_path)
        return error_spec(err, "config", "config: a server has its own; run it without --server");
    return 0;
}

/* ---- code ---- */

static int read_code(struct spec *spec, struct error *err)
{
    struct stat what;
    const char *path = spec->code_file, *slash = strrchr(path, '/');
    if (spec->has_code)
        return error_spec(err, "file", "file: give a file or code, not both");
    if (stat(path, &what) < 0)
        return error_spec(err, "file", "file: '%.256s': %s", path, strerror(errno));
    if (!S_ISREG(what.st_mode))
        return error_spec(err, "file", "file: '%.256s' is not a regular file", path);
    int status = file_read_whole(AT_FDCWD, path, SPEC_CODE_MAX, &spec->code);
    if (status < 0)
        return error_spec(err, "file", "file: '%.256s': %s", path,
                          status == -EFBIG ? "larger than 16 MiB" : strerror(-status));
    spec->has_code = true;
    spec->code_name = strdup(slash ? slash + 1 : path);
    return spec->code_name ? 0 : error_host(err, -ENOMEM, "file");
}

static int set_program(json_t *body, struct spec *spec, struct error *err)
{
    int status = spec->code_file ? read_code(spec, err) : 0;
    if (status < 0)
        return status;
    if (!spec->has_code && !spec->command.count)
        return error_spec(err, "code", "nothing to run: give a FILE, -e CODE, or -- COMMAND");
    if (spec->has_code && spec->command.count)
        return error_spec(err, "command", "command: give code or a command, not both");
    json_t *code =
        spec->has_code ? json_stringn(spec->code.data ? spec->code.data : "", spec->code.length) : NULL;
    scope_free char *encoded =
        spec->has_code && !code ? base64_encode((struct slice){spec->code.data, spec->code.length}) : NULL;
    if (code)
        json_object_set_new(body, "code", code);
    else if (encoded)
        json_object_set_new(body, "code_base64", json_string(encoded));
    if (spec->code_name)
        json_object_set_new(body, "name", json_string(spec->code_name));
    if (spec->language)
        json_object_set_new(body, "language", json_string(spec->language));
    return 0;
}

/* ---- the rest ---- */

static int set_list(json_t *body, const char *name, const struct string_list *list, struct error *err)
{
    json_t *array = json_array();
    for (size_t i = 0; i < list->count; i++)
        if (json_array_append_new(array, json_string(list->items[i])) < 0) {
            json_decref(array);
            return error_spec(err, name, "%s: '%.64s' is not UTF-8, which a server asks for", name,
                              list->items[i]);
        }
    if (list->count)
        json_object_set(body, name, array);
    json_decref(array);
    return 0;
}

json_t *run_body_limits(const struct limits *limits, const bool *is_set)
{
    json_t *object = json_object();
    for (int i = 0; i < LIMIT_FIELDS; i++) {
        char text[48];
        int64_t value = limits->value[i];
        if (!is_set[i])
            continue;
        if (limit_rows[i].unit == LIMIT_MS)
            snprintf(text, sizeof text, "%lldms", (long long)value);
        else if (limit_rows[i].unit == LIMIT_MILLICPUS)
            snprintf(text, sizeof text, "%.3f", (double)value / 1000);
        else
            snprintf(text, sizeof text, "%lld", (long long)value);
        json_object_set_new(object, limit_rows[i].name, json_string(text));
    }
    return object;
}

json_t *run_body_environment(const struct string_list *pairs)
{
    json_t *object = json_object();
    for (size_t i = 0; i < pairs->count; i++) {
        const char *equals = strchr(pairs->items[i], '=');
        scope_free char *name = equals ? strndup(pairs->items[i], (size_t)(equals - pairs->items[i])) : NULL;
        if (name)
            json_object_set_new(object, name, json_string(equals + 1));
    }
    return object;
}

static void set_text(json_t *body, const char *name, const char *value)
{
    if (value)
        json_object_set_new(body, name, json_string(value));
}

int run_body_make(struct run_options *given, json_t **ret, struct error *err)
{
    struct spec *spec = given->spec;
    json_t *body = json_object();
    int status = refuse_what_is_here(given, err);
    if (status == 0)
        status = set_program(body, spec, err);
    if (status == 0)
        status = set_list(body, "command", &spec->command, err);
    if (status == 0)
        status = set_list(body, "args", &spec->arguments, err);
    if (status == 0)
        status = set_list(body, "host", &spec->host, err);
    if (status == 0)
        status = set_list(body, "fetch", &spec->fetch, err);
    if (status < 0) {
        json_decref(body);
        return status;
    }
    if (spec->environment.count)
        json_object_set_new(body, "env", run_body_environment(&spec->environment));
    set_text(body, "image", spec->image);
    set_text(body, "preload", spec->preload);
    set_text(body, "cwd", spec->working_directory);
    set_text(body, "call", spec->call);
    if (spec->fuel >= 0)
        json_object_set_new(body, "fuel", json_integer(spec->fuel));
    set_text(body, "vet", spec->has_vet ? vet_mode_names[spec->vet] : NULL);
    set_text(body, "isolation",
             spec->is_auto         ? "auto"
             : spec->has_isolation ? isolation_names[spec->isolation]
                                   : NULL);
    set_text(body, "isolation_min", spec->isolation_min ? isolation_names[spec->isolation_min] : NULL);
    json_object_set_new(body, "limits", run_body_limits(&spec->limits, spec->limit_set));
    json_object_set_new(body, "compile_limits",
                        run_body_limits(&spec->compile_limits, spec->compile_limit_set));
    if (spec->output_directory)
        json_object_set_new(body, "collect", json_string("inline"));
    *ret = body;
    return 0;
}
