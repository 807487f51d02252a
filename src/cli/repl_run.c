/* The runs of a session, and what becomes of it after each. */
#include "cli/repl.h"
#include "cli/report.h"

#include <errno.h>
#include <signal.h>

void repl_collect(struct session *session)
{
    struct error err = {0};
    if (session->output_fd < 0)
        return;
    const struct result *result = NULL;
    if (context_finish(session->context, "the session is over", &err) < 0)
        report_error("%s", err.text);
    else
        result = context_result(session->context);
    if (result)
        report_files(result);
}

bool repl_restart(struct session *session)
{
    struct error err = {0};
    if (session->point_count)
        report_error("the points that were kept are gone too");
    repl_forget_points(session);
    repl_collect(session);
    repl_exchange(session, session->first);
    if (context_restart(session->context, &err) < 0) {
        report_error("%s", err.text);
        session->exit_status = report_error_status(&err);
        return false;
    }
    report_error("a new interpreter was started; its variables are empty");
    return true;
}

/* In a pipe it is the end: what follows would find nothing of what it builds on. */
static bool survive_death(struct session *session)
{
    const struct result *result = context_result(session->context);
    char end[sizeof result->detail + 64];
    if (result)
        report_error("the interpreter died: %s", result_format_end(result, end, sizeof end));
    else
        report_error("the interpreter died");
    if (session->is_line_by_line)
        return repl_return(session) || repl_restart(session);
    session->exit_status = result ? result_exit_status(result) : EXIT_STATUS_HOST_FAILURE;
    return false;
}

/* It was not run. What can be helped is: an interpreter that ended since the last run is replaced. */
static bool recover(struct session *session, int status, const struct error *err)
{
    report_error("%s", err->text);
    if (status == -EPIPE && session->is_line_by_line)
        return repl_return(session) || repl_restart(session);
    if (line_reader_is_interactive(session->reader))
        return true;
    session->exit_status = report_error_status(err); /* in a pipe nobody is there to do something */
    return false;
}

/* As the status of a program of its own. */
static int exit_status_of(const struct context_outcome *outcome)
{
    const struct result ended = {.cause = CAUSE_exit, .exit_code = outcome->exit_code};
    if (outcome->timed_out)
        return 128 + SIGKILL; /* as `cloche run` has it */
    if (outcome->status == RUNNER_STATUS_interrupted)
        return 128 + SIGINT;
    if (outcome->status == RUNNER_STATUS_error && !outcome->exit_code)
        return 1;
    return result_exit_status(&ended);
}

/* Where nobody types it is as with `python3 <file`: an exception is the end. A command of bash that failed is
 * none, but the last one counts. */
static bool goes_on_after(struct session *session, const struct context_outcome *outcome)
{
    bool has_exited = outcome->status == RUNNER_STATUS_exit;
    if (has_exited || !session->is_line_by_line)
        session->exit_status = exit_status_of(outcome);
    if (has_exited || session->is_line_by_line)
        return !has_exited;
    return outcome->status == RUNNER_STATUS_ok ||
           (outcome->status == RUNNER_STATUS_error && outcome->exit_code);
}

bool repl_run(struct session *session, struct slice code)
{
    struct context_outcome outcome;
    struct error err = {0};
    const struct runner_order order = {.code = code, .is_typed = true};
    repl_screen_begin(session);
    int status = context_run(session->context, &order, repl_show_event, session, &outcome, &err);
    repl_screen_end(session);
    if (status < 0)
        return recover(session, status, &err);
    if (outcome.truncated_bytes)
        report_error("%lld bytes of output were left out", (long long)outcome.truncated_bytes);
    if (outcome.died)
        return survive_death(session);
    if (outcome.timed_out)
        report_error("the run was interrupted: its time is over (--%s)",
                     outcome.cause == CAUSE_cpu_time ? "cpu" : "wall");
    return goes_on_after(session, &outcome);
}
