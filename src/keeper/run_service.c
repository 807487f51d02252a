#include "keeper/run_service.h"

#include "base/clock.h"
#include "base/json_text.h"
#include "base/scope.h"
#include "base/sha256.h"
#include "keeper/handed.h"
#include "keeper/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <linux/sockios.h>

#include "profile_stamp.h" /* PROFILE_SHA256 */

static int stream_of(const struct run_order *order, const char *name)
{
    int place = handed_place(json_object_get(json_object_get(order->request, "fds"), name));
    return place < 0 ? -1 : order->fds[place];
}

enum { PROGRESS_US = 250000, ASKED_BEFORE_US = 600000000, QUEUED_MAX = 1 << 16 };

struct progress {
    const struct run_order *order;
    int64_t told_us;
    struct buffer unsent; /* of what was shown; bounded by the run's output limit */
};

/* Must not block: told only to who has read what was told before. */
static void tell_progress(void *data, int64_t elapsed_us, const struct measurement *now)
{
    struct progress *progress = data;
    const struct run_order *order = progress->order;
    int unread = 0;
    wire_send_some(order->fd, &progress->unsent);
    if (elapsed_us - progress->told_us < PROGRESS_US || progress->unsent.length)
        return;
    progress->told_us = elapsed_us;
    if (ioctl(order->fd, SIOCOUTQ, &unread) < 0 || unread > 0)
        return;
    wire_send(order->fd,
              json_pack("{s:{s:f, s:f, s:I, s:I, s:I}}", "progress", "wall_ms", (double)elapsed_us / 1000,
                        "cpu_ms", (double)(now->cpu_user_us + now->cpu_system_us) / 1000, "memory_bytes",
                        (json_int_t)now->memory_bytes, "pids", (json_int_t)now->pids, "disk_bytes",
                        (json_int_t)now->disk_bytes),
              (struct slice){"", 0}, NULL, 0);
}

/* As it comes, and without blocking: the socket takes what it has room for, and the rest follows. */
static void tell_shown(void *data, const json_t *item)
{
    struct progress *progress = data;
    scope_free char *text = json_text(item, JSON_COMPACT);
    if (text)
        wire_send_begin(progress->order->fd, json_pack("{s:b}", "shown", true),
                        (struct slice){text, strlen(text)}, &progress->unsent);
}

/* What is ours is not vetted. A server has two such things, and if it was taken over it must not have others:
 * the proof of a box, and the tool that looks at data. */
static bool is_servers_own(const struct spec *spec)
{
    if (spec_is_proof(spec))
        return true;
    struct sha256 *hash = spec->has_code ? sha256_new() : NULL;
    char digest[65];
    if (!hash)
        return false;
    sha256_add(hash, spec->code.data, spec->code.length);
    sha256_finish(hash, digest);
    return strcmp(digest, PROFILE_SHA256) == 0;
}

static int prepare(const struct run_order *order, struct spec *spec, struct error *err)
{
    int status = wire_to_spec(json_object_get(order->request, "spec"), spec, err);
    if (status < 0)
        return status;
    if (spec->has_code) { /* moved, not copied */
        spec->code = *order->code;
        *order->code = (struct buffer){0};
    }
    int input = stream_of(order, "stdin");
    if (input >= 0) {
        spec->stdin_kind = STDIN_DESCRIPTOR;
        spec->stdin_fd = input;
    }
    if (!order->is_inside)
        return 0;
    if (spec->is_ours && !is_servers_own(spec))
        return error_spec(err, "vet", "vet: what a tenant gave cannot be called ours");
    if (spec->grant_count || spec->output_directory)
        return error_spec(err, "inputs", "a path of this machine cannot be granted from outside");
    if (spec->accepted.count)
        return error_spec(err, "accept", "accept: only the operator of this machine may do without a limit");
    const json_t *places = json_object_get(order->request, "fds");
    status = handed_take_inputs(json_object_get(places, "inputs"), order->fds, spec, err);
    int output = stream_of(order, "output");
    if (status == 0 && output >= 0) {
        spec->output_fd = handed_make_output(output, err);
        status = spec->output_fd < 0 ? spec->output_fd : 0;
    }
    return status;
}

static int begin_result(const struct run_order *order, const struct result *result, struct buffer *ret_unsent)
{
    bool wants_json = json_is_true(json_object_get(order->request, "json"));
    char *text =
        wants_json ? result_to_json(result, json_is_true(json_object_get(order->request, "pretty"))) : NULL;
    if (wants_json && !text)
        return -ENOMEM;
    int status = wire_send_begin(order->fd, json_pack("{s:o}", "result", wire_from_result(result)),
                                 (struct slice){text ? text : "", text ? strlen(text) : 0}, ret_unsent);
    free(text);
    return status;
}

/* When the run was asked for, by the account of who sent it; else now. */
static int64_t asked_us(const struct run_order *order)
{
    int64_t now_us = clock_monotonic_us(),
            said_us = json_integer_value(json_object_get(order->request, "asked_us"));
    return said_us > now_us - ASKED_BEFORE_US && said_us < now_us ? said_us : now_us;
}

/* For whom the server asks; who asks at the door of a user's own keeper is that user, whatever he says. */
static const char *owner(const struct run_order *order)
{
    return order->is_inside ? json_string_value(json_object_get(order->request, "owner")) : "";
}

static int queued(const struct run_order *order)
{
    json_int_t said = json_integer_value(json_object_get(order->request, "queued"));
    return said < 0 ? 0 : said > QUEUED_MAX ? QUEUED_MAX : (int)said;
}

int run_answer(const struct run_order *order)
{
    scope_spec *spec = spec_new();
    struct error err = {0};
    struct result *result = NULL;
    int status = spec ? prepare(order, spec, &err) : error_host(&err, -ENOMEM, "no memory for a request");
    int output = stream_of(order, "stdout"), errors = stream_of(order, "stderr");
    struct progress progress = {.order = order};
    bool is_told = json_is_true(json_object_get(order->request, "progress"));
    struct pool_rest rest = {0};
    struct supervise_io io = {
        .forward_fd = {output, errors},
        .for_terminal = {output >= 0 && isatty(output), errors >= 0 && isatty(errors)},
        .progress = is_told ? tell_progress : NULL,
        .shown = is_told ? tell_shown : NULL,
        .data = &progress,
        .asked_us = asked_us(order),
        .owner = owner(order),
        .queued = queued(order),
        .cancel_fd = order->fd, /* nothing comes while a run is under way, but its end */
    };
    if (status == 0)
        status = json_is_true(json_object_get(order->request, "cold"))
                     ? pool_serve_cold(order->pool, spec, &io, &result, &err)
                     : pool_serve(order->pool, spec, &io, &rest, &result, &err);
    if (spec && spec->output_fd >= 0) {
        int given = handed_give_output(spec->output_fd);
        if (status == 0 && given < 0)
            status = error_host(&err, given, "cannot hand over the collected files");
        scope_close_fd(&spec->output_fd);
    }
    scope_buffer unsent = progress.unsent;
    status = status < 0 ? wire_send_begin(order->fd, json_pack("{s:o}", "error", wire_from_error(&err)),
                                          (struct slice){"", 0}, &unsent)
                        : begin_result(order, result, &unsent);
    pool_clear(&rest); /* a box, and what it holds, must not wait for who reads slowly */
    result_free(result);
    return status < 0 ? status : wire_send_rest(order->fd, &unsent);
}
