/* Sends runs to a keeper that stays (`cloche keep`) and prints how long each took: for bench/warm_start.
 *
 *   warm_client latency RUNS PAUSE_MS CODE       one client, spaced: a line a run, "FIRST_US END_US"
 *   warm_client load CLIENTS SECONDS CODE        clients that go on at once: lines as above, then "ran N
 * failed M in US"
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

/* A thread waits for the answer, so that this one sees the first byte of output when it comes. */
struct request {
    int fd;
    struct client_run run;
    struct result *result;
    struct error error;
    int status;
    int64_t ended_us;
};

static void *send_request(void *data)
{
    struct request *request = data;
    scope_buffer json = {0};
    request->status = client_run(request->fd, &request->run, request->result, &json, &request->error);
    request->ended_us = clock_monotonic_us();
    return NULL;
}

static int run_once(int fd, const struct spec *spec, bool in_thread, struct timing *ret)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct request request = {
        .fd = fd,
        .run = {.spec = spec, .fds = {null, ends[1], ends[1]}, .cancel_fd = -1},
        .result = result_new(),
    };
    int64_t started_us = clock_monotonic_us();
    pthread_t thread;
    char output[65536];
    if (in_thread) {
        pthread_create(&thread, NULL, send_request, &request);
        ssize_t length = read(ends[0], output, sizeof output);
        ret->first_us = length > 0 ? clock_monotonic_us() - started_us : -1;
        pthread_join(thread, NULL);
    } else {
        send_request(&request);
        ret->first_us = -1;
    }
    ret->end_us = request.ended_us - started_us;
    bool is_well =
        request.status == 0 && request.result->cause == CAUSE_exit && request.result->exit_code == 0;
    if (!is_well)
        fprintf(stderr, "warm_client: %s %s\n", request.status < 0 ? request.error.text : "",
                request.result->detail);
    result_free(request.result);
    close(ends[0]);
    close(ends[1]);
    close(null);
    return is_well ? 0 : -EIO;
}

static struct spec *make_spec(const char *code)
{
    struct policy policy;
    struct error err = {0};
    struct spec *spec = spec_new();
    if (policy_load(NULL, &policy, &err) < 0 || spec_set(spec, "code", code, &err) < 0 ||
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
        if (run_once(fd, spec, true, &timing) < 0)
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
        if (run_once(fd, spec, false, &timing) < 0) {
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
    if (argc == 5 && strcmp(argv[1], "latency") == 0)
        return measure_latency(atoi(argv[2]), atoi(argv[3]), argv[4]);
    if (argc == 5 && strcmp(argv[1], "load") == 0)
        return measure_load(atoi(argv[2]), atoi(argv[3]), argv[4]);
    fprintf(stderr, "usage: warm_client latency RUNS PAUSE_MS CODE | load CLIENTS SECONDS CODE\n");
    return 2;
}
