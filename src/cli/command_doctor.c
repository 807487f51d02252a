/* cloche doctor: its options, and how findings are shown; they come from here or from a server. */
#include "cli/command.h"
#include "cli/doctor.h"
#include "cli/report.h"

#include "base/json_text.h"
#include "base/scope.h"
#include "engine/layers.h"
#include "spec/policy.h"

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
    {ISOLATION_GVISOR, "A bug in gVisor's kernel leads into the runtime, which has a uid, namespaces, a root "
                       "and a group of the "
                       "box's own, and a filter that it put on itself."},
    {ISOLATION_GVISOR,
     "How many processes there are is told by the box: a limit is enforced by its own kernel, and what the "
     "result says of it is looked at every 50 ms."},
    {ISOLATION_GVISOR, "A call that ends the box is not named: its kernel has no listener for filters."},
    {ISOLATION_GVISOR, "CPU caches and timing are shared with the host."},
    {ISOLATION_PROCESS,
     "Without a control group there is no hard memory limit: a watchdog looks every 10 ms, so a limit can be "
     "passed by what a program allocates in that time; memory that the kernel keeps for it is not counted."},
    {ISOLATION_PROCESS,
     "No pid isolation: the numbers of the host's processes can be guessed at, though not signalled, "
     "traced or read."},
    {ISOLATION_PROCESS,
     "No private view: that a path exists, its size and its times can be seen (stat), though not what "
     "is in it."},
    {ISOLATION_PROCESS,
     "Disk is summed by the watchdog; deleted files that only a mapping or an unread message holds are not "
     "seen by it."},
    {ISOLATION_PROCESS, "The cpus share is not enforced; CPU time is."},
    {ISOLATION_WASM,
     "A fault of Wasmtime or its compiler leads into a process box, with what that cannot promise; warm "
     "runs of one tenant share one."},
    {ISOLATION_WASM, "The cpus share is not enforced; CPU time is."},
};

static const char *purpose_of(const char *layer)
{
    for (int i = 0; i < LAYER_COUNT; i++)
        if (strcmp(layer_names[i], layer) == 0)
            return layer_purposes[i];
    return "";
}

json_t *doctor_finding(const char *engine, json_t *takes_layers, const char *missing, const char *reason)
{
    json_t *notes = json_array(), *layer;
    size_t index;
    json_array_foreach(takes_layers, index, layer)
    {
        const char *name = json_string_value(json_object_get(layer, "name"));
        json_object_set_new(layer, "purpose", json_string(purpose_of(name ? name : "")));
    }
    for (size_t i = 0; i < sizeof reservations / sizeof *reservations; i++)
        if (strcmp(isolation_names[reservations[i].engine], engine) == 0)
            json_array_append_new(notes, json_string(reservations[i].sentence));
    json_t *finding = json_pack("{s:s,s:b,s:o,s:o}", "engine", engine, "works", !missing, "layers",
                                takes_layers, "cannot_promise", notes);
    if (missing)
        json_object_set_new(finding, "missing", json_pack("{s:s,s:s}", "layer", missing, "reason", reason));
    return finding;
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static void print_finding(const json_t *finding, bool is_default)
{
    bool color = isatty(STDOUT_FILENO);
    const char *good = color ? "\033[32mok\033[0m     " : "ok     ",
               *off = color ? "\033[33moff\033[0m    " : "off    ";
    printf("%s%s\n", text_of(finding, "engine"), is_default ? " (default)" : "");
    const json_t *missing = json_object_get(finding, "missing");
    if (missing) {
        const char *layer = text_of(missing, "layer");
        printf("  %sMISSING%s %s: %s\n", color ? "\033[31m" : "", color ? "\033[0m" : "",
               layer[0] ? layer : "host", text_of(missing, "reason"));
        return;
    }
    size_t index;
    json_t *item;
    json_array_foreach(json_object_get(finding, "layers"), index, item)
    {
        printf("  %s%-15s %s (%s)\n", json_is_true(json_object_get(item, "active")) ? good : off,
               text_of(item, "name"), text_of(item, "purpose"), text_of(item, "detail"));
    }
    json_array_foreach(json_object_get(finding, "cannot_promise"), index, item)
    {
        printf("  note   %s\n", json_string_value(item) ? json_string_value(item) : "");
    }
}

int doctor_print(const json_t *findings, bool as_json)
{
    bool works = json_is_true(json_object_get(findings, "works"));
    const json_t *engines = json_object_get(findings, "engines");
    if (as_json) {
        scope_free char *text = json_text(findings, JSON_INDENT(2));
        printf("%s\n", text ? text : "{}");
        return works ? 0 : 1;
    }
    for (size_t i = json_array_size(engines); i-- > 0;) {
        const json_t *engine = json_array_get(engines, i);
        print_finding(engine, strcmp(text_of(engine, "engine"), text_of(findings, "default")) == 0);
    }
    printf("%s\n", works ? "All layers of the default engine are proved from inside a box."
                         : "The default engine does not work here: see MISSING.");
    return works ? 0 : 1;
}

/* 1: help was printed. */
int doctor_parse(int argc, char **argv, struct doctor_options *into)
{
    struct option_parser parser = {.argc = argc, .argv = argv, .at = 1};
    const struct option_row *row;
    const char *value;
    for (enum option_kind kind; (kind = option_next(&parser, &command_doctor, &row, &value)) != OPTION_END;) {
        if (kind != OPTION_ROW)
            return -option_refuse(&parser, &command_doctor);
        if (strcmp(row->name, "help") == 0) {
            help_print(&command_doctor);
            return 1;
        }
        into->json |= strcmp(row->name, "json") == 0;
        if (strcmp(row->name, "config") == 0)
            into->config_path = value;
    }
    return 0;
}

const struct command command_doctor = {
    .name = "doctor",
    .place = COMMAND_EITHER,
    .usage = "doctor [--json]",
    .summary = "which layers work here, proved from inside",
    .description =
        "Starts a box of each engine and shows which layers of isolation were proved from inside it, what "
        "is\n"
        "missing and how to get it, and what each engine cannot promise. Exits 1 when the default engine\n"
        "lacks a layer that it needs. With --server: what the server found.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .main = doctor_main,
};
