/* The keeper writes a program's output to our own streams, and we have no part in it. Only a line that shows
 * progress has to know of it, or it would stand in its way: then what is written goes through us. */
#include "cli/warm_run.h"

#include "cli/command.h"
#include "cli/report.h"

#include "base/file.h"
#include "base/scope.h"
#include "base/thread.h"
#include "engine/terminal_text.h"
#include "keeper/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 65536 };

struct screen {
    struct progress_line *line;
    pthread_mutex_t lock; /* of the line, and of what is around it */
    int ends[2][2];       /* of the program's stdout and stderr: ours, the keeper's */
    struct terminal_text texts[2];
    pthread_t thread;
};

static void show_progress(void *data, int64_t elapsed_us, const struct measurement *now)
{
    struct screen *screen = data;
    pthread_mutex_lock(&screen->lock);
    progress_line_show(screen->line, elapsed_us, now);
    pthread_mutex_unlock(&screen->lock);
}

static int own_stream(enum supervise_stream stream)
{
    return stream == STREAM_STDOUT ? STDOUT_FILENO : STDERR_FILENO;
}

/* What a terminal gets is made harmless; a length of 0 is the end. */
static void show_output(struct screen *screen, enum supervise_stream stream, const char *bytes, size_t length)
{
    int fd = own_stream(stream);
    scope_buffer clean = {0};
    if (!isatty(fd))
        buffer_append(&clean, bytes, length);
    else if (length)
        terminal_text_append(&screen->texts[stream], &clean, bytes, length);
    else
        terminal_text_flush(&screen->texts[stream], &clean);
    if (!clean.length)
        return;
    pthread_mutex_lock(&screen->lock);
    progress_line_output(screen->line, stream, clean.data, clean.length);
    file_write_all(fd, clean.data, clean.length);
    pthread_mutex_unlock(&screen->lock);
}

static void read_output(struct screen *screen, enum supervise_stream stream)
{
    char chunk[CHUNK];
    ssize_t length = read(screen->ends[stream][0], chunk, sizeof chunk);
    if (length < 0 && errno == EINTR)
        return;
    show_output(screen, stream, chunk, length > 0 ? (size_t)length : 0);
    if (length <= 0)
        scope_close_fd(&screen->ends[stream][0]);
}

/* Until both streams have ended: the keeper closes its ends when the run is over. */
static void *pass_output(void *data)
{
    struct screen *screen = data;
    while (screen->ends[STREAM_STDOUT][0] >= 0 || screen->ends[STREAM_STDERR][0] >= 0) {
        struct pollfd polled[] = {{.fd = screen->ends[STREAM_STDOUT][0], .events = POLLIN},
                                  {.fd = screen->ends[STREAM_STDERR][0], .events = POLLIN}};
        if (poll(polled, 2, -1) < 0 && errno != EINTR)
            break;
        for (int i = 0; i < 2; i++)
            if (polled[i].revents)
                read_output(screen, (enum supervise_stream)i);
    }
    return NULL;
}

static void close_ends(struct screen *screen, int which)
{
    scope_close_fd(&screen->ends[STREAM_STDOUT][which]);
    scope_close_fd(&screen->ends[STREAM_STDERR][which]);
}

/* A screen that cannot be made is none: the run matters more. */
static bool open_screen(struct screen *screen, struct progress_line *line)
{
    *screen = (struct screen){.line = line, .lock = PTHREAD_MUTEX_INITIALIZER, .ends = {{-1, -1}, {-1, -1}}};
    if (line && pipe2(screen->ends[STREAM_STDOUT], O_CLOEXEC) == 0 &&
        pipe2(screen->ends[STREAM_STDERR], O_CLOEXEC) == 0 &&
        thread_start(&screen->thread, 0, pass_output, screen) == 0)
        return true;
    close_ends(screen, 0);
    close_ends(screen, 1);
    return false;
}

static void close_screen(struct screen *screen)
{
    close_ends(screen, 1);
    pthread_join(screen->thread, NULL);
    progress_line_clear(screen->line);
}

static int ask(int keeper, const struct client_run *run, struct screen *screen, struct result *result,
               struct buffer *json, struct error *err)
{
    int status = client_send(keeper, run, err);
    close_ends(screen, 1); /* the keeper has them now */
    return status < 0 ? status : client_receive(keeper, run, result, json, err);
}

static int report(const struct run_options *given, const struct result *result, struct buffer *json)
{
    if (given->json) {
        int status = buffer_append(json, "\n", 1);
        return status < 0 ? status : file_write_all(STDOUT_FILENO, json->data, json->length);
    }
    report_returned(result);
    if (!given->quiet)
        report_remarks(result, given->spec->code_name);
    return 0;
}

int run_warm(const struct run_options *given, const struct policy *policy, struct progress_line *line,
             int cancel_fd, int *ret_exit_status, struct error *err)
{
    scope_fd keeper = client_connect();
    if (keeper < 0)
        return -ENOENT;
    int status = spec_validate(given->spec, policy, err);
    if (status < 0)
        return status;
    struct client_run run = {.spec = given->spec,
                             .fds = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO},
                             .wants_json = given->json,
                             .pretty = isatty(STDOUT_FILENO) == 1,
                             .cancel_fd = cancel_fd};
    if (given->json)
        run.fds[1] = run.fds[2] = -1;
    struct screen screen;
    bool has_screen = open_screen(&screen, line);
    if (has_screen) {
        run.fds[1] = screen.ends[STREAM_STDOUT][1];
        run.fds[2] = screen.ends[STREAM_STDERR][1];
        run.wants_progress = true;
        run.progress = show_progress;
        run.data = &screen;
    }
    scope_buffer json = {0};
    struct result *result = result_new();
    status = result ? ask(keeper, &run, &screen, result, &json, err) : -ENOMEM;
    if (has_screen)
        close_screen(&screen);
    if (status == 0)
        status = report(given, result, &json);
    *ret_exit_status = status == 0 ? result_exit_status(result) : EXIT_STATUS_HOST_FAILURE;
    result_free(result);
    return status;
}
