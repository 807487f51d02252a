#include "cli/command.h"
#include "cli/report.h"

#include "base/text.h"
#include "os/hardening.h"
#include "spec/result.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const struct command *const commands[] = {&command_run, &command_repl,   &command_keep,  &command_serve,
                                          &command_key, &command_doctor, &command_image, &command_reap};

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

/* A descriptor 0, 1 or 2 that is closed would be taken by the next thing we open. */
static void fill_standard_descriptors(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= 2);
    if (fd > 2)
        close(fd);
}

int main(int argc, char **argv)
{
    fill_standard_descriptors();
    signal(SIGCHLD, SIG_DFL); /* a caller may ignore it; we wait for our children */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file limit of the caller's is an error, not our end */
#ifdef CLOCHE_TEST_HOOKS
    if (!hardening_read_environment()) {
        fprintf(stderr, "cloche: CLOCHE_WEAKEN names a step that does not exist\n");
        return EXIT_STATUS_BAD_SPEC;
    }
#endif
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
    return command->main(argc - 1, argv + 1);
}
