/* Sends runs to a keeper that stays (`cloche keep`) and prints how long each took: for bench/warm_start.
 *
 *   warm_client latency RUNS PAUSE_MS CODE [FIELD=VALUE…]   one client, spaced: a line a run, "FIRST_US
 * END_US" warm_client load CLIENTS SECONDS CODE [FIELD=VALUE…]    clients that go on at once: lines as above,
 * then "ran N failed M in US"
 *
 * FIRST is from the request's first byte sent to the program's first byte received, END to the whole answer.
 */
#include "base/clock.h"
#include "base/scope.h"
#include "keeper/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct timing {
    int64_t first_us, end_us;
};

static int run_once(int fd, const struct spec *spec, struct timing *ret)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct client_run run = {.spec = spec, .fds = {null, ends[1], ends[1]}, .cancel_fd = -1};
    struct result *result = result_new();
    struct error err = {0};
    scope_buffer json = {0};
    char output[65536];
    int64_t started_us = clock_monotonic_us();
    int status = client_send(fd, &run, &err);
    struct pollfd polled[] = {{.fd = ends[0], .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    if (status == 0 && poll(polled, 2, -1) > 0 && polled[0].revents)
        ret->first_us = read(ends[0], output, sizeof output) > 0 ? clock_monotonic_us() - started_us : -1;
    else
        ret->first_us = -1;
    if (status == 0)
        status = client_receive(fd, &run, result, &json, &err);
    ret->end_us = clock_monotonic_us() - started_us;
    bool is_well = status == 0 && result->cause == CAUSE_exit && result->exit_code == 0;
    if (!is_well)
        fprintf(stderr, "warm_client: %s %s\n", err.text, result->detail);
    result_free(result);
    close(ends[0]);
    close(ends[1]);
    close(null);
    return is_well ? 0 : -EIO;
}

static char **fields; /* of the spec, beside the code: isolation=wasm */

static int set_field(struct spec *spec, const char *pair, struct error *err)
{
    const char *equals = strchr(pair, '=');
    char name[64];
    snprintf(name, sizeof name, "%.*s", equals ? (int)(equals - pair) : 0, pair);
    return spec_set(spec, name, equals ? equals + 1 : "", err);
}

static struct spec *make_spec(const char *code)
{
    struct policy policy;
    struct error err = {0};
    struct spec *spec = spec_new();
    bool is_set = true;
    for (char **field = fields; is_set && *field; field++)
        is_set = set_field(spec, *field, &err) == 0;
    if (!is_set || policy_load(NULL, &policy, &err) < 0 || spec_set(spec, "code", code, &err) < 0 ||
        spec_validate(spec, &policy, &err) < 0) {
        fprintf(stderr, "warm_client: %s\n", err.text);
        exit(2);
    }
    return spec;
}

static int connect_or_exit(void)
{
    int fd = client_connect();
    if (fd < 0) {
        fprintf(stderr, "warm_client: no keeper: %s\n", strerror(-fd));
        exit(2);
    }
    return fd;
}

static int measure_latency(int runs, int pause_ms, const char *code)
{
    struct spec *spec = make_spec(code);
    int fd = connect_or_exit(), failed = 0;
    for (int i = 0; i < runs; i++) {
        struct timing timing;
        usleep((useconds_t)pause_ms * 1000);
        if (run_once(fd, spec, &timing) < 0)
            failed++;
        else
            printf("%lld %lld\n", (long long)timing.first_us, (long long)timing.end_us);
    }
    close(fd);
    spec_free(spec);
    return failed ? 1 : 0;
}

struct load {
    const char *code;
    int64_t until_us;
    int64_t ran, failed;
    struct timing *timings;
    size_t count, room;
};

static void *load_main(void *data)
{
    struct load *load = data;
    struct spec *spec = make_spec(load->code);
    int fd = connect_or_exit();
    while (clock_monotonic_us() < load->until_us) {
        struct timing timing;
        if (run_once(fd, spec, &timing) < 0) {
            load->failed++;
            continue;
        }
        load->ran++;
        if (load->count == load->room) {
            load->room = load->room ? load->room * 2 : 1024;
            load->timings = realloc(load->timings, load->room * sizeof *load->timings);
        }
        load->timings[load->count++] = timing;
    }
    close(fd);
    spec_free(spec);
    return NULL;
}

static int measure_load(int clients, int seconds, const char *code)
{
    struct load *loads = calloc((size_t)clients, sizeof *loads);
    pthread_t *threads = calloc((size_t)clients, sizeof *threads);
    int64_t started_us = clock_monotonic_us(), ran = 0, failed = 0;
    for (int i = 0; i < clients; i++) {
        loads[i] = (struct load){.code = code, .until_us = started_us + (int64_t)seconds * 1000000};
        pthread_create(&threads[i], NULL, load_main, &loads[i]);
    }
    for (int i = 0; i < clients; i++) {
        pthread_join(threads[i], NULL);
        ran += loads[i].ran;
        failed += loads[i].failed;
    }
    int64_t took_us = clock_monotonic_us() - started_us;
    for (int i = 0; i < clients; i++)
        for (size_t at = 0; at < loads[i].count; at++)
            printf("%lld %lld\n", (long long)loads[i].timings[at].first_us,
                   (long long)loads[i].timings[at].end_us);
    printf("ran %lld failed %lld in %lld\n", (long long)ran, (long long)failed, (long long)took_us);
    return failed ? 1 : 0;
}

int main(int argc, char **argv)
{
    fields = argv + (argc < 5 ? argc : 5);
    if (argc >= 5 && strcmp(argv[1], "latency") == 0)
        return measure_latency(atoi(argv[2]), atoi(argv[3]), argv[4]);
    if (argc >= 5 && strcmp(argv[1], "load") == 0)
        return measure_load(atoi(argv[2]), atoi(argv[3]), argv[4]);
    fprintf(stderr, "usage: warm_client latency RUNS PAUSE_MS CODE [FIELD=VALUE…] | load CLIENTS SECONDS "
                    "CODE [FIELD=VALUE…]\n");
    return 2;
}
