/* cloche-remote: the commands that ask a server. `cloche` becomes this program (cli/remote.c), with the
 * server's address before the command. A program of its own, since HTTP and TLS bring libraries that would
 * make every start of `cloche` slower. */
#include "remote/remote.h"

#include "cli/command.h"
#include "cli/ending_signals.h"
#include "cli/report.h"

#include "base/file.h"
#include "base/json_text.h"
#include "base/scope.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

const struct command *const commands[] = {&command_run,   &command_vet,  &command_doctor, &command_sandbox,
                                          &command_files, &command_fork, &command_top};
const size_t command_count = sizeof commands / sizeof *commands;

static const char *server_url;

int remote_connect(struct http **ret, struct error *err)
{
    return http_open(server_url, getenv("CLOCHE_KEY"), ending_signals_watch(), ret, err);
}

int remote_fail(const struct error *err)
{
    report_error("%s", err->text);
    return report_error_status(err);
}

int remote_print_json(const json_t *answer)
{
    bool pretty = isatty(STDOUT_FILENO);
    scope_free char *text =
        json_text(answer, JSON_REAL_PRECISION(12) | (pretty ? JSON_INDENT(2) : JSON_COMPACT));
    int status = text ? file_write_all(STDOUT_FILENO, text, strlen(text)) : -ENOMEM;
    return status == 0 ? file_write_all(STDOUT_FILENO, "\n", 1) : status;
}

const char *remote_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

const char *remote_format_time(const char *text, char *into, size_t size)
{
    struct tm parts = {0}, local;
    time_t at = strptime(text, "%Y-%m-%dT%H:%M:%S", &parts) ? timegm(&parts) : 0;
    if (!at || !localtime_r(&at, &local) || !strftime(into, size, "%Y-%m-%d %H:%M:%S", &local))
        snprintf(into, size, "-");
    return into;
}

int main(int argc, char **argv)
{
    prctl(PR_SET_NAME, "cloche-remote"); /* it was executed by its descriptor */
    signal(SIGPIPE, SIG_IGN);
    if (argc < 3) {
        fprintf(stderr, "cloche-remote is started by `cloche --server URL COMMAND …`\n");
        return EXIT_STATUS_BAD_SPEC;
    }
    server_url = argv[1];
    for (size_t i = 0; i < command_count; i++)
        if (strcmp(commands[i]->name, argv[2]) == 0)
            return commands[i]->main(argc - 2, argv + 2);
    report_error("a server does not do '%.64s'", argv[2]);
    return EXIT_STATUS_BAD_SPEC;
}
