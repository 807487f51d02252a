#include "remote/result_read.h"

#include "base/json_text.h"
#include "base/scope.h"
#include "base/base64.h"

#include <errno.h>
#include <string.h>

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static int64_t number_of(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static bool read_cause(const json_t *object, struct result *into)
{
    const char *name = text_of(object, "cause");
    for (int i = 0; i < CAUSE_COUNT; i++)
        if (strcmp(name, cause_names[i]) == 0) {
            into->cause = (enum cause)i;
            return true;
        }
    return false;
}

/* Reasons are constants in a result: the first one of each text is kept for good. */
static const char *kept_reason(const char *text)
{
    static char *kept[16];
    size_t i = 0;
    for (; i < sizeof kept / sizeof *kept && kept[i]; i++)
        if (strcmp(kept[i], text) == 0)
            return kept[i];
    if (i < sizeof kept / sizeof *kept)
        kept[i] = strdup(text);
    return i < sizeof kept / sizeof *kept && kept[i] ? kept[i] : "left out";
}

static int read_files(const json_t *object, struct result *into)
{
    size_t index;
    json_t *item;
    int status = 0;
    json_array_foreach(json_object_get(object, "files"), index, item)
    {
        if (status == 0)
            status = result_add_file(into, text_of(item, "path"), number_of(item, "size"),
                                     text_of(item, "sha256"));
    }
    json_array_foreach(json_object_get(object, "not_collected"), index, item)
    {
        if (status == 0)
            status = result_add_omission(into, text_of(item, "path"), kept_reason(text_of(item, "reason")));
    }
    into->omissions_uncounted = number_of(object, "not_collected_more");
    return status;
}

int result_read(const json_t *object, struct result *into)
{
    const json_t *code = json_object_get(object, "exit_code"), *cut = json_object_get(object, "truncated");
    const json_t *compile = json_object_get(object, "compile");
    if (!read_cause(object, into))
        return -EPROTO;
    into->exit_code = json_is_integer(code) ? (int)json_integer_value(code) : -1;
    into->signal = (int)number_of(object, "signal");
    into->timed_out = json_is_true(json_object_get(object, "timed_out"));
    into->output.dropped_bytes = number_of(cut, "stdout");
    into->errors.dropped_bytes = number_of(cut, "stderr");
    into->left_behind = json_is_true(json_object_get(object, "left_behind"));
    snprintf(into->detail, sizeof into->detail, "%s", text_of(object, "detail"));
    snprintf(into->denied_syscall, sizeof into->denied_syscall, "%s", text_of(object, "denied_syscall"));
    int isolation = isolation_find(text_of(object, "isolation"), NULL);
    if (isolation >= 0)
        into->isolation = (enum isolation)isolation;
    snprintf(into->chosen, sizeof into->chosen, "%s", text_of(object, "chosen"));
    snprintf(into->trap, sizeof into->trap, "%s", text_of(object, "trap"));
    const json_t *vet = json_object_get(object, "vet");
    if (json_is_object(vet))
        result_take_vet(into, vet_report_copy(vet_report_mode(vet), vet));
    int status = read_files(object, into);
    size_t index;
    json_t *item;
    json_array_foreach(json_object_get(object, "returned"), index, item)
    {
        scope_free char *value =
            json_is_string(item) ? strdup(json_string_value(item)) : json_text(item, JSON_ENCODE_ANY);
        if (status == 0)
            status = value ? string_list_add(&into->returned, value) : -ENOMEM;
    }
    json_array_foreach(json_object_get(object, "layers"), index, item)
    {
        if (status == 0 && index < RESULT_LAYERS_MAX)
            status =
                result_add_layer(into, text_of(item, "name"), json_is_true(json_object_get(item, "active")),
                                 "%s", text_of(item, "detail"));
    }
    if (status == 0 && compile) {
        into->compile = result_new();
        status = into->compile ? result_read(compile, into->compile) : -ENOMEM;
    }
    return status;
}
