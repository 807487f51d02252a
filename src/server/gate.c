#include "server/gate.h"

#include "base/sha256.h"
#include "server/admission.h"
#include "server/audit.h"
#include "server/server.h"
#include "server/tenant.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES_LISTED = 100 };

struct gate_pass {
    struct server *server;
    struct admission_ticket ticket;
    json_t *line;
    int slot;
};

/* ---- refusals ---- */

int gate_refuse(struct exchange *exchange, const struct refusal *refusal)
{
    if (refusal->retry_after_ms) {
        char seconds[24];
        snprintf(seconds, sizeof seconds, "%lld", (long long)refusal_retry_after_s(refusal));
        exchange_set_header(exchange, "Retry-After", seconds);
    }
    return exchange_reply_error(exchange, refusal->status, refusal->code, refusal->field, refusal->hint, "%s",
                                refusal->message);
}

int gate_claim(struct exchange *exchange, const struct tenant_claim *claim)
{
    struct refusal refusal = {0};
    if (tenant_claim(exchange_tenant(exchange), claim, &refusal))
        return 0;
    gate_refuse(exchange, &refusal);
    return -EBUSY;
}

/* ---- the line ---- */

static void set_text(json_t *object, const char *name, const char *text)
{
    if (text && text[0])
        json_object_set_new(object, name, json_string(text));
}

static void set_hash(json_t *object, struct slice code)
{
    char hex[65];
    struct sha256 *hash = sha256_new();
    if (!hash)
        return;
    sha256_add(hash, code.data, code.length);
    sha256_finish(hash, hex);
    json_object_set_new(object, "code_sha256", json_string(hex));
}

static json_t *limits_to_json(const struct limits *limits)
{
    json_t *object = json_object();
    for (int i = 0; i < LIMIT_FIELDS; i++)
        json_object_set_new(object, limit_rows[i].name, json_integer(limits->value[i]));
    return object;
}

static json_t *line_of(struct exchange *exchange, const struct gate_run *run)
{
    char now[AUDIT_TIME_SIZE];
    audit_time(now);
    json_t *line = json_pack("{s:s,s:s}", "at", now, "tenant", exchange_tenant(exchange)->name);
    set_text(line, "key", exchange_key_id(exchange));
    set_text(line, "run", run->run_id);
    set_text(line, "endpoint", run->endpoint);
    set_text(line, "sandbox", run->sandbox);
    set_text(line, "language", run->language);
    set_text(line, "isolation", run->isolation);
    set_text(line, "image", run->image);
    set_hash(line, run->code);
    if (run->limits)
        json_object_set_new(line, "limits", limits_to_json(run->limits));
    return line;
}

/* ---- in and out ---- */

int gate_enter(struct exchange *exchange, const struct gate_run *run, struct gate_pass **ret)
{
    struct server *server = exchange_server(exchange);
    struct gate_pass *pass = calloc(1, sizeof *pass);
    if (!pass)
        return -ENOMEM;
    const int64_t *limits = run->limits->value;
    struct admission_need need = {.memory_bytes = limits[LIMIT_memory],
                                  .millicpus = limits[LIMIT_cpus],
                                  .disk_bytes = run->holds_disk ? limits[LIMIT_disk] : 0};
    struct refusal refusal = {0};
    int status = admission_enter(server->admission, exchange_tenant(exchange), &need,
                                 exchange_client_fd(exchange), &pass->ticket, &refusal);
    if (status < 0) {
        free(pass);
        if (status == -ECANCELED) /* nobody reads it */
            exchange_reply_error(exchange, 503, "overloaded", NULL, NULL, "the client went away");
        else
            gate_refuse(exchange, &refusal);
        return status;
    }
    pass->server = server;
    pass->line = line_of(exchange, run);
    pass->slot = audit_begin(server->audit, run->run_id, pass->line);
    *ret = pass;
    return 0;
}

static json_t *files_to_json(const json_t *files)
{
    json_t *list = json_array(), *file;
    size_t index;
    json_array_foreach((json_t *)(uintptr_t)files, index, file)
    {
        if (index == FILES_LISTED)
            break;
        json_t *entry = json_object();
        static const char *const names[] = {"path", "size", "sha256"};
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (json_object_get(file, names[i]))
                json_object_set(entry, names[i], json_object_get(file, names[i]));
        json_array_append_new(list, entry);
    }
    return list;
}

static json_t *usage_to_json(const struct result_usage *usage)
{
    return json_pack("{s:f,s:f,s:I,s:I,s:I}", "wall_ms", (double)usage->wall_us / 1000, "cpu_ms",
                     (double)(usage->cpu_user_us + usage->cpu_system_us) / 1000, "peak_memory_bytes",
                     (json_int_t)usage->peak_memory_bytes, "peak_pids", (json_int_t)usage->peak_pids,
                     "disk_bytes", (json_int_t)usage->disk_bytes);
}

void gate_leave(struct gate_pass *pass, const struct gate_outcome *outcome)
{
    if (!pass)
        return;
    char now[AUDIT_TIME_SIZE];
    audit_time(now);
    set_text(pass->line, "ended_at", now);
    set_text(pass->line, "cause", outcome && outcome->cause ? outcome->cause : "host_failure");
    set_text(pass->line, "detail", outcome ? outcome->detail : NULL);
    if (outcome && outcome->exit_code >= 0)
        json_object_set_new(pass->line, "exit_code", json_integer(outcome->exit_code));
    if (outcome && outcome->usage)
        json_object_set_new(pass->line, "usage", usage_to_json(outcome->usage));
    if (outcome && json_array_size(outcome->files)) {
        json_object_set_new(pass->line, "files", files_to_json(outcome->files));
        json_object_set_new(pass->line, "file_count",
                            json_integer((json_int_t)json_array_size(outcome->files)));
    }
    audit_end(pass->server->audit, pass->slot, pass->line);
    json_decref(pass->line);
    int64_t cpu_us =
        outcome && outcome->usage ? outcome->usage->cpu_user_us + outcome->usage->cpu_system_us : 0;
    admission_leave(pass->server->admission, &pass->ticket, cpu_us);
    free(pass);
}

static int64_t microseconds(const json_t *usage, const char *name)
{
    return (int64_t)(json_number_value(json_object_get(usage, name)) * 1000);
}

static int64_t whole(const json_t *usage, const char *name)
{
    return json_integer_value(json_object_get(usage, name));
}

void gate_leave_json(struct gate_pass *pass, const json_t *result)
{
    const json_t *usage = json_object_get(result, "usage"), *exit_code = json_object_get(result, "exit_code");
    struct result_usage numbers = {.wall_us = microseconds(usage, "wall_ms"),
                                   .cpu_user_us =
                                       microseconds(usage, "cpu_user_ms") + microseconds(usage, "cpu_ms"),
                                   .cpu_system_us = microseconds(usage, "cpu_system_ms"),
                                   .peak_memory_bytes = whole(usage, "peak_memory_bytes"),
                                   .peak_pids = whole(usage, "peak_pids"),
                                   .disk_bytes = whole(usage, "disk_bytes")};
    struct gate_outcome outcome = {.cause = json_string_value(json_object_get(result, "cause")),
                                   .detail = json_string_value(json_object_get(result, "detail")),
                                   .exit_code =
                                       json_is_integer(exit_code) ? (int)json_integer_value(exit_code) : -1,
                                   .usage = usage ? &numbers : NULL,
                                   .files = json_object_get(result, "files")};
    gate_leave(pass, result ? &outcome : NULL);
}
