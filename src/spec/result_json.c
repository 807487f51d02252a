#include "spec/result.h"

#include "base/base64.h"
#include "base/json_text.h"
#include "base/text.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static json_t *text_or_replacement(const char *data, size_t length)
{
    if (text_is_utf8(data, length))
        return json_stringn(data, length);
    scope_buffer clean = {0};
    return text_append_utf8(&clean, data, length) < 0 ? NULL : json_stringn(clean.data, clean.length);
}

/* A result that lacks something, for want of memory, would be read as one that has nothing there. So whatever
 * is lost on the way is remembered, and then there is none. */
static void put(json_t *object, const char *name, json_t *value, bool *lost)
{
    *lost |= json_object_set_new(object, name, value) < 0;
}

static void append(json_t *list, json_t *value, bool *lost)
{
    *lost |= json_array_append_new(list, value) < 0;
}

static void put_bytes(json_t *object, const char *name, const char *name_base64, const char *data,
                      size_t length, bool *lost)
{
    put(object, name, text_or_replacement(data ? data : "", length), lost);
    if (!text_is_utf8(data ? data : "", length)) {
        char *encoded = base64_encode((struct slice){data, length});
        put(object, name_base64, encoded ? json_string(encoded) : NULL, lost);
        free(encoded);
    }
}

static json_t *files_to_json(const struct result *result, bool *lost)
{
    json_t *files = json_array();
    for (size_t i = 0; i < result->file_count; i++) {
        json_t *file = json_object();
        put_bytes(file, "path", "path_base64", result->files[i].path, strlen(result->files[i].path), lost);
        put(file, "size", json_integer(result->files[i].size), lost);
        put(file, "sha256", json_string(result->files[i].sha256), lost);
        append(files, file, lost);
    }
    return files;
}

static json_t *omissions_to_json(const struct result *result, bool *lost)
{
    json_t *omissions = json_array();
    for (size_t i = 0; i < result->omission_count; i++) {
        json_t *omission = json_object();
        put_bytes(omission, "path", "path_base64", result->omissions[i].path,
                  strlen(result->omissions[i].path), lost);
        put(omission, "reason", json_string(result->omissions[i].reason), lost);
        append(omissions, omission, lost);
    }
    return omissions;
}

static json_t *usage_to_json(const struct result_usage *usage)
{
    return json_pack("{s:f,s:f,s:f,s:I,s:I,s:I}", "wall_ms", (double)usage->wall_us / 1000, "cpu_user_ms",
                     (double)usage->cpu_user_us / 1000, "cpu_system_ms", (double)usage->cpu_system_us / 1000,
                     "peak_memory_bytes", (json_int_t)usage->peak_memory_bytes, "peak_pids",
                     (json_int_t)usage->peak_pids, "disk_bytes", (json_int_t)usage->disk_bytes);
}

static json_t *layers_to_json(const struct result *result, bool *lost)
{
    json_t *layers = json_array();
    for (size_t i = 0; i < result->layer_count; i++) {
        const struct result_layer *layer = &result->layers[i];
        json_t *object = json_pack("{s:s,s:b}", "name", layer->name, "active", layer->active);
        put(object, "detail", text_or_replacement(layer->detail, strlen(layer->detail)), lost);
        append(layers, object, lost);
    }
    return layers;
}

/* Numbers where JSON has them; what it has not (NaN, infinities) stays text. */
static json_t *returned_to_json(const struct string_list *values, bool *lost)
{
    json_t *list = json_array();
    for (size_t i = 0; i < values->count; i++) {
        const char *text = values->items[i];
        bool is_number = strspn(text, "-0123456789.e+") == strlen(text);
        json_t *value = is_number ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
        append(list, value ? value : text_or_replacement(text, strlen(text)), lost);
    }
    return list;
}

static json_t *result_object(const struct result *result, bool *lost)
{
    json_t *object = json_object();
    put(object, "exit_code", result->exit_code < 0 ? json_null() : json_integer(result->exit_code), lost);
    put(object, "signal", result->signal ? json_integer(result->signal) : json_null(), lost);
    put(object, "timed_out", json_boolean(result->timed_out), lost);
    put(object, "cause", json_string(cause_names[result->cause]), lost);
    if (result->cause == CAUSE_denied_syscall)
        put(object, "denied_syscall",
            result->denied_syscall[0] ? json_string(result->denied_syscall) : json_null(), lost);
    if (result->trap[0])
        put(object, "trap", text_or_replacement(result->trap, strlen(result->trap)), lost);
    if (result->returned.count)
        put(object, "returned", returned_to_json(&result->returned, lost), lost);
    if (result->fuel_used >= 0)
        put(object, "fuel_used", json_integer(result->fuel_used), lost);
    if (result->detail[0])
        put(object, "detail", text_or_replacement(result->detail, strlen(result->detail)), lost);
    put_bytes(object, "stdout", "stdout_base64", result->output.kept.data, result->output.kept.length, lost);
    put_bytes(object, "stderr", "stderr_base64", result->errors.kept.data, result->errors.kept.length, lost);
    put(object, "truncated",
        json_pack("{s:I,s:I}", "stdout", (json_int_t)result->output.dropped_bytes, "stderr",
                  (json_int_t)result->errors.dropped_bytes),
        lost);
    if (result->shown) {
        put(json_object_get(object, "truncated"), "results", json_integer(result->shown_dropped_bytes), lost);
        put(object, "results", json_incref(result->shown), lost);
    }
    put(object, "files", files_to_json(result, lost), lost);
    put(object, "not_collected", omissions_to_json(result, lost), lost);
    if (result->omissions_uncounted)
        put(object, "not_collected_more", json_integer(result->omissions_uncounted), lost);
    put(object, "usage", usage_to_json(&result->usage), lost);
    put(object, "isolation", json_string(isolation_names[result->isolation]), lost);
    if (result->chosen[0])
        put(object, "chosen", text_or_replacement(result->chosen, strlen(result->chosen)), lost);
    put(object, "layers", layers_to_json(result, lost), lost);
    if (result->left_behind)
        put(object, "left_behind", json_true(), lost);
    if (result->fetched)
        put(object, "fetched", json_incref(result->fetched), lost);
    if (result->fetched_uncounted)
        put(object, "fetched_more", json_integer(result->fetched_uncounted), lost);
    if (result->vet)
        put(object, "vet", json_incref(result->vet), lost);
    if (result->compile)
        put(object, "compile", result_object(result->compile, lost), lost);
    return object;
}

char *result_to_json(const struct result *result, bool pretty)
{
    bool lost = result->is_incomplete || (result->compile && result->compile->is_incomplete);
    json_t *object = result_object(result, &lost);
    char *text =
        lost ? NULL : json_text(object, JSON_REAL_PRECISION(12) | (pretty ? JSON_INDENT(2) : JSON_COMPACT));
    json_decref(object);
    return text;
}
