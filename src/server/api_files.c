/* Uploaded files: PUT, GET, HEAD, DELETE /v1/files/NAME, and their list. */
#include "server/api_files.h"

#include "base/scope.h"
#include "base/text.h"
#include "server/query.h"
#include "server/range.h"
#include "server/route.h"
#include "server/server.h"
#include "server/store.h"
#include "server/tenant.h"
#include "server/upload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LIST_DEFAULT = 100, LIST_MAX = 1000 };

void files_format_time(int64_t time_s, char into[32])
{
    time_t time = (time_t)time_s;
    struct tm parts;
    gmtime_r(&time, &parts);
    strftime(into, 32, "%Y-%m-%dT%H:%M:%SZ", &parts);
}

static json_t *file_to_json(const struct stored *file)
{
    char created[32], expires[32];
    files_format_time(file->created_s, created);
    files_format_time(file->expires_s, expires);
    return json_pack("{s:s, s:I, s:s, s:s, s:s}", "name", file->name, "size", (json_int_t)file->size_bytes,
                     "sha256", file->sha256, "created_at", created, "expires_at", expires);
}

static void set_number(struct exchange *exchange, const char *header, int64_t number)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)number);
    exchange_set_header(exchange, header, text);
}

int files_refuse_name(struct exchange *exchange, const char *name)
{
    return exchange_reply_error(exchange, 404, "not_found", "name", NULL, "there is no file '%.200s'", name);
}

/* ---- PUT ---- */

struct put {
    struct upload *upload;
    struct error err;
    int status; /* why it is refused; 0: it is not */
    int64_t offset_bytes;
};

static int read_content_range(const char *text, struct upload_terms *terms, bool *ret_is_check)
{
    struct range_content range;
    if (range_read_content(text, &range) < 0)
        return -EINVAL;
    terms->total_bytes = range.total;
    *ret_is_check = range.is_check;
    if (range.is_check)
        return 0;
    if (terms->body_bytes >= 0 && terms->body_bytes != range.last - range.first + 1)
        return -EINVAL;
    terms->offset_bytes = range.first;
    terms->body_bytes = range.last - range.first + 1;
    return 0;
}

static int read_lifetime(struct exchange *exchange, int64_t most_s, int64_t *ret_s, struct error *err)
{
    const char *text = exchange_query(exchange, "ttl");
    int64_t wanted_ms;
    *ret_s = most_s;
    if (!text)
        return 0;
    if (!text_parse_duration(text, &wanted_ms) || wanted_ms < 1000 || wanted_ms / 1000 > most_s)
        return error_spec(err, "ttl", "ttl: '%.32s' is not a time from 1s to %llds", text, (long long)most_s);
    *ret_s = wanted_ms / 1000;
    return 0;
}

static bool is_hash(const char *text)
{
    return strlen(text) == STORE_HASH_LENGTH && strspn(text, "0123456789abcdefABCDEF") == STORE_HASH_LENGTH;
}

/* The tenant's, and the operator's for all of them. */
static int64_t quota_of(struct exchange *exchange)
{
    int64_t used, most = exchange_server(exchange)->policy.upload_quota_bytes;
    int64_t own = tenant_quota(exchange_tenant(exchange), QUOTA_uploads, &used);
    return own < most ? own : most;
}

static int read_terms(struct exchange *exchange, struct upload_terms *terms, struct error *err)
{
    const struct server *server = exchange_server(exchange);
    const char *range = exchange_header(exchange, "Content-Range");
    bool is_check = false;
    *terms = (struct upload_terms){.tenant = exchange_tenant(exchange)->name,
                                   .name = exchange_part(exchange, 0),
                                   .total_bytes = -1,
                                   .body_bytes = exchange_body_announced(exchange),
                                   .quota_bytes = quota_of(exchange),
                                   .sha256 = exchange_header(exchange, "X-Content-SHA256")};
    if (!store_is_name(terms->name))
        return error_spec(
            err, "name",
            "name: '%.200s' cannot be a file's: at most 200 bytes of UTF-8 without slashes and control "
            "characters, no dot in front",
            terms->name);
    if (terms->sha256 && !is_hash(terms->sha256))
        return error_spec(err, "X-Content-SHA256", "X-Content-SHA256: must be 64 hexadecimal digits");
    if (range && read_content_range(range, terms, &is_check) < 0)
        return error_spec(err, "Content-Range",
                          "Content-Range: '%.64s' is not `bytes FIRST-LAST/TOTAL` of this body", range);
    if (is_check &&
        upload_find(server->store, terms->tenant, terms->name, &terms->offset_bytes, &(int64_t){0}) < 0)
        terms->offset_bytes = 0;
    return read_lifetime(exchange, server->policy.upload_lifetime_ms / 1000, &terms->lifetime_s, err);
}

static int put_chunk(struct exchange *exchange, void **state, struct slice bytes)
{
    struct put *put = *state;
    if (put) {
        put->status =
            bytes.length ? upload_add(put->upload, bytes, exchange_more_waits(exchange), &put->err) : 0;
        return put->status;
    }
    put = *state = calloc(1, sizeof *put);
    if (!put)
        return -ENOMEM;
    struct upload_terms terms;
    put->status = read_terms(exchange, &terms, &put->err);
    if (put->status == 0)
        put->status = upload_begin(exchange_server(exchange)->store, &terms, &put->upload, &put->offset_bytes,
                                   &put->err);
    return put->status;
}

static void put_done(void *state)
{
    struct put *put = state;
    upload_abandon(put->upload);
    free(put);
}

static int refuse_put(struct exchange *exchange, struct put *put)
{
    static const struct {
        int status, answer;
        const char *code, *hint;
    } rows[] = {
        {-ERANGE, 409, "conflict", "HEAD tells how much is there: Upload-Offset"},
        {-ECANCELED, 409, "conflict", NULL},
        {-EBUSY, 409, "conflict", "try again in a second"},
        {-EFBIG, 400, "bad_request", NULL},
        {-EILSEQ, 422, "unprocessable", "nothing was kept: send it again"},
        {-EDQUOT, 429, "quota", "delete files, or let them expire: GET /v1/files tells what there is"},
        {-E2BIG, 413, "too_large", NULL},
        {-ENOSPC, 503, "overloaded", "the server's disk is full"},
    };
    int64_t total;
    const char *tenant = exchange_tenant(exchange)->name;
    if (put->status == -EDQUOT || put->status == -E2BIG)
        upload_discard(put->upload); /* it would take of the room that is missing, and be in no list */
    else
        upload_abandon(put->upload); /* who has the answer may go on, or delete what is there */
    put->upload = NULL;
    if (put->status == -ERANGE)
        set_number(exchange, "Upload-Offset", put->offset_bytes);
    else if (upload_find(exchange_server(exchange)->store, tenant, exchange_part(exchange, 0),
                         &put->offset_bytes, &total) == 0)
        set_number(exchange, "Upload-Offset", put->offset_bytes);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].status == put->status) {
            if (rows[i].answer == 429 || rows[i].answer == 503)
                exchange_set_header(exchange, "Retry-After", "60");
            return exchange_reply_error(exchange, rows[i].answer, rows[i].code, put->err.subject,
                                        rows[i].hint, "%s", put->err.text);
        }
    if (put->err.kind == ERROR_SPEC)
        return exchange_reply_error(exchange, 400, "bad_request", put->err.subject, NULL, "%s",
                                    put->err.text);
    return exchange_reply_problem(exchange, &put->err);
}

static int reply_unfinished(struct exchange *exchange, const char *name, int64_t offset, int64_t total)
{
    set_number(exchange, "Upload-Offset", offset);
    if (total >= 0)
        set_number(exchange, "Upload-Length", total);
    return exchange_reply_json(exchange, 202,
                               json_pack("{s:s, s:s, s:I, s:o}", "name", name, "state", "incomplete",
                                         "offset", (json_int_t)offset, "size",
                                         total >= 0 ? json_integer(total) : json_null()));
}

static int put_file(struct exchange *exchange)
{
    struct put *put = exchange_body_state(exchange);
    struct stored file;
    int64_t offset = 0, total = -1;
    if (!put)
        return -ENOMEM;
    if (put->status < 0)
        return refuse_put(exchange, put);
    put->status = upload_finish(put->upload, &file, &offset, &put->err);
    put->upload = NULL;
    if (put->status < 0)
        return refuse_put(exchange, put);
    if (put->status == 0)
        return exchange_reply_json(exchange, 201, file_to_json(&file));
    const char *name = exchange_part(exchange, 0);
    upload_find(exchange_server(exchange)->store, exchange_tenant(exchange)->name, name, &offset, &total);
    return reply_unfinished(exchange, name, offset, total);
}

/* ---- the others ---- */

static int get_file(struct exchange *exchange)
{
    struct store *store = exchange_server(exchange)->store;
    const char *tenant = exchange_tenant(exchange)->name, *name = exchange_part(exchange, 0);
    struct stored file;
    int64_t offset, total;
    bool is_unfinished = upload_find(store, tenant, name, &offset, &total) == 0;
    if (store_hold(store, tenant, name, &file) < 0)
        return is_unfinished ? reply_unfinished(exchange, name, offset, total)
                             : files_refuse_name(exchange, name);
    scope_fd fd = store_open_content(store, file.sha256);
    store_release(store, file.sha256); /* what is open stays */
    if (fd < 0)
        return files_refuse_name(exchange, name);
    char expires[32];
    files_format_time(file.expires_s, expires);
    exchange_set_header(exchange, "X-Content-SHA256", file.sha256);
    exchange_set_header(exchange, "X-Expires-At", expires);
    exchange_set_header(exchange, "X-Content-Type-Options", "nosniff");
    exchange_set_header(exchange, "Content-Disposition", "attachment"); /* never a page of ours */
    set_number(exchange, "Upload-Offset", is_unfinished ? offset : file.size_bytes);
    return exchange_reply_fd(exchange, take_fd(&fd), 0, (uint64_t)file.size_bytes,
                             "application/octet-stream");
}

static int delete_file(struct exchange *exchange)
{
    const char *name = exchange_part(exchange, 0);
    int status = store_delete(exchange_server(exchange)->store, exchange_tenant(exchange)->name, name);
    if (status == -ENOENT)
        return files_refuse_name(exchange, name);
    struct error err = {0};
    if (status < 0) {
        error_host(&err, status, "cannot delete the file");
        return exchange_reply_problem(exchange, &err);
    }
    return exchange_reply_empty(exchange, 204);
}

static int list_files(struct exchange *exchange)
{
    const struct server *server = exchange_server(exchange);
    const char *tenant = exchange_tenant(exchange)->name;
    int64_t most = LIST_DEFAULT;
    if (!query_number(exchange, "limit", 1, LIST_MAX, &most))
        return 0;
    struct stored *files = NULL;
    size_t count = 0;
    store_sweep(server->store, time(NULL));
    if (store_list(server->store, tenant, exchange_query(exchange, "cursor"), (size_t)most + 1, &files,
                   &count) < 0)
        return -ENOMEM;
    size_t shown = count > (size_t)most ? (size_t)most : count;
    json_t *list = json_array();
    for (size_t i = 0; i < shown; i++)
        json_array_append_new(list, file_to_json(&files[i]));
    json_t *answer = json_pack("{s:o, s:I, s:I}", "files", list, "used_bytes",
                               (json_int_t)store_used_bytes(server->store, tenant), "quota_bytes",
                               (json_int_t)quota_of(exchange));
    if (count > shown)
        json_object_set_new(answer, "next", json_string(files[shown - 1].name));
    free(files);
    return exchange_reply_json(exchange, 200, answer);
}

static const struct route rows[] = {
    {"GET", "/v1/files", list_files, 0, "Uploaded files", .query = "limit cursor"},
    {"PUT", "/v1/files/{name}", put_file, ROUTE_STREAMS_BODY, "Upload a file, or go on with an upload",
     .query = "ttl", .chunk = put_chunk, .chunk_done = put_done},
    {"GET", "/v1/files/{name}", get_file, 0, "Download a file, or ask how much of an upload is there"},
    {"DELETE", "/v1/files/{name}", delete_file, 0, "Delete a file"},
    {"GET", "/v1/files/{name}/profile", files_get_profile, 0, "What a file of data holds"},
};

const struct route_family routes_files = ROUTE_FAMILY(rows);
