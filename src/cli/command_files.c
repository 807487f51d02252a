/* cloche files: uploads of a server and files of its sandboxes. Its options; what is done is in src/remote.
 */
#include "cli/command.h"

static const struct option_row options[] = {
    {"ttl", 0, "TIME", NULL, "put: how long an upload is kept"},
    {"tar", 0, NULL, NULL, "get, put: a whole directory of a sandbox, as a tar archive"},
    {"json", 'j', NULL, NULL, "print the server's answer as JSON"},
    {"quiet", 'q', NULL, NULL, "no remarks; list: names only"},
    {"help", 'h', NULL, NULL, "this text"},
};

const struct command command_files = {
    .name = "files",
    .place = COMMAND_ON_SERVER,
    .usage = "files put|get|list|… NAME | FROM TO",
    .summary = "uploads of a server, and files of its sandboxes",
    .description =
        "put FILE [NAME]      uploads a file (- for stdin); one that was broken off goes on where it "
        "stopped.\n"
        "get NAME [FILE]      downloads it (- for stdout).\n"
        "list [PREFIX]        shows what there is.\n"
        "remove NAME…         removes uploads.\n"
        "profile NAME         tells what a file of data holds: columns, types, missing values, first rows.\n"
        "FROM TO              copies a file from or to a sandbox.\n\n"
        "Wherever a NAME stands, SANDBOX:PATH is a file of a sandbox instead, below /data/output, /tmp or\n"
        "/home/user; list SANDBOX:PATH shows a directory of it. Uploads are what the server gives to runs "
        "as\n"
        "inputs: `cloche --server URL run --input FILE` uploads by itself what is large.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .main = files_main,
};
