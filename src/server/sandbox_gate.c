#include "server/sandbox_gate.h"

#include "base/clock.h"
#include "base/scope.h"
#include "keeper/session.h"
#include "server/admission.h"
#include "server/command_link.h"
#include "server/gate.h"
#include "server/keeper_link.h"
#include "server/sandbox_request.h"
#include "server/server.h"
#include "spec/spec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int64_t number_of(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

/* ---- runs ---- */

/* Those in copies, side by side, are in boxes that nobody has claimed yet. */
static int enter(struct exchange *exchange, size_t count, bool is_idle, bool is_copied, json_t **ret_terms,
                 struct gate_pass **ret)
{
    json_t *terms = NULL;
    int status = sandbox_ask(exchange, sandbox_request(exchange, "terms"), &terms);
    if (status < 0)
        return status;
    const json_t *limits = json_object_get(terms, "limits");
    int64_t share = is_idle ? 0 : (int64_t)count, copies = is_copied ? (int64_t)count : 0;
    const struct admission_need need = {
        .runs = (int)count,
        .memory_bytes = share * number_of(limits, limit_rows[LIMIT_memory].name),
        .millicpus = share * number_of(limits, limit_rows[LIMIT_cpus].name),
        .claimed_memory_bytes = copies * number_of(limits, limit_rows[LIMIT_memory].name),
        .disk_bytes = copies * number_of(limits, limit_rows[LIMIT_disk].name)};
    status = gate_enter(exchange, &need, ret);
    if (status == 0)
        *ret_terms = terms;
    else
        json_decref(terms);
    return status;
}

int sandbox_gate_enter(struct exchange *exchange, size_t count, bool is_idle, json_t **ret_terms,
                       struct gate_pass **ret)
{
    return enter(exchange, count, is_idle, false, ret_terms, ret);
}

int sandbox_gate_enter_copies(struct exchange *exchange, size_t count, json_t **ret_terms,
                              struct gate_pass **ret)
{
    return enter(exchange, count, false, true, ret_terms, ret);
}

void sandbox_gate_note(struct exchange *exchange, struct gate_pass *pass, const json_t *terms, const char *id,
                       struct slice code)
{
    const json_t *spec = json_object_get(terms, "spec");
    const struct policy *policy = &exchange_server(exchange)->policy;
    struct limits limits = {{0}};
    for (int i = 0; i < LIMIT_FIELDS; i++)
        limits.value[i] = number_of(json_object_get(terms, "limits"), limit_rows[i].name);
    const char *language = json_string_value(json_object_get(spec, "language"));
    const char *isolation = json_string_value(json_object_get(spec, "isolation"));
    const char *image = json_string_value(json_object_get(spec, "image"));
    const struct gate_run run = {.id = id,
                                 .sandbox = exchange_part(exchange, 0),
                                 .language = language ? language : "python",
                                 .isolation = isolation ? isolation : isolation_names[policy->isolation],
                                 .image = image ? image : policy->image,
                                 .code = code,
                                 .limits = &limits};
    gate_note(pass, exchange, &run);
}

void sandbox_gate_end(struct gate_pass *pass, size_t number, const json_t *outcome)
{
    const struct result_usage usage = {.wall_us = number_of(outcome, "duration_us"),
                                       .cpu_user_us = number_of(outcome, "cpu_us"),
                                       .peak_memory_bytes = number_of(outcome, "peak_memory_bytes"),
                                       .peak_pids = number_of(outcome, "pids"),
                                       .disk_bytes = number_of(outcome, "disk_bytes")};
    const int64_t charge_us = number_of(outcome, "charge_us");
    const json_t *code = json_object_get(outcome, "exit_code");
    const struct gate_outcome end = {.language = json_string_value(json_object_get(outcome, "language")),
                                     .isolation = json_string_value(json_object_get(outcome, "isolation")),
                                     .cause = json_string_value(json_object_get(outcome, "cause")),
                                     .detail = json_string_value(json_object_get(outcome, "detail")),
                                     .exit_code = json_is_integer(code) ? (int)json_integer_value(code) : -1,
                                     .usage = &usage,
                                     .charge_us = &charge_us};
    gate_end(pass, number, &end);
}

void sandbox_gate_refuse(struct gate_pass *pass, size_t number, const json_t *refusal)
{
    json_t *answer = sandbox_refusal_to_json(refusal), *error = json_object_get(answer, "error");
    const char *code = json_string_value(json_object_get(error, "code"));
    const struct gate_outcome outcome = {
        .refusal = code, .detail = json_string_value(json_object_get(error, "message")), .exit_code = -1};
    if (code && strcmp(code, "host_failure") != 0) /* that is what is written if nothing is said */
        gate_end(pass, number, &outcome);
    json_decref(answer);
}

void sandbox_gate_leave_command(struct gate_pass **pass, const json_t *end, int64_t charge_us,
                                int64_t started_us)
{
    const json_t *code = json_object_get(end, "exit_code");
    int64_t wall_us = clock_monotonic_us() - started_us;
    const json_t *cpu_ms = json_object_get(end, "cpu_ms");
    /* Who does not wait for the end must not have his CPU time for nothing. */
    const struct result_usage usage = {
        .wall_us = wall_us,
        .cpu_user_us = json_is_real(cpu_ms) ? (int64_t)(json_real_value(cpu_ms) * 1000) : wall_us};
    const struct gate_outcome outcome = {.cause = end ? command_cause(end) : "cancelled",
                                         .exit_code =
                                             json_is_integer(code) ? (int)json_integer_value(code) : -1,
                                         .usage = &usage,
                                         .charge_us = charge_us >= 0 ? &charge_us : NULL};
    gate_end(*pass, 0, &outcome);
    gate_leave(pass);
}

/* ---- boxes ---- */

/* As the keeper will read them: one reader, or what it gives and what is claimed could differ. */
static int read_limits(struct exchange *exchange, const json_t *limits, struct limits *ret)
{
    struct error err = {0};
    scope_spec *spec = spec_new();
    json_t *part = json_pack("{s:O?}", "limits", limits);
    int status = spec && part ? spec_read_object(spec, part, &err) : error_host(&err, -ENOMEM, "limits");
    json_decref(part);
    if (status < 0)
        exchange_reply_problem(exchange, &err);
    return status < 0 ? status : gate_limits(exchange, spec, ret);
}

static int check_count(struct exchange *exchange, int64_t count)
{
    struct error err = {0};
    if (count >= 1 && count <= SESSION_FORKS_MAX)
        return 0;
    error_spec(&err, "count", "count: must be between 1 and %d", SESSION_FORKS_MAX);
    exchange_reply_problem(exchange, &err);
    return -EINVAL;
}

/* What the keeper says there is. */
static void boxes_there(const json_t *answer, const char *prefix, struct tenant_claim *ret)
{
    static const struct {
        const char *name;
        enum quota_field field;
    } names[] = {{"boxes", QUOTA_boxes}, {"disk_bytes", QUOTA_disk}, {"memory_bytes", QUOTA_memory}};
    *ret = (struct tenant_claim){{0}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[40];
        snprintf(name, sizeof name, "%s%s", prefix, names[i].name);
        ret->amount[names[i].field] = number_of(answer, name);
    }
}

/* So many more, of a sandbox or of the body's limits. */
static void boxes_wanted(enum sandbox_growth growth, int64_t count, const struct limits *given,
                         const json_t *terms, struct tenant_claim *ret)
{
    const json_t *limits = json_object_get(terms, "limits");
    bool is_new = growth == SANDBOX_OPEN;
    count *= is_new || growth == SANDBOX_CONTEXT ? 1 : number_of(terms, "boxes");
    int64_t disk = is_new ? given->value[LIMIT_disk] : number_of(limits, limit_rows[LIMIT_disk].name);
    int64_t memory = is_new ? given->value[LIMIT_memory] : number_of(limits, limit_rows[LIMIT_memory].name);
    *ret = (struct tenant_claim){
        .amount = {[QUOTA_boxes] = count, [QUOTA_disk] = count * disk, [QUOTA_memory] = count * memory}};
}

static bool has_quotas(const struct tenant *tenant)
{
    int64_t used;
    return tenant_quota(tenant, QUOTA_boxes, &used) != QUOTA_NONE ||
           tenant_quota(tenant, QUOTA_disk, &used) != QUOTA_NONE ||
           tenant_quota(tenant, QUOTA_memory, &used) != QUOTA_NONE;
}

int sandbox_gate_grow(struct exchange *exchange, enum sandbox_growth growth, int64_t count,
                      const json_t *limits, struct tenant_claim *ret)
{
    enum { TRIES = 100 };
    const struct tenant *tenant = exchange_tenant(exchange);
    struct limits given = {{0}};
    struct refusal refusal = {0};
    *ret = (struct tenant_claim){{0}};
    int status = check_count(exchange, count); /* before anything is claimed for it */
    if (status == 0 && growth == SANDBOX_OPEN)
        status = read_limits(exchange, limits, &given);
    if (status < 0)
        return status;
    if (!admission_has_room(exchange_server(exchange)->admission, &refusal))
        return gate_refuse(exchange, &refusal), -EBUSY;
    status = has_quotas(tenant) ? -EAGAIN : 0; /* else there is nothing to ask for */
    for (int i = 0; i < TRIES && status == -EAGAIN; i++) {
        json_t *terms = NULL;
        struct tenant_claim there, wanted;
        int64_t number = tenant_boxes_number(tenant);
        status = sandbox_ask(exchange, sandbox_request(exchange, growth == SANDBOX_OPEN ? "count" : "terms"),
                             &terms);
        if (status < 0)
            return status;
        boxes_there(terms, "owner_", &there);
        boxes_wanted(growth, count, &given, terms, &wanted);
        json_decref(terms);
        status = tenant_claim_boxes(tenant, number, &there, &wanted, &refusal);
        if (status == 0)
            *ret = wanted;
    }
    if (status == -EAGAIN) /* so many of its boxes are made at one time that none can be counted */
        refusal = (struct refusal){.status = 503, .code = "overloaded", .retry_after_ms = 1000};
    if (status < 0)
        gate_refuse(exchange, &refusal);
    return status;
}

/* ---- what goes on in them ---- */

void sandbox_gate_toll(struct server *server)
{
    struct error err = {0};
    json_t *toll = NULL, *sums;
    const char *name;
    if (keeper_ask(server, json_pack("{s:s, s:s}", "type", "session.toll", "owner", ""), &toll, &err) < 0)
        return; /* the keeper is on its way out, or the next time tells it all */
    admission_note_held(server->admission, number_of(toll, "held_bytes"));
    json_object_foreach(json_object_get(toll, "owners"), name, sums)
    {
        const struct tenant *tenant = tenants_name(server->tenants, name);
        struct tenant_claim there;
        boxes_there(sums, "", &there);
        if (tenant) {
            tenant_note_boxes(tenant, &there);
            tenant_charge_cpu(tenant, number_of(sums, "cpu_us"));
        }
    }
    json_decref(toll);
}
