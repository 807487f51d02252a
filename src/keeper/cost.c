#include "keeper/cost.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/scope.h"
#include "keeper/record.h"
#include "keeper/run.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { COST_RUNS = 3, COST_KEPT_S = 7 * 24 * 3600, COSTS_MAX = 64 << 10 };

static const struct supervise_io silent = {.forward_fd = {-1, -1}, .cancel_fd = -1};

/* Programs to measure with: nothing at all, and some tens of milliseconds of work. */
static const struct {
    const char *language, *code[2];
} samples[] = {
    {"python", {"1", "s = 0\nfor i in range(300000):\n    s += i * i % 7\n"}},
    {"javascript", {"1", "let s = 0; for (let i = 0; i < 3000000; i++) s += i * i % 7;"}},
};

static const char *sample_of(const char *language, enum cost_kind kind)
{
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        if (strcmp(language, samples[i].language) == 0)
            return samples[i].code[kind];
    return NULL;
}

/* In a box as that of the run would be; other languages by the least that the engine can be asked for. */
static int set_sample(const struct cost_table *table, struct spec *spec, enum isolation isolation,
                      enum cost_kind kind, struct error *err)
{
    const char *code = sample_of(table->language, kind);
    int status = code ? spec_set(spec, "isolation", isolation_names[isolation], err)
                      : spec_set_proof(spec, isolation, err);
    if (status == 0 && code)
        status = spec_set(spec, "language", table->language, err);
    if (status == 0 && code)
        status = spec_set(spec, "code", code, err);
    if (status == 0 && code)
        status = spec_set(spec, "image", table->spec->image, err);
    spec->is_ours = true; /* nobody vets it */
    return status < 0 ? status : string_list_copy(&spec->accepted, &table->spec->accepted);
}

static int run_sample(const struct cost_table *table, enum isolation isolation, enum cost_kind kind,
                      struct error *err)
{
    struct result *result = NULL;
    scope_spec *spec = spec_new();
    int status = spec ? set_sample(table, spec, isolation, kind, err) : error_host(err, -ENOMEM, "no memory");
    if (status == 0)
        status = keeper_run(spec, table->policy, &silent, &result, err);
    if (status == 0 && (result->cause != CAUSE_exit || result->exit_code != 0))
        status = error_host(err, -EIO, "a sample did not end well (%s)", cause_names[result->cause]);
    result_free(result);
    return status;
}

/* Of the fastest of a few runs. */
static double measure(const struct cost_table *table, enum isolation isolation, enum cost_kind kind,
                      struct error *err)
{
    double least_ms = -1;
    for (int i = 0; i < COST_RUNS; i++) {
        int64_t started_us = clock_monotonic_us();
        if (run_sample(table, isolation, kind, err) < 0)
            return -1;
        double took_ms = (double)(clock_monotonic_us() - started_us) / 1000;
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

/* Where another set of WebAssembly's modules is, or none any more, figures are of no use. */
static json_t *name_modules(void)
{
    char name[64];
    struct stat modules = {0};
    if (stat("/usr/local/lib/cloche/wasm", &modules) < 0)
        (void)!stat("/usr/lib/cloche/wasm", &modules);
    snprintf(name, sizeof name, "%llx %lld.%09ld", (unsigned long long)modules.st_ino,
             (long long)modules.st_mtim.tv_sec, modules.st_mtim.tv_nsec);
    return json_string(name);
}

static bool are_of(const json_t *figures, const json_t *modules)
{
    const json_t *known = json_object_get(figures, "modules");
    return !known || json_equal(known, modules);
}

/* It is a hint: whoever could change it could run anything anyway. */
void cost_table_open(struct cost_table *table, const struct spec *spec, const struct policy *policy,
                     const char *language)
{
    char path[450];
    scope_buffer text = {0};
    costs_path(path, sizeof path);
    json_t *figures = file_read_whole(AT_FDCWD, path, COSTS_MAX, &text) == 0
                          ? json_loadb(text.data, text.length, 0, NULL)
                          : NULL;
    json_int_t made = json_integer_value(json_object_get(figures, "made")), now = (json_int_t)time(NULL);
    json_t *modules = name_modules();
    if (!json_is_object(figures) || made > now || made <= now - COST_KEPT_S || !are_of(figures, modules)) {
        json_decref(figures);
        figures = json_pack("{s:I,s:O}", "made", now, "modules", modules);
    }
    json_decref(modules);
    *table = (struct cost_table){.spec = spec, .policy = policy, .language = language, .figures = figures};
}

static void write_figures(const json_t *figures)
{
    char path[450], unfinished[480];
    costs_path(path, sizeof path);
    snprintf(unfinished, sizeof unfinished, "%s.%d", path, (int)gettid());
    scope_free char *text = json_text(figures, JSON_INDENT(1));
    scope_fd fd = text ? open(unfinished, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644) : -1;
    if (fd < 0)
        return;
    if (file_write_all(fd, text, strlen(text)) < 0 || rename(unfinished, path) < 0)
        unlink(unfinished);
}

void cost_table_close(struct cost_table *table)
{
    if (table->has_grown)
        write_figures(table->figures);
    json_decref(table->figures);
    table->figures = NULL;
}

/* python/container/work@data+memory: all that makes a difference. */
static int write_key(const struct cost_table *table, enum isolation isolation, enum cost_kind kind,
                     struct buffer *into)
{
    bool has_sample = sample_of(table->language, kind) != NULL;
    int status = buffer_print(into, "%s/%s%s", has_sample ? table->language : "any",
                              isolation_names[isolation], kind == COST_WORK ? "/work" : "");
    if (status == 0 && has_sample && strcmp(table->spec->image, "host") != 0)
        status = buffer_print(into, "@%s", table->spec->image);
    for (size_t i = 0; status == 0 && i < table->spec->accepted.count; i++)
        status = buffer_print(into, "+%s", table->spec->accepted.items[i]);
    if (status == 0 && isolation == ISOLATION_GVISOR && table->policy->oci_runtime)
        status = buffer_print(into, " %s", table->policy->oci_runtime);
    return status;
}

double cost_of(struct cost_table *table, enum isolation isolation, enum cost_kind kind, struct error *err)
{
    scope_buffer key = {0};
    if (write_key(table, isolation, kind, &key) < 0) {
        error_host(err, -ENOMEM, "no memory");
        return -1;
    }
    double known_ms = json_number_value(json_object_get(table->figures, key.data));
    if (known_ms > 0)
        return known_ms;
    double cost_ms = measure(table, isolation, kind, err);
    if (cost_ms > 0)
        table->has_grown |= json_object_set_new(table->figures, key.data, json_real(cost_ms)) == 0;
    return cost_ms;
}
