/* Forks live contexts and prints how long it took: for bench/warm_start.
 *
 *   fork_client fork TIMES CODE       runs CODE in a context, then forks it, one after the other: a line a
 * fork, in us fork_client branches COUNT CODE   that many branches from one point, all alive: "made N in US"
 *
 * A fork counts when the copy says that it is ready. */
#include "base/clock.h"
#include "keeper/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct context *open_context(struct policy *policy, const char *code)
{
    struct error err = {0};
    struct spec *spec = spec_new();
    struct context *context = NULL;
    struct context_outcome outcome;
    const struct runner_order order = {.code = {code, strlen(code)}};
    if (policy_load(NULL, policy, &err) < 0 || spec_set(spec, "memory", "2G", &err) < 0 ||
        context_open(spec, policy, NULL, &context, &err) < 0 ||
        context_run(context, &order, NULL, NULL, &outcome, &err) < 0 || outcome.status != RUNNER_STATUS_ok) {
        fprintf(stderr, "fork_client: %s\n", err.text);
        exit(2);
    }
    return context;
}

static struct context *fork_or_exit(struct context *context, int64_t *ret_us)
{
    struct context *fork = NULL;
    struct error err = {0};
    int64_t started_us = clock_monotonic_us();
    if (context_fork(context, NULL, &fork, &err) < 0) {
        fprintf(stderr, "fork_client: %s\n", err.text);
        exit(2);
    }
    *ret_us = clock_monotonic_us() - started_us;
    return fork;
}

int main(int argc, char **argv)
{
    struct policy policy;
    int64_t took_us;
    if (argc != 4 || (strcmp(argv[1], "fork") != 0 && strcmp(argv[1], "branches") != 0)) {
        fprintf(stderr, "usage: fork_client fork TIMES CODE | branches COUNT CODE\n");
        return 2;
    }
    int count = atoi(argv[2]);
    bool keeps = strcmp(argv[1], "branches") == 0;
    struct context *context = open_context(&policy, argv[3]);
    struct context **kept = calloc((size_t)count, sizeof *kept);
    int64_t started_us = clock_monotonic_us();
    for (int i = 0; i < count; i++) {
        kept[i] = fork_or_exit(context, &took_us);
        if (keeps)
            continue;
        printf("%lld\n", (long long)took_us);
        context_close(kept[i]);
    }
    if (keeps)
        printf("made %d in %lld\n", count, (long long)(clock_monotonic_us() - started_us));
    for (int i = 0; keeps && i < count; i++)
        context_close(kept[i]);
    context_close(context);
    free(kept);
    return 0;
}
