#include "keeper/shown.h"

#include "base/scope.h"
#include "spec/media.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int shown_check(const struct spec *spec, const char *language, struct error *err)
{
    static const char elsewhere[] =
        "leave it out, or open a sandbox (POST /v1/sandboxes): its contexts show results";
    if (!spec->wants_results)
        return 0;
    if (!language || strcmp(language, "python") != 0)
        return error_spec(err, "results", "results: a run of python has them, not %s%.64s; %s",
                          language ? "one of " : "", language ? language : "a command", elsewhere);
    if (spec->isolation == ISOLATION_WASM)
        return error_spec(err, "results",
                          "results: the engine wasm shows none; leave it out, or choose the isolation "
                          "container, process or gvisor");
    if (spec->vet == VET_restricted)
        return error_spec(err, "results", "results: code that is vetted as 'restricted' shows none");
    return 0;
}

static json_t *item_of(const struct runner_event *event)
{
    json_t *media = json_object();
    for (size_t i = 0; i < event->media_count; i++)
        json_object_set_new(media, event->media[i].type,
                            media_to_json(event->media[i].type, event->media[i].content));
    return json_pack("{s:b, s:o}", "is_value", event->is_value, "media", media);
}

/* Half a picture would be of no use to anybody: what goes over the limit is counted, and left out. */
static void take(struct shown *shown, const struct runner_event *event)
{
    int64_t length = (int64_t)event->body.length;
    bool fits = length <= shown->limit_bytes - shown->seen_bytes &&
                json_array_size(shown->result->shown) < RUNNER_RESULTS_MAX;
    json_t *item = fits ? item_of(event) : NULL;
    if (!item || json_array_append(shown->result->shown, item) < 0) {
        shown->result->shown_dropped_bytes += length;
    } else {
        shown->seen_bytes += length;
        if (shown->io->shown)
            shown->io->shown(shown->io->data, item);
    }
    json_decref(item);
}

/* Like supervise_word.hear. */
static int take_all(struct shown *shown)
{
    struct runner_event event;
    struct error ignored = {0};
    int status;
    while ((status = runner_reader_next(&shown->link->reader, &event, &ignored)) > 0) {
        struct vetting *vetting = shown->vetting;
        shown->vetting = NULL; /* whatever comes later is the code's own word */
        int judged = vetting ? vetting_take(vetting, &event) : 0;
        if (judged < 0)
            return judged;
        if (event.kind == RUNNER_result)
            take(shown, &event);
        if (shown->result->shown_dropped_bytes > supervise_flood_bytes(shown->limit_bytes))
            return -EFBIG;
    }
    return status < 0 ? 1 : 0;
}

static int tell(struct shown *shown)
{
    struct buffer *unsent = &shown->unsent;
    ssize_t sent = send(shown->link->fd, unsent->data, unsent->length, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    unsent->length -= (size_t)sent;
    memmove(unsent->data, unsent->data + sent, unsent->length);
    shown->word.speaks = unsent->length > 0;
    return 0;
}

/* One read at a time, so that a program that never stops showing does not keep the supervisor from its
 * watch; and all that has come with it, for nobody is woken for what was read already. */
static int hear(void *data)
{
    struct shown *shown = data;
    struct error ignored = {0};
    char chunk[65536];
    if (shown->word.speaks && tell(shown) < 0)
        return 1; /* it is gone, and how it went is the result */
    ssize_t length = recv(shown->link->fd, chunk, sizeof chunk, MSG_DONTWAIT);
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (length <= 0 || runner_reader_feed(&shown->link->reader, chunk, (size_t)length, &ignored) < 0)
        return 1;
    return take_all(shown);
}

int shown_open(struct shown *shown, const struct spec *spec, const struct supervise_io *io,
               struct result *result, struct runner_link *link, struct vetting *vetting, struct error *err)
{
    *shown = (struct shown){.io = io,
                            .result = result,
                            .link = link,
                            .vetting = vetting,
                            .limit_bytes = spec->limits.value[LIMIT_output_limit],
                            .word = {.fd = link->fd, .hear = hear, .data = shown}};
    if (!result->shown)
        result->shown = json_array();
    return result->shown ? 0 : error_host(err, -ENOMEM, "no memory for results");
}

int shown_order(struct shown *shown, struct box *box, const char *name, struct error *err)
{
    const struct spec *spec = box->spec;
    char place[PATH_MAX], path[PATH_MAX + NAME_MAX + 2];
    snprintf(path, sizeof path, "%s/%s", box->engine->path_of(box, "code", place, sizeof place), name);
    const struct runner_program program = {
        .path = path,
        .arguments = &spec->arguments,
        .code = {spec->code.data ? spec->code.data : "", spec->code.length},
        .shows = true};
    shown->link->fd = shown->word.fd = box->channel_fd;
    int status = runner_write_main(&shown->unsent, &program);
    if (status < 0)
        return error_spec(err, "code", "code: it cannot be sent: %s", strerror(-status));
    shown->word.speaks = true;
    return 0;
}

void shown_finish(struct shown *shown)
{
    shown->vetting = NULL; /* its word, if it came at all, came before */
    struct error ignored = {0};
    char chunk[65536];
    ssize_t length;
    do {
        if (take_all(shown) != 0)
            return;
        length = recv(shown->link->fd, chunk, sizeof chunk, MSG_DONTWAIT);
    } while (length > 0 && runner_reader_feed(&shown->link->reader, chunk, (size_t)length, &ignored) == 0);
}

void shown_close(struct shown *shown)
{
    buffer_free(&shown->unsent);
}
