/* cloche repl: an interactive session in a box. */
#include "cli/command.h"
#include "cli/repl.h"
#include "cli/report.h"

#include "base/file.h"
#include "base/scope.h"
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
    {"read", 0, "PATH", "read",
     "show a path read-only at its own place, that which links lead to; may be repeated"},
    {"write", 0, "PATH", "write", "let a path be written at its own place, as with --read; may be repeated"},
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
    {"output", 'o', "DIR", NULL, "write what is left in /data/output to this directory"},
    {"collect", 0, "SIZE", "collect", "bytes of files collected from /data/output"},
    {"collect-files", 0, "NUMBER", "collect_files", "how many of them"},
    {"save", 0, "DIR", NULL, "where pictures and pages are saved (the directory of --output, or .)"},
    {"lines", 0, NULL, NULL, "run each line as it comes, also from a pipe"},
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
    if (strcmp(row->name, "lines") == 0)
        session->is_line_by_line = true;
    else if (strcmp(row->name, "config") == 0)
        session->config_path = value;
    else if (strcmp(row->name, "output") == 0)
        session->output_path = value;
    else
        session->save_path = value;
    return 0;
}

/* Before anything starts: what cannot be had is told at once. */
static int open_directories(struct session *session, struct error *err)
{
    if (session->save_path) {
        scope_fd pictures = file_open_target(session->save_path, err);
        if (pictures < 0)
            return pictures;
    }
    if (session->output_path)
        session->output_fd = file_open_target(session->output_path, err);
    if (session->output_path && session->output_fd < 0)
        return session->output_fd;
    if (!session->save_path)
        session->save_path = session->output_path ? session->output_path : ".";
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
    if (status == 0)
        status = open_directories(session, err);
    if (status != 0) {
        spec_free(spec);
        return status;
    }
    status = context_open(spec, &session->policy, &session->wanted, &session->context, err);
    if (status < 0)
        return status;
    session->first = session->context;
    session->reader = line_reader_open("repl_history");
    if (!session->reader)
        return error_host(err, -ENOMEM, "no memory");
    session->is_line_by_line |= line_reader_is_interactive(session->reader);
    return context_collect_into(session->context, session->output_fd, err);
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
    scope_close_fd(&session->output_fd);
    policy_free(&session->policy);
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
    if (!block->length && repl_is_order(line)) {
        line_reader_remember(session->reader, line->data);
        return repl_obey(session, line->data);
    }
    if (add_line(block, line) < 0)
        return false;
    if (!context_is_complete(session->context, (struct slice){block->data, block->length}))
        return true;
    remember(session, block);
    bool goes_on = repl_run(session, (struct slice){block->data, block->length});
    buffer_free(block);
    return goes_on;
}

static bool is_blank(const struct buffer *block)
{
    for (size_t i = 0; i < block->length; i++)
        if (!strchr(" \t\r\n", block->data[i]))
            return false;
    return true;
}

/* What came so far, as one run. Ctrl-C ends who writes into the pipe too: half of what was meant is not run.
 */
static bool run_whole(struct session *session, struct buffer *block)
{
    if (session->is_interrupted) {
        session->exit_status = 128 + SIGINT;
        return false;
    }
    bool goes_on = is_blank(block) || repl_run(session, (struct slice){block->data, block->length});
    session->is_interrupted = false;
    buffer_free(block);
    return goes_on;
}

/* A line that nobody has typed: only what stands between orders is run, as a whole, so that it may have empty
 * lines wherever a file may. What looks like an order inside a text is none. False when the session is over.
 */
static bool add_to_script(struct session *session, const struct buffer *line, struct buffer *block)
{
    if (repl_is_order(line) &&
        (is_blank(block) ||
         context_is_complete(session->context, (struct slice){block->data, block->length})))
        return run_whole(session, block) && repl_obey(session, line->data);
    if (block->length + line->length <= RUNNER_BODY_MAX)
        return buffer_append(block, line->data ? line->data : "", line->length) == 0 &&
               buffer_append(block, "\n", 1) == 0;
    report_error("more than %d MiB came without an end", RUNNER_BODY_MAX >> 20);
    session->exit_status = EXIT_STATUS_BAD_SPEC;
    return false;
}

static void read_script(struct session *session)
{
    scope_buffer block = {0}, line = {0};
    while (line_reader_read(session->reader, "", &line) == LINE_READ)
        if (!add_to_script(session, &line, &block))
            return;
    run_whole(session, &block);
}

static void read_lines(struct session *session)
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
        repl_run(session, (struct slice){block.data, block.length});
}

static void *pass_on_interrupts(void *data)
{
    struct session *session = data;
    sigset_t interrupts;
    int number;
    sigemptyset(&interrupts);
    sigaddset(&interrupts, SIGINT);
    while (sigwait(&interrupts, &number) == 0) {
        session->is_interrupted = true;
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
        .output_fd = -1,
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
    if (session.is_line_by_line)
        read_lines(&session);
    else
        read_script(&session);
    if (is_interactive)
        putchar('\n');
    repl_forget_points(&session);
    repl_collect(&session);
    close_session(&session);
    return session.exit_status;
}

const struct command command_repl = {
    .name = "repl",
    .usage = "repl [OPTIONS]",
    .summary = "an interactive session in a box",
    .description =
        "Reads Python, JavaScript or bash line by line and runs it in one box, whose interpreter keeps\n"
        "variables, imports, functions and files. The value of an expression is shown; pictures and pages\n"
        "are saved as files, a figure each time that it has changed. Ctrl-C interrupts what runs; an\n"
        "interpreter that dies says how, and the session goes back to its last point, or a new one is\n"
        "started. exit(3) leaves with status 3.\n\n"
        "What comes through a pipe is run as a whole, as a file would be; orders stand between such\n"
        "parts. There an exception is the end, with status 1. With --lines it is as if somebody typed.\n\n"
        "With --output what is left in /data/output is written to that directory when the session ends,\n"
        "and before a fresh interpreter is started, by the rules of `cloche run --output`.\n\n"
        "Limits on memory, processes and disk are for the session, --wall and --cpu are for each run. On a\n"
        "terminal lines can be edited, come back with the arrow keys, and are kept for the next session in\n"
        "$XDG_STATE_HOME/cloche/repl_history (~/.local/state). Orders begin with a colon: :help lists them.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .main = repl_main,
};
