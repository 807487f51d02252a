#include "remote/screen.h"

#include "base/base64.h"
#include "remote/event_reader.h"
#include "remote/remote.h"

#include "cli/report.h"

#include "base/file.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { NAMES_TRIED = 10000, EXIT_INTERRUPTED = 128 + 2, EXIT_KILLED = 128 + 9 };

static const struct {
    const char *type, *extension;
    bool is_text;
} kinds[] = {{"image/png", "png", false},
             {"image/jpeg", "jpg", false},
             {"image/svg+xml", "svg", true},
             {"text/html", "html", true}};

/* A name that is not taken yet: nothing of the user's is replaced. */
static void save(struct screen *screen, size_t kind, const json_t *value)
{
    scope_buffer bytes = {0};
    int status =
        kinds[kind].is_text
            ? buffer_append(&bytes, json_string_value(value), json_string_length(value))
            : base64_decode((struct slice){json_string_value(value), json_string_length(value)}, &bytes);
    for (int i = 0; i < NAMES_TRIED && status == 0; i++) {
        char path[512];
        snprintf(path, sizeof path, "%.400s/cloche-%d.%s", screen->save_path ? screen->save_path : ".",
                 ++screen->saved_count, kinds[kind].extension);
        scope_fd fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd < 0 && errno == EEXIST)
            continue;
        if (fd < 0 || file_write_all(fd, bytes.data ? bytes.data : "", bytes.length) < 0)
            report_error("cannot save %s: %s", path, strerror(errno));
        else
            printf("[%s saved as %s]\n", kinds[kind].type, path);
        fflush(stdout);
        return;
    }
}

/* As `cloche repl` does. */
static void show_result(struct screen *screen, const json_t *event)
{
    const json_t *media = json_object_get(event, "media"), *text = json_object_get(media, "text/plain");
    bool is_saved = false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const json_t *value = json_object_get(media, kinds[i].type);
        bool is_table = json_object_get(media, "application/vnd.cloche.table+json");
        if (!json_is_string(value) || (is_table && strcmp(kinds[i].type, "text/html") == 0))
            continue;
        save(screen, i, value);
        is_saved = true;
    }
    if (is_saved || !json_is_string(text))
        return;
    report_text(STDOUT_FILENO, json_string_value(text), json_string_length(text));
    report_text(STDOUT_FILENO, "\n", 1);
}

static int exit_status_of(const json_t *outcome)
{
    const char *status = remote_text(outcome, "status"), *cause = remote_text(outcome, "cause");
    const json_t *code = json_object_get(outcome, "exit_code");
    bool is_stopped = cause[0] && strcmp(cause, "exit") != 0 && strcmp(cause, "signal") != 0;
    if (json_object_get(outcome, "error") && !status[0])
        return EXIT_STATUS_HOST_FAILURE; /* a refusal */
    if (is_stopped && strcmp(cause, "cancelled") != 0)
        return EXIT_KILLED;
    if (strcmp(status, "interrupted") == 0)
        return EXIT_INTERRUPTED;
    json_int_t signal = json_integer_value(json_object_get(outcome, "signal")); /* of a command */
    if (signal)
        return 128 + (int)signal;
    return json_is_integer(code) ? (int)json_integer_value(code) & 0xff : EXIT_KILLED;
}

static const char *meaning_of(const char *cause)
{
    for (int i = 0; i < CAUSE_COUNT; i++)
        if (strcmp(cause, cause_names[i]) == 0)
            return cause_meanings[i];
    return "";
}

/* Of all that was cut, whatever it was of. */
static json_int_t count_of(const json_t *truncated)
{
    json_int_t sum = 0;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)truncated, name, value)
    {
        sum += json_integer_value(value);
    }
    return sum;
}

static void show_end(struct screen *screen, const json_t *outcome)
{
    const json_t *error = json_object_get(outcome, "error");
    const char *traceback = remote_text(error, "traceback"), *cause = remote_text(outcome, "cause");
    const char *detail = remote_text(outcome, "detail");
    json_int_t cut = count_of(json_object_get(outcome, "truncated"));
    bool is_stopped = cause[0] && strcmp(cause, "exit") != 0;
    report_text(STDERR_FILENO, traceback, strlen(traceback));
    if (!traceback[0] && remote_text(error, "message")[0])
        report_error("%s", remote_text(error, "message"));
    if (is_stopped && !screen->quiet)
        report_error("%s: %s", cause, detail[0] ? detail : meaning_of(cause));
    if (json_is_true(json_object_get(outcome, "died")) && !screen->quiet)
        report_error("the interpreter ended; `cloche sandbox restart` gives a fresh one");
    if (cut && !screen->quiet)
        report_error("the output was cut: %lld bytes are missing", (long long)cut);
    if (!screen->exit_status)
        screen->exit_status = exit_status_of(outcome);
}

void screen_show(struct screen *screen, const char *name, const json_t *event)
{
    bool is_output = strcmp(name, "stdout") == 0;
    scope_buffer bytes = {0};
    if (is_output || strcmp(name, "stderr") == 0) {
        if (event_bytes(event, &bytes) == 0)
            report_text(is_output ? STDOUT_FILENO : STDERR_FILENO, bytes.data, bytes.length);
    } else if (strcmp(name, "result") == 0) {
        show_result(screen, event);
    } else if (strcmp(name, "end") == 0) {
        show_end(screen, event);
    }
}

static void show_stream(const json_t *outcome, const char *name, int fd)
{
    char field[32];
    scope_buffer bytes = {0};
    snprintf(field, sizeof field, "%s_base64", name);
    const json_t *text = json_object_get(outcome, name);
    const char *encoded = json_string_value(json_object_get(outcome, field));
    if (encoded && base64_decode((struct slice){encoded, strlen(encoded)}, &bytes) == 0)
        report_text(fd, bytes.data, bytes.length);
    else if (json_is_string(text))
        report_text(fd, json_string_value(text), json_string_length(text));
}

void screen_show_whole(struct screen *screen, const json_t *outcome)
{
    size_t index;
    json_t *item;
    show_stream(outcome, "stdout", STDOUT_FILENO);
    json_array_foreach(json_object_get(outcome, "results"), index, item)
    {
        show_result(screen, item);
    }
    show_stream(outcome, "stderr", STDERR_FILENO);
    show_end(screen, outcome);
}
