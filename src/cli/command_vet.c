/* cloche vet: what the first filter says of code, without running it. The same as `cloche run --vet only`. */
#include "cli/command.h"
#include "cli/run_options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct option_row options[] = {
    {"code", 'e', "CODE", "code", "look at this code instead of a file"},
    {"language", 'l', "NAME", "language",
     "python or javascript; otherwise told by the file's extension, python for -e"},
    {"isolation", 'i', "ENGINE", "isolation",
     "of the box that it is read in: container (default) or process"},
    {"image", 0, "NAME", "image",
     "whose packages count as there: host (default), or see `cloche image list`"},
    {"config", 0, "FILE", NULL, "the operator's configuration instead of /etc/cloche.conf"},
    {"warm", 'w', NULL, NULL, "in a box that `cloche keep` has ready, if there is one"},
    {"json", 'j', NULL, NULL, "print one JSON result, whose `vet` has findings and facts"},
    {"help", 'h', NULL, NULL, "this text"},
};

static int take(struct run_options *into, const struct option_row *row, const char *value, struct error *err)
{
    if (row->field)
        return spec_set(into->spec, row->field, value, err);
    if (strcmp(row->name, "help") == 0) {
        help_print(&command_vet);
        return 1;
    }
    if (strcmp(row->name, "config") == 0)
        into->config_path = value;
    else if (strcmp(row->name, "warm") == 0)
        into->warm = true;
    else
        into->json = true;
    return 0;
}

static int parse(int argc, char **argv, struct run_options *into, struct error *err)
{
    struct option_parser parser = {.argc = argc, .argv = argv, .at = 1};
    int status = spec_set(into->spec, "vet", vet_mode_names[VET_only], err);
    while (status == 0) {
        const struct option_row *row;
        const char *value = NULL;
        enum option_kind kind = option_next(&parser, &command_vet, &row, &value);
        if (kind == OPTION_END)
            break;
        if (kind == OPTION_WRONG || kind == OPTION_REST)
            return error_spec(err, "option", "%s",
                              kind == OPTION_WRONG ? parser.message
                                                   : "vet: a command cannot be read; give code");
        status = kind == OPTION_ROW ? take(into, row, value, err) : spec_set(into->spec, "file", value, err);
    }
    if (status == 0 && !into->spec->code_file && !into->spec->has_code)
        status = error_spec(err, "code", "nothing to look at: give a FILE or -e CODE");
    return status;
}

static int vet_main(int argc, char **argv)
{
    struct error err = {0};
    scope_spec *spec = spec_new();
    struct run_options given = {.spec = spec, .spec_from_stdin = true /* it has none */};
    int status = spec ? parse(argc, argv, &given, &err) : -ENOMEM;
    if (status != 0)
        return status > 0 ? 0 : run_options_fail(&err, given.json || run_options_ask_for_json(argc, argv));
    return run_perform(&given);
}

const struct command command_vet = {
    .name = "vet",
    .place = COMMAND_EITHER,
    .usage = "vet [OPTIONS] FILE | -e CODE",
    .summary = "what code would do, read before it runs",
    .description =
        "Reads the code with its language's own parser, in a box, and tells what the policy has against it:\n"
        "FILE:LINE:COLUMN, the rule, and what to do instead. Exits with 0 when there is nothing, with 1 "
        "when\n"
        "there is. The code does not run.\n\n"
        "It informs, and stops what is plainly not wanted. It is no boundary: code can be written so that "
        "no\n"
        "reading tells what it does. What holds is the box.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .main = vet_main,
};
