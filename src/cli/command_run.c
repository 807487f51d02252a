/* cloche run: its options, for a run here and for one on a server. */
#include "cli/command.h"
#include "cli/ending_signals.h"
#include "cli/report.h"
#include "cli/run_options.h"

#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { SPEC_FILE_MAX = 64 << 20 };

static const struct option_row options[] = {
    {"code", 'e', "CODE", "code", "run this code instead of a file"},
    {"isolation", 'i', "ENGINE", "isolation",
     "container (default), process, wasm, gvisor, or auto: see `cloche explain`"},
#define X(name, letter, argument, field, help) {name, letter, argument, field, help},
    RUN_OPTIONS_THAT_DECIDE(X)
#undef X
        {"output", 'o', "DIR", "output", "write what is left in /data/output to this directory"},
    {"env", 0, "NAME=VALUE", "env", "set a variable; none of the caller's are passed on"},
    {"cwd", 0, "DIR", "cwd", "working directory in the box (/data/output)"},
    {"memory", 'm', "SIZE", "memory", "memory of all processes, swap and files in /tmp included"},
    {"cpu", 0, "TIME", "cpu", "CPU time of all processes together"},
    {"wall", 't', "TIME", "wall", "time from start to end"},
    {"cpus", 0, "NUMBER", "cpus", "share of the CPUs: 0.5 or 50% is half a core"},
    {"pids", 0, "NUMBER", "pids", "processes and threads at one time"},
    {"disk", 0, "SIZE", "disk", "bytes in /tmp, home, /dev/shm and /data/output together"},
    {"inodes", 0, "NUMBER", "inodes", "files and directories in the same places"},
    {"open-files", 0, "NUMBER", "open_files", "open files of each process"},
    {"output-limit", 0, "SIZE", "output_limit",
     "bytes kept of stdout and of stderr; 16 times as much ends the run"},
    {"collect", 0, "SIZE", "collect", "bytes of files collected from /data/output"},
    {"collect-files", 0, "NUMBER", "collect_files", "number of files collected"},
    {"call", 0, "NAME", "call", "wasm: call this exported function, with the arguments as its values"},
    {"host", 0, "GROUP", "host",
     "wasm: modules may import: wasi (default), clock, random, log, kv, fetch; may be repeated"},
    {"fetch", 0, "HOST[:PORT]", "fetch",
     "wasm: a host that a module may fetch from, which approves that, too; may be repeated"},
    {"fuel", 0, "UNITS", "fuel", "wasm: end after so many units of work, the same in every run"},
    {"compile", 0, "LIMIT=VALUE", NULL,
     "a limit of the compile step: memory=1G, wall=60s, …; may be repeated"},
    {"warm", 'w', NULL, NULL,
     "take a box that `cloche keep` has ready; without a keeper the run is as any other"},
    {"preload", 0, "SET", "preload",
     "with --warm: modules that are imported already, a set of the operator's configuration"},
    {"json", 'j', NULL, NULL, "print one JSON result instead of the program's output"},
    {"quiet", 'q', NULL, NULL, "no progress line and no closing remarks"},
    {"help", 'h', NULL, NULL, "this text"},
};

int run_options_fail(const struct error *err, bool json)
{
    if (json)
        report_error_json(err);
    else
        report_error("%s", err->text);
    return report_error_status(err);
}

static int read_spec_file(struct run_options *options_read, const char *path, struct error *err)
{
    scope_buffer text = {0};
    bool is_stdin = strcmp(path, "-") == 0;
    int status = file_read_whole(AT_FDCWD, is_stdin ? "/dev/stdin" : path, SPEC_FILE_MAX, &text);
    if (status < 0)
        return error_spec(err, "spec", "spec: cannot read '%s': %s", path, strerror(-status));
    options_read->spec_from_stdin |= is_stdin;
    return spec_read_json(options_read->spec, text.data, text.length, err);
}

/* As other interpreters have it: the code is all that comes on stdin. */
static int read_code(struct run_options *into, struct error *err)
{
    int status = file_read_whole(AT_FDCWD, "/dev/stdin", SPEC_CODE_MAX, &into->spec->code);
    if (status < 0)
        return error_spec(err, "file", "file: cannot read code from stdin: %s",
                          status == -EFBIG ? "larger than 16 MiB" : strerror(-status));
    into->spec->has_code = into->spec_from_stdin = true;
    return 0;
}

static int set_compile_limit(struct spec *spec, const char *value, struct error *err)
{
    const char *equals = strchr(value, '=');
    char field[64];
    if (!equals ||
        snprintf(field, sizeof field, "compile.%.*s", (int)(equals - value), value) >= (int)sizeof field)
        return error_spec(err, "compile", "compile: '%.64s' is not LIMIT=VALUE", value);
    return spec_set(spec, field, equals + 1, err);
}

/* 1: help was printed. */
static int take_option(struct run_options *into, const struct command *command, const struct option_row *row,
                       const char *value, struct error *err)
{
    if (row->field)
        return spec_set(into->spec, row->field, value, err);
    if (strcmp(row->name, "help") == 0) {
        help_print(command);
        return 1;
    }
    if (strcmp(row->name, "spec") == 0)
        return read_spec_file(into, value, err);
    if (strcmp(row->name, "compile") == 0)
        return set_compile_limit(into->spec, value, err);
    if (strcmp(row->name, "config") == 0)
        into->config_path = value;
    else if (strcmp(row->name, "json") == 0)
        into->json = true;
    else if (strcmp(row->name, "warm") == 0)
        into->warm = true;
    else
        into->quiet = true;
    return 0;
}

bool run_options_ask_for_json(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0 || strcmp(argv[i], "-j") == 0)
            return true;
    return false;
}

int run_options_parse(int argc, char **argv, const struct command *command, struct run_options *into,
                      struct error *err)
{
    struct option_parser parser = {.argc = argc, .argv = argv, .at = 1};
    for (;;) {
        const struct option_row *row;
        const char *value;
        int status = 0;
        switch (option_next(&parser, command, &row, &value)) {
        case OPTION_END:
            return 0;
        case OPTION_WRONG:
            return error_spec(err, "option", "%s", parser.message);
        case OPTION_ROW:
            status = take_option(into, command, row, value, err);
            break;
        case OPTION_REST: {
            bool has_code = into->spec->has_code || into->spec->code_file;
            while (status == 0 && parser.at < argc)
                status = spec_set(into->spec, has_code ? "arg" : "command", argv[parser.at++], err);
            break;
        }
        case OPTION_POSITIONAL:
            if (!into->spec->has_code && !into->spec->code_file && !into->spec->command.count)
                status =
                    strcmp(value, "-") == 0 ? read_code(into, err) : spec_set(into->spec, "file", value, err);
            else
                status = spec_set(into->spec, "arg", value, err);
            while (status == 0 && parser.at < argc)
                status = spec_set(into->spec, "arg", argv[parser.at++], err);
            break;
        }
        if (status != 0)
            return status;
    }
}

static int run_main(int argc, char **argv)
{
    struct error err = {0};
    scope_spec *spec = spec_new();
    struct run_options given = {.spec = spec};
    int status = spec ? run_options_parse(argc, argv, &command_run, &given, &err)
                      : error_host(&err, -ENOMEM, "no memory for a spec");
    if (status > 0)
        return 0;
    if (status < 0)
        return run_options_fail(&err, given.json || run_options_ask_for_json(argc, argv));
    int exit_status = run_perform(&given);
    ending_signals_pass_on();
    return exit_status;
}

const struct command command_run = {
    .name = "run",
    .place = COMMAND_EITHER,
    .usage = "run [OPTIONS] FILE | - | -e CODE | -- COMMAND…",
    .summary = "run code or a command in a box",
    .description =
        "Runs a file, a piece of code, or any command in a fresh box, and exits as it exits. stdin, stdout "
        "and\n"
        "stderr are passed through; - is code that comes on stdin. The box has no network, sees nothing of "
        "the\n"
        "host but the image and what is granted, and is removed with everything in it at the end. An image "
        "that was\n"
        "imported runs its own command when none is given.\n\n"
        "Inside, inputs are in /data/input (also $CLOCHE_INPUT), what is to be kept goes to /data/output\n"
        "($CLOCHE_OUTPUT), which is also the working directory. The process engine has no root of its own: "
        "there\n"
        "these variables and $TMPDIR say where it is, and /data and /tmp are not there.\n\n"
        "With --server URL before the command, or $CLOCHE_SERVER, a server of `cloche serve` does it "
        "($CLOCHE_KEY\n"
        "is the key): stdin is sent whole, inputs are uploaded; --read, --write and --config are refused.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .main = run_main,
};
