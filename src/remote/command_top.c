/* cloche top: live figures of a server. */
#include "remote/remote.h"

#include "cli/command.h"
#include "cli/report.h"

#include "base/clock.h"
#include "base/text.h"
#include "spec/warm.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PERIOD_MS = 1000, PERIOD_LEAST_MS = 100 };

struct top {
    struct http *http;
    int64_t period_ms;
    bool json, once;
    int64_t last_runs, last_us; /* of the look before; -1: there was none */
};

static int64_t number_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_real(value) ? (int64_t)json_real_value(value) : json_integer_value(value);
}

static double real_of(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

static void print_size(const char *label, int64_t bytes)
{
    char text[32];
    printf("%s%s", label, text_format_size(bytes, text, sizeof text));
}

static int64_t count_runs(const json_t *stats)
{
    const char *cause;
    json_t *count;
    int64_t total = 0;
    json_object_foreach(json_object_get(stats, "runs"), cause, count) total += json_integer_value(count);
    return total;
}

static void print_runs(struct top *top, const json_t *stats)
{
    const json_t *latency = json_object_get(stats, "latency");
    int64_t runs = count_runs(stats), now_us = clock_monotonic_us();
    printf("runs       %lld", (long long)runs);
    if (top->last_us)
        printf(", %.1f a second",
               (double)(runs - top->last_runs) * 1e6 / (double)(now_us - top->last_us + 1));
    printf(", %lld refused; latency median %.2f ms, 99 of 100 below %.2f ms\n",
           (long long)number_of(stats, "runs_refused"), real_of(latency, "p50_ms"),
           real_of(latency, "p99_ms"));
    top->last_runs = runs;
    top->last_us = now_us;
    const char *cause;
    json_t *count;
    bool is_first = true;
    json_object_foreach(json_object_get(stats, "runs"), cause, count)
    {
        if (json_integer_value(count))
            printf("%s%s %lld", is_first ? "           " : ", ", cause, (long long)json_integer_value(count));
        is_first &= !json_integer_value(count);
    }
    printf("%s", is_first ? "" : "\n");
}

static void print_kinds(const json_t *pool)
{
    size_t index;
    json_t *kind;
    printf("\n%-22s %-24s %7s %9s %9s %9s\n", "KIND", "IMAGE", "READY", "HITS", "MISSES", "EACH");
    json_array_foreach(json_object_get(pool, "kinds"), index, kind)
    {
        char each[32], image[140];
        const char *set = remote_text(kind, "preload");
        bool is_usual = !*set || strcmp(set, WARM_SET_DEFAULT) == 0;
        snprintf(image, sizeof image, "%s%s%s", remote_text(kind, "image"), is_usual ? "" : " ",
                 is_usual ? "" : set);
        printf("%-22s %-24s %7lld %9lld %9lld %9s\n", remote_text(kind, "kind"), image,
               (long long)number_of(kind, "spares"), (long long)number_of(kind, "hits"),
               (long long)number_of(kind, "misses"),
               text_format_size(number_of(kind, "spare_bytes"), each, sizeof each));
    }
}

static void print_stats(struct top *top, const json_t *stats)
{
    const json_t *memory = json_object_get(stats, "memory"), *machine = json_object_get(stats, "machine");
    const json_t *pool = json_object_get(stats, "pool"), *queue = json_object_get(stats, "queue");
    const json_t *quotas = json_object_get(json_object_get(stats, "tenant"), "quotas");
    char age[32];
    printf("cloche %s, up %s%s", remote_text(stats, "version"),
           text_format_duration(number_of(stats, "uptime_s") * 1000, age, sizeof age),
           json_is_true(json_object_get(stats, "single_user")) ? ", single-user" : "");
    if (!queue) { /* the key is no operator's: what is told is of the tenant */
        printf("; figures of %s\n", remote_text(json_object_get(stats, "tenant"), "name"));
        print_runs(top, stats);
        printf("now        %lld running or waiting, %lld boxes\n",
               (long long)number_of(json_object_get(quotas, "runs"), "used"),
               (long long)number_of(json_object_get(quotas, "boxes"), "used"));
        return;
    }
    printf(", %lld connections\n", (long long)number_of(stats, "connections"));
    print_runs(top, stats);
    printf("now        %lld running, %lld waiting, %lld boxes of yours\n",
           (long long)number_of(queue, "running"), (long long)number_of(queue, "waiting"),
           (long long)number_of(json_object_get(quotas, "boxes"), "used"));
    printf("pool       %lld boxes ready, %lld hits, %lld misses\n", (long long)number_of(pool, "spares"),
           (long long)number_of(pool, "hits"), (long long)number_of(pool, "misses"));
    print_size("memory     server ", number_of(memory, "server_bytes"));
    print_size(", keeper ", number_of(memory, "keeper_bytes"));
    print_size("; machine ", number_of(machine, "memory_free_bytes"));
    print_size(" free of ", number_of(machine, "memory_bytes"));
    printf(", %lld CPUs, load %.2f\n", (long long)number_of(machine, "cpus"), real_of(machine, "load"));
    print_kinds(pool);
}

/* False: a signal came. */
static bool rest(const struct top *top)
{
    struct pollfd polled = {.fd = http_cancel_fd(top->http), .events = POLLIN};
    return poll(&polled, 1, (int)top->period_ms) == 0;
}

static int watch(struct top *top, struct error *err)
{
    bool is_live = !top->once && !top->json && isatty(STDOUT_FILENO);
    int status;
    do {
        json_t *stats = NULL;
        status = http_ask(top->http, "GET", "/v1/stats", NULL, &stats, err);
        if (status == 0 && top->json) {
            remote_print_json(stats);
        } else if (status == 0) {
            if (is_live)
                printf("\033[H\033[2J");
            print_stats(top, stats);
            fflush(stdout);
        }
        json_decref(stats);
    } while (status == 0 && is_live && rest(top));
    return status == -ECANCELED ? 0 : status;
}

int top_main(int argc, char **argv)
{
    struct error err = {0};
    struct top top = {.period_ms = PERIOD_MS};
    struct option_parser parser = {.argc = argc, .argv = argv, .at = 1};
    const struct option_row *row;
    const char *value;
    int status = 0;
    for (enum option_kind kind; (kind = option_next(&parser, &command_top, &row, &value)) != OPTION_END;) {
        if (kind != OPTION_ROW)
            return option_refuse(&parser, &command_top);
        if (strcmp(row->name, "help") == 0) {
            help_print(&command_top);
            return 0;
        }
        top.json |= strcmp(row->name, "json") == 0;
        top.once |= strcmp(row->name, "once") == 0;
        if (strcmp(row->name, "interval") == 0 &&
            (!text_parse_duration(value, &top.period_ms) || top.period_ms < PERIOD_LEAST_MS))
            status = error_spec(&err, "interval", "interval: '%.32s' is not a time from 100ms on", value);
    }
    if (status == 0)
        status = remote_connect(&top.http, &err);
    if (status == 0)
        status = watch(&top, &err);
    http_close(top.http);
    return status < 0 ? remote_fail(&err) : 0;
}
