/* cloche repl: an interactive session in a box. */
#include "cli/command.h"
#include "cli/report.h"

#include "base/file.h"
#include "base/scope.h"
#include "keeper/context.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct option_row options[] = {
    {"isolation", 'i', "ENGINE", "isolation", "container (default) or process"},
    {"language", 'l', "NAME", "language", "python (default), javascript or bash"},
    {"image", 0, "NAME", "image", "file tree that the code sees: host (default), or see `cloche image list`"},
    {"input", 0, "PATH[:NAME]", "input",
     "show a file or directory read-only below /data/input; may be repeated"},
    {"read", 0, "PATH", "read", "show a path read-only at its own place; may be repeated"},
    {"write", 0, "PATH", "write", "let a path be written at its own place; may be repeated"},
    {"env", 0, "NAME=VALUE", "env", "set a variable; none of the caller's are passed on"},
    {"memory", 'm', "SIZE", "memory", "memory of all processes, swap and files in /tmp included"},
    {"wall", 't', "TIME", "wall", "time of each run; then it is interrupted"},
    {"cpus", 0, "NUMBER", "cpus", "share of the CPUs: 0.5 or 50% is half a core"},
    {"pids", 0, "NUMBER", "pids", "processes and threads at one time"},
    {"disk", 0, "SIZE", "disk", "bytes in /tmp, home, /dev/shm and /data/output together"},
    {"output-limit", 0, "SIZE", "output_limit", "bytes shown of each run"},
    {"accept", 0, "NAME", "accept",
     "run even where this limit cannot be enforced: memory (then watched), cpus"},
    {"save", 'o', "DIR", NULL, "where pictures and pages are saved (.)"},
    {"runs", 0, "NUMBER", NULL, "how many runs the session may have (1000)"},
    {"config", 0, "FILE", NULL, "the operator's configuration instead of /etc/cloche.conf"},
    {"help", 'h', NULL, NULL, "this text"},
};

struct session {
    int argc;
    char **argv;
    struct policy policy;
    struct context *context;
    pthread_mutex_t
        context_lock; /* held while the context is exchanged, or interrupted by the other thread */
    const char *config_path, *save_path, *language;
    int runs_max;
    int saved_count;
    bool is_interactive;
};

static int take_option(struct session *session, struct spec *spec, const struct option_row *row,
                       const char *value, struct error *err)
{
    if (strcmp(row->name, "language") == 0)
        session->language = value;
    if (row->field)
        return spec_set(spec, row->field, value, err);
    if (strcmp(row->name, "help") == 0) {
        help_print(&command_repl);
        return 1;
    }
    if (strcmp(row->name, "config") == 0)
        session->config_path = value;
    else if (strcmp(row->name, "save") == 0)
        session->save_path = value;
    else if ((session->runs_max = atoi(value)) <= 0)
        return error_spec(err, "runs", "runs: '%.32s' is not a number of runs", value);
    return 0;
}

static int parse(struct session *session, struct spec *spec, struct error *err)
{
    struct option_parser parser = {.argc = session->argc, .argv = session->argv, .at = 1};
    for (;;) {
        const struct option_row *row;
        const char *value;
        int status;
        switch (option_next(&parser, &command_repl, &row, &value)) {
        case OPTION_END:
            return 0;
        case OPTION_ROW:
            status = take_option(session, spec, row, value, err);
            if (status != 0)
                return status;
            break;
        case OPTION_WRONG:
            return error_spec(err, "option", "%s", parser.message);
        default:
            return error_spec(err, "option", "repl takes options only, not '%.64s'", value ? value : "--");
        }
    }
}

static void show_raw(void *data, enum supervise_stream stream, const char *bytes, size_t length)
{
    (void)data;
    report_text(stream == STREAM_STDOUT ? STDOUT_FILENO : STDERR_FILENO, bytes, length);
}

/* 1: only help was asked for. */
static int open_context(struct session *session, struct error *err)
{
    struct spec *spec = spec_new();
    int status = spec ? parse(session, spec, err) : error_host(err, -ENOMEM, "no memory");
    if (status == 0 && !session->policy.source[0])
        status = policy_load(session->config_path, &session->policy, err);
    if (status != 0) {
        spec_free(spec);
        return status;
    }
    const struct context_options wanted = {.runs_max = session->runs_max, .output = show_raw};
    struct context *context = NULL;
    status = context_open(spec, &session->policy, &wanted, &context, err);
    pthread_mutex_lock(&session->context_lock);
    session->context = context;
    pthread_mutex_unlock(&session->context_lock);
    return status;
}

static void close_context(struct session *session)
{
    pthread_mutex_lock(&session->context_lock);
    struct context *context = session->context;
    session->context = NULL;
    pthread_mutex_unlock(&session->context_lock);
    context_close(context);
}

/* A name that is not taken yet: nothing of the user's is replaced. */
static void save(struct session *session, const struct runner_media *media, const char *extension)
{
    for (int attempt = 0; attempt < 10000; attempt++) {
        char path[512];
        snprintf(path, sizeof path, "%.400s/cloche-%d.%s", session->save_path, ++session->saved_count,
                 extension);
        scope_fd fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0 && errno == EEXIST)
            continue;
        if (fd < 0 || file_write_all(fd, media->content.data, media->content.length) < 0)
            report_error("cannot save %s: %s", path, strerror(errno));
        else
            printf("[%s saved as %s]\n", media->type, path);
        return;
    }
}

static void show_result(struct session *session, const struct runner_event *event)
{
    static const struct {
        const char *type, *extension;
    } files[] = {
        {"image/png", "png"}, {"image/jpeg", "jpg"}, {"image/svg+xml", "svg"}, {"text/html", "html"}};
    bool saved = false, is_table = false;
    for (size_t i = 0; i < event->media_count; i++)
        is_table |= strcmp(event->media[i].type, "application/vnd.cloche.table+json") == 0;
    for (size_t i = 0; i < event->media_count; i++)
        for (size_t j = 0; j < sizeof files / sizeof *files; j++)
            if (strcmp(event->media[i].type, files[j].type) == 0 && !(is_table && j == 3)) {
                save(session, &event->media[i], files[j].extension);
                saved = true;
            }
    fflush(stdout);
    for (size_t i = 0; i < event->media_count && !saved; i++)
        if (strcmp(event->media[i].type, "text/plain") == 0) {
            report_text(STDOUT_FILENO, event->media[i].content.data, event->media[i].content.length);
            report_text(STDOUT_FILENO, "\n", 1);
        }
}

static void show_event(void *data, const struct runner_event *event)
{
    switch (event->kind) {
    case RUNNER_stdout:
    case RUNNER_stderr:
        report_text(event->kind == RUNNER_stdout ? STDOUT_FILENO : STDERR_FILENO, event->body.data,
                    event->body.length);
        break;
    case RUNNER_result:
        show_result(data, event);
        break;
    case RUNNER_end:
        if (event->traceback)
            report_text(STDERR_FILENO, event->traceback, strlen(event->traceback));
        break;
    default:
        break;
    }
}

static void tell_death(struct session *session, const struct context_outcome *outcome)
{
    const struct result *result = context_result(session->context);
    if (outcome->timed_out)
        report_error("the run did not end when it was interrupted; the interpreter was ended");
    else if (result)
        report_error("the interpreter died: %s%s%s", cause_names[result->cause],
                     result->detail[0] ? ", " : "", result->detail);
    else
        report_error("the interpreter died");
}

/* False when the session is over. */
static bool run_block(struct session *session, const struct buffer *block)
{
    struct context_outcome outcome;
    struct error err = {0};
    const struct runner_order order = {.code = {block->data, block->length}};
    if (context_run(session->context, &order, show_event, session, &outcome, &err) < 0) {
        report_error("%s", err.text);
        return false;
    }
    if (outcome.truncated_bytes)
        report_error("%lld bytes of output were left out", (long long)outcome.truncated_bytes);
    if (outcome.timed_out && !outcome.died)
        report_error("the run was interrupted: its time is over (--wall)");
    if (!outcome.died)
        return outcome.status != RUNNER_STATUS_exit;
    tell_death(session, &outcome);
    close_context(session);
    if (open_context(session, &err) != 0) {
        report_error("%s", err.text);
        return false;
    }
    report_error("a new one was started; its variables are empty");
    return true;
}

/* Lines that start with a colon are for us. False when the session is over. */
static bool obey(const char *line)
{
    if (strcmp(line, ":quit") == 0 || strcmp(line, ":q") == 0)
        return false;
    if (strcmp(line, ":help") == 0 || strcmp(line, ":h") == 0)
        puts(":help   this list\n:quit   leave (as exit() and Ctrl-D do)\n"
             "Ctrl-C  interrupts what runs. Pictures and pages are saved as files.");
    else
        report_error("there is no command '%.32s'; :help lists them", line);
    return true;
}

static void prompt(const struct session *session, const char *text)
{
    if (!session->is_interactive)
        return;
    fputs(text, stdout);
    fflush(stdout);
}

static void read_and_run(struct session *session)
{
    scope_free char *line = NULL;
    size_t size = 0;
    ssize_t length;
    scope_buffer block = {0};
    bool goes_on = true;
    prompt(session, ">>> ");
    while (goes_on && (length = getline(&line, &size, stdin)) >= 0) {
        if (length > 0 && line[length - 1] == '\n')
            line[--length] = '\0';
        if (!block.length && line[0] == ':') {
            goes_on = obey(line);
        } else if (block.length || length > 0) {
            if ((block.length && buffer_append(&block, "\n", 1) < 0) ||
                buffer_append(&block, line, (size_t)length) < 0)
                return;
            if (!context_is_complete(session->context, (struct slice){block.data, block.length})) {
                prompt(session, "... ");
                continue;
            }
            goes_on = run_block(session, &block);
            buffer_free(&block);
        }
        prompt(session, goes_on ? ">>> " : "");
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
    session = (struct session){.context_lock = PTHREAD_MUTEX_INITIALIZER,
                               .argc = argc,
                               .argv = argv,
                               .save_path = ".",
                               .language = "python",
                               .runs_max = 1000,
                               .is_interactive = isatty(STDIN_FILENO) == 1};
    struct error err = {0};
    sigset_t interrupts;
    sigemptyset(&interrupts);
    sigaddset(&interrupts, SIGINT);
    pthread_sigmask(SIG_BLOCK, &interrupts, NULL); /* of all threads: one waits for it */
    int status = open_context(&session, &err);
    if (status != 0) {
        if (status < 0)
            report_error("%s", err.text);
        policy_free(&session.policy);
        return status < 0 ? report_error_status(&err) : 0;
    }
    pthread_t listener;
    if (pthread_create(&listener, NULL, pass_on_interrupts, &session) == 0)
        pthread_detach(listener);
    if (session.is_interactive)
        printf("%s in a box; :help for help, Ctrl-D to leave\n", session.language);
    read_and_run(&session);
    if (session.is_interactive)
        putchar('\n');
    close_context(&session);
    policy_free(&session.policy);
    return 0;
}

const struct command command_repl = {
    .name = "repl",
    .usage = "repl [OPTIONS]",
    .summary = "an interactive session in a box",
    .description =
        "Reads Python, JavaScript or bash line by line and runs it in one box, whose interpreter keeps\n"
        "variables, imports, functions and files. The value of an expression is shown; pictures and pages\n"
        "are saved as files. Ctrl-C interrupts what runs; an interpreter that dies says how, and a new one "
        "is\n"
        "started.\n\n"
        "Limits on memory, processes and disk are for the session, --wall is for each run.",
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .main = repl_main,
};
