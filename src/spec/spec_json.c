/* A spec as JSON. The same fields as on the command line, lists as arrays, limits in their own objects. */
#include "spec/spec.h"

#include "base/text.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int set_scalar(struct spec *spec, const char *field, const json_t *value, struct error *err)
{
    if (json_is_string(value)) {
        if (strlen(json_string_value(value)) != json_string_length(value))
            return error_spec(err, field, "%s: holds a NUL character", field);
        return spec_set(spec, field, json_string_value(value), err);
    }
    char number[64];
    if (json_is_integer(value))
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(number, sizeof number, "%f", json_real_value(value));
    else
        return error_spec(err, field, "%s: must be a string or a number", field);
    return spec_set(spec, field, number, err);
}

static int set_code_or_stdin(struct spec *spec, const char *field, const json_t *value, struct error *err)
{
    if (!json_is_string(value))
        return error_spec(err, field, "%s: must be a string", field);
    bool is_code = strcmp(field, "code") == 0;
    if (is_code && spec->has_code)
        return error_spec(err, field, "code: given twice");
    if (is_code)
        spec->has_code = true;
    else
        spec->stdin_kind = STDIN_BYTES;
    int status = buffer_append(is_code ? &spec->code : &spec->stdin_bytes, json_string_value(value),
                               json_string_length(value));
    return status < 0 ? error_host(err, status, "%s", field) : 0;
}

/* As a program is given it: an integer as it is, any other with as many digits as tell it from its
 * neighbours.
 */
static int add_number(struct spec *spec, const char *each, const json_t *value, struct error *err)
{
    char number[64];
    if (json_is_integer(value))
        return set_scalar(spec, each, value, err);
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(number, sizeof number, "%.*g", digits, json_real_value(value));
        if (strtod(number, NULL) == json_real_value(value))
            break;
    }
    return spec_set(spec, each, number, err);
}

static int set_array(struct spec *spec, const char *field, const char *each, const json_t *value,
                     struct error *err)
{
    bool takes_numbers = strcmp(field, "args") == 0; /* values of a function that is called */
    if (!json_is_array(value))
        return error_spec(err, field, "%s: must be an array of strings%s", field,
                          takes_numbers ? " and numbers" : "");
    size_t index;
    json_t *item;
    json_array_foreach(value, index, item)
    {
        bool is_number = takes_numbers && json_is_number(item);
        if (!json_is_string(item) && !is_number)
            return error_spec(err, field, "%s[%zu]: must be a string%s", field, index,
                              takes_numbers ? " or a number" : "");
        int status = is_number ? add_number(spec, each, item, err) : set_scalar(spec, each, item, err);
        if (status < 0)
            return status;
    }
    return 0;
}

static int set_environment(struct spec *spec, const json_t *value, struct error *err)
{
    if (!json_is_object(value))
        return error_spec(err, "env", "env: must be an object of strings");
    const char *name;
    json_t *item;
    json_object_foreach((json_t *)(uintptr_t)value, name, item)
    {
        if (!text_is_environment_name(name, strlen(name)))
            return error_spec(err, "env", "env: '%.64s' is not a name of a variable", name);
        if (!json_is_string(item) || strlen(json_string_value(item)) != json_string_length(item))
            return error_spec(err, "env", "env.%.64s: must be a string without NUL", name);
        char *pair = NULL;
        if (asprintf(&pair, "%s=%s", name, json_string_value(item)) < 0)
            return error_host(err, -ENOMEM, "env");
        int status = spec_set(spec, "env", pair, err);
        free(pair);
        if (status < 0)
            return status;
    }
    return 0;
}

/* By its letters, by what it begins with, or by what others call it. NULL: nobody knows. */
static const char *limit_that_was_meant(const char *name)
{
    static const char *const others[][2] = {
        {"timeout", "wall"}, {"time", "wall"}, {"processes", "pids"}, {"ram", "memory"}};
    struct text_guess guess = {.given = name};
    for (int i = 0; i < LIMIT_FIELDS; i++)
        text_guess_offer(&guess, limit_rows[i].name);
    for (int i = 0; name[0] && !guess.nearest && i < LIMIT_FIELDS; i++)
        if (strncmp(limit_rows[i].name, name, strlen(name)) == 0)
            guess.nearest = limit_rows[i].name;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(others[i][0], name) == 0)
            guess.nearest = others[i][1];
    return guess.nearest;
}

static int refuse_limit(const char *where, const char *name, struct error *err)
{
    const char *meant = limit_that_was_meant(name);
    char field[96];
    snprintf(field, sizeof field, "%s.%.64s", where, name);
    if (meant)
        return error_spec(err, field, "%s: there is no such limit; did you mean '%s.%s'?", field, where,
                          meant);
    return error_spec(err, field, "%s: there is no such limit", field);
}

static int set_limits(struct spec *spec, const char *prefix, const json_t *value, struct error *err)
{
    const char *where = prefix[0] ? "compile_limits" : "limits";
    if (!json_is_object(value))
        return error_spec(err, where, "%s: must be an object", where);
    const char *name;
    json_t *item;
    json_object_foreach((json_t *)(uintptr_t)value, name, item)
    {
        if (limit_find(name) < 0)
            return refuse_limit(where, name, err);
        char field[96];
        snprintf(field, sizeof field, "%s%s", prefix, name);
        int status = set_scalar(spec, field, item, err);
        if (status < 0)
            return status;
    }
    return 0;
}

static const char *const known_fields[] = {
    "language",      "file",           "code",  "command", "args",   "env",    "image",   "isolation",
    "isolation_min", "inputs",         "reads", "writes",  "output", "accept", "cwd",     "stdin",
    "limits",        "compile_limits", "call",  "host",    "fuel",   "vet",    "preload", "fetch"};

static int refuse_unknown(const char *name, struct error *err)
{
    struct text_guess guess = {.given = name};
    for (size_t i = 0; i < sizeof known_fields / sizeof *known_fields; i++)
        text_guess_offer(&guess, known_fields[i]);
    if (guess.nearest)
        return error_spec(err, name, "'%.64s' is not a field of a spec; did you mean '%s'?", name,
                          guess.nearest);
    return error_spec(err, name, "'%.64s' is not a field of a spec", name);
}

static int set_field(struct spec *spec, const char *name, const json_t *value, struct error *err)
{
    static const struct {
        const char *name, *each;
    } arrays[] = {{"command", "command"}, {"args", "arg"},      {"inputs", "input"}, {"reads", "read"},
                  {"writes", "write"},    {"accept", "accept"}, {"host", "host"},    {"fetch", "fetch"}};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        if (strcmp(name, arrays[i].name) == 0)
            return set_array(spec, name, arrays[i].each, value, err);
    if (strcmp(name, "env") == 0)
        return set_environment(spec, value, err);
    if (strcmp(name, "limits") == 0)
        return set_limits(spec, "", value, err);
    if (strcmp(name, "compile_limits") == 0)
        return set_limits(spec, "compile.", value, err);
    if (strcmp(name, "code") == 0 || strcmp(name, "stdin") == 0)
        return set_code_or_stdin(spec, name, value, err);
    for (size_t i = 0; i < sizeof known_fields / sizeof *known_fields; i++)
        if (strcmp(name, known_fields[i]) == 0) {
            if (!json_is_string(value) && strcmp(name, "fuel") != 0)
                return error_spec(err, name, "%s: must be a string", name);
            return set_scalar(spec, name, value, err);
        }
    return refuse_unknown(name, err);
}

int spec_read_object(struct spec *spec, const struct json_t *object, struct error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        int status = set_field(spec, name, value, err);
        if (status < 0)
            return status;
    }
    return 0;
}

int spec_read_json(struct spec *spec, const char *text, size_t length, struct error *err)
{
    json_error_t where;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    if (!root)
        return error_spec(err, "spec", "the spec is not valid JSON: line %d, column %d: %s", where.line,
                          where.column, where.text);
    int status = json_is_object(root) ? spec_read_object(spec, root, err)
                                      : error_spec(err, "spec", "the spec must be a JSON object");
    json_decref(root);
    return status;
}
