/* cloche-full: all commands. `cloche` itself is a shorter program (short/main.c) that can only run, and
 * becomes this one for everything else. */
#include "cli/begin.h"
#include "cli/command.h"
#include "cli/remote.h"
#include "cli/report.h"

#include "base/text.h"
#include "os/hardening.h"
#include "spec/result.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

const struct command *const commands[] = {&command_run,   &command_vet,  &command_explain, &command_repl,
                                          &command_keep,  &command_key,  &command_serve,   &command_doctor,
                                          &command_image, &command_reap, &command_sandbox, &command_files,
                                          &command_fork,  &command_top};

const size_t command_count = sizeof commands / sizeof *commands;

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < command_count; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static int refuse_command(const char *name)
{
    struct text_guess guess = {.given = name};
    for (size_t i = 0; i < command_count; i++)
        text_guess_offer(&guess, commands[i]->name);
    const char *nearest = guess.nearest;
    report_error("there is no command '%.64s'%s%s%s See `cloche help`.", name,
                 nearest ? "; did you mean `cloche " : ".", nearest ? nearest : "", nearest ? "`?" : "");
    return EXIT_STATUS_BAD_SPEC;
}

/* `--server URL` in front, which is taken away. False: it is not followed by an URL. */
static bool take_server(int *argc, char ***argv, const char **ret_url)
{
    if (*argc < 2 || strncmp((*argv)[1], "--server", 8) != 0)
        return true;
    const char *rest = (*argv)[1] + 8;
    int taken = rest[0] == '=' ? 1 : 2;
    if ((rest[0] && rest[0] != '=') || (!rest[0] && *argc < 3))
        return false;
    *ret_url = rest[0] ? rest + 1 : (*argv)[2];
    (*argv)[taken] = (*argv)[0];
    *argc -= taken;
    *argv += taken;
    return (*ret_url)[0] != '\0';
}

static int perform(const struct command *command, const char *url, int argc, char **argv)
{
    if (url && command->place == COMMAND_HERE) {
        report_error("`cloche %s` is done here, not by a server: leave --server away", command->name);
        return EXIT_STATUS_BAD_SPEC;
    }
    if (!url && command->place == COMMAND_EITHER)
        url = remote_from_environment();
    return url ? remote_become(url, argc, argv) : command->main(argc, argv);
}

int main(int argc, char **argv)
{
    begin_process();
    prctl(PR_SET_NAME, "cloche"); /* it may have been executed by its descriptor */
#ifdef CLOCHE_TEST_HOOKS
    if (!hardening_read_environment()) {
        fprintf(stderr, "cloche: CLOCHE_WEAKEN names a step that does not exist\n");
        return EXIT_STATUS_BAD_SPEC;
    }
#endif
    const char *url = NULL;
    if (!take_server(&argc, &argv, &url)) {
        report_error("give the server's address and a command: cloche --server %s run …", REMOTE_URL_DEFAULT);
        return EXIT_STATUS_BAD_SPEC;
    }
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        (strcmp(argv[1], "help") == 0 && argc == 2)) {
        help_print_overview();
        return argc < 2 ? EXIT_STATUS_BAD_SPEC : 0;
    }
    if (strcmp(argv[1], "version") == 0 || strcmp(argv[1], "--version") == 0) {
        printf("cloche %s\n", CLOCHE_VERSION);
        return 0;
    }
    if (strcmp(argv[1], "man") == 0) {
        help_print_man();
        return 0;
    }
    bool help = strcmp(argv[1], "help") == 0;
    const struct command *command = find_command(argv[help ? 2 : 1]);
    if (!command)
        return refuse_command(argv[help ? 2 : 1]);
    if (help) {
        help_print(command);
        return 0;
    }
    return perform(command, url, argc - 1, argv + 1);
}
