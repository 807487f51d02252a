#include "keeper/wire.h"

#include "base/json_text.h"
#include "base/scope.h"
#include "base/text.h"
#include "keeper/record.h"
#include "os/process.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_ERRNO = 4095, STEP = 64 << 10 };

bool wire_path(char *into, size_t size)
{
    const char *given = getenv("CLOCHE_KEEPER");
    char state[400];
    if (given && given[0] == '/') {
        snprintf(into, size, "%s", given);
        return false;
    }
    record_state_path(state, sizeof state);
    snprintf(into, size, "%s/keeper.sock", state);
    return true;
}

static int send_all(int fd, const char *data, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(fd, data, length, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return -errno;
        data += sent > 0 ? sent : 0;
        length -= sent > 0 ? (size_t)sent : 0;
    }
    return 0;
}

/* Takes the header. */
static int write_frame(json_t *header, struct slice body, struct buffer *into)
{
    char *text = header ? json_text(header, JSON_COMPACT) : NULL;
    json_decref(header);
    uint32_t lengths[2] = {text ? (uint32_t)strlen(text) : 0, (uint32_t)body.length};
    int status = text ? 0 : -ENOMEM;
    if (status == 0 && (lengths[0] > WIRE_HEADER_MAX || body.length > WIRE_BODY_MAX))
        status = -EFBIG;
    if (status == 0)
        status = buffer_append(into, lengths, sizeof lengths);
    if (status == 0)
        status = buffer_append(into, text, lengths[0]);
    if (status == 0 && body.length)
        status = buffer_append(into, body.data, body.length);
    free(text);
    return status;
}

int wire_send(int fd, json_t *header, struct slice body, const int *fds, size_t count)
{
    scope_buffer frame = {0};
    int status = write_frame(header, body, &frame);
    if (status < 0)
        return status;
    /* At once, so that who waits for it is woken once. */
    int64_t sent = process_send_some(fd, frame.data, frame.length, fds, count);
    return sent < 0 ? (int)sent : send_all(fd, frame.data + sent, frame.length - (size_t)sent);
}

int wire_send_begin(int fd, json_t *header, struct slice body, struct buffer *ret_unsent)
{
    int status = write_frame(header, body, ret_unsent);
    return status < 0 ? status : wire_send_some(fd, ret_unsent);
}

int wire_send_some(int fd, struct buffer *unsent)
{
    ssize_t sent;
    do
        sent = unsent->length ? send(fd, unsent->data, unsent->length, MSG_NOSIGNAL | MSG_DONTWAIT) : 0;
    while (sent < 0 && errno == EINTR);
    if (sent < 0 && errno != EAGAIN)
        return -errno;
    if (sent > 0) {
        unsent->length -= (size_t)sent;
        memmove(unsent->data, unsent->data + sent, unsent->length);
    }
    return 0;
}

int wire_send_rest(int fd, const struct buffer *unsent)
{
    return send_all(fd, unsent->data, unsent->length);
}

static int receive_all(int fd, char *into, size_t length)
{
    while (length > 0) {
        ssize_t got = recv(fd, into, length, MSG_WAITALL);
        if (got == 0)
            return -EPIPE;
        if (got < 0 && errno != EINTR)
            return -errno;
        into += got > 0 ? got : 0;
        length -= got > 0 ? (size_t)got : 0;
    }
    return 0;
}

/* In steps: memory is taken for what came, not for what was announced. Not by way of the stack, which is
 * small where very many connections are served. */
static int receive_part(int fd, size_t length, struct buffer *into)
{
    while (length > 0) {
        size_t step = length < STEP ? length : STEP;
        int status = buffer_reserve(into, step);
        if (status == 0)
            status = receive_all(fd, into->data + into->length, step);
        if (status < 0)
            return status;
        into->length += step;
        into->data[into->length] = '\0';
        length -= step;
    }
    return 0;
}

/* Most are small: header and body come at once, and are taken apart here. */
static int receive_parts(int fd, const uint32_t *lengths, struct buffer *header, struct buffer *body)
{
    size_t all = (size_t)lengths[0] + lengths[1];
    if (all > STEP) {
        int status = receive_part(fd, lengths[0], header);
        return status < 0 ? status : receive_part(fd, lengths[1], body);
    }
    int status = receive_part(fd, all, header);
    if (status == 0 && lengths[1])
        status = buffer_append(body, header->data + lengths[0], lengths[1]);
    if (status == 0)
        header->length = lengths[0];
    return status;
}

int wire_receive(int fd, json_t **ret_header, struct buffer *ret_body, int *fds)
{
    int taken[WIRE_DESCRIPTORS];
    uint32_t lengths[2];
    for (int i = 0; fds && i < WIRE_DESCRIPTORS; i++)
        fds[i] = -1;
    int got = process_receive_many(fd, lengths, sizeof lengths, taken, WIRE_DESCRIPTORS);
    if (got <= 0)
        return got < 0 ? got : -EPIPE;
    for (int i = 0; i < WIRE_DESCRIPTORS; i++)
        if (fds)
            fds[i] = taken[i];
        else
            scope_close_fd(&taken[i]);
    int status = receive_all(fd, (char *)lengths + got, sizeof lengths - (size_t)got);
    if (status == 0 && (lengths[0] > WIRE_HEADER_MAX || lengths[1] > WIRE_BODY_MAX))
        status = -EPROTO;
    scope_buffer header = {0};
    if (status == 0)
        status = receive_parts(fd, lengths, &header, ret_body);
    if (status == 0) {
        *ret_header = json_loadb(header.data, header.length, 0, NULL);
        if (!json_is_object(*ret_header)) {
            json_decref(*ret_header);
            *ret_header = NULL;
            status = -EPROTO;
        }
    }
    for (int i = 0; status < 0 && fds && i < WIRE_DESCRIPTORS; i++)
        scope_close_fd(&fds[i]);
    return status;
}

static json_t *list_to_json(const struct string_list *list)
{
    json_t *array = json_array();
    for (size_t i = 0; i < list->count; i++)
        if (json_array_append_new(array, json_string(list->items[i])) < 0) {
            json_decref(array);
            return NULL; /* not UTF-8: not for this wire */
        }
    return array;
}

static json_t *limits_to_json(const struct limits *limits, const bool *set)
{
    json_t *object = json_object();
    for (int i = 0; i < LIMIT_FIELDS; i++)
        if (set[i])
            json_object_set_new(object, limit_rows[i].name, json_integer(limits->value[i]));
    return object;
}

static json_t *grants_to_json(const struct spec *spec)
{
    json_t *array = json_array();
    for (size_t i = 0; i < spec->grant_count; i++)
        if (json_array_append_new(array,
                                  json_pack("{s:i, s:s, s:s?}", "kind", (int)spec->grants[i].kind, "path",
                                            spec->grants[i].host_path, "name", spec->grants[i].name)) < 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

json_t *wire_from_spec(const struct spec *spec)
{
    return json_pack(
        "{s:b, s:s?, s:s?, s:s?, s:s?, s:s?, s:s?, s:s?, s:b, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s?, "
        "s:o, "
        "s:o, s:I, s:b, s:i, s:b}",
        "code", spec->has_code, "vet", spec->has_vet ? vet_mode_names[spec->vet] : NULL, "language",
        spec->language, "code_name", spec->code_name, "image", spec->image, "preload", spec->preload, "cwd",
        spec->working_directory, "output", spec->output_directory, "ours", spec->is_ours, "isolation",
        (int)spec->isolation, "command", list_to_json(&spec->command), "arguments",
        list_to_json(&spec->arguments), "environment", list_to_json(&spec->environment), "accepted",
        list_to_json(&spec->accepted), "limits", limits_to_json(&spec->limits, spec->limit_set),
        "compile_limits", limits_to_json(&spec->compile_limits, spec->compile_limit_set), "grants",
        grants_to_json(spec), "call", spec->call, "host", list_to_json(&spec->host), "fetch",
        list_to_json(&spec->fetch), "fuel", (json_int_t)spec->fuel, "auto", spec->is_auto, "isolation_min",
        (int)spec->isolation_min, "results", spec->wants_results);
}

static int take_text(const json_t *object, const char *name, char **into)
{
    const char *text = json_string_value(json_object_get(object, name));
    if (!text)
        return 0;
    *into = strdup(text);
    return *into ? 0 : -ENOMEM;
}

static int take_list(const json_t *object, const char *name, struct string_list *into)
{
    size_t index;
    json_t *item;
    json_array_foreach(json_object_get(object, name), index, item)
    {
        const char *text = json_string_value(item);
        int status = text ? string_list_add(into, text) : -EPROTO;
        if (status < 0)
            return status;
    }
    return 0;
}

static void take_limits(const json_t *object, const char *name, struct limits *into, bool *set)
{
    const json_t *limits = json_object_get(object, name);
    for (int i = 0; i < LIMIT_FIELDS; i++) {
        const json_t *value = json_object_get(limits, limit_rows[i].name);
        if (!json_is_integer(value))
            continue;
        into->value[i] = json_integer_value(value);
        set[i] = true;
    }
}

static int take_grants(const json_t *object, struct spec *into)
{
    size_t index;
    json_t *item;
    json_array_foreach(json_object_get(object, "grants"), index, item)
    {
        if (into->grant_count == SPEC_GRANTS_MAX)
            return -EPROTO;
        struct grant *grant = &into->grants[into->grant_count++];
        json_int_t kind = json_integer_value(json_object_get(item, "kind"));
        *grant = (struct grant){.kind = (enum grant_kind)kind};
        int status = take_text(item, "path", &grant->host_path);
        if (status == 0)
            status = take_text(item, "name", &grant->name);
        if (status < 0 || !grant->host_path || kind < GRANT_INPUT || kind > GRANT_WRITE)
            return status < 0 ? status : -EPROTO;
    }
    return 0;
}

int wire_to_spec(const json_t *object, struct spec *into, struct error *err)
{
    const struct {
        const char *name;
        char **into;
    } texts[] = {
        {"language", &into->language}, {"code_name", &into->code_name},   {"image", &into->image},
        {"preload", &into->preload},   {"cwd", &into->working_directory}, {"output", &into->output_directory},
        {"call", &into->call}};
    const struct {
        const char *name;
        struct string_list *into;
    } lists[] = {
        {"command", &into->command},   {"arguments", &into->arguments}, {"environment", &into->environment},
        {"accepted", &into->accepted}, {"host", &into->host},           {"fetch", &into->fetch}};
    const char *vet = json_string_value(json_object_get(object, "vet"));
    int status = json_is_object(object) ? 0 : -EPROTO;
    if (vet)
        status = spec_set(into, "vet", vet, err);
    for (size_t i = 0; status == 0 && i < sizeof texts / sizeof *texts; i++)
        status = take_text(object, texts[i].name, texts[i].into);
    for (size_t i = 0; status == 0 && i < sizeof lists / sizeof *lists; i++)
        status = take_list(object, lists[i].name, lists[i].into);
    if (status == 0 && into->code_name && !text_is_file_name(into->code_name, strlen(into->code_name)))
        return error_spec(err, "name", "name: not the name of a file");
    json_int_t isolation = json_integer_value(json_object_get(object, "isolation"));
    if (isolation < 0 || isolation >= ISOLATION_COUNT)
        status = -EPROTO;
    json_int_t least = json_integer_value(json_object_get(object, "isolation_min"));
    if (least < 0 || least >= ISOLATION_COUNT)
        status = -EPROTO;
    into->is_auto = json_is_true(json_object_get(object, "auto"));
    into->isolation_min = (enum isolation)(status < 0 ? 0 : least);
    into->has_isolation = !into->is_auto;
    into->isolation = (enum isolation)isolation;
    const json_t *fuel = json_object_get(object, "fuel");
    into->fuel = json_is_integer(fuel) ? json_integer_value(fuel) : -1;
    into->is_ours = json_is_true(json_object_get(object, "ours"));
    into->has_code = json_is_true(json_object_get(object, "code"));
    into->wants_results = json_is_true(json_object_get(object, "results"));
    take_limits(object, "limits", &into->limits, into->limit_set);
    take_limits(object, "compile_limits", &into->compile_limits, into->compile_limit_set);
    if (status == 0)
        status = take_grants(object, into);
    return status < 0 ? error_host(err, status, "a request that cannot be read") : 0;
}

/* Texts of ours may have been cut in the middle of a character of somebody else's. */
static json_t *clean_text(const char *text)
{
    scope_buffer clean = {0};
    return text_append_utf8(&clean, text, strlen(text)) < 0
               ? NULL
               : json_stringn(clean.data ? clean.data : "", clean.length);
}

json_t *wire_from_result(const struct result *result)
{
    const struct result_usage *usage = &result->usage;
    return json_pack(
        "{s:O?, s:o, s:i, s:i, s:i, s:i, s:o, s:o, s:I, s:I, s:b, s:I, s:I, s:[I, I, I, I, I, I]}", "vet",
        result->vet, "chosen", clean_text(result->chosen), "isolation", (int)result->isolation, "cause",
        (int)result->cause, "exit_code", result->exit_code, "signal", result->signal, "detail",
        clean_text(result->detail), "returned", list_to_json(&result->returned), "stdout_dropped",
        (json_int_t)result->output.dropped_bytes, "stderr_dropped", (json_int_t)result->errors.dropped_bytes,
        "left_behind", result->left_behind, "files", (json_int_t)result->file_count, "omissions",
        (json_int_t)(result->omission_count + (size_t)result->omissions_uncounted), "usage",
        (json_int_t)usage->wall_us, (json_int_t)usage->cpu_user_us, (json_int_t)usage->cpu_system_us,
        (json_int_t)usage->peak_memory_bytes, (json_int_t)usage->peak_pids, (json_int_t)usage->disk_bytes);
}

int wire_to_result(const json_t *object, struct result *into)
{
    json_int_t cause = json_integer_value(json_object_get(object, "cause"));
    const char *detail = json_string_value(json_object_get(object, "detail"));
    const char *chosen = json_string_value(json_object_get(object, "chosen"));
    json_int_t isolation = json_integer_value(json_object_get(object, "isolation"));
    if (cause < 0 || cause >= CAUSE_COUNT || !detail || isolation < 0 || isolation >= ISOLATION_COUNT)
        return -EPROTO;
    into->cause = (enum cause)cause;
    into->isolation = (enum isolation)isolation;
    snprintf(into->chosen, sizeof into->chosen, "%s", chosen ? chosen : "");
    into->exit_code = (int)json_integer_value(json_object_get(object, "exit_code"));
    into->signal = (int)json_integer_value(json_object_get(object, "signal"));
    snprintf(into->detail, sizeof into->detail, "%s", detail);
    into->output.dropped_bytes = json_integer_value(json_object_get(object, "stdout_dropped"));
    into->errors.dropped_bytes = json_integer_value(json_object_get(object, "stderr_dropped"));
    into->left_behind = json_is_true(json_object_get(object, "left_behind"));
    int status = take_list(object, "returned", &into->returned);
    if (status < 0)
        return status;
    into->omissions_uncounted = json_integer_value(json_object_get(object, "omissions"));
    const json_t *vet = json_object_get(object, "vet");
    if (json_is_object(vet))
        result_take_vet(into, vet_report_copy(vet_report_mode(vet), vet));
    const json_t *usage = json_object_get(object, "usage");
    int64_t *const numbers[] = {&into->usage.wall_us,       &into->usage.cpu_user_us,
                                &into->usage.cpu_system_us, &into->usage.peak_memory_bytes,
                                &into->usage.peak_pids,     &into->usage.disk_bytes};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        *numbers[i] = json_integer_value(json_array_get(usage, i));
    return 0;
}

json_t *wire_from_error(const struct error *err)
{
    return json_pack("{s:i, s:i, s:o, s:o}", "kind", (int)err->kind, "code", err->code, "subject",
                     clean_text(err->subject), "text", clean_text(err->text));
}

void wire_to_error(const json_t *object, struct error *into)
{
    const char *subject = json_string_value(json_object_get(object, "subject"));
    const char *text = json_string_value(json_object_get(object, "text"));
    json_int_t kind = json_integer_value(json_object_get(object, "kind"));
    json_int_t code = json_integer_value(json_object_get(object, "code"));
    into->kind = kind > ERROR_NONE && kind <= ERROR_HOST ? (enum error_kind)kind : ERROR_HOST;
    into->code = code < 0 && code >= -MAX_ERRNO ? (int)code : -EIO;
    snprintf(into->subject, sizeof into->subject, "%s", subject ? subject : "");
    snprintf(into->text, sizeof into->text, "%s", text ? text : "the keeper failed");
}
