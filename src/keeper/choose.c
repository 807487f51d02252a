#include "keeper/choose.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "keeper/record.h"
#include "keeper/run.h"
#include "runtime/language.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COST_RUNS = 3, COST_KEPT_S = 7 * 24 * 3600, COSTS_MAX = 64 << 10 };

static const struct supervise_io silent = {.forward_fd = {-1, -1}, .cancel_fd = -1};

/* What Python for wasm has, of what plain code imports. */
static const char *const plain_modules[] = {
    "abc",         "array",       "base64",     "bisect", "cmath",     "collections", "copy",     "csv",
    "dataclasses", "datetime",    "decimal",    "enum",   "fractions", "functools",   "hashlib",  "heapq",
    "io",          "itertools",   "json",       "math",   "numbers",   "operator",    "pprint",   "random",
    "re",          "secrets",     "statistics", "string", "struct",    "sys",         "textwrap", "time",
    "typing",      "unicodedata", "uuid",       "zlib"};

/* ---- what an engine costs here ---- */

/* The least that this language can be asked for. */
static int set_least(struct spec *spec, enum isolation isolation, const char *language, struct error *err)
{
    bool has_least = strcmp(language, "python") == 0 || strcmp(language, "javascript") == 0;
    if (!has_least)
        return spec_set_proof(spec, isolation, err);
    int status = spec_set(spec, "isolation", isolation_names[isolation], err);
    if (status == 0)
        status = spec_set(spec, "language", language, err);
    return status < 0 ? status : spec_set(spec, "code", "1", err);
}

/* Milliseconds of the fastest of a few runs; -1: it does not run here. */
static double measure_cost(enum isolation isolation, const char *language, const struct policy *policy)
{
    double least_ms = -1;
    for (int i = 0; i < COST_RUNS; i++) {
        struct error err = {0};
        struct result *result = NULL;
        scope_spec *spec = spec_new();
        int64_t started_us = clock_monotonic_us();
        bool is_well = spec && set_least(spec, isolation, language, &err) == 0 &&
                       spec_set(spec, "vet", "off", &err) == 0 &&
                       keeper_run(spec, policy, &silent, &result, &err) == 0 && result->cause == CAUSE_exit &&
                       result->exit_code == 0;
        double took_ms = (double)(clock_monotonic_us() - started_us) / 1000;
        result_free(result);
        if (!is_well)
            return -1;
        if (least_ms < 0 || took_ms < least_ms)
            least_ms = took_ms;
    }
    return least_ms;
}

static void costs_path(char *into, size_t size)
{
    char state[400];
    record_state_path(state, sizeof state);
    snprintf(into, size, "%s/costs.json", state);
}

/* What was measured lately; an object, perhaps empty. It is a hint: whoever could change it could run
 * anything anyway. */
static json_t *read_costs(void)
{
    char path[450];
    scope_buffer text = {0};
    costs_path(path, sizeof path);
    json_t *costs = file_read_whole(AT_FDCWD, path, COSTS_MAX, &text) == 0
                        ? json_loadb(text.data, text.length, 0, NULL)
                        : NULL;
    json_int_t made = json_integer_value(json_object_get(costs, "made"));
    if (json_is_object(costs) && made <= time(NULL) && made > time(NULL) - COST_KEPT_S)
        return costs;
    json_decref(costs);
    return json_pack("{s:I}", "made", (json_int_t)time(NULL));
}

static void write_costs(const json_t *costs)
{
    char path[450], unfinished[480];
    costs_path(path, sizeof path);
    snprintf(unfinished, sizeof unfinished, "%s.%d", path, (int)getpid());
    scope_free char *text = json_dumps(costs, JSON_INDENT(1));
    scope_fd fd = text ? open(unfinished, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644) : -1;
    if (fd < 0)
        return;
    if (file_write_all(fd, text, strlen(text)) < 0 || rename(unfinished, path) < 0)
        unlink(unfinished);
}

static double cost_of(json_t *costs, enum isolation isolation, const char *language,
                      const struct policy *policy)
{
    char key[96];
    snprintf(key, sizeof key, "%.40s/%s", language, isolation_names[isolation]);
    const json_t *known = json_object_get(costs, key);
    if (json_is_number(known))
        return json_number_value(known);
    double cost = measure_cost(isolation, language, policy);
    json_object_set_new(costs, key, json_real(cost));
    return cost;
}

/* ---- what code needs ---- */

struct needs {
    const struct spec *spec;
    const struct policy *policy;
    char language[64];
    bool is_module, is_plain;
    const char *not_plain; /* why not */
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
}

/* NULL: it can. */
static const char *why_not(const struct needs *needs, enum isolation isolation)
{
    const struct spec *spec = needs->spec;
    bool is_plain_language =
        strcmp(needs->language, "python") == 0 || strcmp(needs->language, "javascript") == 0;
    if (needs->is_module)
        return isolation == ISOLATION_WASM ? NULL : "it runs no modules";
    if (isolation == ISOLATION_WASM) {
        if (spec->command.count || !is_plain_language)
            return "it has wasm, python and javascript only";
        for (size_t i = 0; i < spec->grant_count; i++)
            if (spec->grants[i].kind != GRANT_INPUT)
                return "it shows no paths of the host";
        return needs->is_plain ? NULL : needs->not_plain;
    }
    if (isolation == ISOLATION_PROCESS && strcmp(spec->image, "host") != 0)
        return "it has no image but the host's";
    if (isolation < needs->policy->isolation && !needs->is_plain)
        return needs->not_plain;
    return NULL;
}

static bool is_plain_module(const char *name)
{
    size_t length = strcspn(name, ".");
    for (size_t i = 0; i < sizeof plain_modules / sizeof *plain_modules; i++)
        if (strlen(plain_modules[i]) == length && strncmp(name, plain_modules[i], length) == 0)
            return true;
    return false;
}

static void judge(struct needs *needs, const json_t *facts)
{
    size_t index;
    json_t *item;
    needs->not_plain = "the code uses files, processes or the network, or cannot be read";
    if (!json_is_true(json_object_get(facts, "pure")))
        return;
    needs->not_plain = "the code imports what not every engine has";
    json_array_foreach(json_object_get(facts, "imports"), index, item)
    {
        if (!json_is_string(item) || strcmp(needs->language, "python") != 0 ||
            !is_plain_module(json_string_value(item)))
            return;
    }
    needs->is_plain = true;
}

/* Reads the code, in a box of the usual engine. */
static void look(struct needs *needs)
{
    const struct spec *spec = needs->spec;
    struct error ignored = {0};
    struct result *result = NULL;
    scope_spec *only = spec_new();
    bool is_set = only && spec_set(only, "vet", "only", &ignored) == 0 &&
                  spec_set(only, "language", needs->language, &ignored) == 0 &&
                  spec_set(only, "image", spec->image, &ignored) == 0 &&
                  buffer_append(&only->code, spec->code.data, spec->code.length) == 0;
    if (is_set)
        only->has_code = true;
    if (is_set && keeper_run(only, needs->policy, &silent, &result, &ignored) == 0)
        judge(needs, json_object_get(result->vet, "facts"));
    result_free(result);
}

/* ---- the choice ---- */

static void note(json_t *table, enum isolation isolation, double cost_ms, const char *reason)
{
    json_t *row = json_pack("{s:s}", "isolation", isolation_names[isolation]);
    if (cost_ms >= 0)
        json_object_set_new(row, "cost_ms", json_real(cost_ms));
    if (reason)
        json_object_set_new(row, "not", json_string(reason));
    json_array_append_new(table, row);
}

static int choose_among(const struct needs *needs, enum isolation least, json_t *costs, struct choice *ret,
                        struct error *err)
{
    int best = -1;
    double best_ms = 0;
    for (int i = 0; i < ISOLATION_COUNT; i++) {
        enum isolation isolation = (enum isolation)i;
        const char *reason = isolation < least ? "it is below what is asked for" : why_not(needs, isolation);
        bool counts = needs->is_plain || best < 0; /* else the weakest that can is it */
        double cost_ms =
            reason || !needs->is_plain ? -1 : cost_of(costs, isolation, needs->language, needs->policy);
        if (!reason && needs->is_plain && cost_ms < 0)
            reason = "it does not run here";
        note(ret->table, isolation, cost_ms, reason ? reason : counts ? NULL : "a weaker one is enough");
        if (!reason && counts && (best < 0 || cost_ms < best_ms)) {
            best = i;
            best_ms = cost_ms;
        }
    }
    if (best < 0)
        return error_spec(err, "isolation",
                          "isolation: auto: no engine that can run this is at least as strong as '%s'",
                          isolation_names[least]);
    ret->isolation = (enum isolation)best;
    if (needs->is_plain)
        snprintf(ret->reason, sizeof ret->reason,
                 "plain code, and what costs least here: %.1f ms for the least run", best_ms);
    else
        snprintf(ret->reason, sizeof ret->reason, "%s",
                 needs->is_module                                          ? "a WebAssembly module"
                 : best == (int)least && least >= needs->policy->isolation ? "the least that is asked for"
                                                                           : needs->not_plain);
    return 0;
}

int choose_engine(const struct spec *spec, const struct policy *policy, bool looks, struct choice *ret,
                  struct error *err)
{
    struct needs needs = {.spec = spec, .policy = policy, .not_plain = "the code was not read before"};
    enum isolation least =
        policy->isolation_min > spec->isolation_min ? policy->isolation_min : spec->isolation_min;
    *ret = (struct choice){.table = json_array()};
    find_language(&needs);
    bool is_readable = spec->has_code &&
                       (strcmp(needs.language, "python") == 0 || strcmp(needs.language, "javascript") == 0);
    if (!is_readable)
        needs.not_plain = "only python and javascript are read before they run";
    if (looks && is_readable && least < policy->isolation)
        look(&needs);
    json_t *costs = read_costs();
    size_t known = json_object_size(costs);
    int status = choose_among(&needs, least, costs, ret, err);
    if (json_object_size(costs) > known)
        write_costs(costs);
    json_decref(costs);
    return status;
}

void choice_free(struct choice *choice)
{
    json_decref(choice->table);
    choice->table = NULL;
}
