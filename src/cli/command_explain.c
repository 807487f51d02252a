/* cloche explain: which engine `--isolation auto` would take, and why; nothing of the code runs. */
#include "cli/command.h"
#include "cli/report.h"
#include "cli/run_options.h"

#include "base/scope.h"
#include "keeper/choose.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct option_row options[] = {
    {"code", 'e', "CODE", "code", "look at this code instead of a file"},
    {"language", 'l', "NAME", "language",
     "the language; otherwise told by the file's extension, python for -e"},
    {"image", 0, "NAME", "image",
     "file tree that the code would see: host (default), or see `cloche image list`"},
    {"isolation-min", 0, "ENGINE", "isolation_min", "not weaker than this"},
    {"config", 0, "FILE", NULL, "the operator's configuration instead of /etc/cloche.conf"},
    {"json", 'j', NULL, NULL, "print the decision as JSON"},
    {"help", 'h', NULL, NULL, "this text"},
};

static int take(struct run_options *into, const struct option_row *row, const char *value, struct error *err)
{
    if (row->field)
        return spec_set(into->spec, row->field, value, err);
    if (strcmp(row->name, "help") == 0) {
        help_print(&command_explain);
        return 1;
    }
    if (strcmp(row->name, "config") == 0)
        into->config_path = value;
    else
        into->json = true;
    return 0;
}

static int parse(int argc, char **argv, struct run_options *into, struct error *err)
{
    struct option_parser parser = {.argc = argc, .argv = argv, .at = 1};
    int status = spec_set(into->spec, "isolation", "auto", err);
    while (status == 0) {
        const struct option_row *row;
        const char *value = NULL;
        enum option_kind kind = option_next(&parser, &command_explain, &row, &value);
        if (kind == OPTION_END)
            return 0;
        if (kind == OPTION_WRONG)
            return error_spec(err, "option", "%s", parser.message);
        if (kind == OPTION_ROW)
            status = take(into, row, value, err);
        else if (kind == OPTION_REST)
            while (status == 0 && parser.at < argc)
                status = spec_set(into->spec, "command", argv[parser.at++], err);
        else
            status = spec_set(into->spec, into->spec->code_file ? "arg" : "file", value, err);
    }
    return status;
}

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
    scope_free char *text = json_dumps(object, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
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
    int status = spec ? parse(argc, argv, &given, &err) : error_host(&err, -ENOMEM, "no memory");
    if (status > 0)
        return 0;
    if (status == 0)
        status = policy_load(given.config_path, &policy, &err);
    if (status == 0)
        status = spec_validate(spec, &policy, &err);
    if (status == 0)
        status = choose_engine(spec, &policy, true, &choice, &err);
    int exit_status = status < 0 ? run_options_fail(&err, given.json) : given.json ? print_json(&choice) : 0;
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
        "with the reason, and what the least run costs in the others on this machine. Python and JavaScript\n"
        "are read by the first filter (see `cloche vet`), in a box. Costs are measured once a week.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .main = explain_main,
};
