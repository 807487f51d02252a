/* cloche explain: which engine `--isolation auto` would take, and why; nothing of the code runs. */
#include "cli/command.h"
#include "cli/report.h"
#include "cli/run_options.h"

#include "base/json_text.h"
#include "base/scope.h"
#include "keeper/choose.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option_row options[] = {
    {"code", 'e', "CODE", "code", "look at this code instead of a file"},
#define X(name, letter, argument, field, help) {name, letter, argument, field, help},
    RUN_OPTIONS_THAT_DECIDE(X)
#undef X
        {"json", 'j', NULL, NULL, "print the decision as JSON"},
    {"help", 'h', NULL, NULL, "this text"},
};

static void print_choice(const struct choice *choice)
{
    size_t index;
    json_t *row;
    printf("%s: %s\n", isolation_names[choice->isolation], choice->reason);
    json_array_foreach(choice->table, index, row)
    {
        const char *name = json_string_value(json_object_get(row, "isolation")),
                   *reason = json_string_value(json_object_get(row, "not"));
        const json_t *cost = json_object_get(row, "cost_ms");
        printf("  %-10s", name ? name : "");
        if (cost)
            printf(" %8.1f ms", json_real_value(cost));
        else
            printf(" %11s", "");
        printf("  %s\n", reason ? reason : index == (size_t)choice->isolation ? "taken" : "");
    }
}

static int print_json(const struct choice *choice)
{
    json_t *object = json_pack("{s:s, s:s, s:O}", "isolation", isolation_names[choice->isolation], "reason",
                               choice->reason, "engines", choice->table);
    scope_free char *text = json_text(object, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
    json_decref(object);
    return printf("%s\n", text ? text : "{}") < 0 ? EXIT_STATUS_HOST_FAILURE : 0;
}

static int explain_main(int argc, char **argv)
{
    struct error err = {0};
    struct policy policy = {0};
    struct choice choice = {0};
    scope_spec *spec = spec_new();
    struct run_options given = {.spec = spec};
    int status = spec ? run_options_parse(argc, argv, &command_explain, &given, &err)
                      : error_host(&err, -ENOMEM, "no memory");
    if (status > 0)
        return 0;
    if (status == 0) /* also where the spec names an engine: the question is what auto would take */
        status = spec_set(spec, "isolation", "auto", &err);
    if (status == 0)
        status = policy_load(given.config_path, &policy, &err);
    if (status == 0) {
        policy_trust_caller(&policy);
        status = spec_validate(spec, &policy, &err);
    }
    if (status == 0)
        status = choose_engine(spec, &policy, &choice, &err);
    int exit_status = status < 0 ? run_options_fail(&err, given.json || run_options_ask_for_json(argc, argv))
                      : given.json ? print_json(&choice)
                                   : 0;
    if (status == 0 && !given.json)
        print_choice(&choice);
    choice_free(&choice);
    policy_free(&policy);
    return exit_status;
}

const struct command command_explain = {
    .name = "explain",
    .usage = "explain [OPTIONS] FILE | -e CODE | -- COMMAND…",
    .summary = "which engine `--isolation auto` would take, and why",
    .description =
        "Shows what `cloche run --isolation auto` would decide, without running it: the engines that "
        "cannot,\n"
        "with the reason, and what a run costs in the others on this machine: the least run, or one with a\n"
        "sample of work, for code that may compute long. Python and JavaScript are read by the first filter\n"
        "(see `cloche vet`), in a box. Costs are measured once a week. It takes the options of `cloche run`\n"
        "that can decide.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .main = explain_main,
};
