/* What a file of data holds. The file is hostile, so it is looked at inside a box, by guest/profile; of what
 * comes back only what the answer is made of is taken, and kept for the next time that its tenant asks. */
#include "base/scope.h"
#include "keeper/client.h"
#include "server/admission.h"
#include "server/api_files.h"
#include "base/identifier.h"
#include "base/base64.h"
#include "server/exact_json.h"
#include "server/gate.h"
#include "server/keeper_link.h"
#include "server/server.h"
#include "server/store.h"
#include "server/tenant.h"

#include <errno.h>
#include <string.h>

extern const char profile_blob_start[], profile_blob_end[];

/* ---- the run ---- */

static const struct {
    const char *field, *value;
} terms[] = {
    {"language", "executable"},
    {"arg", "/data/input/data"},
    {"memory", "256M"},
    {"wall", "120s"},
    {"cpu", "120s"},
    {"cpus", "1"},
    {"output_limit", "16M"},
    {"disk", "1M"},
};

static struct spec *make_spec(const struct server *server, struct error *err)
{
    struct spec *spec = spec_new();
    int status = spec ? 0 : error_host(err, -ENOMEM, "no memory for a run");
    for (size_t i = 0; status == 0 && i < sizeof terms / sizeof *terms; i++) {
        status = spec_set(spec, terms[i].field, terms[i].value, err);
        int limit = limit_find(terms[i].field);
        if (limit >= 0 && spec->limits.value[limit] > server->policy.ceilings.value[limit])
            spec->limits.value[limit] = server->policy.ceilings.value[limit];
    }
    if (status == 0 &&
        buffer_append(&spec->code, profile_blob_start, (size_t)(profile_blob_end - profile_blob_start)) < 0)
        status = error_host(err, -ENOMEM, "no memory for a run");
    if (status < 0) {
        spec_free(spec);
        return NULL;
    }
    spec->has_code = spec->is_ours = true;
    spec->isolation = server->policy.isolation;
    return spec;
}

/* What the tool wrote to stdout; to be freed. */
static json_t *read_result(const struct result *result, const struct buffer *json, struct error *err)
{
    json_t *whole = json_loadb(json->data ? json->data : "", json->length, JSON_ALLOW_NUL, NULL);
    const json_t *text = json_object_get(whole, "stdout");
    struct slice output = {json_string_value(text), json_string_length(text)};
    json_t *profile = NULL;
    if (result->cause == CAUSE_exit && result->exit_code == 0 && output.data && !exchange_is_too_deep(output))
        profile = json_loadb(output.data, output.length, 0, NULL);
    json_decref(whole);
    if (!profile)
        error_spec(err, "name", "the file cannot be looked at: its reader ended by %s%s%.200s",
                   cause_names[result->cause], result->detail[0] ? ": " : "", result->detail);
    return profile;
}

static json_t *run_spec(struct server *server, const struct spec *spec, int file_fd, struct gate_pass *pass,
                        struct error *err)
{
    struct result *result = result_new();
    if (!result)
        return NULL;
    scope_buffer json = {0};
    struct client_input input = {"data", file_fd};
    struct client_run run = {.spec = spec,
                             .fds = {-1, -1, -1},
                             .wants_json = true,
                             .cancel_fd = -1,
                             .inputs = &input,
                             .input_count = 1,
                             .is_cold = true};
    int link = keeper_link(server, err);
    int status = link < 0 ? link : client_run(link, &run, result, &json, err);
    if (status < 0 && link >= 0)
        keeper_link_drop(server);
    json_t *profile = status < 0 ? NULL : read_result(result, &json, err);
    if (status == 0)
        gate_end(pass, 0,
                 &(struct gate_outcome){.cause = cause_names[result->cause],
                                        .detail = result->detail,
                                        .exit_code = result->exit_code,
                                        .usage = &result->usage});
    result_free(result);
    return profile;
}

/* NULL without an error: the answer is set already. */
static json_t *run_tool(struct exchange *exchange, int file_fd, struct error *err)
{
    struct server *server = exchange_server(exchange);
    scope_spec *spec = make_spec(server, err);
    struct gate_pass *pass = NULL;
    char id[IDENTIFIER_SIZE];
    if (!spec)
        return NULL;
    const int64_t *limit = spec->limits.value;
    const struct admission_need need = {
        .memory_bytes = limit[LIMIT_memory], .millicpus = limit[LIMIT_cpus], .disk_bytes = limit[LIMIT_disk]};
    if (gate_enter(exchange, &need, &pass) < 0)
        return NULL;
    identifier_make("run_", id);
    gate_note(pass, exchange,
              &(struct gate_run){.id = id,
                                 .language = spec->language,
                                 .isolation = isolation_names[spec->isolation],
                                 .image = server->policy.image,
                                 .code = {spec->code.data, spec->code.length}});
    json_t *profile = run_spec(server, spec, file_fd, pass, err);
    gate_leave(&pass);
    return profile;
}

/* ---- what comes back ---- */

enum field_type { FIELD_TEXT, FIELD_NUMBER, FIELD_SWITCH, FIELD_SCALAR };

struct field {
    const char *name;
    enum field_type type;
    bool is_needed;
};

static bool has_type(const json_t *value, enum field_type type)
{
    switch (type) {
    case FIELD_TEXT:
        return json_is_string(value);
    case FIELD_NUMBER:
        return json_is_integer(value) || json_is_null(value);
    case FIELD_SWITCH:
        return json_is_boolean(value);
    default:
        return json_is_string(value) || json_is_number(value);
    }
}

/* A copy of these fields; NULL when one is not what it must be. */
static json_t *copy_fields(const json_t *from, const struct field *fields, size_t count)
{
    json_t *copy = json_object();
    for (size_t i = 0; copy && i < count; i++) {
        json_t *value = json_object_get(from, fields[i].name);
        bool is_right = value ? has_type(value, fields[i].type) : !fields[i].is_needed;
        if (value && is_right)
            is_right = json_object_set(copy, fields[i].name, value) == 0;
        if (!is_right) {
            json_decref(copy);
            return NULL;
        }
    }
    return copy;
}

static json_t *copy_columns(const json_t *from)
{
    static const struct field fields[] = {{"name", FIELD_TEXT, true},
                                          {"type", FIELD_TEXT, true},
                                          {"nulls", FIELD_NUMBER, true},
                                          {"min", FIELD_SCALAR, false},
                                          {"max", FIELD_SCALAR, false}};
    json_t *columns = json_is_array(from) ? json_array() : NULL;
    size_t index;
    json_t *item;
    json_array_foreach(from, index, item)
    {
        if (columns && json_array_append_new(columns, copy_fields(item, fields, 5)) < 0) {
            json_decref(columns);
            return NULL;
        }
    }
    return columns;
}

static bool is_sample(const json_t *sample)
{
    size_t row, index;
    json_t *cells, *cell;
    json_array_foreach(sample, row, cells)
    {
        if (!json_is_array(cells))
            return false;
        json_array_foreach(cells, index, cell)
        {
            if (!json_is_string(cell) && !json_is_null(cell))
                return false;
        }
    }
    return json_is_array(sample);
}

static json_t *check_profile(const json_t *given)
{
    static const struct field fields[] = {
        {"format", FIELD_TEXT, true},         {"encoding", FIELD_TEXT, false},
        {"note", FIELD_TEXT, false},          {"delimiter", FIELD_TEXT, false},
        {"header", FIELD_SWITCH, false},      {"rows", FIELD_NUMBER, true},
        {"ragged_rows", FIELD_NUMBER, false}, {"bad_rows", FIELD_NUMBER, false},
        {"more_columns", FIELD_SWITCH, false}};
    json_t *sample = json_object_get(given, "sample");
    json_t *profile = copy_fields(given, fields, sizeof fields / sizeof *fields);
    json_t *columns = profile ? copy_columns(json_object_get(given, "columns")) : NULL;
    if (!columns || !is_sample(sample) || json_object_set_new(profile, "columns", columns) < 0 ||
        json_object_set(profile, "sample", sample) < 0) {
        json_decref(profile);
        return NULL;
    }
    return profile;
}

/* ---- the endpoint ---- */

static int reply_new(struct exchange *exchange, const struct stored *file)
{
    struct server *server = exchange_server(exchange);
    struct error err = {0};
    scope_fd fd = store_open_content(server->store, file->sha256);
    json_t *given = fd < 0 ? NULL : run_tool(exchange, fd, &err);
    if (fd < 0)
        error_host(&err, fd, "cannot open the file");
    if (!given && !err.kind)
        return 0;
    json_t *profile = given ? check_profile(given) : NULL;
    json_decref(given);
    if (!profile)
        return err.kind ? exchange_reply_problem(exchange, &err)
                        : exchange_reply_error(exchange, 422, "unprocessable", "name", NULL,
                                               "the file cannot be looked at: its reader was confused by it");
    json_object_set_new(profile, "size", json_integer(file->size_bytes));
    json_object_set_new(profile, "sha256", json_string(file->sha256));
    struct buffer body = {0};
    int status = exact_json_append(&body, profile);
    json_decref(profile);
    if (status < 0) {
        buffer_free(&body);
        return status;
    }
    store_write_profile(server->store, exchange_tenant(exchange)->name, file->sha256, body.data);
    return exchange_reply_text(exchange, 200, "application/json", &body);
}

int files_get_profile(struct exchange *exchange)
{
    struct store *store = exchange_server(exchange)->store;
    const char *tenant = exchange_tenant(exchange)->name, *name = exchange_part(exchange, 0);
    struct stored file;
    struct buffer known = {0};
    if (store_hold(store, tenant, name, &file) < 0)
        return files_refuse_name(exchange, name);
    int status = store_read_profile(store, tenant, file.sha256, &known) == 0
                     ? exchange_reply_text(exchange, 200, "application/json", &known)
                     : reply_new(exchange, &file);
    store_release(store, file.sha256);
    return status;
}
