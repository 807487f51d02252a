#include "cli/report.h"

#include "base/file.h"
#include "base/json_text.h"
#include "base/text.h"
#include "engine/terminal_text.h"
#include "spec/vet.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void report_text(int fd, const char *data, size_t length)
{
    scope_buffer clean = {0};
    if (!length)
        return;
    if (isatty(fd))
        terminal_text_clean(&clean, data, length);
    else
        buffer_append(&clean, data, length);
    file_write_all(fd, clean.data, clean.length);
}

int report_error(const char *format, ...)
{
    scope_buffer line = {0};
    va_list arguments;
    va_start(arguments, format);
    char *text = NULL;
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0)
        return -ENOMEM;
    int status = buffer_print(&line, "cloche: %s\n", text);
    free(text);
    if (status == 0)
        report_text(STDERR_FILENO, line.data, line.length);
    return status;
}

static void print_name(const char *name)
{
    scope_buffer clean = {0};
    terminal_text_clean(&clean, name, strlen(name));
    for (char *at = clean.data; at && *at; at++)
        if (*at == '\n' || *at == '\r')
            *at = '?';
    fputs(clean.data ? clean.data : "", stderr);
}

void report_files(const struct result *result)
{
    char size[32];
    for (size_t i = 0; i < result->omission_count && i < 10; i++) {
        fprintf(stderr, "cloche: not collected: ");
        print_name(result->omissions[i].path);
        fprintf(stderr, ": %s\n", result->omissions[i].reason);
    }
    int64_t more = (int64_t)result->omission_count - 10 + result->omissions_uncounted;
    if (more > 0)
        fprintf(stderr, "cloche: and %lld more not collected\n", (long long)more);
    if (!result->file_count || !isatty(STDERR_FILENO))
        return;
    int64_t total = 0;
    for (size_t i = 0; i < result->file_count; i++)
        total += result->files[i].size;
    fprintf(stderr, "cloche: %zu file%s in /data/output, %s\n", result->file_count,
            result->file_count == 1 ? "" : "s", text_format_size(total, size, sizeof size));
}

void report_returned(const struct result *result)
{
    for (size_t i = 0; i < result->returned.count; i++)
        printf("%s\n", result->returned.items[i]);
    fflush(stdout);
}

enum { VET_LINES = 5 };

/* The words are a guest's. Who asked for nothing else gets them on stdout, as compilers say it; otherwise
 * they are remarks, and few. */
static void remark_on_vet(const struct result *result, const char *name)
{
    bool is_asked = vet_report_mode(result->vet) == VET_only;
    int fd = is_asked ? STDOUT_FILENO : STDERR_FILENO;
    size_t count = vet_report_count(result->vet), shown = is_asked || count < VET_LINES ? count : VET_LINES;
    scope_buffer text = {0};
    for (size_t i = 0; i < shown; i++) {
        struct vet_finding finding = vet_report_finding(result->vet, i);
        if (is_asked)
            buffer_print(&text, "%s:%lld:%lld: ", name, finding.line, finding.column);
        else
            buffer_print(&text, "cloche: vet: line %lld, column %lld: ", finding.line, finding.column);
        buffer_print(&text, "%s%s; %s [%s]\n", finding.is_note ? "note: " : "", finding.message,
                     finding.advice, finding.rule);
    }
    long long more = (long long)(count - shown) + vet_report_more(result->vet);
    if (more > 0)
        buffer_print(&text, "%s%lld more findings\n", is_asked ? "" : "cloche: vet: and ", more);
    report_text(fd, text.data, text.length);
}

void report_remarks(const struct result *result, const char *code_name)
{
    if (result->vet)
        remark_on_vet(result, code_name ? code_name : "<code>");
    if (result->chosen[0])
        fprintf(stderr, "cloche: auto chose %s: %s\n", isolation_names[result->isolation], result->chosen);
    if (result->cause == CAUSE_vetted && vet_report_mode(result->vet) == VET_only)
        return;
    if (result->cause != CAUSE_exit && result->cause != CAUSE_signal && result->cause != CAUSE_cancelled)
        fprintf(stderr, "cloche: %s: %s\n", cause_names[result->cause],
                result->detail[0] ? result->detail : cause_meanings[result->cause]);
    else if (result->cause == CAUSE_cancelled)
        fprintf(stderr, "cloche: cancelled\n");
    else if (result->signal)
        fprintf(stderr, "cloche: the program was ended by signal %d (%s)\n", result->signal,
                strsignal(result->signal));
    if (result->exit_code >= EXIT_STATUS_PROGRAM_RESERVED && result->exit_code <= EXIT_STATUS_LAST)
        fprintf(stderr, "cloche: the program exited with %d, which is shown as %d\n", result->exit_code,
                EXIT_STATUS_PROGRAM_RESERVED);
    if (result->output.dropped_bytes)
        fprintf(stderr, "cloche: stdout was cut: %lld bytes are missing\n",
                (long long)result->output.dropped_bytes);
    if (result->errors.dropped_bytes)
        fprintf(stderr, "cloche: stderr was cut: %lld bytes are missing\n",
                (long long)result->errors.dropped_bytes);
    for (size_t i = 0; i < result->layer_count; i++)
        if (!result->layers[i].active && strcmp(result->layers[i].name, "cgroup") == 0)
            fprintf(stderr, "cloche: ran without %s: %s\n", result->layers[i].name, result->layers[i].detail);
    if (result->left_behind)
        fprintf(stderr, "cloche: something of the box could not be removed; `cloche reap` will do it\n");
    report_files(result);
}

void report_error_json(const struct error *err)
{
    scope_buffer text_clean = {0}, subject = {0}; /* what the caller gave may stand in them, cut anywhere */
    text_append_utf8(&text_clean, err->text, strlen(err->text));
    text_append_utf8(&subject, err->subject, strlen(err->subject));
    json_t *object =
        json_pack("{s:{s:s,s:s}}", "error", "code", error_kind_name(err->kind), "message", text_clean.data);
    if (err->subject[0])
        json_object_set_new(json_object_get(object, "error"), err->kind == ERROR_LAYER ? "layer" : "field",
                            json_string(subject.data));
    char *text = object ? json_text(object, JSON_COMPACT) : NULL;
    printf("%s\n", text ? text : "{\"error\":{\"code\":\"host_failure\",\"message\":\"no memory\"}}");
    free(text);
    json_decref(object);
}

int report_error_status(const struct error *err)
{
    return err->kind == ERROR_SPEC    ? EXIT_STATUS_BAD_SPEC
           : err->kind == ERROR_LAYER ? EXIT_STATUS_LAYER_MISSING
                                      : EXIT_STATUS_HOST_FAILURE;
}
