/* The orders of a session: lines that begin with a colon. */
#include "cli/repl.h"
#include "cli/report.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

static bool order_help(struct session *session);
static bool order_limits(struct session *session);
static bool order_quit(struct session *session);
static bool order_fork(struct session *session);
static bool order_back(struct session *session);

static const struct order {
    const char *name, *short_name, *help;
    bool (*obey)(struct session *session); /* false: the session is over */
} orders[] = {
    {":help", ":h", "this list", order_help},
    {":limits", ":l", "the limits of the box and its runs, and what is used now", order_limits},
    {":fork", ":f", "keep this moment, variables and files, as a point to come back to", order_fork},
    {":back", ":b", "go back to the point that was kept last, as often as you like", order_back},
    {":restart", ":r", "a fresh interpreter; variables and files of the old one are gone", repl_restart},
    {":quit", ":q", "leave (as exit() and Ctrl-D do)", order_quit},
};
static const size_t order_count = sizeof orders / sizeof *orders;

static bool order_help(struct session *session)
{
    (void)session;
    for (size_t i = 0; i < order_count; i++)
        printf("%-9s %s  %s\n", orders[i].name, orders[i].short_name, orders[i].help);
    puts("Ctrl-C interrupts what runs, and a second one after a second ends the interpreter; at the prompt "
         "it\n"
         "clears the line. Pictures and pages are saved as files (--save); with --output what is left in\n"
         "/data/output is written there at the end, and before a fresh interpreter is started.");
    return true;
}

/* A point is a copy that nobody runs anything in; a name may follow, for more than one. */
static bool order_fork(struct session *session)
{
    if (strlen(session->argument) >= sizeof session->points[0].name)
        report_error("a name of a point has at most %zu bytes", sizeof session->points[0].name - 1);
    else
        repl_keep_point(session, session->argument);
    return true;
}

static bool order_back(struct session *session)
{
    struct error err = {0};
    struct repl_point *point = repl_find_point(session, session->argument);
    if (!point)
        report_error(session->argument[0] ? "there is no point '%.64s'; :fork %.64s keeps one"
                                          : "no point is kept; :fork keeps one",
                     session->argument, session->argument);
    else if (repl_go_back(session, point, &err) < 0)
        report_error("%s", err.text);
    return true;
}

static bool order_quit(struct session *session)
{
    (void)session;
    return false;
}

static void print_limit(const char *name, const char *now, const char *most, const char *remark)
{
    printf("%-13s %-12s %-12s %s\n", name, now, most, remark);
}

/* What of a limit is used: only these are measured. */
static const char *format_used(enum limit_field field, const struct context_usage *usage, char *into,
                               size_t size)
{
    if (field == LIMIT_memory)
        return limit_format(field, usage->memory_bytes, into, size);
    if (field == LIMIT_pids)
        return limit_format(field, usage->pids, into, size);
    if (field == LIMIT_disk)
        return limit_format(field, usage->disk_bytes, into, size);
    return "-";
}

static void print_box_limits(const struct limits *limits, const struct context_usage *usage, bool collects)
{
    for (int i = 0; i < LIMIT_FIELDS; i++) {
        enum limit_field field = (enum limit_field)i;
        char now[32], most[32], peak[32], remark[64] = "";
        if (!collects && (field == LIMIT_collect || field == LIMIT_collect_files))
            continue;
        if (field == LIMIT_memory)
            snprintf(remark, sizeof remark, "%s at its peak",
                     text_format_size(usage->peak_memory_bytes, peak, sizeof peak));
        if (field == LIMIT_wall || field == LIMIT_cpu || field == LIMIT_output_limit)
            snprintf(remark, sizeof remark, "each run");
        print_limit(limit_rows[i].name, format_used(field, usage, now, sizeof now),
                    limit_format(field, limits->value[i], most, sizeof most), remark);
    }
}

static bool order_limits(struct session *session)
{
    struct context_usage usage;
    char now[32], most[32];
    context_look(session->context, &usage);
    print_limit("limit", "now", "at most", "");
    print_box_limits(context_limits(session->context), &usage, session->output_fd >= 0);
    snprintf(now, sizeof now, "%d", usage.runs);
    snprintf(most, sizeof most, "%d", usage.runs_max);
    print_limit("runs", now, most, "");
    /* In whole seconds, or nobody could read them. */
    print_limit("idle", text_format_duration(usage.idle_us / 1000000 * 1000, now, sizeof now),
                text_format_duration(usage.idle_limit_us / 1000, most, sizeof most), "");
    print_limit("lifetime", text_format_duration(usage.age_us / 1000000 * 1000, now, sizeof now),
                text_format_duration(usage.lifetime_us / 1000, most, sizeof most), "");
    return true;
}

/* In bash a colon alone is a command. */
bool repl_is_order(const struct buffer *line)
{
    return line->length > 1 && line->data[0] == ':' && ((line->data[1] | 0x20) >= 'a') &&
           ((line->data[1] | 0x20) <= 'z');
}

bool repl_obey(struct session *session, const char *line)
{
    size_t length = strcspn(line, " \t");
    char word[32];
    snprintf(word, sizeof word, "%.*s", (int)(length < 31 ? length : 31), line);
    const char *argument = line + length + strspn(line + length, " \t");
    size_t end = strlen(argument);
    while (end > 0 && strchr(" \t\r", argument[end - 1]))
        end--;
    snprintf(session->argument, sizeof session->argument, "%.*s", (int)(end < 127 ? end : 127), argument);
    struct text_guess guess = {.given = word};
    for (size_t i = 0; i < order_count; i++) {
        if (strcmp(word, orders[i].name) == 0 || strcmp(word, orders[i].short_name) == 0) {
            bool goes_on = orders[i].obey(session);
            fflush(stdout);
            return goes_on;
        }
        text_guess_offer(&guess, orders[i].name);
    }
    if (guess.nearest)
        report_error("there is no order '%.32s'; did you mean %s?", word, guess.nearest);
    else
        report_error("there is no order '%.32s'; :help lists them", word);
    return true;
}
