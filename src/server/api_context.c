/* Runs and contexts of a sandbox. */
#include "base/scope.h"
#include "base/text.h"
#include "server/route.h"
#include "server/run_talk.h"
#include "server/sandbox_gate.h"
#include "server/sandbox_request.h"
#include "spec/limits.h"

#include <errno.h>
#include <string.h>

/* Of a run only its time can be limited; all else is the box's. */
static bool take_limits(struct exchange *exchange, const json_t *body, json_t *request)
{
    static const struct {
        const char *name, *into;
        enum limit_field field;
    } rows[] = {{"wall", "wall_ms", LIMIT_wall}, {"cpu", "cpu_ms", LIMIT_cpu}};
    json_t *limits = json_object_get(body, "limits"), *value;
    const char *name;
    json_object_foreach(limits, name, value)
    {
        size_t i = 0;
        int64_t ms = 0;
        while (i < sizeof rows / sizeof *rows && strcmp(rows[i].name, name) != 0)
            i++;
        if (i == sizeof rows / sizeof *rows) {
            exchange_reply_error(exchange, 400, "bad_request", name,
                                 "a run has wall and cpu; other limits are given when the sandbox is opened",
                                 "limits.%.64s: is not a limit of a run", name);
            return false;
        }
        if (!sandbox_duration(exchange, limits, name, &ms))
            return false;
        json_object_set_new(request, rows[i].into, json_integer(ms));
    }
    return true;
}

/* NULL: the exchange has its answer. */
static json_t *run_request(struct exchange *exchange, const json_t *body)
{
    static const struct {
        const char *name;
        json_type type;
    } fields[] = {{"code", JSON_STRING},   {"context", JSON_STRING}, {"stdin", JSON_STRING},
                  {"limits", JSON_OBJECT}, {"collect", JSON_TRUE},   {"stream", JSON_TRUE}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!sandbox_field_is(exchange, body, fields[i].name, fields[i].type))
            return NULL;
    if (!json_object_get(body, "code")) {
        exchange_reply_error(exchange, 400, "bad_request", "code", NULL, "code: is missing");
        return NULL;
    }
    json_t *request = sandbox_request(exchange, "run");
    if (json_object_get(body, "context"))
        json_object_set(request, "context", json_object_get(body, "context"));
    if (json_object_get(body, "stdin"))
        json_object_set(request, "stdin", json_object_get(body, "stdin"));
    if (take_limits(exchange, body, request))
        return request;
    json_decref(request);
    return NULL;
}

static int run(struct exchange *exchange)
{
    static const char *const known[] = {"code", "context", "stdin", "limits", "collect", "stream", NULL};
    json_t *body = NULL;
    if (sandbox_body(exchange, known, &body) < 0)
        return 0;
    json_t *request = run_request(exchange, body);
    const json_t *code = json_object_get(body, "code");
    bool as_events = json_is_true(json_object_get(body, "stream")) || exchange_wants_events(exchange);
    const struct run_wish wish = {.as_events = as_events,
                                  .with_files = json_is_true(json_object_get(body, "collect"))};
    int status = request ? run_talk(exchange, request,
                                    (struct slice){json_string_value(code), json_string_length(code)}, &wish)
                         : 0;
    json_decref(body);
    return status;
}

/* The keeper's word about the sandbox's contexts; with `id` the one of that name. NULL: answered. */
static json_t *look(struct exchange *exchange, const char *id)
{
    json_t *answer = NULL, *item, *found = NULL;
    size_t index;
    json_t *request = sandbox_request(exchange, "look");
    json_object_set_new(request, "usage", json_true());
    if (sandbox_ask(exchange, request, &answer) < 0)
        return NULL;
    json_t *contexts = json_object_get(json_object_get(answer, "session"), "contexts");
    if (!id)
        found = json_incref(contexts);
    else
        json_array_foreach(contexts, index, item) if (strcmp(json_string_value(json_object_get(item, "id")),
                                                             id) == 0) found = json_incref(item);
    json_decref(answer);
    if (!found)
        exchange_reply_error(exchange, 404, "not_found", "context", NULL,
                             "there is no such context in this sandbox");
    return found;
}

static int list(struct exchange *exchange)
{
    json_t *contexts = look(exchange, NULL);
    return contexts ? exchange_reply_json(exchange, 200, json_pack("{s:o}", "contexts", contexts)) : 0;
}

static int open_one(struct exchange *exchange)
{
    static const char *const known[] = {"language", NULL};
    json_t *body = NULL, *answer = NULL;
    if (sandbox_body(exchange, known, &body) < 0)
        return 0;
    json_t *request = sandbox_request(exchange, "context_open");
    if (json_object_get(body, "language"))
        json_object_set(request, "language", json_object_get(body, "language"));
    bool is_right = sandbox_field_is(exchange, body, "language", JSON_STRING);
    json_decref(body);
    if (!is_right) {
        json_decref(request);
        return 0;
    }
    struct tenant_claim claim = {0};
    if (sandbox_gate_grow(exchange, SANDBOX_CONTEXT, 1, NULL, &claim) < 0) {
        json_decref(request);
        return 0;
    }
    int opened = sandbox_ask(exchange, request, &answer);
    tenant_release(exchange_tenant(exchange), &claim, true);
    if (opened < 0)
        return 0;
    json_t *context = look(exchange, json_string_value(json_object_get(answer, "context")));
    json_decref(answer);
    return context ? exchange_reply_json(exchange, 201, context) : 0;
}

/* About the context that the path names. 0 when the keeper has done it. */
static int order(struct exchange *exchange, json_t *request)
{
    json_t *answer = NULL, *name = json_string(exchange_part(exchange, 1));
    json_object_set_new(request, "context", name ? name : json_string(""));
    int status = sandbox_ask(exchange, request, &answer);
    json_decref(answer);
    return status;
}

/* These take no fields. */
static bool has_no_fields(struct exchange *exchange)
{
    static const char *const none[] = {NULL};
    json_t *body = NULL;
    bool is_right = sandbox_body(exchange, none, &body) == 0;
    json_decref(body);
    return is_right;
}

static int close_one(struct exchange *exchange)
{
    if (order(exchange, sandbox_request(exchange, "context_close")) < 0)
        return 0;
    return exchange_reply_empty(exchange, 204);
}

static int reply_context(struct exchange *exchange)
{
    json_t *context = look(exchange, exchange_part(exchange, 1));
    return context ? exchange_reply_json(exchange, 200, context) : 0;
}

static int restart(struct exchange *exchange)
{
    if (!has_no_fields(exchange) || order(exchange, sandbox_request(exchange, "restart")) < 0)
        return 0;
    return reply_context(exchange);
}

static int interrupt(struct exchange *exchange)
{
    if (!has_no_fields(exchange) || order(exchange, sandbox_request(exchange, "interrupt")) < 0)
        return 0;
    return exchange_reply_json(exchange, 202, json_pack("{s:b}", "interrupted", 1));
}

static int extend(struct exchange *exchange)
{
    static const char *const known[] = {"ms", NULL};
    json_t *body = NULL;
    if (sandbox_body(exchange, known, &body) < 0)
        return 0;
    json_int_t ms = json_integer_value(json_object_get(body, "ms"));
    json_decref(body);
    if (ms <= 0)
        return exchange_reply_error(exchange, 400, "bad_request", "ms", NULL,
                                    "ms: must be a number of milliseconds above 0");
    json_t *request = sandbox_request(exchange, "more_time");
    json_object_set_new(request, "ms", json_integer(ms));
    return order(exchange, request) < 0 ? 0 : reply_context(exchange);
}

static const struct route routes[] = {
    {"POST", "/v1/sandboxes/{id}/run", run, 0, "run code in a context, whose state is kept"},
    {"GET", "/v1/sandboxes/{id}/contexts", list, 0, "list its contexts, and what they use"},
    {"POST", "/v1/sandboxes/{id}/contexts", open_one, 0, "open another context, in a box of its own",
     1 << 16},
    {"GET", "/v1/sandboxes/{id}/contexts/{context}", reply_context, 0, "look at a context"},
    {"DELETE", "/v1/sandboxes/{id}/contexts/{context}", close_one, 0, "end a context"},
    {"POST", "/v1/sandboxes/{id}/contexts/{context}/restart", restart, 0, "a fresh interpreter", 1 << 16},
    {"POST", "/v1/sandboxes/{id}/contexts/{context}/interrupt", interrupt, 0,
     "interrupt the run that is under way; again, a second later: end the interpreter", 1 << 16},
    {"POST", "/v1/sandboxes/{id}/contexts/{context}/extend", extend, 0,
     "more time for the run that is under way", 1 << 16},
};

const struct route_family routes_context = ROUTE_FAMILY(routes);
