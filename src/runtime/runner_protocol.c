#include "runtime/runner_protocol.h"

#include "base/json_text.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTHS_SIZE = 8 };

const char *const runner_event_names[RUNNER_EVENT_KINDS] = {
#define X(name) #name,
    RUNNER_EVENTS(X)
#undef X
};

const char *const runner_status_names[RUNNER_STATUS_COUNT] = {
#define X(name) #name,
    RUNNER_STATUSES(X)
#undef X
};

static uint32_t read_u32(const char *at)
{
    const unsigned char *bytes = (const unsigned char *)at;
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static void write_u32(char *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (char)(value >> 8 * i);
}

static int refuse(struct error *err, const char *what)
{
    return error_host(err, -EPROTO, "the runner broke its protocol: %s", what);
}

void runner_reader_free(struct runner_reader *reader)
{
    json_decref(reader->header);
    reader->header = NULL;
    buffer_free(&reader->pending);
    reader->consumed = 0;
}

/* Lengths of the frame at the front, if they are there. */
static int front_lengths(const struct runner_reader *reader, size_t *ret_header, size_t *ret_body,
                         struct error *err)
{
    if (reader->pending.length - reader->consumed < LENGTHS_SIZE)
        return 0;
    *ret_header = read_u32(reader->pending.data + reader->consumed);
    *ret_body = read_u32(reader->pending.data + reader->consumed + 4);
    if (*ret_header > RUNNER_HEADER_MAX || *ret_body > RUNNER_BODY_MAX)
        return refuse(err, "a frame is too large");
    return 1;
}

/* Events point into what is consumed, so it goes when the next bytes come. */
static void forget_consumed(struct runner_reader *reader)
{
    struct buffer *pending = &reader->pending;
    if (reader->consumed == 0)
        return;
    memmove(pending->data, pending->data + reader->consumed, pending->length - reader->consumed);
    pending->length -= reader->consumed;
    pending->data[pending->length] = '\0';
    reader->consumed = 0;
}

int runner_reader_feed(struct runner_reader *reader, const void *data, size_t length, struct error *err)
{
    forget_consumed(reader);
    if (buffer_append(&reader->pending, data, length) < 0)
        return error_host(err, -ENOMEM, "no memory for what a runner says");
    size_t header, body;
    int status = front_lengths(reader, &header, &body, err);
    return status < 0 ? status : 0;
}

static int find_name(const char *const *names, int count, const char *name)
{
    for (int i = 0; name && i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static int read_media(const json_t *header, struct runner_event *event, struct error *err)
{
    const json_t *list = json_object_get(header, "media");
    size_t index, used = 0;
    json_t *pair;
    const char *kind = text_of(header, "kind");
    event->is_value = strcmp(kind, "value") == 0;
    if (!event->is_value && strcmp(kind, "display") != 0)
        return refuse(err, "a result of an unknown kind");
    if (!json_is_array(list) || json_array_size(list) > RUNNER_MEDIA_MAX)
        return refuse(err, "a result without media, or with too many");
    json_array_foreach(list, index, pair)
    {
        const char *type = json_string_value(json_array_get(pair, 0));
        const json_t *length = json_array_get(pair, 1);
        if (!type || !*type || strlen(type) > RUNNER_MEDIA_TYPE_MAX || !json_is_integer(length) ||
            json_integer_value(length) < 0 ||
            (uint64_t)json_integer_value(length) > event->body.length - used)
            return refuse(err, "a result whose media do not fit its body");
        size_t size = (size_t)json_integer_value(length);
        event->media[event->media_count++] = (struct runner_media){type, {event->body.data + used, size}};
        used += size;
    }
    return used == event->body.length ? 0 : refuse(err, "a result with bytes that belong to nothing");
}

static int read_progress(const json_t *header, struct runner_event *event, struct error *err)
{
    const json_t *fraction = json_object_get(header, "fraction");
    event->text = text_of(header, "text");
    event->fraction = -1;
    if (!fraction || json_is_null(fraction))
        return 0;
    double value = json_number_value(fraction);
    if (!json_is_number(fraction) || !isfinite(value) || value < 0 || value > 1)
        return refuse(err, "a progress that is not between 0 and 1");
    event->fraction = value;
    return 0;
}

static int read_end(const json_t *header, struct runner_event *event, struct error *err)
{
    int status = find_name(runner_status_names, RUNNER_STATUS_COUNT, text_of(header, "status"));
    const json_t *duration = json_object_get(header, "duration_us"),
                 *exit_code = json_object_get(header, "exit_code"), *error = json_object_get(header, "error");
    if (status < 0 || !json_is_integer(duration) || json_integer_value(duration) < 0)
        return refuse(err, "an end without a status or duration");
    event->status = (enum runner_status)status;
    event->duration_us = json_integer_value(duration);
    if (status == RUNNER_STATUS_exit || exit_code) {
        if (!json_is_integer(exit_code) || json_integer_value(exit_code) < 0 ||
            json_integer_value(exit_code) > 255)
            return refuse(err, "an exit without a code, or with a wrong one");
        event->exit_code = (int)json_integer_value(exit_code);
    }
    if (status == RUNNER_STATUS_error || status == RUNNER_STATUS_interrupted) {
        if (!json_is_object(error))
            return refuse(err, "an error without a description");
        event->error_name = text_of(error, "name");
        event->error_value = text_of(error, "value");
        event->traceback = text_of(error, "traceback");
    }
    return 0;
}

static int read_ready(const json_t *header, struct runner_event *event, struct error *err)
{
    if (json_integer_value(json_object_get(header, "protocol")) != RUNNER_PROTOCOL)
        return refuse(err, "it speaks another version");
    event->language = text_of(header, "language");
    event->version = text_of(header, "version");
    return 0;
}

static int read_event(const json_t *header, struct slice body, struct runner_event *event, struct error *err)
{
    *event = (struct runner_event){.run = -1, .body = body, .fraction = -1};
    int kind = find_name(runner_event_names, RUNNER_EVENT_KINDS, text_of(header, "type"));
    const json_t *run = json_object_get(header, "run");
    if (kind < 0)
        return refuse(err, "an unknown message");
    if (run && !json_is_null(run) && (!json_is_integer(run) || json_integer_value(run) < 0))
        return refuse(err, "a run that is not a number");
    event->kind = (enum runner_event_kind)kind;
    event->run = run && json_is_integer(run) ? json_integer_value(run) : -1;
    switch (event->kind) {
    case RUNNER_ready:
        return read_ready(header, event, err);
    case RUNNER_result:
        return read_media(header, event, err);
    case RUNNER_progress:
        return read_progress(header, event, err);
    case RUNNER_refused:
    case RUNNER_completeness:
        event->text = text_of(header, "text");
        return 0;
    case RUNNER_end:
        return read_end(header, event, err);
    default:
        return 0;
    }
}

int runner_reader_next(struct runner_reader *reader, struct runner_event *ret, struct error *err)
{
    size_t header_length, body_length;
    int status = front_lengths(reader, &header_length, &body_length, err);
    if (status <= 0)
        return status;
    size_t available = reader->pending.length - reader->consumed - LENGTHS_SIZE;
    if (available < header_length || available - header_length < body_length)
        return 0;
    const char *at = reader->pending.data + reader->consumed + LENGTHS_SIZE;
    json_decref(reader->header);
    reader->header = json_loadb(at, header_length, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object((json_t *)reader->header))
        return refuse(err, "a header that is not a JSON object");
    struct slice body = {at + header_length, body_length};
    status = read_event(reader->header, body, ret, err);
    if (status < 0)
        return status;
    reader->consumed += LENGTHS_SIZE + header_length + body_length;
    return 1;
}

/* NULL, which jansson hands on as a failure, when a text is not UTF-8. */
static json_t *json_of_list(const struct string_list *list)
{
    json_t *array = json_array();
    for (size_t i = 0; array && list && i < list->count; i++)
        if (json_array_append_new(array, json_string(list->items[i])) < 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

static json_t *order_header(const struct runner_order *order)
{
    json_t *header = json_object();
    int status = header ? 0 : -1;
    status |= json_object_set_new(header, "type", json_string("run"));
    status |= json_object_set_new(header, "run", json_integer(order->run));
    status |= json_object_set_new(header, "arguments", json_of_list(order->arguments));
    if (order->stdin_text)
        status |= json_object_set_new(header, "stdin",
                                      json_stringn(order->stdin_text->data, order->stdin_text->length));
    if (order->name)
        status |= json_object_set_new(header, "name", json_string(order->name));
    if (order->is_typed)
        status |= json_object_set_new(header, "typed", json_true());
    if (status == 0)
        return header;
    json_decref(header);
    return NULL;
}

/* Takes the header. */
static int write_frame(struct buffer *into, json_t *header, struct slice body)
{
    char *text = header ? json_text(header, JSON_COMPACT) : NULL;
    json_decref(header);
    size_t length = text ? strlen(text) : 0;
    int status = text ? 0 : -EINVAL;
    if (length > RUNNER_HEADER_MAX || body.length > RUNNER_BODY_MAX)
        status = -EFBIG;
    if (status == 0) {
        char lengths[LENGTHS_SIZE];
        write_u32(lengths, (uint32_t)length);
        write_u32(lengths + 4, (uint32_t)body.length);
        status = buffer_append(into, lengths, sizeof lengths);
    }
    if (status == 0)
        status = buffer_append(into, text, length);
    if (status == 0)
        status = buffer_append(into, body.data, body.length);
    free(text);
    return status;
}

int runner_write_run(struct buffer *into, const struct runner_order *order)
{
    return write_frame(into, order_header(order), order->code);
}

int runner_write_question(struct buffer *into, struct slice code)
{
    return write_frame(into, json_pack("{s:s}", "type", "complete"), code);
}

int runner_write_fork(struct buffer *into, int landlock_abi, enum runner_haste haste)
{
    return write_frame(into, json_pack("{s:s, s:i}", "type", "fork", "landlock", landlock_abi),
                       (struct slice){"!!!", haste});
}

int runner_write_zygote(struct buffer *into, int landlock_abi, bool is_plain)
{
    return write_frame(
        into, json_pack("{s:s, s:i, s:b}", "type", "zygote", "landlock", landlock_abi, "plain", is_plain),
        (struct slice){"", 0});
}

int runner_write_preload(struct buffer *into, const struct string_list *modules, bool for_forks)
{
    return write_frame(
        into,
        json_pack("{s:s, s:o, s:b}", "type", "preload", "modules", json_of_list(modules), "forks", for_forks),
        (struct slice){"", 0});
}

/* Of four letters, and without anything else. */
#define SHORT_FRAME(word) "\x0f\0\0\0\0\0\0\0{\"type\":\"" word "\"}"
enum { SHORT_FRAME_SIZE = LENGTHS_SIZE + 0x0f };

struct slice runner_soon(void)
{
    static const char frame[SHORT_FRAME_SIZE + 1] = SHORT_FRAME("soon");
    return (struct slice){frame, SHORT_FRAME_SIZE};
}

struct slice runner_look(void)
{
    static const char frame[SHORT_FRAME_SIZE + 1] = SHORT_FRAME("look");
    return (struct slice){frame, SHORT_FRAME_SIZE};
}

int runner_write_main(struct buffer *into, const struct runner_program *program)
{
    json_t *rlimits = json_array();
    for (size_t i = 0; rlimits && i < program->rlimit_count; i++)
        json_array_append_new(rlimits, json_pack("[i, I]", program->rlimits[i].resource,
                                                 (json_int_t)program->rlimits[i].value));
    json_t *header = json_pack("{s:s, s:b, s:s, s:o, s:o, s:o, s:o}", "type", "main", "waits", program->waits,
                               "path", program->path, "arguments", json_of_list(program->arguments),
                               "command", json_of_list(program->command), "environment",
                               json_of_list(program->environment), "rlimits", rlimits);
    if (header && program->shows)
        json_object_set_new(header, "results", json_true());
    if (header && program->vet)
        json_object_set(header, "vet", (json_t *)(uintptr_t)program->vet);
    return write_frame(into, header, program->code.data ? program->code : (struct slice){"", 0});
}
