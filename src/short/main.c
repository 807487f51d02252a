/* cloche: the program that is started for every run.
 *
 * Theory of operation. What a program costs before its first line is most of what a small one costs: the C
 * library of Debian asks the CPU some fifty questions, each of which traps in a virtual machine, and touches
 * five times as many pages as musl's. So this program is linked with musl, has one command, `run`, and
 * nothing that only others need. For everything else it becomes cloche-full, which has all commands, their
 * help, and this one too: a line means the same in both, because both are made of the same files. */
#include "base/install.h"
#include "cli/begin.h"
#include "cli/command.h"
#include "cli/report.h"
#include "short/constants.h"

#include <stdlib.h>
#include <string.h>

const struct command *const commands[] = {&command_run};
const size_t command_count = 1;

int main(int argc, char **argv)
{
    begin_process();
    struct error err = {0};
    int status = constants_seal();
    if (status < 0) {
        error_host(&err, status, "cannot protect what is constant");
        report_error("%s", err.text);
        return EXIT_STATUS_HOST_FAILURE;
    }
    const char *server = getenv("CLOCHE_SERVER");
    if (argc > 1 && strcmp(argv[1], command_run.name) == 0 && !(server && server[0]))
        return command_run.main(argc - 1, argv + 1);
    install_become("cloche-full", argv, &err);
    report_error("%s", err.text);
    return EXIT_STATUS_HOST_FAILURE;
}
