/* One run by this very process and its children. */
#include "cli/command.h"
#include "cli/ending_signals.h"
#include "cli/pause_signal.h"
#include "cli/progress_line.h"
#include "cli/report.h"
#include "cli/run_options.h"
#include "cli/warm_run.h"

#include "base/file.h"
#include "base/scope.h"
#include "keeper/run.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static int finish(const struct run_options *given, const struct result *result)
{
    if (given->json) {
        char *text = result_to_json(result, isatty(STDOUT_FILENO));
        struct error err = {0};
        if (!text)
            error_host(&err, -ENOMEM, "no memory for the result");
        if (!text)
            return run_options_fail(&err, true);
        int status = file_write_all(STDOUT_FILENO, text, strlen(text));
        if (status == 0)
            status = file_write_all(STDOUT_FILENO, "\n", 1);
        free(text);
        return status < 0 ? EXIT_STATUS_HOST_FAILURE : result_exit_status(result);
    }
    if (result->compile &&
        !result->layer_count) /* the run itself never came: these are the compiler's words */
        report_text(STDERR_FILENO, result->errors.kept.data, result->errors.kept.length);
    report_returned(result);
    if (!given->quiet)
        report_remarks(result, given->spec->code_name);
    return result_exit_status(result);
}

struct held {
    int fd;
    struct progress_line *line;
};

static void hold(void *data)
{
    struct held *held = data;
    progress_line_clear(held->line);
    pause_signal_hold(held->fd);
}

int run_perform(struct run_options *given)
{
    struct error err = {0};
    struct spec *spec = given->spec;
    struct policy policy = {0};
    if (policy_load(given->config_path, &policy, &err) < 0)
        return run_options_fail(&err, given->json);
    policy_trust_caller(&policy);
    if (spec->stdin_kind == STDIN_NONE && !given->spec_from_stdin) {
        spec->stdin_kind = STDIN_DESCRIPTOR;
        spec->stdin_fd = STDIN_FILENO;
    }
    struct progress_line line = {0};
    bool show_progress = !given->quiet && !given->json && isatty(STDERR_FILENO);
    progress_line_init(&line, &spec->limits);
    scope_fd cancel_fd = ending_signals_watch();
    if (given->warm && !spec->fetch.count) { /* no box that waits has a gateway */
        int exit_status;
        int status = run_warm(given, &policy, show_progress ? &line : NULL, cancel_fd, &exit_status, &err);
        if (status != -ENOENT) {
            policy_free(&policy);
            return status < 0 ? run_options_fail(&err, given->json) : exit_status;
        }
        if (!given->quiet)
            report_error("no keeper is running (`cloche keep` starts one): the run is cold");
    }
    scope_fd pause_fd = pause_signal_watch();
    struct held held = {.fd = pause_fd, .line = &line};
    const struct supervise_pause pause = {.fd = pause_fd, .hold = hold, .data = &held};
    struct supervise_io io = {
        .forward_fd = {given->json ? -1 : STDOUT_FILENO, given->json ? -1 : STDERR_FILENO},
        .for_terminal = {isatty(STDOUT_FILENO) == 1, isatty(STDERR_FILENO) == 1},
        .output = show_progress ? progress_line_output : NULL,
        .progress = show_progress ? progress_line_show : NULL,
        .data = &line,
        .cancel_fd = cancel_fd,
        .pause = pause_fd >= 0 ? &pause : NULL,
    };
    struct result *result = NULL;
    int status = keeper_run(spec, &policy, &io, &result, &err);
    progress_line_clear(&line);
    policy_free(&policy);
    if (status < 0)
        return run_options_fail(&err, given->json);
    int exit_status = finish(given, result);
    result_free(result);
    return exit_status;
}
