/* cloche sandbox: boxes of a server that stay between runs. Its options; what is done is in src/remote. */
#include "cli/command.h"

static const struct option_row options[] = {
    {"language", 'l', "NAME", "language", "create, context create: python (default), javascript or bash"},
    {"isolation", 'i', "ENGINE", "isolation", "create: container (default), gvisor, process or auto"},
    {"image", 0, "NAME", "image", "create: file tree that the code sees, one of the server's"},
    {"preload", 0, "SET", "preload", "create: modules that are imported already, a set of the server's"},
    {"input", 0, "PATH[:NAME]", "input",
     "create: show a file or directory read-only below /data/input; may be repeated"},
    {"env", 0, "NAME=VALUE", "env", "create, exec: set a variable; may be repeated"},
    {"memory", 'm', "SIZE", "memory", "create: memory of all processes, swap and files in /tmp included"},
    {"wall", 't', "TIME", "wall", "create, run: time of each run; then it is interrupted"},
    {"cpu", 0, "TIME", "cpu", "create, run: CPU time of each run; then it is interrupted"},
    {"cpus", 0, "NUMBER", "cpus", "create: share of the CPUs: 0.5 or 50% is half a core"},
    {"pids", 0, "NUMBER", "pids", "create: processes and threads at one time"},
    {"disk", 0, "SIZE", "disk", "create: bytes in /tmp, home, /dev/shm and /data/output together"},
    {"output-limit", 0, "SIZE", "output_limit", "create: bytes kept of each run"},
    {"preset", 0, "NAME", NULL, "create: a set of limits: analyst is 4 GB, 2 cores, 120 s"},
    {"ttl", 0, "TIME", NULL, "create, extend: how long it lives (1 h)"},
    {"idle", 0, "TIME", NULL, "create, extend: how long it waits for the next run; then it ends (15 min)"},
    {"runs", 0, "NUMBER", NULL, "create, extend: how many runs it may have (20)"},
    {"metadata", 0, "NAME=VALUE", NULL, "create: kept with it; list: only those; may be repeated"},
    {"code", 'e', "CODE", NULL, "run: this code instead of a file"},
    {"context", 'c', "CONTEXT", NULL, "run, restart, interrupt: another context than its first"},
    {"cwd", 0, "DIR", NULL, "exec: working directory"},
    {"state", 0, "STATE", NULL, "list: only running or ended ones"},
    {"save", 'o', "DIR", NULL, "run: where pictures and pages are saved (.)"},
    {"json", 'j', NULL, NULL, "print the server's answer as JSON"},
    {"quiet", 'q', NULL, NULL, "no closing remarks; list: ids only"},
    {"help", 'h', NULL, NULL, "this text"},
};

const struct command command_sandbox = {
    .name = "sandbox",
    .place = COMMAND_ON_SERVER,
    .usage = "sandbox create|list|run|exec|… [SANDBOX]",
    .summary = "boxes of a server that stay between runs",
    .description =
        "create                        opens a sandbox and prints its id.\n"
        "list                          shows those there are.\n"
        "show SANDBOX                  shows one, with its contexts and limits.\n"
        "run SANDBOX FILE | -e CODE    runs code in its interpreter, which keeps variables, imports and "
        "files.\n"
        "exec SANDBOX -- COMMAND…      runs a command beside it, in the same box.\n"
        "restart SANDBOX               gives it a fresh interpreter, in a fresh box.\n"
        "interrupt SANDBOX             interrupts the run that is under way.\n"
        "extend SANDBOX [TIME]         lets it live that long from now on; --idle and --runs change those.\n"
        "context create SANDBOX        opens another interpreter in it (--language), and prints its id;\n"
        "                              list SANDBOX, delete SANDBOX CONTEXT.\n"
        "checkpoint create SANDBOX [NAME]   keeps its state as it is now, and prints an id;\n"
        "                              list SANDBOX, delete SANDBOX CHECKPOINT.\n"
        "rollback SANDBOX CHECKPOINT   gives it that state again.\n"
        "delete SANDBOX…               ends it, with everything in it.\n\n"
        "The server is that of --server or $CLOCHE_SERVER, otherwise the one of `cloche serve` on this\n"
        "machine; $CLOCHE_KEY is the key. `run` exits 0, 1 after an exception, as the code that ends its\n"
        "interpreter says, 130 when it was interrupted, or 137 when a limit ended it.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .main = sandbox_main,
};
