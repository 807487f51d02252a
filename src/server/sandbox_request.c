#include "server/sandbox_request.h"

#include "base/scope.h"
#include "base/text.h"
#include "keeper/wire.h"
#include "server/keeper_link.h"
#include "server/problem.h"
#include "server/run_request.h"
#include "server/sandbox_journal.h"
#include "server/server.h"
#include "server/tenant.h"

#include <errno.h>
#include <string.h>
#include <time.h>

json_t *sandbox_request(struct exchange *exchange, const char *verb)
{
    char type[64];
    const char *id = exchange_part(exchange, 0);
    snprintf(type, sizeof type, "session.%s", verb);
    json_t *request = json_pack("{s:s, s:s, s:s}", "type", type, "version", CLOCHE_VERSION, "owner",
                                exchange_tenant(exchange)->name);
    json_t *name = id ? json_string(id) : NULL;
    if (name) /* what is not UTF-8 is nobody's name */
        json_object_set_new(request, "session", name);
    return request;
}

bool sandbox_request_is_text(struct exchange *exchange, const json_t *request)
{
    const char *name;
    json_t *value;
    size_t i;
    if (json_is_string(request) && strlen(json_string_value(request)) != json_string_length(request)) {
        exchange_reply_error(exchange, 422, "unprocessable", NULL, NULL, "a text has a NUL character in it");
        return false;
    }
    json_object_foreach((json_t *)(uintptr_t)request, name,
                        value) if (!sandbox_request_is_text(exchange, value)) return false;
    json_array_foreach(request, i, value) if (!sandbox_request_is_text(exchange, value)) return false;
    return true;
}

static int send_with(struct exchange *exchange, int link, json_t *request, struct slice body, const int *fds,
                     size_t count)
{
    struct error err = {0};
    if (!sandbox_request_is_text(exchange, request)) {
        json_decref(request);
        return -EINVAL;
    }
    int status = request ? wire_send(link, request, body, fds, count) : -ENOMEM;
    if (status == 0)
        return 0;
    error_host(&err, status, "the keeper went away");
    exchange_reply_problem(exchange, &err);
    return status;
}

int sandbox_send(struct exchange *exchange, int link, json_t *request, struct slice body)
{
    return send_with(exchange, link, request, body, NULL, 0);
}

int sandbox_ask(struct exchange *exchange, json_t *request, json_t **ret)
{
    return sandbox_ask_with(exchange, request, NULL, 0, ret);
}

int sandbox_ask_with(struct exchange *exchange, json_t *request, const int *fds, size_t count, json_t **ret)
{
    struct error err = {0};
    scope_buffer body = {0};
    struct server *server = exchange_server(exchange);
    int link = keeper_link(server, &err);
    if (link < 0) {
        json_decref(request);
        exchange_reply_problem(exchange, &err);
        return link;
    }
    int status = send_with(exchange, link, request, (struct slice){"", 0}, fds, count);
    if (status == 0 && (status = wire_receive(link, ret, &body, NULL)) < 0) {
        error_host(&err, status, "the keeper went away");
        exchange_reply_problem(exchange, &err);
    }
    if (status < 0) {
        keeper_link_drop(server);
        return status;
    }
    const json_t *refusal = json_object_get(*ret, "error");
    if (!refusal)
        return 0;
    sandbox_reply_refusal(exchange, refusal);
    json_decref(*ret);
    *ret = NULL;
    return -EREMOTEIO;
}

/* By the errno that the keeper gives; others go by the kind of error. */
static const struct {
    int code, status;
    const char *word, *hint;
} refusals[] = {
    {-ENOENT, 404, "not_found", NULL},
    {-EBUSY, 409, "conflict", NULL},
    {-ESRCH, 409, "conflict", "GET …/contexts tells in which of them a run is under way"},
    {-ESTALE, 410, "gone", "open a new sandbox"},
    {-EPIPE, 410, "gone", "restart the context, or open a new sandbox"},
    {-EAGAIN, 503, "overloaded", NULL},
};

static int refusal_row(const struct error *err)
{
    bool is_hosts = err->kind == ERROR_HOST; /* then only "not now" is more than a failure */
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (refusals[i].code == err->code && (!is_hosts || err->code == -EAGAIN))
            return (int)i;
    return -1;
}

/* Of one that the journal knows and the keeper does not: it went with a keeper or a server. */
static const char lost_how[] = "the sandbox was lost when the server or its keeper ended";

static int reply_lost(struct exchange *exchange)
{
    return exchange_reply_json(exchange, 410,
                               json_pack("{s:{s:s, s:s, s:s, s:s}}", "error", "code", "gone", "message",
                                         lost_how, "cause", cause_names[CAUSE_host_failure], "hint",
                                         "open a new sandbox"));
}

int sandbox_reply_refusal(struct exchange *exchange, const json_t *refusal)
{
    struct error err = {0};
    wire_to_error(refusal, &err);
    int row = refusal_row(&err);
    const char *id = exchange_part(exchange, 0);
    if (err.code == -ENOENT && strcmp(err.subject, "sandbox") == 0 && id &&
        sandbox_journal_lost(exchange_server(exchange), exchange_tenant(exchange)->name, id))
        return reply_lost(exchange);
    if (row < 0)
        return exchange_reply_problem(exchange, &err);
    if (refusals[row].status == 503)
        exchange_set_header(exchange, "Retry-After", "1");
    if (err.code == -ESTALE) {
        const char *cause = json_string_value(json_object_get(refusal, "cause"));
        return exchange_reply_json(exchange, 410,
                                   json_pack("{s:{s:s, s:s, s:s*, s:s}}", "error", "code", "gone", "message",
                                             err.text, "cause", cause, "hint", refusals[row].hint));
    }
    const char *hint = strcmp(err.subject, "runs_max") == 0
                           ? "POST …/extend {\"runs_max\": N} allows more, as does runs_max when it is opened"
                           : refusals[row].hint;
    return exchange_reply_error(exchange, refusals[row].status, refusals[row].word, err.subject, hint, "%s",
                                err.text);
}

json_t *sandbox_refusal_to_json(const json_t *refusal)
{
    struct error err = {0};
    wire_to_error(refusal, &err);
    int row = refusal_row(&err);
    scope_buffer message = {0};
    problem_message(&err, &message);
    return json_pack("{s:{s:s, s:s}}", "error", "code", row >= 0 ? refusals[row].word : problem_code(&err),
                     "message", message.data ? message.data : "");
}

int sandbox_body(struct exchange *exchange, const char *const *known, json_t **ret)
{
    json_t *body = NULL;
    int status = exchange_json(exchange, &body);
    if (status < 0)
        return status;
    status = run_refuse_unknown(exchange, body, known, "this request");
    if (status < 0)
        json_decref(body);
    else
        *ret = body;
    return status;
}

bool sandbox_field_is(struct exchange *exchange, const json_t *body, const char *name, json_type type)
{
    static const char *const words[] = {[JSON_OBJECT] = "an object",
                                        [JSON_ARRAY] = "an array",
                                        [JSON_STRING] = "a string",
                                        [JSON_INTEGER] = "a whole number",
                                        [JSON_TRUE] = "true or false"};
    const json_t *value = json_object_get(body, name);
    if (!value || json_typeof(value) == type || (type == JSON_TRUE && json_is_false(value)))
        return true;
    exchange_reply_error(exchange, 400, "bad_request", name, NULL, "%s: must be %s", name, words[type]);
    return false;
}

bool sandbox_duration(struct exchange *exchange, const json_t *body, const char *name, int64_t *ret_ms)
{
    const json_t *value = json_object_get(body, name);
    double seconds = json_number_value(value);
    if (!value)
        return true;
    if (json_is_number(value) && seconds > 0 && seconds < 1e9) {
        *ret_ms = (int64_t)(seconds * 1000);
        return true;
    }
    if (json_is_string(value) && text_parse_duration(json_string_value(value), ret_ms) && *ret_ms > 0)
        return true;
    exchange_reply_error(exchange, 400, "bad_request", name, "\"10s\", \"5m\", \"1h\", or seconds",
                         "%s: is not a time", name);
    return false;
}

json_t *sandbox_time(int64_t unix_ms)
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm parts;
    char text[64], whole[80];
    gmtime_r(&seconds, &parts);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(whole, sizeof whole, "%s.%03dZ", text, (int)(unix_ms % 1000));
    return json_string(whole);
}

json_t *sandbox_limit(enum limit_field field, int64_t value)
{
    switch (limit_rows[field].unit) {
    case LIMIT_MS:
    case LIMIT_MILLICPUS:
        return json_real((double)value / 1000);
    default:
        return json_integer(value);
    }
}

/* Those that hold, given or not. */
static json_t *view_limits(const json_t *limits)
{
    json_t *view = json_object();
    for (int i = 0; i < LIMIT_FIELDS; i++) {
        const json_t *value = json_object_get(limits, limit_rows[i].name);
        if (value)
            json_object_set_new(view, limit_rows[i].name,
                                sandbox_limit((enum limit_field)i, json_integer_value(value)));
    }
    return view;
}

static void copy_field(json_t *into, const json_t *from, const char *name)
{
    json_t *value = json_object_get(from, name);
    if (value && !json_is_null(value))
        json_object_set(into, name, value);
}

json_t *sandbox_view_context(const json_t *context)
{
    return json_copy((json_t *)(uintptr_t)context); /* the same to the last field */
}

json_t *sandbox_view_lost(const json_t *lost)
{
    return json_pack("{s:O, s:s, s:s, s:s, s:o, s:[], s:[], s:{}}", "id", json_object_get(lost, "id"),
                     "state", "ended", "cause", cause_names[CAUSE_host_failure], "detail", lost_how,
                     "lost_at", sandbox_time(json_integer_value(json_object_get(lost, "lost_ms"))),
                     "contexts", "checkpoints", "metadata");
}

json_t *sandbox_view_checkpoint(const json_t *point)
{
    json_t *view = json_object();
    copy_field(view, point, "id");
    copy_field(view, point, "name");
    json_object_set_new(view, "created_at",
                        sandbox_time(json_integer_value(json_object_get(point, "created_ms"))));
    return view;
}

json_t *sandbox_view(const json_t *session)
{
    static const char *const same[] = {"id", "state", "parent", "runs", "runs_max", "cause", "detail"};
    static const char *const of_spec[] = {"image", "isolation"};
    const json_t *spec = json_object_get(session, "spec");
    const json_t *metadata = json_object_get(json_object_get(session, "about"), "metadata");
    const char *language = json_string_value(json_object_get(spec, "language"));
    json_t *view = json_object(), *contexts = json_array(), *points = json_array(), *item;
    size_t index;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        copy_field(view, session, same[i]);
    for (size_t i = 0; i < sizeof of_spec / sizeof *of_spec; i++)
        copy_field(view, spec, of_spec[i]);
    json_object_set_new(view, "limits", view_limits(json_object_get(session, "limits")));
    json_object_set_new(view, "language", json_string(language ? language : "python"));
    json_object_set_new(view, "created_at",
                        sandbox_time(json_integer_value(json_object_get(session, "created_ms"))));
    json_object_set_new(view, "expires_at",
                        sandbox_time(json_integer_value(json_object_get(session, "expires_ms"))));
    json_object_set_new(view, "idle_ms", json_copy(json_object_get(session, "idle_ms")));
    json_array_foreach(json_object_get(session, "contexts"), index, item)
        json_array_append(contexts, json_object_get(item, "id"));
    json_array_foreach(json_object_get(session, "checkpoints"), index, item)
        json_array_append_new(points, sandbox_view_checkpoint(item));
    json_object_set_new(view, "contexts", contexts);
    json_object_set_new(view, "checkpoints", points);
    json_object_set_new(view, "metadata", metadata ? json_deep_copy(metadata) : json_object());
    return view;
}
