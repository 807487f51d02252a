#include "server/exact_json.h"

#include "base/json_text.h"
#include "base/scope.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int append_real(struct buffer *into, double number)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    return buffer_print(into, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

/* Texts, and all that has no numbers of this kind in it. */
static int append_plain(struct buffer *into, const json_t *value)
{
    scope_free char *text = json_text(value, JSON_COMPACT | JSON_ENCODE_ANY);
    return text ? buffer_append(into, text, strlen(text)) : -ENOMEM;
}

static int append_object(struct buffer *into, const json_t *object)
{
    const char *name;
    json_t *value;
    int status = buffer_append(into, "{", 1);
    bool is_first = true;
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        json_t *key = json_string(name);
        if (status == 0 && !is_first)
            status = buffer_append(into, ",", 1);
        if (status == 0)
            status = append_plain(into, key);
        if (status == 0)
            status = buffer_append(into, ":", 1);
        if (status == 0)
            status = exact_json_append(into, value);
        json_decref(key);
        is_first = false;
    }
    return status < 0 ? status : buffer_append(into, "}", 1);
}

static int append_array(struct buffer *into, const json_t *array)
{
    size_t index;
    json_t *value;
    int status = buffer_append(into, "[", 1);
    json_array_foreach(array, index, value)
    {
        if (status == 0 && index > 0)
            status = buffer_append(into, ",", 1);
        if (status == 0)
            status = exact_json_append(into, value);
    }
    return status < 0 ? status : buffer_append(into, "]", 1);
}

int exact_json_append(struct buffer *into, const json_t *value)
{
    if (json_is_real(value))
        return append_real(into, json_real_value(value));
    if (json_is_object(value))
        return append_object(into, value);
    return json_is_array(value) ? append_array(into, value) : append_plain(into, value);
}
