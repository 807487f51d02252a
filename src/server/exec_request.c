#include "server/exec_request.h"

#include "base/base64.h"
#include "base/scope.h"
#include "base/signal_name.h"
#include "server/query.h"
#include "server/sandbox_request.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE_MAX = 1000 };

static bool is_list_of_texts(const json_t *list)
{
    size_t index;
    json_t *word;
    json_array_foreach(list, index, word)
    {
        if (!json_is_string(word) || strlen(json_string_value(word)) != json_string_length(word))
            return false;
    }
    return json_array_size(list) > 0;
}

static bool take_environment(struct exchange *exchange, const json_t *body, json_t *request)
{
    json_t *list = json_array(), *value;
    const char *name;
    json_object_foreach(json_object_get(body, "env"), name, value)
    {
        if (!json_is_string(value) || !name[0] || strchr(name, '=')) {
            json_decref(list);
            exchange_reply_error(exchange, 422, "unprocessable", "env", NULL,
                                 "env.%.64s: must be a name without '=' and a text", name);
            return false;
        }
        json_array_append_new(list, json_sprintf("%s=%s", name, json_string_value(value)));
    }
    json_object_set_new(request, "environment", list);
    return true;
}

static bool take_limits(struct exchange *exchange, const json_t *body, json_t *request)
{
    json_t *limits = json_object_get(body, "limits"), *value;
    const char *name;
    int64_t wall_ms = 0;
    json_object_foreach(limits, name, value)
    {
        if (strcmp(name, "wall") != 0) {
            exchange_reply_error(exchange, 422, "unprocessable", name,
                                 "all other limits are the sandbox's, and hold for the command too",
                                 "limits.%.64s: a command has the limit wall only", name);
            return false;
        }
        if (!sandbox_duration(exchange, limits, name, &wall_ms))
            return false;
    }
    if (wall_ms)
        json_object_set_new(request, "wall_ms", json_integer(wall_ms));
    return true;
}

int exec_stdin(struct exchange *exchange, const json_t *body, struct buffer *ret)
{
    const json_t *text = json_object_get(body, "stdin"), *encoded = json_object_get(body, "stdin_base64");
    const struct slice given = {json_string_value(encoded), json_string_length(encoded)};
    if (!encoded)
        return buffer_append(ret, text ? json_string_value(text) : "", json_string_length(text));
    int status = text ? -EINVAL : base64_decode(given, ret);
    if (status < 0)
        exchange_reply_error(exchange, 422, "unprocessable", "stdin_base64", NULL,
                             text ? "stdin_base64: instead of stdin, not beside it"
                                  : "stdin_base64: is not base64");
    return status;
}

static json_t *refuse(struct exchange *exchange, json_t *body, json_t *request)
{
    json_decref(body);
    json_decref(request);
    (void)exchange;
    return NULL;
}

json_t *exec_request(struct exchange *exchange, json_t **ret_body)
{
    static const char *const known[] = {"command",      "context", "cwd",    "env", "stdin",
                                        "stdin_base64", "limits",  "stream", NULL};
    static const struct {
        const char *name, *into;
        json_type type;
    } fields[] = {{"command", "command", JSON_ARRAY}, {"context", "context", JSON_STRING},
                  {"cwd", "directory", JSON_STRING},  {"env", NULL, JSON_OBJECT},
                  {"stdin", NULL, JSON_STRING},       {"stdin_base64", NULL, JSON_STRING},
                  {"limits", NULL, JSON_OBJECT},      {"stream", NULL, JSON_TRUE}};
    json_t *body = NULL;
    if (sandbox_body(exchange, known, &body) < 0)
        return NULL;
    json_t *request = sandbox_request(exchange, "exec");
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (!sandbox_field_is(exchange, body, fields[i].name, fields[i].type))
            return refuse(exchange, body, request);
        if (fields[i].into && json_object_get(body, fields[i].name))
            json_object_set(request, fields[i].into, json_object_get(body, fields[i].name));
    }
    if (!is_list_of_texts(json_object_get(body, "command"))) {
        exchange_reply_error(exchange, 422, "unprocessable", "command", "for example [\"ls\", \"-l\"]",
                             "command: must be a list of texts, the program first");
        return refuse(exchange, body, request);
    }
    if (!take_environment(exchange, body, request) || !take_limits(exchange, body, request))
        return refuse(exchange, body, request);
    *ret_body = body;
    return request;
}

static void take_word(void *data, const char *name, const char *value)
{
    if (strcmp(name, "command") == 0 && value)
        json_array_append_new(data, json_string(value));
}

json_t *exec_request_terminal(struct exchange *exchange)
{
    int64_t lines = 24, columns = 80;
    if (!query_number(exchange, "rows", 1, SIDE_MAX, &lines) ||
        !query_number(exchange, "columns", 1, SIDE_MAX, &columns))
        return NULL;
    json_t *request = sandbox_request(exchange, "exec"), *words = json_array();
    exchange_each_query(exchange, take_word, words);
    if (json_array_size(words) == 0)
        json_array_append_new(words, json_string("bash"));
    json_object_set_new(request, "command", words);
    json_object_set_new(request, "environment", json_pack("[s]", "TERM=xterm-256color"));
    json_object_set_new(request, "terminal",
                        json_pack("{s:I, s:I}", "rows", (json_int_t)lines, "columns", (json_int_t)columns));
    static const char *const names[][2] = {{"context", "context"}, {"cwd", "directory"}};
    for (size_t i = 0; i < 2; i++)
        if (exchange_query(exchange, names[i][0]))
            json_object_set_new(request, names[i][1], json_string(exchange_query(exchange, names[i][0])));
    return request;
}

int exec_signal_number(const json_t *value)
{
    if (json_is_integer(value))
        return json_integer_value(value) > 0 && json_integer_value(value) < NSIG
                   ? (int)json_integer_value(value)
                   : -EINVAL;
    const char *name = json_string_value(value);
    if (!name)
        return -EINVAL;
    if (strncmp(name, "SIG", 3) == 0)
        name += 3;
    for (int number = 1; number < 32; number++) {
        const char *known = signal_name(number);
        if (known && strcmp(known, name) == 0)
            return number;
    }
    return -EINVAL;
}
