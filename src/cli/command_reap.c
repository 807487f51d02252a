/* cloche reap: removes what killed runs left behind. */
#include "cli/command.h"
#include "cli/report.h"

#include "keeper/record.h"

#include <stdio.h>
#include <string.h>

static const struct option_row options[] = {
    {"quiet", 'q', NULL, NULL, "print nothing when there was nothing"},
    {"help", 'h', NULL, NULL, "this text"},
};

static int reap_main(int argc, char **argv)
{
    bool quiet = false;
    struct option_parser parser = {.argc = argc, .argv = argv, .at = 1};
    const struct option_row *row;
    const char *value;
    for (enum option_kind kind; (kind = option_next(&parser, &command_reap, &row, &value)) != OPTION_END;) {
        if (kind != OPTION_ROW)
            return option_refuse(&parser, &command_reap);
        if (strcmp(row->name, "help") == 0) {
            help_print(&command_reap);
            return 0;
        }
        quiet = true;
    }
    struct cgroup_layout layout;
    struct reap_report report;
    struct error err = {0};
    cgroup_layout_find(&layout);
    int status = record_reap_all(&layout, &report, &err);
    if (status < 0) {
        report_error("%s", err.text);
        return report_error_status(&err);
    }
    if (!quiet || report.boxes)
        printf("reaped %d box%s: %d control group%s, %d director%s\n", report.boxes,
               report.boxes == 1 ? "" : "es", report.groups, report.groups == 1 ? "" : "s",
               report.directories, report.directories == 1 ? "y" : "ies");
    if (report.failures)
        fprintf(stderr, "cloche: %d could not be removed; run `cloche reap` again\n", report.failures);
    return report.failures ? EXIT_STATUS_HOST_FAILURE : 0;
}

const struct command command_reap = {
    .name = "reap",
    .usage = "reap [--quiet]",
    .summary = "remove what killed runs left behind",
    .description =
        "Removes processes, control groups and directories of boxes whose owner is dead (killed by signal "
        "9,\n"
        "or by a crash). Every run does the same for the record that it takes; this does it for all.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .main = reap_main,
};
