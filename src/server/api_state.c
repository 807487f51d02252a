/* Figures: for Prometheus, and for people; and what holds on this machine. */
#include "base/clock.h"
#include "base/scope.h"
#include "keeper/client.h"
#include "server/admission.h"
#include "server/keeper_link.h"
#include "server/route.h"
#include "server/sandbox_request.h"
#include "server/server.h"
#include "server/store.h"
#include "server/tenant.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

enum { DOCTOR_KEPT_US = 60000000, DOCTOR_WALL_MS = 10000 };

static int64_t own_memory_bytes(const struct server *server)
{
    char text[128];
    long long pages = 0;
    ssize_t length = pread(server->memory_fd, text, sizeof text - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    return sscanf(text, "%*s %lld", &pages) == 1 ? pages * sysconf(_SC_PAGESIZE) : 0;
}

static int ask_state(struct exchange *exchange, json_t **ret)
{
    struct error err = {0};
    int status = keeper_ask(exchange_server(exchange), json_pack("{s:s}", "type", "state"), ret, &err);
    if (status < 0)
        exchange_reply_problem(exchange, &err);
    return status;
}

/* ---- /metrics ---- */

static void print_head(struct buffer *into, const char *name, const char *type, const char *help)
{
    buffer_print(into, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void print_one(struct buffer *into, const char *name, const char *type, const char *help,
                      long long value)
{
    print_head(into, name, type, help);
    buffer_print(into, "%s %lld\n", name, value);
}

/* `label`: "", or one with a comma behind it. */
static void print_histogram(struct buffer *into, const char *name, const char *label, const long long *counts,
                            long long sum_us)
{
    char alone[40] = "";
    long long seen = 0;
    for (int i = 0; i < HISTOGRAM_BUCKETS - 1; i++)
        buffer_print(into, "%s_bucket{%sle=\"%g\"} %lld\n", name, label, (double)histogram_bounds_us[i] / 1e6,
                     seen += counts[i]);
    seen += counts[HISTOGRAM_BUCKETS - 1];
    if (label[0])
        snprintf(alone, sizeof alone, "{%.*s}", (int)strlen(label) - 1, label);
    buffer_print(into, "%s_bucket{%sle=\"+Inf\"} %lld\n%s_sum%s %.6f\n%s_count%s %lld\n", name, label, seen,
                 name, alone, (double)sum_us / 1e6, name, alone, seen);
}

static void print_runs(struct buffer *into, const struct metrics *metrics)
{
    static const char name[] = "cloche_run_duration_seconds";
    print_head(into, "cloche_runs_total", "counter", "Runs that ended, by cause.");
    for (int i = 0; i < CAUSE_COUNT; i++)
        buffer_print(into, "cloche_runs_total{cause=\"%s\"} %lld\n", cause_names[i],
                     (long long)atomic_load(&metrics->runs[i]));
    print_one(into, "cloche_runs_refused_total", "counter", "Runs that were never started.",
              atomic_load(&metrics->runs_refused));
    print_head(into, name, "histogram", "POST /v1/run, from the request to its result.");
    long long counts[HISTOGRAM_BUCKETS];
    for (int i = 0; i < HISTOGRAM_BUCKETS; i++)
        counts[i] = atomic_load(&metrics->latency.buckets[i]);
    print_histogram(into, name, "", counts, atomic_load(&metrics->latency.sum_us));
}

/* How far runs had come after how long, as the keeper saw it. */
static void print_milestones(struct buffer *into, const json_t *milestones)
{
    static const char name[] = "cloche_run_milestone_seconds";
    print_head(
        into, name, "histogram",
        "From the request (T0) until the program was let go (T1), its first output (T2), its end (T3), "
        "and until what it had is free again (T4).");
    const char *milestone;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)milestones, milestone, value)
    {
        char label[32];
        long long counts[HISTOGRAM_BUCKETS];
        snprintf(label, sizeof label, "milestone=\"%.8s\",", milestone);
        for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
            counts[i] = json_integer_value(json_array_get(json_object_get(value, "counts"), i));
        print_histogram(into, name, label, counts, json_integer_value(json_object_get(value, "sum_us")));
    }
}

static void print_pool(struct buffer *into, const json_t *state)
{
    static const struct {
        const char *name, *field, *type, *help;
    } rows[] = {
        {"cloche_pool_spares", "spares", "gauge", "Boxes that are ready."},
        {"cloche_pool_target", "target", "gauge", "Boxes that should be ready."},
        {"cloche_pool_hits_total", "hits", "counter", "Runs that found a box ready."},
        {"cloche_pool_misses_total", "misses", "counter", "Runs that did not."},
        {"cloche_pool_failures_total", "failures", "counter", "Boxes that could not be made."},
        {"cloche_pool_spare_bytes", "spare_bytes", "gauge", "Private memory of a box that waits."},
        {"cloche_pool_zygotes", "zygotes", "gauge", "Interpreters that boxes are forked from."},
    };
    const json_t *kinds = json_object_get(state, "kinds");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        print_head(into, rows[i].name, rows[i].type, rows[i].help);
        size_t index;
        json_t *kind;
        json_array_foreach(kinds, index, kind)
        {
            const char *image = json_string_value(json_object_get(kind, "image"));
            const char *preload = json_string_value(json_object_get(kind, "preload"));
            buffer_print(into, "%s{kind=\"%s\",image=\"%s\",preload=\"%s\"} %lld\n", rows[i].name,
                         json_string_value(json_object_get(kind, "kind")), image ? image : "",
                         preload ? preload : "",
                         (long long)json_integer_value(json_object_get(kind, rows[i].field)));
        }
    }
}

static void print_queue(struct buffer *into, const struct server *server)
{
    struct admission_state state;
    admission_get_state(server->admission, &state);
    print_one(into, "cloche_queue_waiting", "gauge", "Runs that wait for memory or CPUs.", state.waiting);
    print_one(into, "cloche_admitted_memory_bytes", "gauge", "Memory limits of the runs under way.",
              state.memory_bytes);
    print_one(into, "cloche_held_memory_bytes", "gauge", "Memory of live boxes in which nothing runs.",
              state.held_bytes);
    print_head(into, "cloche_refused_total", "counter", "Runs that were not let in, by reason.");
    buffer_print(into, "cloche_refused_total{reason=\"quota\"} %lld\n", (long long)state.refused_quota);
    buffer_print(into, "cloche_refused_total{reason=\"full\"} %lld\n", (long long)state.refused_full);
    buffer_print(into, "cloche_refused_total{reason=\"late\"} %lld\n", (long long)state.refused_late);
}

static int answer_metrics(struct exchange *exchange)
{
    struct server *server = exchange_server(exchange);
    json_t *state = NULL;
    struct buffer text = {0};
    if (!exchange_is_operator(exchange))
        return exchange_reply_error(exchange, 403, "forbidden", NULL, "make one: `cloche key add --operator`",
                                    "figures of all tenants are for an operator's key");
    if (ask_state(exchange, &state) < 0)
        return 0;
    print_runs(&text, &server->metrics);
    print_milestones(&text, json_object_get(state, "milestones"));
    print_pool(&text, state);
    print_one(&text, "cloche_running", "gauge", "Runs under way.",
              json_integer_value(json_object_get(state, "running")));
    print_queue(&text, server);
    print_one(&text, "cloche_connections", "gauge", "Connections of clients.",
              atomic_load(&server->metrics.connections));
    print_head(&text, "cloche_http_responses_total", "counter", "Answers, by class of their status.");
    for (int i = 2; i < 6; i++)
        buffer_print(&text, "cloche_http_responses_total{class=\"%dxx\"} %lld\n", i,
                     (long long)atomic_load(&server->metrics.requests[i]));
    print_head(&text, "cloche_memory_bytes", "gauge", "Resident memory of our processes.");
    buffer_print(&text, "cloche_memory_bytes{process=\"server\"} %lld\n",
                 (long long)own_memory_bytes(server));
    buffer_print(&text, "cloche_memory_bytes{process=\"keeper\"} %lld\n",
                 (long long)json_integer_value(json_object_get(state, "memory_bytes")));
    json_decref(state);
    return exchange_reply_text(exchange, 200, "text/plain; version=0.0.4; charset=utf-8", &text);
}

/* ---- /v1/stats ---- */

static json_t *latency_object(const struct histogram *latency)
{
    json_t *buckets = json_array();
    for (int i = 0; i < HISTOGRAM_BUCKETS; i++)
        json_array_append_new(buckets, json_pack("{s:o, s:I}", "below_ms",
                                                 i < HISTOGRAM_BUCKETS - 1
                                                     ? json_real((double)histogram_bounds_us[i] / 1000)
                                                     : json_null(),
                                                 "runs", (json_int_t)atomic_load(&latency->buckets[i])));
    long long count = histogram_count(latency);
    return json_pack("{s:I, s:f, s:f, s:f, s:o}", "runs", (json_int_t)count, "mean_ms",
                     count ? (double)atomic_load(&latency->sum_us) / 1000 / (double)count : 0.0, "p50_ms",
                     (double)histogram_quantile_us(latency, 0.5) / 1000, "p99_ms",
                     (double)histogram_quantile_us(latency, 0.99) / 1000, "buckets", buckets);
}

static json_t *machine_object(void)
{
    struct sysinfo info = {0};
    sysinfo(&info);
    return json_pack("{s:i, s:I, s:I, s:f}", "cpus", get_nprocs(), "memory_bytes",
                     (json_int_t)info.totalram * info.mem_unit, "memory_free_bytes",
                     (json_int_t)info.freeram * info.mem_unit, "load", (double)info.loads[0] / 65536);
}

static json_t *queue_object(const struct server *server)
{
    struct admission_state state;
    admission_get_state(server->admission, &state);
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f}", "running", (json_int_t)state.running,
                     "waiting", (json_int_t)state.waiting, "depth", (json_int_t)state.queue_depth,
                     "memory_bytes", (json_int_t)state.memory_bytes, "held_bytes",
                     (json_int_t)state.held_bytes, "memory_total_bytes", (json_int_t)state.memory_total_bytes,
                     "cpus", (double)state.millicpus / 1000, "cpus_total",
                     (double)state.millicpus_total / 1000);
}

static void add_used(json_t *tenant, enum quota_field field, json_int_t amount)
{
    json_t *quota = json_object_get(json_object_get(tenant, "quotas"), quota_rows[field].name);
    json_int_t claimed = json_integer_value(json_object_get(quota, "used"));
    json_object_set_new(quota, "used", json_integer(claimed + amount));
}

/* Beside what is claimed at this moment: what the keeper and the store have. NULL: the answer is set. */
static json_t *tenant_object(struct exchange *exchange)
{
    json_t *count = NULL;
    if (sandbox_ask(exchange, sandbox_request(exchange, "count"), &count) < 0)
        return NULL;
    const struct tenant *tenant = exchange_tenant(exchange);
    json_t *object = tenant_to_json(tenant);
    add_used(object, QUOTA_boxes, json_integer_value(json_object_get(count, "owner_boxes")));
    add_used(object, QUOTA_memory, json_integer_value(json_object_get(count, "owner_memory_bytes")));
    add_used(object, QUOTA_disk, json_integer_value(json_object_get(count, "owner_disk_bytes")));
    add_used(object, QUOTA_uploads, store_used_bytes(exchange_server(exchange)->store, tenant->name));
    json_decref(count);
    return object;
}

/* Figures of all tenants, and of the machine: they tell of each what it does. */
static int add_whole(struct exchange *exchange, json_t *stats)
{
    struct server *server = exchange_server(exchange);
    json_t *state = NULL;
    int status = ask_state(exchange, &state);
    if (status < 0)
        return status;
    json_object_set_new(stats, "memory",
                        json_pack("{s:I, s:O?}", "server_bytes", (json_int_t)own_memory_bytes(server),
                                  "keeper_bytes", json_object_get(state, "memory_bytes")));
    json_object_set_new(stats, "connections", json_integer(atomic_load(&server->metrics.connections)));
    json_object_set_new(stats, "pool", state);
    json_object_set_new(stats, "machine", machine_object());
    json_object_set_new(stats, "queue", queue_object(server));
    return 0;
}

static int answer_stats(struct exchange *exchange)
{
    struct server *server = exchange_server(exchange);
    bool is_whole = exchange_is_operator(exchange);
    const struct metrics *metrics = is_whole ? &server->metrics : exchange_tenant(exchange)->metrics;
    json_t *tenant = tenant_object(exchange);
    if (!tenant)
        return 0;
    json_t *causes = json_object();
    for (int i = 0; i < CAUSE_COUNT; i++)
        json_object_set_new(causes, cause_names[i], json_integer((json_int_t)atomic_load(&metrics->runs[i])));
    json_t *stats = json_pack("{s:s, s:I, s:b, s:o, s:I, s:o, s:o}", "version", CLOCHE_VERSION, "uptime_s",
                              (json_int_t)((clock_monotonic_us() - server->started_us) / 1000000),
                              "single_user", tenants_is_single_user(server->tenants), "runs", causes,
                              "runs_refused", (json_int_t)atomic_load(&metrics->runs_refused), "latency",
                              latency_object(&metrics->latency), "tenant", tenant);
    if (is_whole && add_whole(exchange, stats) < 0) {
        json_decref(stats);
        return 0;
    }
    return exchange_reply_json(exchange, 200, stats);
}

/* ---- /v1/doctor ---- */

/* A box of this kind is made, proves its layers, and tells them; or says what is missing. */
static json_t *examine(struct server *server, enum isolation isolation)
{
    struct error err = {0};
    scope_spec *spec = spec_new();
    struct result *result = result_new();
    scope_buffer text = {0};
    json_t *answer = json_pack("{s:s}", "isolation", isolation_names[isolation]), *told = NULL;
    int status = spec && result ? spec_set_proof(spec, isolation, &err) : -ENOMEM;
    if (status == 0) {
        spec->is_ours = true;
        spec->limits.value[LIMIT_wall] = DOCTOR_WALL_MS;
        spec->limit_set[LIMIT_wall] = true;
        struct client_run run = {.spec = spec, .fds = {-1, -1, -1}, .wants_json = true, .cancel_fd = -1};
        int fd = keeper_link(server, &err);
        status = fd < 0 ? fd : client_run(fd, &run, result, &text, &err);
        told = status == 0 ? json_loadb(text.data, text.length, 0, NULL) : NULL;
    }
    bool is_usable = status == 0 && result->cause == CAUSE_exit && result->exit_code == 0;
    json_object_set_new(answer, "usable", json_boolean(is_usable));
    json_t *layers = json_object_get(told, "layers");
    json_object_set_new(answer, "layers", layers ? json_incref(layers) : json_array());
    if (!is_usable)
        json_object_set_new(answer, "problem",
                            json_string(err.text[0] ? err.text : "a program did not run to its end"));
    json_decref(told);
    result_free(result);
    return answer;
}

/* Boxes are made for it: not for everyone who asks, but now and then. */
static int answer_doctor(struct exchange *exchange)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static json_t *known;
    static int64_t known_us;
    struct server *server = exchange_server(exchange);
    pthread_mutex_lock(&lock);
    if (!known || clock_monotonic_us() - known_us > DOCTOR_KEPT_US) {
        json_decref(known);
        known = json_array();
        for (int i = ISOLATION_COUNT - 1; i >= 0; i--)
            json_array_append_new(known, examine(server, (enum isolation)i));
        known_us = clock_monotonic_us();
    }
    json_t *copy = json_deep_copy(known);
    pthread_mutex_unlock(&lock);
    return exchange_reply_json(exchange, 200,
                               json_pack("{s:s, s:s, s:s, s:o}", "version", CLOCHE_VERSION, "default",
                                         isolation_names[server->policy.isolation], "minimum",
                                         isolation_names[server->policy.isolation_min], "engines", copy));
}

static const struct route rows[] = {
    {"GET", "/metrics", answer_metrics, ROUTE_NOT_COUNTED, "figures for Prometheus"},
    {"GET", "/v1/stats", answer_stats, ROUTE_NOT_COUNTED, "figures of pool, runs and memory"},
    {"GET", "/v1/doctor", answer_doctor, 0, "the layers of isolation that hold on this machine, proved"},
};

const struct route_family routes_state = ROUTE_FAMILY(rows);
