/* cloche fork: copies of a server's sandbox. Its options; what is done is in src/remote. */
#include "cli/command.h"

static const struct option_row options[] = {
    {"count", 'n', "NUMBER", NULL, "how many copies (1)"},
    {"run", 'r', "CODE", NULL, "run this in a copy of its own, and show what comes of it; may be repeated"},
    {"context", 'c', "CONTEXT", NULL, "with --run: another context than its first"},
    {"save", 'o', "DIR", NULL, "with --run: where pictures and pages are saved (.)"},
    {"json", 'j', NULL, NULL, "print the server's answer as JSON"},
    {"quiet", 'q', NULL, NULL, "no headings and closing remarks"},
    {"help", 'h', NULL, NULL, "this text"},
};

const struct command command_fork = {
    .name = "fork",
    .place = COMMAND_ON_SERVER,
    .usage = "fork SANDBOX [--count N | --run CODE…]",
    .summary = "copies of a server's sandbox, with all its state",
    .description =
        "Copies a sandbox as it is at this moment: variables, imports and files. Without --run the copies\n"
        "stay, and their ids are printed. With --run each code runs in a copy of its own, side by side, and\n"
        "the copies are gone afterwards; the exit status is that of the first one that failed.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .main = fork_main,
};
