/* cloche keep: a keeper that stays. */
#include "cli/command.h"
#include "cli/ending_signals.h"
#include "cli/pool_option.h"
#include "cli/report.h"

#include "base/scope.h"
#include "keeper/client.h"
#include "keeper/service.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct option_row options[] = {
    {"spares", 0, "NUMBER", NULL, "boxes that are kept ready when nothing runs (2)"},
    {"spares-max", 0, "NUMBER", NULL, "how many they may become when there is demand (32)"},
    {"language", 0, "LANGUAGES", NULL,
     "kept ready from the start, beside python: javascript, bash; python/process …"},
    {"preload", 0, "MODULES", NULL,
     "what the interpreter has imported, with commas (numpy,pandas,matplotlib.pyplot)"},
    {"image", 0, "NAME", NULL,
     "image of the boxes that are ready from the start (the configuration's); others as runs ask for them"},
    {"rotate", 0, "NUMBER", NULL, "boxes after which a new interpreter is loaded (20000)"},
    {"state", 0, NULL, NULL, "show the state of the keeper that is running, as JSON"},
    {"config", 0, "FILE", NULL, "the operator's configuration instead of /etc/cloche.conf"},
    {"quiet", 'q', NULL, NULL, "no remarks"},
    {"help", 'h', NULL, NULL, "this text"},
};

enum { DRAIN_MS = 10000, WARM_MS = 120000 };

struct keep_options {
    struct pool_choice pool;
    const char *config_path;
    bool state, quiet;
};

/* 1: help was printed. */
static int take_option(void *data, const struct option_row *row, const char *value, struct error *err)
{
    struct keep_options *into = data;
    const char *name = row->name;
    if (strcmp(name, "help") == 0) {
        help_print(&command_keep);
        return 1;
    }
    int taken = pool_option_take(&into->pool, row, value, err);
    if (taken != 0)
        return taken < 0 ? taken : 0;
    if (strcmp(name, "config") == 0)
        into->config_path = value;
    else if (strcmp(name, "state") == 0)
        into->state = true;
    else
        into->quiet = true;
    return 0;
}

static int show_state(struct error *err)
{
    scope_fd fd = client_connect();
    if (fd < 0)
        return error_host(err, fd, "no keeper is running; start one with `cloche keep`");
    scope_buffer text = {0};
    int status = client_state(fd, &text, err);
    if (status == 0)
        printf("%.*s\n", (int)text.length, text.data);
    return status;
}

static int keep(struct keep_options *given, struct error *err)
{
    pool_option_allow_descriptors();
    struct policy policy = {0};
    int status = policy_load(given->config_path, &policy, err);
    if (status < 0)
        return status;
    scope_fd stop_fd = ending_signals_watch(); /* before any thread, which would take them otherwise */
    struct pool *pool = NULL;
    struct service *service = NULL;
    status = pool_open(&policy, &given->pool.options, &pool, err);
    if (status == 0)
        status = service_open(pool, &service, err);
    if (status == 0 && !given->quiet) {
        fprintf(stderr, "cloche: keeping; `cloche run --warm` finds it. Warming up…\n");
        if (pool_await_warm(pool, WARM_MS))
            fprintf(stderr, "cloche: warm\n");
        else
            fprintf(stderr, "cloche: not warm yet: %s\n", pool_failure(pool));
    }
    if (status == 0)
        status = service_run(service, stop_fd, DRAIN_MS, err);
    service_close(service);
    pool_close(pool);
    policy_free(&policy);
    return status;
}

static int keep_main(int argc, char **argv)
{
    struct error err = {0};
    struct keep_options given = {.pool = POOL_CHOICE_DEFAULT};
    int status = option_each(argc, argv, &command_keep, take_option, &given, &err);
    if (status == 0)
        status = pool_option_finish(&given.pool, &err);
    if (status == 0)
        status = given.state ? show_state(&err) : keep(&given, &err);
    pool_option_free(&given.pool);
    if (status > 0)
        return 0;
    if (status < 0)
        report_error("%s", err.text);
    return status < 0 ? report_error_status(&err) : 0;
}

const struct command command_keep = {
    .name = "keep",
    .usage = "keep [OPTIONS]",
    .summary = "keep boxes ready, so that runs start in less than a millisecond",
    .description =
        "Stays, and keeps boxes ready in which an interpreter has loaded what most runs need. `cloche run\n"
        "--warm` takes one: with the same layers, limits and results as a run without it, and used only\n"
        "once. Boxes of Python are there from the start; of JavaScript and bash, of the process engine, and\n"
        "of other images than the usual one, from their first run on. Only its own user can reach it. It "
        "ends with SIGTERM or Ctrl-C, and all\n"
        "boxes end with it.\n\n"
        "Its socket is in the state directory; $CLOCHE_KEEPER (a path) names another, for both commands.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .main = keep_main,
};
