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

struct gate_note {
    json_t *line; /* NULL: it has ended */
    int slot;
};

struct gate_pass {
    struct server *server;
    struct admission_ticket ticket;
    int64_t cpu_us;
    size_t count;
    struct gate_note notes[];
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
    char now[AUDIT_TIME_SIZE], endpoint[320];
    audit_time(now);
    snprintf(endpoint, sizeof endpoint, "%s %s", exchange_method(exchange), exchange_pattern(exchange));
    json_t *line = json_pack("{s:s,s:s}", "at", now, "tenant", exchange_tenant(exchange)->name);
    set_text(line, "key", exchange_key_id(exchange));
    set_text(line, "run", run->id);
    set_text(line, "endpoint", endpoint);
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

int gate_enter(struct exchange *exchange, const struct admission_need *need, struct gate_pass **ret)
{
    size_t count = need->runs ? (size_t)need->runs : 1;
    struct gate_pass *pass = calloc(1, sizeof *pass + count * sizeof pass->notes[0]);
    if (!pass)
        return -ENOMEM;
    struct refusal refusal = {0};
    int status = admission_enter(exchange_server(exchange)->admission, exchange_tenant(exchange), need,
                                 exchange_client_fd(exchange), &pass->ticket, &refusal);
    if (status == 0) {
        pass->server = exchange_server(exchange);
        *ret = pass;
        return 0;
    }
    free(pass);
    if (status == -ECANCELED) /* nobody reads it */
        exchange_reply_error(exchange, 503, "overloaded", NULL, NULL, "the client went away");
    else
        gate_refuse(exchange, &refusal);
    return status;
}

void gate_note(struct gate_pass *pass, struct exchange *exchange, const struct gate_run *run)
{
    struct gate_note *note = &pass->notes[pass->count];
    note->line = line_of(exchange, run);
    note->slot = audit_begin(pass->server->audit, run->id, note->line);
    pass->count++;
}

static json_t *files_to_json(const json_t *files)
{
    static const char *const names[] = {"path", "size", "sha256"};
    json_t *list = json_array();
    for (size_t index = 0; index < json_array_size(files) && index < FILES_LISTED; index++) {
        const json_t *file = json_array_get(files, index);
        json_t *entry = json_object();
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

static void set_outcome(json_t *line, const struct gate_outcome *outcome)
{
    set_text(line, "cause", outcome->cause ? outcome->cause : "host_failure");
    set_text(line, "detail", outcome->detail);
    if (outcome->exit_code >= 0)
        json_object_set_new(line, "exit_code", json_integer(outcome->exit_code));
    if (outcome->usage)
        json_object_set_new(line, "usage", usage_to_json(outcome->usage));
    if (!json_array_size(outcome->files))
        return;
    json_object_set_new(line, "files", files_to_json(outcome->files));
    json_object_set_new(line, "file_count", json_integer((json_int_t)json_array_size(outcome->files)));
}

void gate_end(struct gate_pass *pass, size_t number, const struct gate_outcome *outcome)
{
    if (!pass || number >= pass->count || !pass->notes[number].line)
        return;
    struct gate_note *note = &pass->notes[number];
    char now[AUDIT_TIME_SIZE];
    audit_time(now);
    set_text(note->line, "ended_at", now);
    set_outcome(note->line, outcome);
    audit_end(pass->server->audit, note->slot, note->line);
    json_decref(note->line);
    note->line = NULL;
    if (outcome->usage)
        pass->cpu_us += outcome->usage->cpu_user_us + outcome->usage->cpu_system_us;
}

void gate_leave(struct gate_pass *pass)
{
    static const struct gate_outcome failed = {.exit_code = -1};
    if (!pass)
        return;
    for (size_t i = 0; i < pass->count; i++)
        gate_end(pass, i, &failed);
    admission_leave(pass->server->admission, &pass->ticket, pass->cpu_us);
    free(pass);
}
