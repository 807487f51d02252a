#include "keeper/choose.h"

#include "base/scope.h"
#include "base/text.h"
#include "keeper/cost.h"
#include "keeper/run.h"
#include "runtime/language.h"
#include "runtime/runner.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WHY_MAX = 160, ERROR_MAX = 400, NAMED_MAX = 3 };

static const struct supervise_io silent = {.forward_fd = {-1, -1}, .cancel_fd = -1};

/* ---- what code needs ---- */

struct needs {
    const struct spec *spec;
    const struct policy *policy;
    enum isolation least;
    char language[64];
    bool is_module, is_readable;
    bool is_plain;          /* it has no effect but its output */
    char effect[WHY_MAX];   /* if not: why */
    char beyond[WHY_MAX];   /* what the engine wasm has not */
    char computes[WHY_MAX]; /* why nobody can tell how long it computes; "": that is little */
};

static void find_language(struct needs *needs)
{
    const struct spec *spec = needs->spec;
    struct language_table table;
    struct error ignored = {0};
    const char *name = !spec->has_code ? "command" : "unknown";
    bool has_table = spec->has_code && language_table_load(&needs->policy->languages, &table, &ignored) == 0;
    const char *found = has_table ? language_of_spec(&table, spec) : NULL;
    snprintf(needs->language, sizeof needs->language, "%s", found ? found : name);
    if (has_table)
        language_table_free(&table);
    needs->is_module = strcmp(needs->language, "wasm") == 0;
    needs->is_readable = spec->has_code && runner_vetter(needs->language).length;
}

/* Words of others that were cut may end within a character. */
static void mend(char *text)
{
    if (text_is_utf8(text, strlen(text)))
        return;
    for (; *text; text++)
        if ((unsigned char)*text >= 0x80)
            *text = '?';
}

/* The first few of a list of a report's, whose words are a guest's, checked by who read it. */
static void tell_names(char *into, const char *words, const json_t *names)
{
    scope_buffer text = {0};
    size_t index;
    json_t *name;
    json_array_foreach(names, index, name)
    {
        if (index < NAMED_MAX)
            buffer_print(&text, "%s%.40s", index ? ", " : "", json_string_value(name));
    }
    snprintf(into, WHY_MAX, "%s%s%s", words, text.data ? text.data : "",
             json_array_size(names) > NAMED_MAX ? " …" : "");
    mend(into);
}

static void judge_effect(struct needs *needs, const json_t *report)
{
    static const char *const effects[][2] = {{"network", "the code uses the network: "},
                                             {"processes", "the code starts processes: "},
                                             {"files", "the code opens files: "}};
    const json_t *facts = json_object_get(report, "facts");
    needs->is_plain = json_is_true(json_object_get(facts, "pure"));
    for (size_t i = 0; i < sizeof effects / sizeof *effects; i++) {
        const json_t *names = json_object_get(facts, effects[i][0]);
        if (json_array_size(names)) {
            needs->is_plain = false;
            tell_names(needs->effect, effects[i][1], names);
            return;
        }
    }
    for (size_t i = 0; i < vet_report_count(report); i++) {
        struct vet_finding finding = vet_report_finding(report, i);
        if (strcmp(finding.rule, "missing") == 0)
            continue;
        needs->is_plain = false;
        snprintf(needs->effect, sizeof needs->effect, "the first filter says: %.100s (line %lld)",
                 finding.message, finding.line);
        mend(needs->effect);
        return;
    }
    const json_t *beyond = json_object_get(facts, "beyond");
    if (!needs->is_plain && json_array_size(beyond))
        tell_names(needs->effect, "the code needs ", beyond);
    else if (!needs->is_plain)
        snprintf(needs->effect, sizeof needs->effect, "the code is not known to be plain");
}

static void judge(struct needs *needs, const json_t *report)
{
    const json_t *facts = json_object_get(report, "facts"), *beyond = json_object_get(facts, "beyond");
    const char *computes = json_string_value(json_object_get(facts, "computes"));
    judge_effect(needs, report);
    if (!beyond || !computes) /* a reader that does not say is not one that has read it */
        needs->is_plain = false;
    else if (json_array_size(beyond))
        tell_names(needs->beyond, "it lacks ", beyond);
    snprintf(needs->computes, sizeof needs->computes, "%.120s", computes ? computes : "");
    mend(needs->computes);
}

/* Reads the code in a box of this engine; false: it could not be. */
static bool look_in(struct needs *needs, enum isolation isolation, struct error *err)
{
    const struct spec *spec = needs->spec;
    struct result *result = NULL;
    scope_spec *only = spec_new();
    bool is_set = only && spec_set(only, "vet", "only", err) == 0 &&
                  spec_set(only, "isolation", isolation_names[isolation], err) == 0 &&
                  spec_set(only, "language", needs->language, err) == 0 &&
                  spec_set(only, "image", spec->image, err) == 0 &&
                  string_list_copy(&only->accepted, &spec->accepted) == 0 &&
                  buffer_append(&only->code, spec->code.data, spec->code.length) == 0;
    if (is_set)
        only->has_code = true;
    bool is_read = is_set && keeper_run(only, needs->policy, &silent, &result, err) == 0 && result->vet;
    if (is_read)
        judge(needs, result->vet);
    result_free(result);
    return is_read;
}

/* Not below what the code itself may run in. */
static void look(struct needs *needs)
{
    const enum isolation order[] = {needs->policy->isolation, ISOLATION_CONTAINER, ISOLATION_PROCESS,
                                    ISOLATION_GVISOR};
    struct error err = {0};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        bool was_tried = order[i] == ISOLATION_WASM || order[i] < needs->least;
        for (size_t k = 0; k < i; k++)
            was_tried |= order[k] == order[i];
        if (!was_tried && look_in(needs, order[i], &err))
            return;
    }
    snprintf(needs->effect, sizeof needs->effect, "the code could not be read here: %.100s", err.text);
    mend(needs->effect);
}

/* ---- the choice ---- */

struct candidate {
    char why_not[ERROR_MAX]; /* "": it can */
    bool is_last_resort;     /* only where no other runs */
    double cost_ms;          /* negative: not known */
};

static void refuse(struct candidate *candidate, const char *why)
{
    snprintf(candidate->why_not, sizeof candidate->why_not, "%s", why);
}

static void consider_wasm(const struct needs *needs, struct candidate *candidate)
{
    const struct spec *spec = needs->spec;
    if (spec->command.count || !needs->is_readable)
        refuse(candidate, "it has wasm, python and javascript only");
    else if (spec->wants_results)
        refuse(candidate, "it shows no results");
    else if (spec->vet == VET_restricted)
        refuse(candidate, "vet: 'restricted' needs a package of the image, which it has not");
    else if (!needs->is_plain || needs->beyond[0])
        refuse(candidate, needs->is_plain ? needs->beyond : needs->effect);
    for (size_t i = 0; i < spec->grant_count; i++)
        if (spec->grants[i].kind != GRANT_INPUT)
            refuse(candidate, "it shows no paths of the host");
}

static void consider(const struct needs *needs, enum isolation isolation, struct candidate *candidate)
{
    *candidate = (struct candidate){.cost_ms = -1};
    if (isolation < needs->least)
        refuse(candidate, "it is below what is asked for");
    else if (needs->is_module && isolation != ISOLATION_WASM)
        refuse(candidate, "it runs no modules");
    else if (!needs->is_module && isolation == ISOLATION_WASM)
        consider_wasm(needs, candidate);
    else if (isolation == ISOLATION_PROCESS && strcmp(needs->spec->image, "host") != 0)
        refuse(candidate, "it has no image but the host's");
    else if (isolation < needs->policy->isolation && !needs->is_plain && !needs->is_module)
        candidate->is_last_resort = true;
}

/* What does not run is refused from then on. */
static bool runs_here(struct cost_table *costs, enum isolation isolation, enum cost_kind kind,
                      struct candidate *candidate)
{
    struct error err = {0};
    candidate->cost_ms = cost_of(costs, isolation, kind, &err);
    if (candidate->cost_ms >= 0)
        return true;
    snprintf(candidate->why_not, sizeof candidate->why_not, "it does not run here: %.300s", err.text);
    mend(candidate->why_not);
    return false;
}

/* Of plain code: the least cost. */
static int find_cheapest(const struct needs *needs, struct cost_table *costs, struct candidate *candidates)
{
    int best = -1;
    for (int i = 0; i < ISOLATION_COUNT; i++)
        if (!candidates[i].why_not[0] &&
            runs_here(costs, (enum isolation)i, needs->computes[0] ? COST_WORK : COST_START, &candidates[i]))
            best = best < 0 || candidates[i].cost_ms < candidates[best].cost_ms ? i : best;
    return best;
}

/* Of all else: the weakest from the usual engine on, or the strongest below it. */
static int find_first(struct cost_table *costs, struct candidate *candidates)
{
    int best = -1;
    for (int i = 0; i < ISOLATION_COUNT; i++) {
        struct candidate *candidate = &candidates[i];
        if (candidate->why_not[0] || candidate->is_last_resort)
            continue;
        if (best >= 0)
            refuse(candidate, "a weaker one is enough");
        else if (runs_here(costs, (enum isolation)i, COST_START, candidate))
            best = i;
    }
    for (int i = ISOLATION_COUNT - 1; best < 0 && i >= 0; i--)
        if (!candidates[i].why_not[0] && runs_here(costs, (enum isolation)i, COST_START, &candidates[i]))
            best = i;
    return best;
}

static void write_table(const struct needs *needs, const struct candidate *candidates, int best, json_t *into)
{
    for (int i = 0; i < ISOLATION_COUNT; i++) {
        const struct candidate *candidate = &candidates[i];
        json_t *row = json_pack("{s:s}", "isolation", isolation_names[i]);
        const char *reason = candidate->why_not[0]                    ? candidate->why_not
                             : candidate->is_last_resort && i != best ? needs->effect
                                                                      : NULL;
        if (candidate->cost_ms >= 0)
            json_object_set_new(row, "cost_ms", json_real(candidate->cost_ms));
        if (reason)
            json_object_set_new(row, "not", json_string(reason));
        json_array_append_new(into, row);
    }
}

static void give_reason(const struct needs *needs, const struct candidate *best, enum isolation isolation,
                        char *into, size_t size)
{
    if (needs->is_module)
        snprintf(into, size, "a WebAssembly module");
    else if (needs->is_plain && needs->computes[0])
        snprintf(into, size,
                 "plain code that may compute long (%s), and what costs least here: %.1f ms for a "
                 "sample of work",
                 needs->computes, best->cost_ms);
    else if (needs->is_plain)
        snprintf(into, size, "plain code, and what costs least here: %.1f ms for the least run",
                 best->cost_ms);
    else if (best->is_last_resort)
        snprintf(into, size, "%s does not run here, and this one is allowed; %s",
                 isolation_names[needs->policy->isolation], needs->effect);
    else if (isolation == needs->least && needs->least >= needs->policy->isolation)
        snprintf(into, size, "the least that is asked for");
    else
        snprintf(into, size, "%s", needs->effect);
}

static int choose_among(const struct needs *needs, struct cost_table *costs, struct choice *ret,
                        struct error *err)
{
    struct candidate candidates[ISOLATION_COUNT];
    for (int i = 0; i < ISOLATION_COUNT; i++)
        consider(needs, (enum isolation)i, &candidates[i]);
    int best = needs->is_plain ? find_cheapest(needs, costs, candidates) : find_first(costs, candidates);
    write_table(needs, candidates, best, ret->table);
    if (best < 0)
        return error_spec(err, "isolation",
                          "isolation: auto: no engine that is at least as strong as '%s' runs this here; %s: "
                          "%s",
                          isolation_names[needs->least], isolation_names[needs->spec->isolation],
                          candidates[needs->spec->isolation].why_not);
    ret->isolation = (enum isolation)best;
    give_reason(needs, &candidates[best], ret->isolation, ret->reason, sizeof ret->reason);
    return 0;
}

int choose_engine(const struct spec *spec, const struct policy *policy, struct choice *ret, struct error *err)
{
    struct needs needs = {.spec = spec,
                          .policy = policy,
                          .least = policy->isolation_min > spec->isolation_min ? policy->isolation_min
                                                                               : spec->isolation_min,
                          .effect = "only python and javascript are read before they run"};
    *ret = (struct choice){.table = json_array()};
    find_language(&needs);
    if (needs.is_readable && needs.least < policy->isolation)
        look(&needs);
    struct cost_table costs;
    cost_table_open(&costs, spec, policy, needs.language);
    int status = choose_among(&needs, &costs, ret, err);
    cost_table_close(&costs);
    return status;
}

void choice_free(struct choice *choice)
{
    json_decref(choice->table);
    choice->table = NULL;
}
