#include "cli/command.h"

#include "spec/limits.h"
#include "spec/result.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static void print_option(const struct option_row *row)
{
    char left[64];
    if (row->letter)
        snprintf(left, sizeof left, "-%c, --%s%s%s", row->letter, row->name, row->argument ? " " : "",
                 row->argument ? row->argument : "");
    else
        snprintf(left, sizeof left, "    --%s%s%s", row->name, row->argument ? " " : "",
                 row->argument ? row->argument : "");
    printf("  %-28s %s", left, row->help);
    int field = row->field ? limit_find(row->field) : -1;
    char value[32];
    if (field >= 0)
        printf(" (%s)", limit_format((enum limit_field)field, limit_rows[field].normal, value, sizeof value));
    printf("\n");
}

void help_print(const struct command *command)
{
    printf("Usage: cloche %s\n\n%s\n", command->usage, command->description);
    if (command->option_count)
        printf("\nOptions (defaults in parentheses):\n");
    for (size_t i = 0; i < command->option_count; i++)
        print_option(&command->options[i]);
}

static void print_exit_codes(const char *prefix)
{
    printf("%sthe program's own exit code; 128+N when signal N ended it, so 137 when a limit did;\n"
           "%sCtrl-C and SIGTERM end cloche itself as they would without a box, when the box is gone\n"
           "%s%d  the program itself exited with a code from %d to %d (--json has the exact one)\n"
           "%s%d  bad spec or usage; nothing was started\n"
           "%s%d  a layer of isolation is missing; nothing of the code ran\n"
           "%s%d  the host failed\n"
           "%s%d  the first filter blocked the code (--vet block); nothing of it ran\n",
           prefix, prefix, prefix, EXIT_STATUS_PROGRAM_RESERVED, EXIT_STATUS_PROGRAM_RESERVED,
           EXIT_STATUS_LAST, prefix, EXIT_STATUS_BAD_SPEC, prefix, EXIT_STATUS_LAYER_MISSING, prefix,
           EXIT_STATUS_HOST_FAILURE, prefix, EXIT_STATUS_VETTED);
}

/* Columns, not bytes: a usage may have characters of several bytes. */
static void print_usage(const char *usage, const char *summary)
{
    enum { COLUMNS = 47 };
    int used = 0;
    for (const char *at = usage; *at; at++)
        used += ((unsigned char)*at & 0xc0) != 0x80;
    printf("  cloche %s%*s %s\n", usage, used < COLUMNS ? COLUMNS - used : 0, "", summary);
}

void help_print_overview(void)
{
    printf("cloche runs code that you do not trust, in a box that nobody gets out of.\n\nUsage:\n");
    for (size_t i = 0; i < command_count; i++)
        print_usage(commands[i]->usage, commands[i]->summary);
    print_usage("help [COMMAND]", "more about a command");
    print_usage("version", "the version");
    print_usage("--server URL COMMAND …", "a server does it: run, vet, doctor, sandbox, files, fork, top");
    printf("\nExit codes of `cloche run`:\n");
    print_exit_codes("  ");
    printf("\nFirst steps:\n  cloche run -e 'print(1 + 1)'\n  cloche run --input sales.csv --output out "
           "analysis.py\n"
           "  cloche doctor\n");
}

/* groff takes a dash for a hyphen and a leading dot or quote for a request, and has no ellipsis where the
 * locale is ASCII. */
static void print_groff(const char *text)
{
    static const char ellipsis[] = "…";
    bool line_start = true;
    for (; *text; text++) {
        if (line_start && (*text == '.' || *text == '\''))
            fputs("\\&", stdout);
        if (strncmp(text, ellipsis, sizeof ellipsis - 1) == 0) {
            fputs("\\&...", stdout);
            text += sizeof ellipsis - 2;
        } else if (*text == '-')
            fputs("\\-", stdout);
        else if (*text == '\\')
            fputs("\\e", stdout);
        else if (text[0] == '\n' && text[1] == '\n') {
            fputs("\n.PP\n", stdout);
            text++;
        } else
            putchar(*text);
        line_start = *text == '\n';
    }
}

static void print_man_command(const struct command *command)
{
    printf(".SS \"cloche ");
    print_groff(command->usage);
    printf("\"\n");
    print_groff(command->description);
    printf("\n");
    for (size_t i = 0; i < command->option_count; i++) {
        const struct option_row *row = &command->options[i];
        printf(".TP\n.B ");
        if (row->letter)
            printf("\\-%c, ", row->letter);
        printf("\\-\\-");
        print_groff(row->name);
        printf("%s%s\n", row->argument ? " " : "", row->argument ? row->argument : "");
        print_groff(row->help);
        int field = row->field ? limit_find(row->field) : -1;
        char normal[32], most[32];
        if (field >= 0)
            printf(" Default %s, ceiling %s.",
                   limit_format((enum limit_field)field, limit_rows[field].normal, normal, sizeof normal),
                   limit_format((enum limit_field)field, limit_rows[field].most, most, sizeof most));
        printf("\n");
    }
}

void help_print_man(void)
{
    printf(
        ".TH CLOCHE 1 \"\" \"Cloche\" \"User Commands\"\n.SH NAME\ncloche \\- run untrusted code in a box\n"
        ".SH SYNOPSIS\n");
    for (size_t i = 0; i < command_count; i++) {
        printf(".B cloche\n");
        print_groff(commands[i]->usage);
        printf("\n.br\n");
    }
    printf(".SH COMMANDS\n");
    for (size_t i = 0; i < command_count; i++)
        print_man_command(commands[i]);
    printf(".SH CAUSES\nWhy a run ended, in the result's field\n.BR cause :\n");
    for (int i = 0; i < CAUSE_COUNT; i++)
        printf(".TP\n.B %s\n%s\n", cause_names[i], cause_meanings[i]);
    printf(".SH EXIT STATUS\n.nf\n");
    print_exit_codes("");
    printf(".fi\n.SH ENVIRONMENT\n.TP\n.B CLOCHE_SERVER\nThe address of a server, as of \\-\\-server in "
           "front of the "
           "command.\n.TP\n.B CLOCHE_KEY\nThe key that it asks for.\n.TP\n.B SSL_CERT_FILE\nThe certificates "
           "that are trusted.\n.TP\n.B CLOCHE_KEEPER\nThe path of the "
           "keeper's socket.\n");
    printf(
        ".SH FILES\n.TP\n.I /etc/cloche.conf\nThe operator's configuration: one \"name = value\" a "
        "line. The name "
        "of a limit sets its default, NAME.max its ceiling; further accept, image, image_store, isolation, "
        "isolation.min, "
        "languages, preload, preload.NAME, warm, warm.images, warm.idle, oci_runtime, oci_platform, vet, "
        "vet.min, vet.block_modules, vet.allow_modules, "
        "vet.only_modules, vet.block_calls, vet.allow_calls, server.memory, server.cpus, server.names, "
        "server.queue, "
        "server.queue_wait, server.sandbox_runs, upload_quota, upload_lifetime.\n");
}
