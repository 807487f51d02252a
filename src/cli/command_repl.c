/* cloche repl: an interactive session in a box. */
#include "cli/command.h"
#include "cli/repl.h"
#include "cli/report.h"

#include "base/text.h"
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RUNS_DEFAULT = 1000, LIFETIME_DEFAULT_MS = 8 * 3600 * 1000, IDLE_DEFAULT_MS = 3600 * 1000 };

static const struct option_row options[] = {
    {"isolation", 'i', "ENGINE", "isolation", "container (default), gvisor, process or auto"},
    {"language", 'l', "NAME", "language", "python (default), javascript or bash"},
    {"image", 0, "NAME", "image", "file tree that the code sees: host (default), or see `cloche image list`"},
    {"input", 0, "PATH[:NAME]", "input",
     "show a file or directory read-only below /data/input; may be repeated"},
    {"read", 0, "PATH", "read", "show a path read-only at its own place; may be repeated"},
    {"write", 0, "PATH", "write", "let a path be written at its own place; may be repeated"},
    {"env", 0, "NAME=VALUE", "env", "set a variable; none of the caller's are passed on"},
    {"memory", 'm', "SIZE", "memory", "memory of all processes, swap and files in /tmp included"},
    {"wall", 't', "TIME", "wall", "time of each run; then it is interrupted"},
    {"cpu", 0, "TIME", "cpu", "CPU time of each run; then it is interrupted"},
    {"cpus", 0, "NUMBER", "cpus", "share of the CPUs: 0.5 or 50% is half a core"},
    {"pids", 0, "NUMBER", "pids", "processes and threads at one time"},
    {"disk", 0, "SIZE", "disk", "bytes in /tmp, home, /dev/shm and /data/output together"},
    {"output-limit", 0, "SIZE", "output_limit", "bytes shown of each run"},
    {"accept", 0, "NAME", "accept",
     "run even where this limit cannot be enforced: memory (then watched), cpus"},
    {"save", 'o', "DIR", NULL, "where pictures and pages are saved (.)"},
    {"runs", 0, "NUMBER", NULL, "how many runs an interpreter may have (1000)"},
    {"idle", 0, "TIME", NULL, "how long an interpreter waits for the next run; then it ends (1 h)"},
    {"lifetime", 0, "TIME", NULL, "how long an interpreter lives at most (8 h)"},
    {"config", 0, "FILE", NULL, "the operator's configuration instead of /etc/cloche.conf"},
    {"help", 'h', NULL, NULL, "this text"},
};

static int take_time(const char *name, const char *value, int64_t *ret_ms, struct error *err)
{
    if (text_parse_duration(value, ret_ms) && *ret_ms > 0)
        return 0;
    return error_spec(err, name, "%s: '%.32s' is not a time; 90s, 30m and 2h are", name, value);
}

static int take_runs(const char *value, int *ret, struct error *err)
{
    int64_t count;
    if (!text_parse_count(value, &count) || count <= 0 || count > INT32_MAX)
        return error_spec(err, "runs", "runs: '%.32s' is not a number of runs", value);
    *ret = (int)count;
    return 0;
}

struct choice {
    struct session *session;
    struct spec *spec;
};

/* 1: only help was asked for. */
static int take_option(void *data, const struct option_row *row, const char *value, struct error *err)
{
    struct choice *choice = data;
    struct session *session = choice->session;
    if (strcmp(row->name, "language") == 0)
        session->language = value;
    if (row->field)
        return spec_set(choice->spec, row->field, value, err);
    if (strcmp(row->name, "runs") == 0)
        return take_runs(value, &session->wanted.runs_max, err);
    if (strcmp(row->name, "idle") == 0)
        return take_time(row->name, value, &session->wanted.idle_ms, err);
    if (strcmp(row->name, "lifetime") == 0)
        return take_time(row->name, value, &session->wanted.lifetime_ms, err);
    if (strcmp(row->name, "help") == 0) {
        help_print(&command_repl);
        return 1;
    }
    if (strcmp(row->name, "config") == 0)
        session->config_path = value;
    else
        session->save_path = value;
    return 0;
}

static int open_session(int argc, char **argv, struct session *session, struct error *err)
{
    struct spec *spec = spec_new();
    struct choice choice = {session, spec};
    int status = spec ? option_each(argc, argv, &command_repl, take_option, &choice, err)
                      : error_host(err, -ENOMEM, "no memory");
    if (status == 0)
        status = policy_load(session->config_path, &session->policy, err);
    if (status != 0) {
        spec_free(spec);
        return status;
    }
    status = context_open(spec, &session->policy, &session->wanted, &session->context, err);
    if (status < 0)
        return status;
    session->first = session->context;
    session->reader = line_reader_open("repl_history");
    return session->reader ? 0 : error_host(err, -ENOMEM, "no memory");
}

static void close_session(struct session *session)
{
    pthread_mutex_lock(&session->context_lock);
    struct context *context = session->context;
    session->context = NULL;
    pthread_mutex_unlock(&session->context_lock);
    if (context != session->first)
        context_close(context);
    repl_forget_points(session);
    context_close(session->first);
    line_reader_close(session->reader);
    policy_free(&session->policy);
}

bool repl_restart(struct session *session)
{
    struct error err = {0};
    if (session->point_count)
        report_error("the points that were kept are gone too");
    repl_forget_points(session);
    repl_exchange(session, session->first);
    if (context_restart(session->context, &err) < 0) {
        report_error("%s", err.text);
        return false;
    }
    report_error("a new interpreter was started; its variables are empty");
    return true;
}

static void tell_death(struct session *session)
{
    const struct result *result = context_result(session->context);
    if (result)
        report_error("the interpreter died: %s%s%s", cause_names[result->cause],
                     result->detail[0] ? ", " : "", result->detail);
    else
        report_error("the interpreter died");
}

/* It was not run. What can be helped is: an interpreter that ended since the last run is replaced. */
static bool recover(struct session *session, int status, const struct error *err)
{
    report_error("%s", err->text);
    if (status == -EPIPE)
        return repl_restart(session);
    return line_reader_is_interactive(session->reader); /* in a pipe nobody is there to do something */
}

/* False when the session is over. */
static bool run_block(struct session *session, const struct buffer *block)
{
    struct context_outcome outcome;
    struct error err = {0};
    const struct runner_order order = {.code = {block->data, block->length}};
    repl_screen_begin(session);
    int status = context_run(session->context, &order, repl_show_event, session, &outcome, &err);
    repl_screen_end(session);
    if (status < 0)
        return recover(session, status, &err);
    if (outcome.truncated_bytes)
        report_error("%lld bytes of output were left out", (long long)outcome.truncated_bytes);
    if (outcome.died) {
        tell_death(session);
        return repl_restart(session);
    }
    if (outcome.timed_out)
        report_error("the run was interrupted: its time is over (--%s)",
                     outcome.cause == CAUSE_cpu_time ? "cpu" : "wall");
    return outcome.status != RUNNER_STATUS_exit;
}

/* A line, or several that came back from the history at once: then nothing follows, and the empty line that
 * ends a block is not asked for. */
static int add_line(struct buffer *block, const struct buffer *line)
{
    bool is_whole = memchr(line->data ? line->data : "", '\n', line->length) != NULL;
    if (block->length && buffer_append(block, "\n", 1) < 0)
        return -ENOMEM;
    if (buffer_append(block, line->data ? line->data : "", line->length) < 0)
        return -ENOMEM;
    return is_whole ? buffer_append(block, "\n", 1) : 0;
}

static void remember(struct session *session, const struct buffer *block)
{
    scope_buffer text = {0}; /* without the empty line at its end */
    size_t length = block->length;
    while (length > 0 && block->data[length - 1] == '\n')
        length--;
    if (buffer_append(&text, block->data, length) == 0)
        line_reader_remember(session->reader, text.data);
}

/* Takes one line. False when the session is over. */
static bool take_line(struct session *session, const struct buffer *line, struct buffer *block)
{
    if (!block->length && !line->length)
        return true;
    if (!block->length && line->data[0] == ':') {
        line_reader_remember(session->reader, line->data);
        return repl_obey(session, line->data);
    }
    if (add_line(block, line) < 0)
        return false;
    if (!context_is_complete(session->context, (struct slice){block->data, block->length}))
        return true;
    remember(session, block);
    bool goes_on = run_block(session, block);
    buffer_free(block);
    return goes_on;
}

static void read_and_run(struct session *session)
{
    scope_buffer block = {0}, line = {0};
    bool goes_on = true;
    while (goes_on) {
        enum line_kind kind = line_reader_read(session->reader, block.length ? "... " : ">>> ", &line);
        if (kind == LINE_END)
            break;
        if (kind == LINE_CLEARED)
            buffer_free(&block);
        else
            goes_on = take_line(session, &line, &block);
    }
    if (goes_on && block.length) /* the input ended inside a block */
        run_block(session, &block);
}

static void *pass_on_interrupts(void *data)
{
    struct session *session = data;
    sigset_t interrupts;
    int number;
    sigemptyset(&interrupts);
    sigaddset(&interrupts, SIGINT);
    while (sigwait(&interrupts, &number) == 0) {
        pthread_mutex_lock(&session->context_lock);
        if (session->context)
            context_interrupt(session->context);
        pthread_mutex_unlock(&session->context_lock);
    }
    return NULL;
}

static int repl_main(int argc, char **argv)
{
    static struct session session; /* the other thread outlives us */
    session = (struct session){
        .context_lock = PTHREAD_MUTEX_INITIALIZER,
        .screen_lock = PTHREAD_MUTEX_INITIALIZER,
        .save_path = ".",
        .language = "python",
        .shows_progress = isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1,
        .wanted = {.runs_max = RUNS_DEFAULT,
                   .lifetime_ms = LIFETIME_DEFAULT_MS,
                   .idle_ms = IDLE_DEFAULT_MS,
                   .output = repl_show_raw,
                   .watch = repl_show_usage,
                   .data = &session},
    };
    struct error err = {0};
    sigset_t interrupts;
    sigemptyset(&interrupts);
    sigaddset(&interrupts, SIGINT);
    pthread_sigmask(SIG_BLOCK, &interrupts, NULL); /* of all threads: one waits for it */
    int status = open_session(argc, argv, &session, &err);
    if (status != 0) {
        if (status < 0)
            report_error("%s", err.text);
        close_session(&session);
        return status < 0 ? report_error_status(&err) : 0;
    }
    thread_start(NULL, 0, pass_on_interrupts, &session);
    bool is_interactive = line_reader_is_interactive(session.reader);
    if (is_interactive)
        printf("%s in a box; :help for help, Ctrl-D to leave\n", session.language);
    read_and_run(&session);
    if (is_interactive)
        putchar('\n');
    close_session(&session);
    return 0;
}

const struct command command_repl = {
    .name = "repl",
    .usage = "repl [OPTIONS]",
    .summary = "an interactive session in a box",
    .description =
        "Reads Python, JavaScript or bash line by line and runs it in one box, whose interpreter keeps\n"
        "variables, imports, functions and files. The value of an expression is shown; pictures and pages\n"
        "are saved as files. Ctrl-C interrupts what runs; an interpreter that dies says how, and a new one\n"
        "is started.\n\n"
        "Limits on memory, processes and disk are for the session, --wall and --cpu are for each run. On a\n"
        "terminal lines can be edited, come back with the arrow keys, and are kept for the next session in\n"
        "$XDG_STATE_HOME/cloche/repl_history (~/.local/state). Orders begin with a colon: :help lists them.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .main = repl_main,
};
