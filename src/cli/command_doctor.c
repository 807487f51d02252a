/* cloche doctor: which layers work here, proved from inside a real box of each engine. */
#include "cli/command.h"
#include "cli/report.h"

#include "base/scope.h"
#include "engine/layers.h"
#include "keeper/run.h"
#include "os/landlock.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct option_row options[] = {
    {"json", 'j', NULL, NULL, "print the findings as JSON"},
    {"config", 0, "FILE", NULL, "the operator's configuration instead of /etc/cloche.conf"},
    {"help", 'h', NULL, NULL, "this text"},
};

/* What an engine cannot promise, in plain words; the same sentences stand in docs/threat-model.md. */
static const struct {
    enum isolation engine;
    const char *sentence;
} reservations[] = {
    {ISOLATION_CONTAINER,
     "A bug in the host's kernel that an allowed system call reaches is not held by any layer here."},
    {ISOLATION_CONTAINER, "CPU caches and timing are shared with the host."},
    {ISOLATION_PROCESS,
     "No hard memory limit: a watchdog looks every 10 ms, so a limit can be passed by what a program "
     "allocates in that time; memory of pipes and sockets is not counted."},
    {ISOLATION_PROCESS,
     "No pid isolation: the numbers of the host's processes can be guessed at, though not signalled, "
     "traced or read."},
    {ISOLATION_PROCESS,
     "No private view: that a path exists, its size and its times can be seen (stat), though not what "
     "is in it."},
    {ISOLATION_PROCESS,
     "Disk is summed by the watchdog; deleted files that are still open are bounded one by one, not in "
     "sum."},
    {ISOLATION_PROCESS, "The cpus share is not enforced; CPU time is."},
};

struct finding {
    enum isolation engine;
    struct result *result; /* NULL: refused */
    struct error err;
    bool works;
};

static const struct supervise_io silent = {.forward_fd = {-1, -1}, .cancel_fd = -1};

static void examine(enum isolation engine, const struct policy *policy, struct finding *ret)
{
    *ret = (struct finding){.engine = engine};
    scope_spec *spec = spec_new();
    if (!spec)
        return;
    int status = spec_set(spec, "isolation", isolation_names[engine], &ret->err);
    if (status == 0)
        status = spec_set(spec, "command", "/bin/true", &ret->err);
    if (status == 0)
        status = spec_set(spec, "image", "host", &ret->err);
    struct policy relaxed = *policy;
    relaxed.isolation_min = ISOLATION_PROCESS;
    if (status == 0)
        status = keeper_run(spec, &relaxed, &silent, &ret->result, &ret->err);
    ret->works = status == 0 && ret->result->cause == CAUSE_exit && ret->result->exit_code == 0;
    if (status == 0 && !ret->works)
        error_host(&ret->err, -EIO, "the proof run ended with cause %s", cause_names[ret->result->cause]);
}

static const char *purpose_of(const char *layer)
{
    for (int i = 0; i < LAYER_COUNT; i++)
        if (strcmp(layer_names[i], layer) == 0)
            return layer_purposes[i];
    return "";
}

static void print_finding(const struct finding *finding, bool is_default)
{
    bool color = isatty(STDOUT_FILENO);
    const char *good = color ? "\033[32mok\033[0m     " : "ok     ",
               *off = color ? "\033[33moff\033[0m    " : "off    ";
    printf("%s%s\n", isolation_names[finding->engine], is_default ? " (default)" : "");
    if (!finding->works) {
        printf("  %sMISSING%s %s: %s\n", color ? "\033[31m" : "", color ? "\033[0m" : "",
               finding->err.subject[0] ? finding->err.subject : "host", finding->err.text);
        return;
    }
    for (size_t i = 0; i < finding->result->layer_count; i++) {
        const struct result_layer *layer = &finding->result->layers[i];
        printf("  %s%-15s %s (%s)\n", layer->active ? good : off, layer->name, purpose_of(layer->name),
               layer->detail);
    }
    for (size_t i = 0; i < sizeof reservations / sizeof *reservations; i++)
        if (reservations[i].engine == finding->engine)
            printf("  note   %s\n", reservations[i].sentence);
}

static json_t *finding_to_json(const struct finding *finding)
{
    json_t *layers = json_array();
    for (size_t i = 0; finding->works && i < finding->result->layer_count; i++) {
        const struct result_layer *layer = &finding->result->layers[i];
        json_array_append_new(layers,
                              json_pack("{s:s,s:b,s:s,s:s}", "name", layer->name, "active", layer->active,
                                        "detail", layer->detail, "purpose", purpose_of(layer->name)));
    }
    json_t *notes = json_array();
    for (size_t i = 0; i < sizeof reservations / sizeof *reservations; i++)
        if (reservations[i].engine == finding->engine)
            json_array_append_new(notes, json_string(reservations[i].sentence));
    json_t *object = json_pack("{s:s,s:b,s:o,s:o}", "engine", isolation_names[finding->engine], "works",
                               finding->works, "layers", layers, "cannot_promise", notes);
    if (!finding->works)
        json_object_set_new(
            object, "missing",
            json_pack("{s:s,s:s}", "layer", finding->err.subject, "reason", finding->err.text));
    return object;
}

static void print_json(const struct finding *findings, enum isolation chosen)
{
    json_t *engines = json_array();
    for (int i = 0; i < ISOLATION_COUNT; i++)
        json_array_append_new(engines, finding_to_json(&findings[i]));
    json_t *object = json_pack("{s:s,s:b,s:i,s:o}", "default", isolation_names[chosen], "works",
                               findings[chosen].works, "landlock_abi", landlock_abi(), "engines", engines);
    char *text = json_dumps(object, JSON_INDENT(2));
    printf("%s\n", text ? text : "{}");
    free(text);
    json_decref(object);
}

static int doctor_main(int argc, char **argv)
{
    bool json = false;
    const char *config_path = NULL;
    struct option_parser parser = {.argc = argc, .argv = argv, .at = 1};
    const struct option_row *row;
    const char *value;
    for (enum option_kind kind; (kind = option_next(&parser, &command_doctor, &row, &value)) != OPTION_END;) {
        if (kind != OPTION_ROW)
            return option_refuse(&parser, &command_doctor);
        if (strcmp(row->name, "help") == 0) {
            help_print(&command_doctor);
            return 0;
        }
        json |= strcmp(row->name, "json") == 0;
        if (strcmp(row->name, "config") == 0)
            config_path = value;
    }
    struct policy policy;
    struct error err = {0};
    if (policy_load(config_path, &policy, &err) < 0) {
        report_error("%s", err.text);
        return report_error_status(&err);
    }
    struct finding findings[ISOLATION_COUNT];
    for (int i = 0; i < ISOLATION_COUNT; i++)
        examine((enum isolation)i, &policy, &findings[i]);
    enum isolation chosen = policy.isolation;
    bool works = findings[chosen].works;
    if (json) {
        print_json(findings, chosen);
    } else {
        for (int i = ISOLATION_COUNT - 1; i >= 0; i--)
            print_finding(&findings[i], i == (int)chosen);
        printf("%s\n", works ? "All layers of the default engine are proved from inside a box."
                             : "The default engine does not work here: see MISSING.");
    }
    for (int i = 0; i < ISOLATION_COUNT; i++)
        result_free(findings[i].result);
    policy_free(&policy);
    return works ? 0 : 1;
}

const struct command command_doctor = {
    .name = "doctor",
    .usage = "doctor [--json]",
    .summary = "which layers work here, proved from inside",
    .description =
        "Starts a box of each engine and shows which layers of isolation were proved from inside it, what "
        "is\n"
        "missing and how to get it, and what each engine cannot promise. Exits 1 when the default engine\n"
        "lacks a layer that it needs.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .main = doctor_main,
};
