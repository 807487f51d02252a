/* Files of a live sandbox. A tool inside the box does the work (guest/files), so a path means what it means
 * to the box's own programs; here only bytes are passed on, and lines of JSON become answers. */
#include "base/scope.h"
#include "base/text.h"
#include "server/command_link.h"
#include "server/event.h"
#include "server/file_talk.h"
#include "server/query.h"
#include "server/route.h"
#include "server/sandbox_request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64 }; /* as guest/files goes */

static const char *path_of(struct exchange *exchange)
{
    const char *path = exchange_query(exchange, "path");
    if (path && path[0])
        return path;
    exchange_reply_error(exchange, 422, "unprocessable", "path", "for example ?path=/data/output/plot.png",
                         "path: is missing");
    return NULL;
}

/* In whose box; NULL: the first. */
static const char *context_of(const struct exchange *exchange)
{
    return exchange_query(exchange, "context");
}

/* One line about what there is now. */
static int reply_entry(struct exchange *exchange, int status, const char *context, const char *const *words)
{
    json_t *entry = NULL;
    return file_talk_ask(exchange, context, words, &entry) < 0 ? 0
                                                               : exchange_reply_json(exchange, status, entry);
}

static int stat_one(struct exchange *exchange)
{
    const char *path = path_of(exchange);
    return path ? reply_entry(exchange, 200, context_of(exchange), (const char *const[]){"stat", path, NULL})
                : 0;
}

static int remove_one(struct exchange *exchange)
{
    const char *path = path_of(exchange);
    json_t *entry = NULL;
    if (!path || file_talk_ask(exchange, context_of(exchange), (const char *const[]){"remove", path, NULL},
                               &entry) < 0)
        return 0;
    json_decref(entry);
    return exchange_reply_empty(exchange, 204);
}

static int list(struct exchange *exchange)
{
    const char *path = path_of(exchange);
    int64_t depth = 1;
    json_t *lines = NULL, *line;
    size_t index;
    if (!path || !query_number(exchange, "depth", 1, DEPTH_MAX, &depth))
        return 0;
    char levels[24];
    snprintf(levels, sizeof levels, "%lld", (long long)depth);
    if (file_talk_ask_all(exchange, context_of(exchange), (const char *const[]){"list", path, levels, NULL},
                          &lines) < 0)
        return 0;
    json_t *entries = json_array();
    bool is_cut = false;
    json_array_foreach(lines, index, line)
    {
        if (json_object_get(line, "cut"))
            is_cut = true;
        else
            json_array_append(entries, line);
    }
    json_decref(lines);
    return exchange_reply_json(exchange, 200,
                               json_pack("{s:o, s:b}", "entries", entries, "truncated", is_cut));
}

/* Paths, and then a context, which need not be there. */
static int take_paths(struct exchange *exchange, const char *const *names, json_t **ret_body)
{
    if (sandbox_body(exchange, names, ret_body) < 0)
        return -EINVAL;
    if (!sandbox_field_is(exchange, *ret_body, "context", JSON_STRING)) {
        json_decref(*ret_body);
        return -EINVAL;
    }
    for (; strcmp(*names, "context") != 0; names++) {
        const char *value = json_string_value(json_object_get(*ret_body, *names));
        if (value && value[0])
            continue;
        exchange_reply_error(exchange, 422, "unprocessable", *names, NULL, "%s: must be a path", *names);
        json_decref(*ret_body);
        return -EINVAL;
    }
    return 0;
}

static int make_directory(struct exchange *exchange)
{
    json_t *body = NULL;
    if (take_paths(exchange, (const char *const[]){"path", "context", NULL}, &body) < 0)
        return 0;
    int status =
        reply_entry(exchange, 201, json_string_value(json_object_get(body, "context")),
                    (const char *const[]){"mkdir", json_string_value(json_object_get(body, "path")), NULL});
    json_decref(body);
    return status;
}

static int move(struct exchange *exchange)
{
    json_t *body = NULL;
    if (take_paths(exchange, (const char *const[]){"from", "to", "context", NULL}, &body) < 0)
        return 0;
    int status = reply_entry(exchange, 200, json_string_value(json_object_get(body, "context")),
                             (const char *const[]){"move", json_string_value(json_object_get(body, "from")),
                                                   json_string_value(json_object_get(body, "to")), NULL});
    json_decref(body);
    return status;
}

/* ---- content ---- */

static const char *const octets = "application/octet-stream";

static int download(struct exchange *exchange)
{
    const char *path = path_of(exchange);
    struct file_range range = {0};
    if (!path || file_talk_range(exchange, context_of(exchange), path, &range) < 0)
        return 0;
    char offset[24], length[24], text[96];
    snprintf(offset, sizeof offset, "%lld", (long long)range.offset);
    snprintf(length, sizeof length, "%lld", (long long)range.length);
    if (range.is_part) {
        snprintf(text, sizeof text, "bytes %lld-%lld/%lld", (long long)range.offset,
                 (long long)(range.offset + range.length - 1), (long long)range.size);
        exchange_set_header(exchange, "Content-Range", text);
    }
    exchange_set_header(exchange, "Accept-Ranges", "bytes");
    exchange_set_header(exchange, "X-Content-Type-Options",
                        "nosniff"); /* a guest's bytes are no page of ours */
    return file_talk_stream(exchange,
                            command_request_files(exchange, context_of(exchange),
                                                  (const char *const[]){"get", path, offset, length, NULL}),
                            true, range.is_part ? 206 : 200, octets);
}

static int download_tar(struct exchange *exchange)
{
    const char *path = path_of(exchange);
    if (!path)
        return 0;
    json_t *entry = NULL; /* first: tar's own complaint would come when the answer has begun */
    if (file_talk_ask(exchange, context_of(exchange), (const char *const[]){"stat", path, NULL}, &entry) < 0)
        return 0;
    bool is_directory = strcmp(json_string_value(json_object_get(entry, "type")), "directory") == 0;
    json_decref(entry);
    if (!is_directory)
        return exchange_reply_error(exchange, 422, "unprocessable", "path", NULL, "path: is not a directory");
    return file_talk_stream(exchange,
                            command_request(exchange, context_of(exchange),
                                            (const char *const[]){"tar", "-C", path, "-cf", "-", ".", NULL}),
                            false, 200, "application/x-tar");
}

/* The command that takes the body is started when the headers are there. */
static int begin_upload(struct exchange *exchange, void **state, struct slice bytes)
{
    const char *path = *state ? "" : path_of(exchange);
    if (!path)
        return -EINVAL;
    if (!*state)
        *state = file_talk_put(exchange, command_request_files(exchange, context_of(exchange),
                                                               (const char *const[]){"put", path, NULL}));
    return *state ? file_talk_put_more(*state, bytes) : -EINVAL;
}

static int begin_tar(struct exchange *exchange, void **state, struct slice bytes)
{
    const char *path = *state ? "" : path_of(exchange);
    if (!path)
        return -EINVAL;
    json_t *entry = NULL;
    if (!*state &&
        file_talk_ask(exchange, context_of(exchange), (const char *const[]){"mkdir", path, NULL}, &entry) < 0)
        return -EINVAL;
    json_decref(entry);
    if (!*state)
        *state = file_talk_put(
            exchange,
            command_request(exchange, context_of(exchange),
                            (const char *const[]){"tar", "-C", path, "--no-same-owner", "-xf", "-", NULL}));
    return *state ? file_talk_put_more(*state, bytes) : -EINVAL;
}

static int upload(struct exchange *exchange)
{
    void *state = exchange_body_state(exchange);
    json_t *entry = NULL;
    if (!state || file_talk_put_end(exchange, state, true, &entry) < 0)
        return 0; /* answered */
    return exchange_reply_json(exchange, 200, entry);
}

static int upload_tar(struct exchange *exchange)
{
    void *state = exchange_body_state(exchange);
    if (!state || file_talk_put_end(exchange, state, false, NULL) < 0)
        return 0;
    return exchange_reply_json(exchange, 200, json_pack("{s:b}", "ok", 1));
}

static int watch(struct exchange *exchange)
{
    const char *path = path_of(exchange);
    return path ? file_talk_watch(exchange, context_of(exchange), (const char *const[]){"watch", path, NULL})
                : 0;
}

#define PLACE "path context"

static const struct route rows[] = {
    {"GET", "/v1/sandboxes/{id}/files", download, 0, "read a file of a sandbox", .query = PLACE},
    {"PUT", "/v1/sandboxes/{id}/files", upload, ROUTE_STREAMS_BODY, "write a file of a sandbox",
     .query = PLACE, .chunk = begin_upload, .chunk_done = file_talk_put_free},
    {"DELETE", "/v1/sandboxes/{id}/files", remove_one, 0, "remove a file or directory of a sandbox",
     .query = PLACE},
    {"GET", "/v1/sandboxes/{id}/files/stat", stat_one, 0, "what a path of a sandbox is", .query = PLACE},
    {"GET", "/v1/sandboxes/{id}/files/list", list, 0, "the entries of a directory of a sandbox",
     .query = PLACE " depth"},
    {"POST", "/v1/sandboxes/{id}/files/mkdir", make_directory, 0,
     "make a directory in a sandbox, and those above it"},
    {"POST", "/v1/sandboxes/{id}/files/move", move, 0, "move a file or directory of a sandbox"},
    {"GET", "/v1/sandboxes/{id}/files/tar", download_tar, 0, "a directory of a sandbox as a tar archive",
     .query = PLACE},
    {"PUT", "/v1/sandboxes/{id}/files/tar", upload_tar, ROUTE_STREAMS_BODY,
     "unpack a tar archive in a sandbox", .query = PLACE, .chunk = begin_tar,
     .chunk_done = file_talk_put_free},
    {"GET", "/v1/sandboxes/{id}/files/watch", watch, 0,
     "changes below a directory of a sandbox, as they happen", .query = PLACE},
};

const struct route_family routes_box_files = ROUTE_FAMILY(rows);
