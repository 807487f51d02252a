/* What a session shows: output, results, pictures as files, and a line while a run takes long. */
#include "cli/repl.h"
#include "cli/report.h"

#include "base/file.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { FIRST_US = 500000 };

void repl_screen_begin(struct session *session)
{
    progress_line_init(&session->line, &session->line_limits);
    session->line.first_us = FIRST_US;
}

void repl_screen_end(struct session *session)
{
    pthread_mutex_lock(&session->screen_lock);
    progress_line_clear(&session->line);
    pthread_mutex_unlock(&session->screen_lock);
}

void repl_show_raw(void *data, enum supervise_stream stream, struct slice bytes, bool is_runs)
{
    struct session *session = data;
    (void)is_runs;
    pthread_mutex_lock(&session->screen_lock);
    progress_line_output(&session->line, stream, bytes.data, bytes.length);
    report_text(stream == STREAM_STDOUT ? STDOUT_FILENO : STDERR_FILENO, bytes.data, bytes.length);
    pthread_mutex_unlock(&session->screen_lock);
}

void repl_show_usage(void *data, const struct context_usage *usage)
{
    struct session *session = data;
    if (!session->shows_progress)
        return;
    char note[CONTEXT_TEXT_MAX + 16];
    if (usage->fraction >= 0)
        snprintf(note, sizeof note, "%.0f %% %s", usage->fraction * 100, usage->text);
    else
        snprintf(note, sizeof note, "%s", usage->text);
    const struct measurement now = {
        .cpu_user_us = usage->cpu_us, .memory_bytes = usage->memory_bytes, .pids = usage->pids};
    pthread_mutex_lock(&session->screen_lock);
    session->line_limits = *context_limits(session->context);
    session->line_limits.value[LIMIT_wall] = usage->wall_limit_us / 1000;
    session->line_limits.value[LIMIT_cpu] = usage->cpu_limit_us / 1000;
    session->line.note = note;
    progress_line_show(&session->line, usage->elapsed_us, &now);
    session->line.note = NULL;
    pthread_mutex_unlock(&session->screen_lock);
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

static const struct runner_media *find_media(const struct runner_event *event, const char *type)
{
    for (size_t i = 0; i < event->media_count; i++)
        if (strcmp(event->media[i].type, type) == 0)
            return &event->media[i];
    return NULL;
}

/* What to read of it. An object that tells nothing of itself ("<Latex object>") may have a text that does. */
static const struct runner_media *find_text(const struct runner_event *event)
{
    static const char *const telling[] = {"text/markdown", "text/latex", "application/json"};
    const struct runner_media *plain = find_media(event, "text/plain");
    size_t length = plain ? plain->content.length : 0;
    bool is_mute = length > 1 && plain->content.data[0] == '<' && plain->content.data[length - 1] == '>';
    for (size_t i = 0; i < sizeof telling / sizeof *telling && (is_mute || !plain); i++) {
        const struct runner_media *found = find_media(event, telling[i]);
        if (found)
            return found;
    }
    return plain;
}

static void show_result(struct session *session, const struct runner_event *event)
{
    static const struct {
        const char *type, *extension;
    } files[] = {
        {"image/png", "png"}, {"image/jpeg", "jpg"}, {"image/svg+xml", "svg"}, {"text/html", "html"}};
    bool saved = false, is_table = find_media(event, "application/vnd.cloche.table+json") != NULL;
    for (size_t i = 0; i < event->media_count; i++)
        for (size_t j = 0; j < sizeof files / sizeof *files; j++)
            if (strcmp(event->media[i].type, files[j].type) == 0 && !(is_table && j == 3)) {
                save(session, &event->media[i], files[j].extension);
                saved = true;
            }
    fflush(stdout);
    const struct runner_media *text = saved ? NULL : find_text(event);
    if (text) {
        report_text(STDOUT_FILENO, text->content.data, text->content.length);
        report_text(STDOUT_FILENO, "\n", 1);
    }
}

void repl_show_event(void *data, const struct runner_event *event)
{
    struct session *session = data;
    pthread_mutex_lock(&session->screen_lock);
    if (event->kind == RUNNER_stdout || event->kind == RUNNER_stderr)
        progress_line_output(&session->line, event->kind == RUNNER_stdout ? STREAM_STDOUT : STREAM_STDERR,
                             event->body.data, event->body.length);
    else if (event->kind != RUNNER_progress && event->kind != RUNNER_started)
        progress_line_output(&session->line, STREAM_STDOUT, NULL, 0);
    switch (event->kind) {
    case RUNNER_stdout:
    case RUNNER_stderr:
        report_text(event->kind == RUNNER_stdout ? STDOUT_FILENO : STDERR_FILENO, event->body.data,
                    event->body.length);
        break;
    case RUNNER_result:
        show_result(session, event);
        break;
    case RUNNER_end:
        if (event->traceback)
            report_text(STDERR_FILENO, event->traceback, strlen(event->traceback));
        break;
    default:
        break;
    }
    pthread_mutex_unlock(&session->screen_lock);
}
