/* Forks of a sandbox, branches, checkpoints. */
#include "base/scope.h"
#include "server/route.h"
#include "server/run_talk.h"
#include "server/sandbox_gate.h"
#include "server/sandbox_journal.h"
#include "server/sandbox_request.h"
#include "server/tenant.h"

#include <errno.h>
#include <string.h>

enum { BRANCHES_MAX = 64 };

static int refuse_run(struct exchange *exchange, size_t index)
{
    exchange_reply_error(exchange, 400, "bad_request", "runs", "[{\"code\": \"…\"}, …]",
                         "runs[%zu]: must be an object with `code`, a string, and nothing else", index);
    return -EINVAL;
}

/* The codes go one after the other, with their lengths. */
static int gather_codes(struct exchange *exchange, const json_t *runs, json_t *lengths, struct buffer *codes)
{
    size_t index;
    json_t *item;
    json_array_foreach(runs, index, item)
    {
        const json_t *code = json_object_get(item, "code");
        if (!json_is_string(code) || json_object_size(item) != 1)
            return refuse_run(exchange, index);
        json_array_append_new(lengths, json_integer((json_int_t)json_string_length(code)));
        if (buffer_append(codes, json_string_value(code), json_string_length(code)) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int run_branches(struct exchange *exchange, const json_t *body)
{
    scope_buffer codes = {0};
    json_t *runs = json_object_get(body, "runs");
    size_t count = json_array_size(runs);
    if (count < 1 || count > BRANCHES_MAX)
        return exchange_reply_error(exchange, 400, "bad_request", "runs", NULL,
                                    "runs: must be between 1 and %d", BRANCHES_MAX);
    json_t *request = sandbox_request(exchange, "branches"), *lengths = json_array();
    json_object_set_new(request, "lengths", lengths);
    if (json_object_get(body, "context"))
        json_object_set(request, "context", json_object_get(body, "context"));
    int status = gather_codes(exchange, runs, lengths, &codes);
    if (status < 0) {
        json_decref(request);
        return status == -ENOMEM ? status : 0;
    }
    bool as_events = json_is_true(json_object_get(body, "stream")) || exchange_wants_events(exchange);
    return run_talk(exchange, request, (struct slice){codes.data ? codes.data : "", codes.length},
                    &(struct run_wish){.branches = count, .as_events = as_events});
}

static int fork_whole(struct exchange *exchange, const json_t *body)
{
    json_t *answer = NULL, *views = json_array(), *item;
    const json_t *count = json_object_get(body, "count");
    size_t index;
    struct tenant_claim claim = {0};
    json_int_t copies = count ? json_integer_value(count) : 1;
    if (sandbox_gate_grow(exchange, SANDBOX_FORK, copies, NULL, &claim) < 0) {
        json_decref(views);
        return 0;
    }
    json_t *request = sandbox_request(exchange, "fork");
    json_object_set_new(request, "count", json_integer(copies));
    if (json_object_get(body, "checkpoint"))
        json_object_set(request, "checkpoint", json_object_get(body, "checkpoint"));
    int forked = sandbox_ask(exchange, request, &answer);
    tenant_release(exchange_tenant(exchange), &claim, true);
    if (forked < 0) {
        json_decref(views);
        return 0;
    }
    json_array_foreach(json_object_get(answer, "sessions"), index, item)
    {
        sandbox_journal_add(exchange_server(exchange), exchange_tenant(exchange)->name,
                            json_string_value(json_object_get(item, "id")),
                            json_integer_value(json_object_get(item, "expires_ms")));
        json_array_append_new(views, sandbox_view(item));
    }
    json_decref(answer);
    return exchange_reply_json(exchange, 201, json_pack("{s:o}", "sandboxes", views));
}

static int fork_it(struct exchange *exchange)
{
    static const char *const known[] = {"count", "runs", "context", "stream", "checkpoint", NULL};
    json_t *body = NULL;
    int status = 0;
    if (sandbox_body(exchange, known, &body) < 0)
        return 0;
    if (sandbox_field_is(exchange, body, "count", JSON_INTEGER) &&
        sandbox_field_is(exchange, body, "runs", JSON_ARRAY) &&
        sandbox_field_is(exchange, body, "context", JSON_STRING) &&
        sandbox_field_is(exchange, body, "checkpoint", JSON_STRING) &&
        sandbox_field_is(exchange, body, "stream", JSON_TRUE)) {
        const json_t *count = json_object_get(body, "count"), *runs = json_object_get(body, "runs");
        if (count && runs && (size_t)json_integer_value(count) != json_array_size(runs))
            status = exchange_reply_error(exchange, 400, "bad_request", "count", "leave it out",
                                          "count: is not the number of runs");
        else if (runs && json_object_get(body, "checkpoint"))
            status = exchange_reply_error(exchange, 400, "bad_request", "checkpoint",
                                          "fork it, and run in the copy",
                                          "checkpoint: runs side by side begin with the state of now");
        else
            status = runs ? run_branches(exchange, body) : fork_whole(exchange, body);
    }
    json_decref(body);
    return status;
}

/* The checkpoints as clients see them, or NULL when the exchange has its answer. */
static json_t *look(struct exchange *exchange)
{
    json_t *answer = NULL, *views, *item;
    size_t index;
    if (sandbox_ask(exchange, sandbox_request(exchange, "look"), &answer) < 0)
        return NULL;
    views = json_array();
    json_array_foreach(json_object_get(json_object_get(answer, "session"), "checkpoints"), index, item)
        json_array_append_new(views, sandbox_view_checkpoint(item));
    json_decref(answer);
    return views;
}

static int list(struct exchange *exchange)
{
    json_t *points = look(exchange);
    return points ? exchange_reply_json(exchange, 200, json_pack("{s:o}", "checkpoints", points)) : 0;
}

static int checkpoint(struct exchange *exchange)
{
    static const char *const known[] = {"name", NULL};
    json_t *body = NULL, *answer = NULL, *points, *item, *found = NULL;
    size_t index;
    if (sandbox_body(exchange, known, &body) < 0)
        return 0;
    bool is_right = sandbox_field_is(exchange, body, "name", JSON_STRING);
    struct tenant_claim claim = {0};
    is_right = is_right && sandbox_gate_grow(exchange, SANDBOX_CHECKPOINT, 1, NULL, &claim) == 0;
    json_t *request = is_right ? sandbox_request(exchange, "checkpoint") : NULL;
    if (is_right && json_object_get(body, "name"))
        json_object_set(request, "name", json_object_get(body, "name"));
    json_decref(body);
    is_right = is_right && sandbox_ask(exchange, request, &answer) == 0;
    tenant_release(exchange_tenant(exchange), &claim, true);
    if (!is_right)
        return 0;
    points = look(exchange);
    json_array_foreach(points, index, item) if (json_equal(json_object_get(item, "id"),
                                                           json_object_get(answer, "checkpoint"))) found =
        json_incref(item);
    json_decref(answer);
    if (!points)
        return 0;
    json_decref(points);
    return found ? exchange_reply_json(exchange, 201, found)
                 : exchange_reply_error(exchange, 404, "not_found", "checkpoint", NULL,
                                        "the checkpoint was deleted at once");
}

/* About the checkpoint that the path names. */
static int order(struct exchange *exchange, const char *verb, json_t **ret)
{
    json_t *request = sandbox_request(exchange, verb), *name = json_string(exchange_part(exchange, 1));
    json_object_set_new(request, "checkpoint", name ? name : json_string(""));
    return sandbox_ask(exchange, request, ret);
}

static int rollback(struct exchange *exchange)
{
    static const char *const none[] = {NULL};
    json_t *answer = NULL, *body = NULL;
    if (sandbox_body(exchange, none, &body) < 0)
        return 0;
    json_decref(body);
    if (order(exchange, "rollback", &answer) < 0)
        return 0;
    int status = exchange_reply_json(exchange, 200, sandbox_view(json_object_get(answer, "session")));
    json_decref(answer);
    return status;
}

static int drop(struct exchange *exchange)
{
    json_t *answer = NULL;
    if (order(exchange, "checkpoint_drop", &answer) < 0)
        return 0;
    json_decref(answer);
    return exchange_reply_empty(exchange, 204);
}

static const struct route routes[] = {
    {"POST", "/v1/sandboxes/{id}/fork", fork_it, 0, "copies of it; or runs side by side, each in a copy"},
    {"GET", "/v1/sandboxes/{id}/checkpoints", list, 0, "list its checkpoints"},
    {"POST", "/v1/sandboxes/{id}/checkpoints", checkpoint, 0, "keep this moment", 1 << 16},
    {"POST", "/v1/sandboxes/{id}/checkpoints/{checkpoint}/rollback", rollback, 0, "return to that moment",
     1 << 16},
    {"DELETE", "/v1/sandboxes/{id}/checkpoints/{checkpoint}", drop, 0, "forget that moment"},
};

const struct route_family routes_fork = ROUTE_FAMILY(routes);
