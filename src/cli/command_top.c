/* cloche top: live figures of a server. Its options; what is done is in src/remote. */
#include "cli/command.h"

static const struct option_row options[] = {
    {"interval", 'd', "TIME", NULL, "how often on a terminal (1 s)"},
    {"once", '1', NULL, NULL, "show it once, as when stdout is no terminal"},
    {"json", 'j', NULL, NULL, "print the server's answer as JSON, once"},
    {"help", 'h', NULL, NULL, "this text"},
};

const struct command command_top = {
    .name = "top",
    .place = COMMAND_ON_SERVER,
    .usage = "top [--interval TIME]",
    .summary = "live figures of a server",
    .description = "Shows runs, latency, boxes that are kept ready and memory of a server, until Ctrl-C.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .main = top_main,
};
