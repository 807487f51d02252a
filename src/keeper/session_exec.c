/* Commands in a live sandbox: streams come with the order, or a terminal goes back with the word that it has
 * begun. What a command reads and writes never passes through us. The connection is its own until the command
 * has ended: frames from the other side are signals, and its end is the command's. */
#include "keeper/session_request.h"

#include "base/clock.h"
#include "base/identifier.h"
#include "base/scope.h"
#include "engine/beside.h"
#include "keeper/cpu_account.h"
#include "keeper/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS_MAX = 4096, SIDE_MAX = 1000, FINAL_MS = 2000 };

static int take_words(const json_t *list, const char *field, struct string_list *into, struct error *err)
{
    size_t index;
    json_t *word;
    if (json_array_size(list) > WORDS_MAX)
        return error_spec(err, field, "%s: more than %d", field, WORDS_MAX);
    json_array_foreach(list, index, word)
    {
        const char *text = json_string_value(word);
        if (!text || strlen(text) != json_string_length(word))
            return error_spec(err, field, "%s: must be texts without NUL bytes", field);
        if (string_list_add(into, text) < 0)
            return error_host(err, -ENOMEM, "no memory for a command");
    }
    return 0;
}

static struct winsize read_window(const json_t *size)
{
    struct winsize window = {.ws_row = 24, .ws_col = 80};
    json_int_t rows = json_integer_value(json_object_get(size, "rows")),
               columns = json_integer_value(json_object_get(size, "columns"));
    if (rows > 0 && rows <= SIDE_MAX)
        window.ws_row = (unsigned short)rows;
    if (columns > 0 && columns <= SIDE_MAX)
        window.ws_col = (unsigned short)columns;
    return window;
}

struct exec {
    struct session_request *request;
    struct beside_end end;
    int socket;
    int64_t until_us; /* INT64_MAX: no limit */
    int64_t started_us, cpu_begun_us;
    struct cpu_account *account; /* of the box that it runs in */
    bool timed_out, is_charged;
};

/* Signals from the other side. -EPIPE: it is gone. */
static int take_signal(struct exec *exec)
{
    json_t *header = NULL;
    scope_buffer body = {0};
    int status = wire_receive(exec->request->fd, &header, &body, NULL);
    if (status < 0)
        return -EPIPE;
    json_int_t number = json_integer_value(json_object_get(header, "signal"));
    json_decref(header);
    if (number > 0 && number < NSIG)
        beside_signal(exec->socket, (int)number);
    return 0;
}

/* 0 when it has ended by itself, or by its time. */
static int await(struct exec *exec)
{
    struct pollfd polled[] = {{.fd = exec->request->fd, .events = POLLIN},
                              {.fd = exec->socket, .events = POLLIN}};
    for (;;) {
        int64_t left_us = exec->until_us == INT64_MAX ? INT64_MAX : exec->until_us - clock_monotonic_us();
        if (left_us <= 0) {
            exec->timed_out = true;
            exec->until_us = INT64_MAX; /* of this signal it dies for certain */
            beside_signal(exec->socket, SIGKILL);
            continue;
        }
        int wait_ms = left_us / 1000 >= 60000 ? 60000 : (int)(left_us / 1000) + 1;
        if (poll(polled, 2, wait_ms) < 0 && errno != EINTR)
            return -errno;
        if (polled[1].revents && beside_take_end(exec->socket, &exec->end))
            return 0;
        if (polled[0].revents && take_signal(exec) < 0)
            return -EPIPE;
    }
}

/* Of the whole box meanwhile: init's own account would be the guest's. A box that is gone, or another one by
 * now, tells its sum when it is taken apart; else a CPU was used all the time. */
static int64_t cpu_used_us(const struct exec *exec)
{
    struct cpu_account *now =
        session_cpu_account(exec->request->session, request_text(exec->request, "context"));
    int64_t sum_us = cpu_account_used_us(exec->account, now == exec->account ? 0 : FINAL_MS);
    cpu_account_put(now);
    return sum_us >= exec->cpu_begun_us ? sum_us - exec->cpu_begun_us
                                        : clock_monotonic_us() - exec->started_us;
}

/* Somebody begins in the box of a context. */
static void open_account(struct exec *exec)
{
    exec->started_us = clock_monotonic_us();
    exec->account = session_cpu_account(exec->request->session, request_text(exec->request, "context"));
    exec->cpu_begun_us = cpu_account_used_us(exec->account, 0);
    if (exec->is_charged)
        cpu_account_begin(exec->account, exec->cpu_begun_us);
}

static json_t *end_to_json(const struct exec *exec)
{
    const struct beside_end *end = &exec->end;
    int status = end->wait_status;
    bool has_exited = !end->failure && !end->is_lost && WIFEXITED(status);
    bool was_killed = !end->failure && !end->is_lost && WIFSIGNALED(status);
    json_t *object =
        json_pack("{s:o, s:o, s:b, s:b, s:f}", "exit_code",
                  has_exited ? json_integer(WEXITSTATUS(status)) : json_null(), "signal",
                  was_killed ? json_integer(WTERMSIG(status)) : json_null(), "timed_out", exec->timed_out,
                  "lost", end->is_lost, "cpu_ms", (double)cpu_used_us(exec) / 1000);
    if (object && end->failure)
        json_object_set_new(object, "failure", json_string(strerror(-end->failure)));
    return object;
}

/* For those who watch the sandbox. */
static json_t *end_event(const struct exec *exec, const char *id, const json_t *end, bool is_known)
{
    static const char *const told[] = {"exit_code", "signal", "timed_out", "lost", "failure"};
    json_t *event = json_pack("{s:s, s:b, s:I}", "exec", id, "cancelled", !is_known, "duration_ms",
                              (json_int_t)((clock_monotonic_us() - exec->started_us) / 1000));
    for (size_t i = 0; is_known && i < sizeof told / sizeof *told; i++)
        if (json_object_get(end, told[i]))
            json_object_set(event, told[i], json_object_get(end, told[i]));
    return event;
}

static int read_order(const struct session_request *request, struct context_command *into, struct error *err)
{
    into->directory = request_text(request, "directory");
    into->is_about_files = json_is_true(json_object_get(request->header, "about_files"));
    const char *id = into->is_about_files ? NULL : request_text(request, "exec");
    into->id = id && strlen(id) < IDENTIFIER_SIZE ? id : NULL;
    int status = take_words(json_object_get(request->header, "command"), "command", &into->words, err);
    if (status == 0)
        status = take_words(json_object_get(request->header, "environment"), "env", &into->environment, err);
    for (size_t i = 0; status == 0 && i < into->environment.count; i++)
        if (!strchr(into->environment.items[i], '='))
            status = error_spec(err, "env", "env: '%.64s' has no value", into->environment.items[i]);
    return status;
}

static int start(struct exec *exec, struct context_command *command, struct error *err)
{
    struct session_request *request = exec->request;
    const json_t *terminal = json_object_get(request->header, "terminal");
    int64_t wall_ms = request_number(request, "wall_ms"), own_ms = 0;
    scope_fd master = -1;
    const struct winsize window = read_window(terminal);
    int status = read_order(request, command, err);
    if (status == 0 && wall_ms)
        status = session_check_wall(request->session, wall_ms, err);
    if (terminal) {
        command->window = &window;
        command->ret_master = &master;
    }
    for (int i = 0; status == 0 && !terminal && i < 3; i++) {
        command->fds[i] = request->fds[i];
        if (command->fds[i] < 0)
            status = error_host(err, -EPROTO, "a command without its streams");
    }
    exec->is_charged = !command->is_about_files; /* what those use is for the next who is */
    open_account(exec);
    if (status == 0)
        status = session_command_start(request->session, request_text(request, "context"), command,
                                       &exec->socket, &own_ms, err);
    if (status < 0)
        return status;
    /* Who sits at a terminal has the time of the sandbox, unless he asks for less. */
    bool is_limited = !command->is_about_files && (!terminal || wall_ms);
    wall_ms = wall_ms ? wall_ms : own_ms;
    exec->until_us = is_limited ? clock_monotonic_us() + wall_ms * 1000 : INT64_MAX;
    return wire_send(request->fd, json_pack("{s:b}", "started", 1), (struct slice){"", 0}, &master,
                     master >= 0);
}

int session_answer_exec(struct session_request *request)
{
    struct exec exec = {.request = request, .socket = -1};
    struct context_command command = {.fds = {-1, -1, -1}};
    struct error err = {0};
    int status = start(&exec, &command, &err);
    string_list_free(&command.words);
    string_list_free(&command.environment);
    if (exec.socket < 0) {
        cpu_account_put(exec.account);
        return request_reply_error(request, &err);
    }
    if (status == 0)
        status = await(&exec);
    close(exec.socket); /* and if it lives, it is killed */
    json_t *end = end_to_json(&exec);
    int64_t charge_us = exec.is_charged && status == 0 ? cpu_account_charge_us(exec.account) : 0;
    cpu_account_put(exec.account);
    session_command_over(request->session,
                         command.id ? end_event(&exec, command.id, end, status == 0) : NULL);
    status = status < 0 ? -EPIPE
                        : request_reply(request, json_pack("{s:O, s:I}", "ended", end, "charge_us",
                                                           (json_int_t)charge_us));
    json_decref(end);
    return status;
}
