#include "spec/result.h"

#include "base/base64.h"
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

static void set_bytes(json_t *object, const char *name, const char *name_base64, const char *data,
                      size_t length)
{
    json_object_set_new(object, name, text_or_replacement(data ? data : "", length));
    if (!text_is_utf8(data ? data : "", length)) {
        char *encoded = base64_encode((struct slice){data, length});
        json_object_set_new(object, name_base64, json_string(encoded ? encoded : ""));
        free(encoded);
    }
}

static json_t *files_to_json(const struct result *result)
{
    json_t *files = json_array();
    for (size_t i = 0; i < result->file_count; i++) {
        json_t *file = json_object();
        set_bytes(file, "path", "path_base64", result->files[i].path, strlen(result->files[i].path));
        json_object_set_new(file, "size", json_integer(result->files[i].size));
        json_object_set_new(file, "sha256", json_string(result->files[i].sha256));
        json_array_append_new(files, file);
    }
    return files;
}

static json_t *omissions_to_json(const struct result *result)
{
    json_t *omissions = json_array();
    for (size_t i = 0; i < result->omission_count; i++) {
        json_t *omission = json_object();
        set_bytes(omission, "path", "path_base64", result->omissions[i].path,
                  strlen(result->omissions[i].path));
        json_object_set_new(omission, "reason", json_string(result->omissions[i].reason));
        json_array_append_new(omissions, omission);
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

static json_t *layers_to_json(const struct result *result)
{
    json_t *layers = json_array();
    for (size_t i = 0; i < result->layer_count; i++) {
        const struct result_layer *layer = &result->layers[i];
        json_t *object = json_pack("{s:s,s:b}", "name", layer->name, "active", layer->active);
        json_object_set_new(object, "detail", text_or_replacement(layer->detail, strlen(layer->detail)));
        json_array_append_new(layers, object);
    }
    return layers;
}

/* Numbers where JSON has them; what it has not (NaN, infinities) stays text. */
static json_t *returned_to_json(const struct string_list *values)
{
    json_t *list = json_array();
    for (size_t i = 0; i < values->count; i++) {
        const char *text = values->items[i];
        bool is_number = strspn(text, "-0123456789.e+") == strlen(text);
        json_t *value = is_number ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
        json_array_append_new(list, value ? value : text_or_replacement(text, strlen(text)));
    }
    return list;
}

static json_t *result_object(const struct result *result)
{
    json_t *object = json_object();
    json_object_set_new(object, "exit_code",
                        result->exit_code < 0 ? json_null() : json_integer(result->exit_code));
    json_object_set_new(object, "signal", result->signal ? json_integer(result->signal) : json_null());
    json_object_set_new(object, "timed_out", json_boolean(result->timed_out));
    json_object_set_new(object, "cause", json_string(cause_names[result->cause]));
    if (result->cause == CAUSE_denied_syscall)
        json_object_set_new(object, "denied_syscall",
                            result->denied_syscall[0] ? json_string(result->denied_syscall) : json_null());
    if (result->trap[0])
        json_object_set_new(object, "trap", text_or_replacement(result->trap, strlen(result->trap)));
    if (result->returned.count)
        json_object_set_new(object, "returned", returned_to_json(&result->returned));
    if (result->fuel_used >= 0)
        json_object_set_new(object, "fuel_used", json_integer(result->fuel_used));
    if (result->detail[0])
        json_object_set_new(object, "detail", text_or_replacement(result->detail, strlen(result->detail)));
    set_bytes(object, "stdout", "stdout_base64", result->output.kept.data, result->output.kept.length);
    set_bytes(object, "stderr", "stderr_base64", result->errors.kept.data, result->errors.kept.length);
    json_object_set_new(object, "truncated",
                        json_pack("{s:I,s:I}", "stdout", (json_int_t)result->output.dropped_bytes, "stderr",
                                  (json_int_t)result->errors.dropped_bytes));
    if (result->shown) {
        json_object_set_new(json_object_get(object, "truncated"), "results",
                            json_integer(result->shown_dropped_bytes));
        json_object_set(object, "results", result->shown);
    }
    json_object_set_new(object, "files", files_to_json(result));
    json_object_set_new(object, "not_collected", omissions_to_json(result));
    if (result->omissions_uncounted)
        json_object_set_new(object, "not_collected_more", json_integer(result->omissions_uncounted));
    json_object_set_new(object, "usage", usage_to_json(&result->usage));
    json_object_set_new(object, "isolation", json_string(isolation_names[result->isolation]));
    if (result->chosen[0])
        json_object_set_new(object, "chosen", text_or_replacement(result->chosen, strlen(result->chosen)));
    json_object_set_new(object, "layers", layers_to_json(result));
    if (result->left_behind)
        json_object_set_new(object, "left_behind", json_true());
    if (result->vet)
        json_object_set(object, "vet", result->vet);
    if (result->compile)
        json_object_set_new(object, "compile", result_object(result->compile));
    return object;
}

char *result_to_json(const struct result *result, bool pretty)
{
    json_t *object = result_object(result);
    char *text = json_dumps(object, JSON_REAL_PRECISION(12) | (pretty ? JSON_INDENT(2) : JSON_COMPACT));
    json_decref(object);
    return text;
}
