#include "spec/spec.h"

#include "base/text.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct spec *spec_new(void)
{
    struct spec *spec = calloc(1, sizeof *spec);
    if (spec) {
        spec->stdin_fd = spec->output_fd = -1;
        spec->fuel = -1;
    }
    return spec;
}

void spec_free(struct spec *spec)
{
    if (!spec)
        return;
    free(spec->language);
    free(spec->code_file);
    free(spec->code_name);
    free(spec->image);
    free(spec->preload);
    free(spec->working_directory);
    free(spec->output_directory);
    free(spec->call);
    buffer_free(&spec->code);
    buffer_free(&spec->stdin_bytes);
    string_list_free(&spec->command);
    string_list_free(&spec->arguments);
    string_list_free(&spec->environment);
    string_list_free(&spec->accepted);
    string_list_free(&spec->host);
    string_list_free(&spec->fetch);
    free(spec->fetch_ca);
    free(spec->oci_runtime);
    free(spec->oci_platform);
    for (size_t i = 0; i < spec->grant_count; i++) {
        free(spec->grants[i].host_path);
        free(spec->grants[i].name);
    }
    free(spec);
}

const char *const spec_host_groups[SPEC_HOST_GROUPS] = {"wasi", "clock", "random", "log", "kv", "fetch"};

const char *const spec_acceptable[SPEC_ACCEPTABLE] = {"memory", "cpus", "kernel"};

bool spec_accepts(const struct spec *spec, const char *name)
{
    for (size_t i = 0; i < spec->accepted.count; i++)
        if (strcmp(spec->accepted.items[i], name) == 0)
            return true;
    return false;
}

static int set_text(char **into, const char *value)
{
    free(*into);
    *into = strdup(value);
    return *into ? 0 : -ENOMEM;
}

static int set_language(struct spec *spec, const char *value, struct error *err)
{
    (void)err;
    return set_text(&spec->language, value);
}

static int set_file(struct spec *spec, const char *value, struct error *err)
{
    if (spec->code_file)
        return error_spec(err, "file", "file: given twice ('%.64s' and '%.64s')", spec->code_file, value);
    return set_text(&spec->code_file, value);
}

static int set_image(struct spec *spec, const char *value, struct error *err)
{
    (void)err;
    return set_text(&spec->image, value);
}

static int set_preload(struct spec *spec, const char *value, struct error *err)
{
    (void)err;
    return set_text(&spec->preload, value);
}

static int set_working_directory(struct spec *spec, const char *value, struct error *err)
{
    if (value[0] != '/')
        return error_spec(err, "cwd", "cwd: '%.64s' is not an absolute path inside the box", value);
    return set_text(&spec->working_directory, value);
}

static int set_output(struct spec *spec, const char *value, struct error *err)
{
    (void)err;
    return set_text(&spec->output_directory, value);
}

static int set_code(struct spec *spec, const char *value, struct error *err)
{
    if (spec->has_code)
        return error_spec(err, "code", "code: given twice");
    spec->has_code = true;
    return buffer_append_text(&spec->code, value);
}

static int set_isolation(struct spec *spec, const char *value, struct error *err)
{
    bool is_auto = strcmp(value, "auto") == 0;
    int found = is_auto ? 0 : isolation_find(value, err);
    if (found < 0)
        return found;
    spec->isolation = (enum isolation)found;
    spec->is_auto = is_auto;
    spec->has_isolation = !is_auto;
    return 0;
}

static int set_isolation_min(struct spec *spec, const char *value, struct error *err)
{
    int found = isolation_find(value, err);
    if (found < 0)
        return found;
    spec->isolation_min = (enum isolation)found;
    return 0;
}

static int set_vet(struct spec *spec, const char *value, struct error *err)
{
    int found = vet_mode_find(value, err);
    if (found < 0)
        return found;
    spec->vet = (enum vet_mode)found;
    spec->has_vet = true;
    return 0;
}

static int add_list(struct string_list *list, const char *field, const char *value, struct error *err)
{
    if (list->count >= SPEC_ARGUMENTS_MAX)
        return error_spec(err, field, "%s: more than %d values", field, SPEC_ARGUMENTS_MAX);
    return string_list_add(list, value);
}

static int add_command(struct spec *spec, const char *value, struct error *err)
{
    return add_list(&spec->command, "command", value, err);
}

static int add_argument(struct spec *spec, const char *value, struct error *err)
{
    return add_list(&spec->arguments, "arg", value, err);
}

static int add_environment(struct spec *spec, const char *value, struct error *err)
{
    size_t length = strcspn(value, "=");
    if (!value[length] || !text_is_environment_name(value, length))
        return error_spec(err, "env", "env: '%.64s' is not NAME=value", value);
    return add_list(&spec->environment, "env", value, err);
}

/* An input can be given another name: sales-2026.csv:sales.csv. A colon in the path itself is kept when what
 * follows it has a slash. */
static int add_grant(struct spec *spec, enum grant_kind kind, const char *field, const char *value,
                     struct error *err)
{
    if (!*value)
        return error_spec(err, field, "%s: an empty path", field);
    if (spec->grant_count == SPEC_GRANTS_MAX)
        return error_spec(err, field, "%s: more than %d paths", field, SPEC_GRANTS_MAX);
    struct grant grant = {.kind = kind};
    const char *colon = kind == GRANT_INPUT ? strrchr(value, ':') : NULL;
    if (colon && (strchr(colon, '/') || !colon[1] || colon == value))
        colon = NULL;
    grant.host_path = colon ? strndup(value, (size_t)(colon - value)) : strdup(value);
    grant.name = colon ? strdup(colon + 1) : NULL;
    if (!grant.host_path || (colon && !grant.name)) {
        free(grant.host_path);
        return -ENOMEM;
    }
    spec->grants[spec->grant_count++] = grant;
    return 0;
}

static int add_input(struct spec *spec, const char *value, struct error *err)
{
    return add_grant(spec, GRANT_INPUT, "input", value, err);
}

static int add_read(struct spec *spec, const char *value, struct error *err)
{
    return add_grant(spec, GRANT_READ, "read", value, err);
}

static int add_write(struct spec *spec, const char *value, struct error *err)
{
    return add_grant(spec, GRANT_WRITE, "write", value, err);
}

int spec_check_acceptable(const char *name, struct error *err)
{
    for (size_t i = 0; i < SPEC_ACCEPTABLE; i++)
        if (strcmp(name, spec_acceptable[i]) == 0)
            return 0;
    return error_spec(err, "accept",
                      "accept: '%.64s' cannot be done without; only memory and cpus can (memory is "
                      "then watched instead of walled), and, where an OCI runtime has none, a kernel",
                      name);
}

/* With commas too, as in the operator's file. */
static int add_accepted(struct spec *spec, const char *value, struct error *err)
{
    int status = 0;
    do {
        char name[64];
        size_t length = strcspn(value, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, value);
        status = spec_check_acceptable(length < sizeof name ? name : value, err);
        if (status == 0)
            status = add_list(&spec->accepted, "accept", name, err);
        value += length;
    } while (status == 0 && *value++ == ',');
    return status;
}

static int set_stdin(struct spec *spec, const char *value, struct error *err)
{
    (void)err;
    spec->stdin_kind = STDIN_BYTES;
    return buffer_append_text(&spec->stdin_bytes, value);
}

static int set_call(struct spec *spec, const char *value, struct error *err)
{
    if (!*value)
        return error_spec(err, "call", "call: an empty name");
    return set_text(&spec->call, value);
}

static int add_host(struct spec *spec, const char *value, struct error *err)
{
    bool is_known = false;
    for (size_t i = 0; i < SPEC_HOST_GROUPS; i++)
        is_known |= strcmp(value, spec_host_groups[i]) == 0;
    if (!is_known)
        return error_spec(
            err, "host",
            "host: '%.64s' is not a group of host functions; there are: wasi, clock, random, log, kv, fetch",
            value);
    return add_list(&spec->host, "host", value, err);
}

static int add_fetch(struct spec *spec, const char *value, struct error *err)
{
    return add_list(&spec->fetch, "fetch", value, err);
}

static int set_fuel(struct spec *spec, const char *value, struct error *err)
{
    if (!text_parse_count(value, &spec->fuel) || spec->fuel < 1)
        return error_spec(err, "fuel", "fuel: '%.64s' is not a number of units such as 1000000", value);
    return 0;
}

static const char proof_command[] = "/bin/true", proof_module[] = "(module (func (export \"_start\")))";

int spec_set_proof(struct spec *spec, enum isolation isolation, struct error *err)
{
    spec->isolation = isolation;
    spec->has_isolation = true;
    if (isolation != ISOLATION_WASM)
        return spec_set(spec, "command", proof_command, err);
    int status = spec_set(spec, "language", "wasm", err);
    return status < 0 ? status : spec_set(spec, "code", proof_module, err);
}

bool spec_is_proof(const struct spec *spec)
{
    if (spec->arguments.count)
        return false;
    return spec->has_code ? spec->code.length == strlen(proof_module) &&
                                memcmp(spec->code.data, proof_module, strlen(proof_module)) == 0
                          : spec->command.count == 1 && strcmp(spec->command.items[0], proof_command) == 0;
}

static int set_limit(struct spec *spec, const char *field, const char *value, struct error *err)
{
    bool compile = strncmp(field, "compile.", 8) == 0;
    int found = limit_find(compile ? field + 8 : field);
    if (found < 0)
        return error_spec(err, field, "'%.64s' is not a field of a spec", field);
    struct limits *limits = compile ? &spec->compile_limits : &spec->limits;
    int status = limit_parse((enum limit_field)found, value, &limits->value[found], err);
    if (status < 0)
        return compile ? error_context(err, "compile") : status;
    (compile ? spec->compile_limit_set : spec->limit_set)[found] = true;
    return 0;
}

static const struct {
    const char *name;
    int (*set)(struct spec *spec, const char *value, struct error *err);
} fields[] = {
    {"language", set_language},   {"file", set_file},
    {"code", set_code},           {"command", add_command},
    {"arg", add_argument},        {"env", add_environment},
    {"image", set_image},         {"preload", set_preload},
    {"isolation", set_isolation}, {"isolation_min", set_isolation_min},
    {"input", add_input},         {"read", add_read},
    {"write", add_write},         {"output", set_output},
    {"accept", add_accepted},     {"cwd", set_working_directory},
    {"stdin", set_stdin},         {"call", set_call},
    {"host", add_host},           {"fetch", add_fetch},
    {"fuel", set_fuel},           {"vet", set_vet},
};

int spec_set(struct spec *spec, const char *field, const char *value, struct error *err)
{
    int (*set)(struct spec *, const char *, struct error *) = NULL;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(field, fields[i].name) == 0)
            set = fields[i].set;
    int status = set ? set(spec, value, err) : set_limit(spec, field, value, err);
    if (status == -ENOMEM)
        return error_host(err, status, "%s", field);
    return status;
}
