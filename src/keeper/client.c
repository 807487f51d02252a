#include "keeper/client.h"

#include "base/json_text.h"
#include "base/scope.h"
#include "keeper/wire.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int client_connect(void)
{
    char path[400];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    wire_path(path, sizeof path);
    if (strlen(path) >= sizeof address.sun_path)
        return -ENAMETOOLONG;
    memcpy(address.sun_path, path, strlen(path) + 1);
    scope_fd fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
        return -errno;
    /* It gets our code and our streams, and its word is taken for the result: another user could listen
     * there, if the path leads through a directory for all. */
    struct ucred who;
    socklen_t size = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0)
        return -errno;
    return who.uid == geteuid() || who.uid == 0 ? take_fd(&fd) : -EPERM;
}

/* Only somebody who listens for an end by hand must not be kept from it by a read. */
static int wait_for_answer(int fd, int cancel_fd)
{
    struct pollfd polled[] = {{.fd = fd, .events = POLLIN}, {.fd = cancel_fd, .events = POLLIN}};
    bool is_cancelled = false;
    for (;;) {
        int ready = poll(polled, is_cancelled ? 1 : 2, -1);
        if (ready < 0 && errno != EINTR)
            return -errno;
        if (ready > 0 && polled[0].revents)
            return 0;
        if (ready > 0 && polled[1].revents && !is_cancelled) {
            is_cancelled = true;
            shutdown(fd, SHUT_WR); /* the keeper sees us go, ends the run, and still tells how */
        }
    }
}

static int receive_answer(int fd, json_t **ret, struct buffer *body, struct error *err)
{
    int status = wire_receive(fd, ret, body, NULL);
    if (status < 0)
        return error_host(err, status, "the keeper went away");
    const json_t *failure = json_object_get(*ret, "error");
    if (!failure)
        return 0;
    wire_to_error(failure, err);
    return err->code < 0 ? err->code : -EIO;
}

/* Which of the descriptors that go along is what. */
static json_t *place_descriptors(const struct client_run *run, int *fds, size_t *count)
{
    static const char *const streams[] = {"stdin", "stdout", "stderr"};
    json_t *places = json_object();
    for (size_t i = 0; i < 3; i++)
        if (run->fds[i] >= 0) {
            json_object_set_new(places, streams[i], json_integer((json_int_t)*count));
            fds[(*count)++] = run->fds[i];
        }
    if (run->has_output) {
        json_object_set_new(places, "output", json_integer((json_int_t)*count));
        fds[(*count)++] = run->output_fd;
    }
    json_t *inputs = run->input_count ? json_array() : NULL;
    for (size_t i = 0; i < run->input_count && *count < WIRE_DESCRIPTORS; i++) {
        if (json_array_append_new(
                inputs, json_pack("{s:s, s:i}", "name", run->inputs[i].name, "fd", (int)*count)) < 0) {
            json_decref(inputs);
            json_decref(places);
            return NULL;
        }
        fds[(*count)++] = run->inputs[i].fd;
    }
    if (inputs)
        json_object_set_new(places, "inputs", inputs);
    return places;
}

int client_send(int fd, const struct client_run *run, struct error *err)
{
    const struct spec *spec = run->spec;
    int fds[WIRE_DESCRIPTORS];
    size_t count = 0;
    json_t *request =
        json_pack("{s:s, s:s, s:o, s:b, s:b, s:b, s:b, s:o}", "type", "run", "version", CLOCHE_VERSION,
                  "spec", wire_from_spec(spec), "json", run->wants_json, "pretty", run->pretty, "cold",
                  run->is_cold, "progress", run->wants_progress, "fds", place_descriptors(run, fds, &count));
    if (run->owner)
        json_object_set_new(request, "owner", json_string(run->owner));
    if (run->asked_us)
        json_object_set_new(request, "asked_us", json_integer(run->asked_us));
    if (run->queued)
        json_object_set_new(request, "queued", json_integer(run->queued));
    if (!request)
        return error_host(err, -EILSEQ, "the request holds text that is not UTF-8");
    struct slice code = {spec->code.data ? spec->code.data : "", spec->has_code ? spec->code.length : 0};
    int status = wire_send(fd, request, code, fds, count);
    return status < 0 ? error_host(err, status, "the keeper went away") : 0;
}

static void tell_progress(const struct client_run *run, const json_t *progress)
{
    struct measurement now = {.cpu_user_us =
                                  (int64_t)(json_number_value(json_object_get(progress, "cpu_ms")) * 1000),
                              .memory_bytes = json_integer_value(json_object_get(progress, "memory_bytes")),
                              .pids = json_integer_value(json_object_get(progress, "pids"))};
    if (run->progress)
        run->progress(run->data, (int64_t)(json_number_value(json_object_get(progress, "wall_ms")) * 1000),
                      &now);
}

int client_receive(int fd, const struct client_run *run, struct result *ret, struct buffer *ret_json,
                   struct error *err)
{
    for (;;) {
        int status = wait_for_answer(fd, run->cancel_fd);
        if (status < 0)
            return error_host(err, status, "the keeper went away");
        json_t *answer = NULL;
        status = receive_answer(fd, &answer, ret_json, err);
        const json_t *progress = status == 0 ? json_object_get(answer, "progress") : NULL;
        if (progress)
            tell_progress(run, progress);
        else if (status == 0 && wire_to_result(json_object_get(answer, "result"), ret) < 0)
            status = error_host(err, -EPROTO, "the keeper's answer cannot be read");
        json_decref(answer);
        if (!progress)
            return status;
    }
}

int client_run(int fd, const struct client_run *run, struct result *ret, struct buffer *ret_json,
               struct error *err)
{
    int status = client_send(fd, run, err);
    return status < 0 ? status : client_receive(fd, run, ret, ret_json, err);
}

int client_state(int fd, struct buffer *ret_json, struct error *err)
{
    scope_buffer body = {0};
    json_t *answer = NULL;
    int status = wire_send(fd, json_pack("{s:s, s:s}", "type", "state", "version", CLOCHE_VERSION),
                           (struct slice){"", 0}, NULL, 0);
    status = status < 0 ? error_host(err, status, "the keeper went away")
                        : receive_answer(fd, &answer, &body, err);
    char *text = status == 0 ? json_text(answer, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : NULL;
    if (text)
        status = buffer_append(ret_json, text, strlen(text));
    free(text);
    json_decref(answer);
    return status;
}
