#include "server/gate.h"

#include "base/json_text.h"
#include "base/sha256.h"
#include "server/admission.h"
#include "server/audit.h"
#include "server/server.h"
#include "server/tenant.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES_LISTED = 100 };

struct gate_note {
    struct buffer line; /* of the log, without its end; empty: it has ended */
    size_t choices;     /* where that begins which only the end tells for sure */
    char language[32], isolation[16];
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

void gate_count_run(struct exchange *exchange, enum cause cause, int64_t duration_us)
{
    metrics_count_run(&exchange_server(exchange)->metrics, cause, duration_us);
    metrics_count_run(exchange_tenant(exchange)->metrics, cause, duration_us);
}

void gate_count_refused(struct exchange *exchange)
{
    atomic_fetch_add(&exchange_server(exchange)->metrics.runs_refused, 1);
    atomic_fetch_add(&exchange_tenant(exchange)->metrics->runs_refused, 1);
}

int gate_limits(struct exchange *exchange, const struct spec *spec, struct limits *ret)
{
    const struct policy *policy = &exchange_server(exchange)->policy;
    for (int i = 0; i < LIMIT_FIELDS; i++) {
        struct error err = {0};
        ret->value[i] = spec->limit_set[i] ? spec->limits.value[i] : policy->defaults.value[i];
        int status = policy_check_limit(policy, (enum limit_field)i, ret->value[i], &err);
        if (status < 0) {
            exchange_reply_problem(exchange, &err);
            return status;
        }
    }
    return 0;
}

/* ---- the line: printed by hand, for every run has one ---- */

static void add_text(struct buffer *line, const char *name, const char *text)
{
    if (!text || !text[0])
        return;
    bool is_plain = true;
    for (const char *at = text; *at && is_plain; at++)
        is_plain = *at >= ' ' && *at < 0x7f && *at != '"' && *at != '\\';
    if (is_plain) {
        buffer_print(line, ",\"%s\":\"%s\"", name, text);
        return;
    }
    json_t *string = json_string(text);
    char *encoded = string ? json_text(string, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    if (encoded)
        buffer_print(line, ",\"%s\":%s", name, encoded);
    free(encoded);
    json_decref(string);
}

static void add_hash(struct buffer *line, struct slice code)
{
    char hex[65];
    struct sha256 *hash = sha256_new();
    if (!hash)
        return;
    sha256_add(hash, code.data, code.length);
    sha256_finish(hash, hex);
    add_text(line, "code_sha256", hex);
}

static void add_limits(struct buffer *line, const struct limits *limits)
{
    for (int i = 0; i < LIMIT_FIELDS; i++)
        buffer_print(line, "%s\"%s\":%lld", i ? "," : ",\"limits\":{", limit_rows[i].name,
                     (long long)limits->value[i]);
    buffer_append_text(line, "}");
}

static void begin_line(struct buffer *line, struct exchange *exchange, const struct gate_run *run)
{
    char now[AUDIT_TIME_SIZE], endpoint[320];
    audit_time(now);
    snprintf(endpoint, sizeof endpoint, "%s %s", exchange_method(exchange), exchange_pattern(exchange));
    buffer_print(line, "{\"at\":\"%s\"", now);
    const char *const texts[][2] = {
        {"tenant", exchange_tenant(exchange)->name},
        {"key", exchange_key_id(exchange)},
        {"run", run->id},
        {"endpoint", endpoint},
        {"sandbox", run->sandbox},
        {"image", run->image},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        add_text(line, texts[i][0], texts[i][1]);
    add_hash(line, run->code);
    if (run->limits)
        add_limits(line, run->limits);
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
    begin_line(&note->line, exchange, run);
    note->choices = note->line.length;
    snprintf(note->language, sizeof note->language, "%s", run->language ? run->language : "");
    snprintf(note->isolation, sizeof note->isolation, "%s", run->isolation ? run->isolation : "");
    add_text(&note->line, "language", note->language);
    add_text(&note->line, "isolation", note->isolation);
    size_t length = note->line.length;
    buffer_append_text(&note->line, "}"); /* whole for the note; the end is put in its place later */
    note->slot = audit_begin(pass->server->audit, run->id,
                             (struct slice){note->line.data ? note->line.data : "", note->line.length});
    note->line.length = length;
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

static void add_usage(struct buffer *line, const struct result_usage *usage)
{
    buffer_print(line,
                 ",\"usage\":{\"wall_ms\":%.3f,\"cpu_ms\":%.3f,\"peak_memory_bytes\":%lld,\"peak_pids\":%lld,"
                 "\"disk_bytes\":%lld}",
                 (double)usage->wall_us / 1000, (double)(usage->cpu_user_us + usage->cpu_system_us) / 1000,
                 (long long)usage->peak_memory_bytes, (long long)usage->peak_pids,
                 (long long)usage->disk_bytes);
}

static void add_files(struct buffer *line, const json_t *files)
{
    json_t *list = files_to_json(files);
    char *encoded = json_text(list, JSON_COMPACT);
    if (encoded)
        buffer_print(line, ",\"files\":%s,\"file_count\":%zu", encoded, json_array_size(files));
    free(encoded);
    json_decref(list);
}

void gate_end(struct gate_pass *pass, size_t number, const struct gate_outcome *outcome)
{
    if (!pass || number >= pass->count || !pass->notes[number].line.length)
        return;
    struct gate_note *note = &pass->notes[number];
    struct buffer *line = &note->line;
    char now[AUDIT_TIME_SIZE];
    audit_time(now);
    line->length = note->choices;
    add_text(line, "language", outcome->language ? outcome->language : note->language);
    add_text(line, "isolation", outcome->isolation ? outcome->isolation : note->isolation);
    add_text(line, "ended_at", now);
    add_text(line, "cause", outcome->refusal ? "refused" : outcome->cause ? outcome->cause : "host_failure");
    add_text(line, "error", outcome->refusal);
    add_text(line, "detail", outcome->detail);
    if (outcome->exit_code >= 0)
        buffer_print(line, ",\"exit_code\":%d", outcome->exit_code);
    if (outcome->usage)
        add_usage(line, outcome->usage);
    if (json_array_size(outcome->files))
        add_files(line, outcome->files);
    buffer_append_text(line, "}\n");
    audit_end(pass->server->audit, note->slot, (struct slice){line->data, line->length});
    buffer_free(line);
    if (outcome->charge_us)
        pass->cpu_us += *outcome->charge_us;
    else if (outcome->usage)
        pass->cpu_us += outcome->usage->cpu_user_us + outcome->usage->cpu_system_us;
}

void gate_leave(struct gate_pass **left)
{
    static const struct gate_outcome failed = {.exit_code = -1};
    struct gate_pass *pass = *left;
    *left = NULL;
    if (!pass)
        return;
    for (size_t i = 0; i < pass->count; i++)
        gate_end(pass, i, &failed);
    admission_leave(pass->server->admission, &pass->ticket, pass->cpu_us);
    free(pass);
}
