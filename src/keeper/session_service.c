#include "keeper/session_service.h"

#include "base/identifier.h"
#include "base/scope.h"
#include "base/text.h"
#include "keeper/session_request.h"
#include "keeper/wire.h"
#include "runtime/runner.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

enum { LIST_MAX = 1000, EVENTS_WAIT_MS = 1000, NAME_MAX_LENGTH = 200 };

static const struct slice nothing = {"", 0};

const char *request_text(const struct session_request *request, const char *name)
{
    return json_string_value(json_object_get(request->header, name));
}

int64_t request_number(const struct session_request *request, const char *name)
{
    return json_integer_value(json_object_get(request->header, name));
}

int request_reply(const struct session_request *request, json_t *answer)
{
    return wire_send(request->fd, answer, nothing, NULL, 0);
}

int request_reply_error(const struct session_request *request, const struct error *err)
{
    struct error clean = *err;
    scope_buffer text = {0}; /* the guest's words in it may be cut inside a character */
    if (text_append_utf8(&text, err->text, strlen(err->text)) == 0 && text.data)
        snprintf(clean.text, sizeof clean.text, "%s",
                 text_is_utf8(err->text, strlen(err->text)) ? err->text
                 : text.length < sizeof clean.text          ? text.data
                                                            : "");
    json_t *error = wire_from_error(&clean);
    if (error && err->code == -ESTALE)
        json_object_set_new(error, "cause",
                            session_cause(request->table, request->owner, request_text(request, "session")));
    return request_reply(request, json_pack("{s:o}", "error", error));
}

/* 0, or why not: as an answer. */
static int finish(const struct session_request *request, int status, const struct error *err)
{
    return status < 0 ? request_reply_error(request, err)
                      : request_reply(request, json_pack("{s:b}", "ok", 1));
}

static int reply_session(const struct session_request *request, struct session *session, bool with_usage)
{
    return request_reply(request, json_pack("{s:o}", "session", session_to_json(session, with_usage)));
}

/* A server that was taken over must not be able to ask for files of the host: only these fields go on. */
static int check_spec(const json_t *spec, struct error *err)
{
    static const char *const allowed[] = {"language", "image", "preload", "isolation", "limits", "env"};
    const char *name;
    json_t *value;
    if (!json_is_object(spec))
        return error_spec(err, "spec", "a sandbox needs a spec");
    json_object_foreach((json_t *)(uintptr_t)spec, name, value)
    {
        bool is_allowed = false;
        for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
            is_allowed = is_allowed || strcmp(name, allowed[i]) == 0;
        if (!is_allowed)
            return error_spec(err, name, "'%.64s' is not a field of a sandbox", name);
    }
    return 0;
}

static int check_language(const char *language, struct error *err)
{
    if (!language || runner_find(language))
        return 0;
    scope_buffer names = {0};
    runner_names(&names);
    return error_spec(err, "language", "language: there are contexts in %s, not in '%.64s'",
                      names.data ? names.data : "", language);
}

static int check_time(const char *field, int64_t ms, struct error *err)
{
    if (ms < 0 || ms > SESSION_TTL_MAX_MS)
        return error_spec(err, field, "%s: must be between 1 ms and %d hours", field,
                          SESSION_TTL_MAX_MS / 3600000);
    return 0;
}

static int answer_open(struct session_request *request)
{
    const struct session_terms terms = {
        .owner = request->owner,
        .spec = json_object_get(request->header, "spec"),
        .about = json_object_get(request->header, "about"),
        .ttl_ms = request_number(request, "ttl_ms"),
        .idle_ms = request_number(request, "idle_ms"),
        .runs_max = (int)request_number(request, "runs_max"),
        .inputs = json_object_get(request->header, "inputs"),
        .fds = request->fds,
        .room = request_text(request, "room"),
        .is_cold = json_is_true(json_object_get(request->header, "cold")),
    };
    struct error err = {0};
    struct session *session = NULL;
    int status = check_spec(terms.spec, &err);
    if (status == 0)
        status = check_language(json_string_value(json_object_get(terms.spec, "language")), &err);
    if (status == 0)
        status = check_time("ttl", terms.ttl_ms, &err);
    if (status == 0)
        status = check_time("idle", terms.idle_ms, &err);
    if (status == 0)
        status = session_check_runs(request->table, request_number(request, "runs_max"), &err);
    if (status == 0)
        status = session_open(request->table, &terms, &session, &err);
    if (status < 0)
        return request_reply_error(request, &err);
    json_t *answer = json_pack("{s:o}", "session", session_to_json(session, false));
    if (answer && terms.room)
        json_object_set_new(answer, "rooms", session_rooms(request->table));
    session_put(session);
    return request_reply(request, answer);
}

static int answer_look(struct session_request *request)
{
    return reply_session(request, request->session, json_is_true(json_object_get(request->header, "usage")));
}

static json_t *count_to_json(const struct session_request *request)
{
    struct session_sum sum = session_sum_of_owner(request->table, request->owner);
    return json_pack("{s:I, s:I, s:I}", "owner_boxes", (json_int_t)sum.boxes, "owner_disk_bytes",
                     (json_int_t)sum.disk_bytes, "owner_memory_bytes", (json_int_t)sum.memory_bytes);
}

static int answer_count(struct session_request *request)
{
    return request_reply(request, count_to_json(request));
}

static int answer_toll(struct session_request *request)
{
    return request_reply(request, session_toll(request->table));
}

/* What a run or a copy of it takes up. */
static int answer_terms(struct session_request *request)
{
    struct limits limits;
    int64_t boxes;
    session_limits(request->session, &limits, &boxes);
    json_t *answer = count_to_json(request);
    json_object_set_new(answer, "limits", limits_to_json(&limits));
    json_object_set_new(answer, "boxes", json_integer(boxes));
    json_object_set_new(answer, "spec", session_spec(request->session));
    return request_reply(request, answer);
}

/* Every filter that is given must hold. */
static bool is_listed(void *data, const json_t *session)
{
    const struct session_request *request = data;
    const char *state = request_text(request, "state");
    const json_t *metadata = json_object_get(json_object_get(session, "about"), "metadata");
    const char *name;
    json_t *value;
    if (state && strcmp(state, json_string_value(json_object_get(session, "state"))) != 0)
        return false;
    json_object_foreach(json_object_get(request->header, "metadata"), name, value)
    {
        if (!json_equal(json_object_get(metadata, name), value))
            return false;
    }
    return true;
}

static int answer_list(struct session_request *request)
{
    int64_t limit = request_number(request, "limit"), next = 0;
    json_t *list =
        session_list(request->table, request->owner, request_number(request, "after"),
                     limit > 0 && limit < LIST_MAX ? (size_t)limit : LIST_MAX, is_listed, request, &next);
    return request_reply(request, json_pack("{s:o, s:I}", "sessions", list, "next", (json_int_t)next));
}

static int answer_close(struct session_request *request)
{
    session_close(request->session);
    const char *room = session_empty_room(request->session);
    return request_reply(request, json_pack("{s:b, s:s*}", "ok", 1, "room", room));
}

static int answer_extend(struct session_request *request)
{
    struct error err = {0};
    const struct session_extension more = {.ttl_ms = request_number(request, "ttl_ms"),
                                           .idle_ms = request_number(request, "idle_ms"),
                                           .runs_max = request_number(request, "runs_max")};
    int status = check_time("ttl", more.ttl_ms, &err);
    if (status == 0)
        status = check_time("idle", more.idle_ms, &err);
    if (status == 0)
        status = session_extend(request->session, &more, &err);
    return status < 0 ? request_reply_error(request, &err) : reply_session(request, request->session, false);
}

static int answer_context_open(struct session_request *request)
{
    struct error err = {0};
    char id[IDENTIFIER_SIZE];
    const char *language = request_text(request, "language");
    int status = check_language(language, &err);
    if (status == 0)
        status = session_context_open(request->session, language ? language : "python", id, &err);
    return status < 0 ? request_reply_error(request, &err)
                      : request_reply(request, json_pack("{s:s}", "context", id));
}

static int answer_context_close(struct session_request *request)
{
    struct error err = {0};
    const char *id = request_text(request, "context");
    return finish(request, session_context_close(request->session, id ? id : "", &err), &err);
}

static int answer_restart(struct session_request *request)
{
    struct error err = {0};
    return finish(request, session_context_restart(request->session, request_text(request, "context"), &err),
                  &err);
}

static int answer_interrupt(struct session_request *request)
{
    struct error err = {0};
    return finish(request,
                  session_context_interrupt(request->session, request_text(request, "context"), &err), &err);
}

static int answer_more_time(struct session_request *request)
{
    struct error err = {0};
    return finish(request,
                  session_context_extend(request->session, request_text(request, "context"),
                                         request_number(request, "ms"), &err),
                  &err);
}

static int answer_fork(struct session_request *request)
{
    struct error err = {0};
    int64_t count = request_number(request, "count");
    json_t *list = json_array();
    struct session *forks[SESSION_FORKS_MAX];
    int made = 0, status = 0;
    if (count < 1 || count > SESSION_FORKS_MAX)
        status = error_spec(&err, "count", "count: must be between 1 and %d", SESSION_FORKS_MAX);
    while (status == 0 && made < count)
        if ((status = session_fork(request->session, request_text(request, "checkpoint"), &forks[made],
                                   &err)) == 0)
            made++;
    for (int i = 0; i < made; i++) {
        if (status == 0)
            json_array_append_new(list, session_to_json(forks[i], false));
        else
            session_close(forks[i]); /* all of them, or none */
        session_put(forks[i]);
    }
    if (status == 0)
        return request_reply(request, json_pack("{s:o}", "sessions", list));
    json_decref(list);
    return request_reply_error(request, &err);
}

static int answer_checkpoint(struct session_request *request)
{
    struct error err = {0};
    char id[IDENTIFIER_SIZE];
    const char *name = request_text(request, "name");
    int status = name && strlen(name) > NAME_MAX_LENGTH
                     ? error_spec(&err, "name", "name: more than %d bytes", NAME_MAX_LENGTH)
                     : session_checkpoint(request->session, name, id, &err);
    return status < 0 ? request_reply_error(request, &err)
                      : request_reply(request, json_pack("{s:s}", "checkpoint", id));
}

static int answer_rollback(struct session_request *request)
{
    struct error err = {0};
    const char *id = request_text(request, "checkpoint");
    int status = session_rollback(request->session, id ? id : "", &err);
    return status < 0 ? request_reply_error(request, &err) : reply_session(request, request->session, false);
}

static int answer_checkpoint_drop(struct session_request *request)
{
    struct error err = {0};
    const char *id = request_text(request, "checkpoint");
    return finish(request, session_checkpoint_drop(request->session, id ? id : "", &err), &err);
}

/* A frame with what has happened, lines of JSON in its body; an empty one now and then, so that the other
 * side notices that its own listener is gone. The last frame says `end`. With `once` there is one frame, at
 * once. */
static int answer_watch(struct session_request *request)
{
    int64_t since = request_number(request, "since"), last = since;
    bool is_once = json_is_true(json_object_get(request->header, "once"));
    for (;;) {
        scope_buffer lines = {0};
        int more = session_await_events(request->session, since, is_once ? 0 : EVENTS_WAIT_MS, &lines, &last);
        since = last;
        int status = wire_send(request->fd, json_pack("{s:b, s:I}", "end", !more, "last", (json_int_t)last),
                               (struct slice){lines.data ? lines.data : "", lines.length}, NULL, 0);
        struct pollfd polled = {.fd = request->fd, .events = POLLRDHUP};
        if (status < 0 || !more || is_once)
            return status;
        if (poll(&polled, 1, 0) > 0)
            return -EPIPE;
    }
}

enum subject { NO_SESSION, LIVE_SESSION, ANY_SESSION };

static const struct {
    const char *type;
    int (*answer)(struct session_request *request);
    enum subject subject;
} rows[] = {
    {"session.open", answer_open, NO_SESSION},
    {"session.list", answer_list, NO_SESSION},
    {"session.count", answer_count, NO_SESSION},
    {"session.toll", answer_toll, NO_SESSION},
    {"session.terms", answer_terms, LIVE_SESSION},
    {"session.look", answer_look, ANY_SESSION},
    {"session.close", answer_close, ANY_SESSION},
    {"session.extend", answer_extend, LIVE_SESSION},
    {"session.run", session_answer_run, LIVE_SESSION},
    {"session.exec", session_answer_exec, LIVE_SESSION},
    {"session.branches", session_answer_branches, LIVE_SESSION},
    {"session.context_open", answer_context_open, LIVE_SESSION},
    {"session.context_close", answer_context_close, LIVE_SESSION},
    {"session.restart", answer_restart, LIVE_SESSION},
    {"session.interrupt", answer_interrupt, LIVE_SESSION},
    {"session.more_time", answer_more_time, LIVE_SESSION},
    {"session.fork", answer_fork, LIVE_SESSION},
    {"session.checkpoint", answer_checkpoint, LIVE_SESSION},
    {"session.rollback", answer_rollback, LIVE_SESSION},
    {"session.checkpoint_drop", answer_checkpoint_drop, LIVE_SESSION},
    {"session.watch", answer_watch, ANY_SESSION},
};

bool session_answer(struct session_table *table, int fd, const char *type, const json_t *header,
                    struct slice body, const int *fds, int *ret_status)
{
    size_t row = 0;
    while (row < sizeof rows / sizeof *rows && strcmp(rows[row].type, type) != 0)
        row++;
    if (row == sizeof rows / sizeof *rows)
        return false;
    struct session_request request = {.table = table, .fd = fd, .header = header, .body = body, .fds = fds};
    struct error err = {0};
    request.owner = request_text(&request, "owner");
    const char *id = request_text(&request, "session");
    int status = 0;
    if (!request.owner)
        status = error_spec(&err, "owner", "a request about sandboxes must name their owner");
    else if (rows[row].subject != NO_SESSION)
        status = session_find(table, request.owner, id ? id : "", rows[row].subject == ANY_SESSION,
                              &request.session, &err);
    *ret_status = status < 0 ? request_reply_error(&request, &err) : rows[row].answer(&request);
    session_put(request.session);
    return true;
}
