/* /v1/sandboxes: made, listed, looked at, extended, ended, and what happens in them. */
#include "base/scope.h"
#include "base/text.h"
#include "server/route.h"
#include "server/run_request.h"
#include "server/sandbox_events.h"
#include "server/sandbox_files.h"
#include "server/sandbox_gate.h"
#include "server/sandbox_journal.h"
#include "server/sandbox_request.h"
#include "server/tenant.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    LIST_DEFAULT = 50,
    LIST_MAX = 500,
    METADATA_MAX = 64,
    METADATA_TEXT_MAX = 1024,
};

/* NULL: there is no such preset, and the exchange has its answer. */
static json_t *preset_limits(struct exchange *exchange, const char *name)
{
    struct error err = {0};
    scope_spec *spec = spec_new();
    int status = spec ? run_preset_apply(exchange_server(exchange), name, spec, &err) : -ENOMEM;
    if (status < 0) {
        exchange_reply_error(exchange, 400, "bad_request", "preset", NULL,
                             "preset: there is only \"analyst\"");
        return NULL;
    }
    json_t *limits = json_object();
    for (int i = 0; i < LIMIT_FIELDS; i++)
        if (spec->limit_set[i])
            json_object_set_new(limits, limit_rows[i].name,
                                sandbox_limit((enum limit_field)i, spec->limits.value[i]));
    return limits;
}

/* The fields that make up the box, as the keeper reads them. NULL: the exchange has its answer. */
static json_t *take_spec(struct exchange *exchange, const json_t *body)
{
    static const char *const fields[] = {"language", "image", "preload", "isolation", "env"};
    const char *preset = json_string_value(json_object_get(body, "preset"));
    json_t *limits = preset ? preset_limits(exchange, preset) : json_object();
    if (!limits)
        return NULL;
    json_object_update(limits, json_object_get(body, "limits"));
    json_t *spec = json_object();
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (json_object_get(body, fields[i]))
            json_object_set(spec, fields[i], json_object_get(body, fields[i]));
    json_object_set_new(spec, "limits", limits);
    return spec;
}

static bool check_metadata(struct exchange *exchange, const json_t *body)
{
    json_t *metadata = json_object_get(body, "metadata"), *value;
    const char *name;
    if (json_object_size(metadata) > METADATA_MAX)
        return exchange_reply_error(exchange, 400, "bad_request", "metadata", NULL,
                                    "metadata: more than %d entries", METADATA_MAX),
               false;
    json_object_foreach(metadata, name, value)
    {
        if (!json_is_string(value) || strlen(name) + json_string_length(value) > METADATA_TEXT_MAX)
            return exchange_reply_error(exchange, 400, "bad_request", "metadata", NULL,
                                        "metadata.%.64s: must be a string of at most %d bytes", name,
                                        METADATA_TEXT_MAX),
                   false;
    }
    return true;
}

/* The most is the operator's, and told by the keeper. */
static bool check_runs(struct exchange *exchange, const json_t *body)
{
    const json_t *runs = json_object_get(body, "runs_max");
    if (!sandbox_field_is(exchange, body, "runs_max", JSON_INTEGER))
        return false;
    if (!runs || json_integer_value(runs) > 0)
        return true;
    exchange_reply_error(exchange, 400, "bad_request", "runs_max", NULL, "runs_max: must be 1 or more");
    return false;
}

static bool check_types(struct exchange *exchange, const json_t *body)
{
    static const struct {
        const char *name;
        json_type type;
    } fields[] = {{"language", JSON_STRING}, {"image", JSON_STRING},  {"isolation", JSON_STRING},
                  {"env", JSON_OBJECT},      {"limits", JSON_OBJECT}, {"metadata", JSON_OBJECT},
                  {"warm", JSON_TRUE},       {"preset", JSON_STRING}, {"preload", JSON_STRING}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (!sandbox_field_is(exchange, body, fields[i].name, fields[i].type))
            return false;
    return check_runs(exchange, body) && check_metadata(exchange, body);
}

/* NULL: the exchange has its answer. */
static json_t *opening_request(struct exchange *exchange, const json_t *body)
{
    int64_t ttl_ms = 0, idle_ms = 0;
    if (!check_types(exchange, body) || !sandbox_duration(exchange, body, "ttl", &ttl_ms) ||
        !sandbox_duration(exchange, body, "idle", &idle_ms))
        return NULL;
    json_t *spec = take_spec(exchange, body);
    if (!spec)
        return NULL;
    json_t *request = sandbox_request(exchange, "open"), *about = json_object();
    json_t *metadata = json_object_get(body, "metadata");
    if (metadata)
        json_object_set(about, "metadata", metadata);
    json_object_set_new(request, "spec", spec);
    json_object_set_new(request, "about", about);
    json_object_set_new(request, "ttl_ms", json_integer(ttl_ms));
    json_object_set_new(request, "idle_ms", json_integer(idle_ms));
    json_object_set_new(request, "runs_max",
                        json_integer(json_integer_value(json_object_get(body, "runs_max"))));
    json_object_set_new(request, "cold", json_boolean(json_is_false(json_object_get(body, "warm"))));
    return request;
}

static int note_in_journal(struct exchange *exchange, const json_t *session)
{
    return sandbox_journal_add(exchange_server(exchange), exchange_tenant(exchange)->name,
                               json_string_value(json_object_get(session, "id")),
                               json_integer_value(json_object_get(session, "expires_ms")));
}

static int create(struct exchange *exchange)
{
    static const char *const known[] = {"language", "limits",   "image",    "isolation", "ttl",
                                        "idle",     "runs_max", "metadata", "warm",      "preset",
                                        "env",      "files",    "preload",  NULL};
    json_t *body = NULL, *answer = NULL;
    if (sandbox_body(exchange, known, &body) < 0)
        return 0;
    struct tenant_claim claim = {0};
    json_t *request = opening_request(exchange, body);
    json_t *files = json_object_get(body, "files") ? json_incref(body) : NULL;
    json_decref(body);
    if (!request) {
        json_decref(files);
        return 0;
    }
    const json_t *limits = json_object_get(json_object_get(request, "spec"), "limits");
    if (sandbox_gate_grow(exchange, SANDBOX_OPEN, 1, limits, &claim) < 0) {
        json_decref(request);
        json_decref(files);
        return 0;
    }
    int opened = files ? sandbox_files_open(exchange, files, request, &answer)
                       : sandbox_ask(exchange, request, &answer);
    json_decref(files);
    tenant_release(exchange_tenant(exchange), &claim, true);
    if (opened < 0)
        return 0;
    const json_t *session = json_object_get(answer, "session");
    note_in_journal(exchange, session);
    int status = exchange_reply_json(exchange, 201, sandbox_view(session));
    json_decref(answer);
    return status;
}

/* Those that were lost come after all others, on pages whose cursor says so. */
#define LOST_CURSOR "lost."

struct filter {
    struct exchange *exchange;
    json_t *request, *metadata;
    bool is_answered;
    bool is_lost_only; /* the others were on pages before */
    size_t lost_from;
};

static bool is_cursor(const char *value, long long *ret)
{
    int64_t number;
    if (!text_parse_count(value + strlen(LOST_CURSOR), &number))
        return false;
    *ret = number;
    return true;
}

/* `metadata.NAME=VALUE`, or `metadata[NAME]=VALUE`. */
static bool take_metadata(json_t *into, const char *name, const char *value)
{
    enum { STEM = sizeof "metadata." - 1 };
    size_t length = strlen(name);
    bool is_dotted = strncmp(name, "metadata.", STEM) == 0,
         is_bracketed = strncmp(name, "metadata[", STEM) == 0 && name[length - 1] == ']';
    if (!value || !(is_dotted || is_bracketed))
        return false;
    return json_object_setn_new(into, name + STEM, length - STEM - is_bracketed, json_string(value)) == 0;
}

static void take_query(void *data, const char *name, const char *value)
{
    struct filter *filter = data;
    char *end = NULL;
    long long number = value ? strtoll(value, &end, 10) : 0;
    bool is_number = value && value[0] && !*end && number > 0;
    if (filter->is_answered)
        return;
    if (take_metadata(filter->metadata, name, value)) {
        return;
    } else if (strcmp(name, "state") == 0 && value &&
               (strcmp(value, "running") == 0 || strcmp(value, "ended") == 0)) {
        json_object_set_new(filter->request, "state", json_string(value));
    } else if (strcmp(name, "limit") == 0 && is_number && number <= LIST_MAX) {
        json_object_set_new(filter->request, "limit", json_integer(number));
    } else if (strcmp(name, "cursor") == 0 && value &&
               strncmp(value, LOST_CURSOR, strlen(LOST_CURSOR)) == 0 && is_cursor(value, &number)) {
        filter->is_lost_only = true;
        filter->lost_from = (size_t)number;
    } else if (strcmp(name, "cursor") == 0 && is_number) {
        json_object_set_new(filter->request, "after", json_integer(number));
    } else {
        filter->is_answered = true;
        exchange_reply_error(
            filter->exchange, 400, "bad_request", name,
            "state=running|ended, metadata.NAME=VALUE or metadata[NAME]=VALUE, limit=1…500, cursor=NEXT",
            "'%.64s': not a filter, or not a value that it can have", name);
    }
}

static void add_lost(struct exchange *exchange, json_t *views, size_t from, size_t limit, char *cursor,
                     size_t size)
{
    size_t next, index;
    json_t *item, *lost = sandbox_journal_list_lost(exchange_server(exchange),
                                                    exchange_tenant(exchange)->name, from, limit, &next);
    json_array_foreach(lost, index, item) json_array_append_new(views, sandbox_view_lost(item));
    json_decref(lost);
    if (next)
        snprintf(cursor, size, LOST_CURSOR "%zu", next);
}

static int list(struct exchange *exchange)
{
    struct filter filter = {
        .exchange = exchange, .request = sandbox_request(exchange, "list"), .metadata = json_object()};
    json_t *answer = NULL, *views = NULL, *item;
    size_t index;
    json_object_set_new(filter.request, "limit", json_integer(LIST_DEFAULT));
    json_object_set_new(filter.request, "metadata", filter.metadata);
    exchange_each_query(exchange, take_query, &filter);
    if (filter.is_answered) {
        json_decref(filter.request);
        return 0;
    }
    const char *state = json_string_value(json_object_get(filter.request, "state"));
    bool has_lost = state && strcmp(state, "ended") == 0 && json_object_size(filter.metadata) == 0;
    size_t limit = (size_t)json_integer_value(json_object_get(filter.request, "limit"));
    if (filter.is_lost_only)
        json_decref(filter.request);
    else if (sandbox_ask(exchange, filter.request, &answer) < 0)
        return 0;
    views = json_array();
    json_array_foreach(json_object_get(answer, "sessions"), index, item)
        json_array_append_new(views, sandbox_view(item));
    json_int_t next = json_integer_value(json_object_get(answer, "next"));
    json_decref(answer);
    char cursor[32] = "";
    if (next)
        snprintf(cursor, sizeof cursor, "%lld", (long long)next);
    else if (has_lost)
        add_lost(exchange, views, filter.lost_from, limit - json_array_size(views), cursor, sizeof cursor);
    json_t *reply = json_pack("{s:o}", "sandboxes", views);
    if (cursor[0])
        json_object_set_new(reply, "next", json_string(cursor));
    return exchange_reply_json(exchange, 200, reply);
}

static int look(struct exchange *exchange)
{
    json_t *answer = NULL;
    if (sandbox_ask(exchange, sandbox_request(exchange, "look"), &answer) < 0)
        return 0;
    int status = exchange_reply_json(exchange, 200, sandbox_view(json_object_get(answer, "session")));
    json_decref(answer);
    return status;
}

static int end(struct exchange *exchange)
{
    json_t *answer = NULL;
    if (sandbox_ask(exchange, sandbox_request(exchange, "close"), &answer) < 0)
        return 0;
    const char *room = json_string_value(json_object_get(answer, "room"));
    sandbox_journal_remove(exchange_server(exchange), exchange_part(exchange, 0));
    if (room)
        sandbox_files_remove(exchange_server(exchange), room);
    json_decref(answer);
    return exchange_reply_empty(exchange, 204);
}

static int extend(struct exchange *exchange)
{
    static const char *const known[] = {"ttl", "idle", "runs_max", NULL};
    json_t *body = NULL, *answer = NULL;
    int64_t ttl_ms = 0, idle_ms = 0;
    if (sandbox_body(exchange, known, &body) < 0)
        return 0;
    bool is_right = sandbox_duration(exchange, body, "ttl", &ttl_ms) &&
                    sandbox_duration(exchange, body, "idle", &idle_ms) && check_runs(exchange, body);
    json_int_t runs_max = json_integer_value(json_object_get(body, "runs_max"));
    json_decref(body);
    if (!is_right)
        return 0;
    if (!ttl_ms && !idle_ms && !runs_max)
        return exchange_reply_error(exchange, 400, "bad_request", "ttl", "{\"ttl\": \"1h\"}",
                                    "ttl, idle or runs_max: one of them is needed");
    json_t *request = sandbox_request(exchange, "extend");
    json_object_set_new(request, "ttl_ms", json_integer(ttl_ms));
    json_object_set_new(request, "idle_ms", json_integer(idle_ms));
    json_object_set_new(request, "runs_max", json_integer(runs_max));
    if (sandbox_ask(exchange, request, &answer) < 0)
        return 0;
    const json_t *session = json_object_get(answer, "session");
    sandbox_journal_extend(exchange_server(exchange), exchange_part(exchange, 0),
                           json_integer_value(json_object_get(session, "expires_ms")));
    int status = exchange_reply_json(exchange, 200, sandbox_view(session));
    json_decref(answer);
    return status;
}

static const struct route routes[] = {
    {"POST", "/v1/sandboxes", create, 0, "open a live sandbox", 1 << 20},
    {"GET", "/v1/sandboxes", list, 0, "list live sandboxes", .query = "state limit cursor metadata."},
    {"GET", "/v1/sandboxes/{id}", look, 0, "look at one"},
    {"DELETE", "/v1/sandboxes/{id}", end, 0, "end it, and all that is in it"},
    {"POST", "/v1/sandboxes/{id}/extend", extend, 0, "let it live longer", 1 << 16},
    {"GET", "/v1/sandboxes/{id}/events", sandbox_events, 0, "what happens in it, as events"},
};

const struct route_family routes_sandbox = ROUTE_FAMILY(routes);
