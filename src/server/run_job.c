#include "server/run_job.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/scope.h"
#include "keeper/client.h"
#include "keeper/wire.h"
#include "server/admission.h"
#include "server/keeper_link.h"
#include "server/run_gate.h"
#include "server/run_input.h"
#include "server/server.h"
#include "server/store.h"
#include "server/tenant.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { INLINE_BYTES_MAX = 8 << 20 };

/* An upload of the tenant's, opened for reading. It is held as long as the run: the keeper finds it by its
 * path, when the box is made. */
static int open_upload(const struct run_job *job, const char *field, const char *name, char *ret_sha256,
                       struct error *err)
{
    struct store *store = job->server->store;
    struct stored stored;
    if (store_hold(store, exchange_tenant(job->exchange)->name, name, &stored) < 0)
        return error_spec(err, field, "%s: there is no upload '%.64s'", field, name);
    memcpy(ret_sha256, stored.sha256, sizeof stored.sha256);
    int fd = store_open_content(store, stored.sha256);
    return fd < 0 ? error_host(err, fd, "cannot open the upload '%.64s'", name) : fd;
}

static int open_stdin(struct run_job *job, struct error *err)
{
    const struct spec *spec = job->request.spec;
    if (job->request.stdin_upload)
        return open_upload(job, "stdin_upload", job->request.stdin_upload, job->request.stdin_sha256, err);
    if (spec->stdin_kind != STDIN_BYTES)
        return -1;
    scope_fd fd = memfd_create("stdin", MFD_CLOEXEC);
    int status = fd < 0 ? -errno : file_write_all(fd, spec->stdin_bytes.data, spec->stdin_bytes.length);
    if (status == 0 && lseek(fd, 0, SEEK_SET) < 0)
        status = -errno;
    return status < 0 ? error_host(err, status, "cannot keep the run's stdin") : take_fd(&fd);
}

static int open_input(struct run_job *job, size_t index, struct error *err)
{
    struct run_file *file = &job->request.files.items[index];
    const struct run_content *content = &file->content;
    if (content->upload && !content->is_executable && !job->has_uploads)
        return open_upload(job, "files", content->upload, file->held_sha256, err);
    return run_input_make(job, index, file, err);
}

int run_job_open_inputs(struct run_job *job, struct client_input *inputs, struct error *err)
{
    for (size_t i = 0; i < job->request.files.count; i++) {
        inputs[i].name = job->request.files.items[i].name;
        inputs[i].fd = open_input(job, i, err);
        if (inputs[i].fd < 0)
            return inputs[i].fd;
    }
    return 0;
}

static int send_order(struct run_job *job, struct client_run *run, struct error *err)
{
    job->link_fd = keeper_link_take(job->server, err);
    int status = job->link_fd < 0 ? job->link_fd : client_send(job->link_fd, run, err);
    if (status < 0)
        scope_close_fd(&job->link_fd);
    return status;
}

static int start_with_files(struct run_job *job, struct client_run *run, struct error *err)
{
    struct client_input inputs[SPEC_GRANTS_MAX];
    size_t count = job->request.files.count;
    for (size_t i = 0; i < count; i++)
        inputs[i].fd = -1;
    int status = run_room_open(job->server, RUN_ROOMS, job->id, &job->room, err);
    if (status == 0)
        status = run_job_open_inputs(job, inputs, err);
    if (status == 0) {
        run->inputs = inputs;
        run->input_count = count;
        run->has_output = job->request.collect != RUN_COLLECT_LIST;
        run->output_fd = job->room.fd;
        status = send_order(job, run, err);
    }
    for (size_t i = 0; i < count; i++)
        scope_close_fd(&inputs[i].fd);
    return status;
}

int run_job_start(struct run_job *job, int output_fd, int errors_fd, bool wants_progress, struct error *err)
{
    job->result = result_new();
    if (!job->result)
        return error_host(err, -ENOMEM, "no memory for a result");
    scope_fd input_fd = open_stdin(job, err);
    if (err->kind)
        return err->code;
    struct admission_state admission;
    admission_get_state(job->server->admission, &admission);
    struct client_run run = {.spec = job->request.spec,
                             .owner = exchange_tenant(job->exchange)->name,
                             .asked_us = job->started_us,
                             .queued = (int)admission.waiting,
                             .fds = {input_fd, output_fd, errors_fd},
                             .wants_json = true,
                             .is_cold = job->request.is_cold,
                             .wants_progress = wants_progress};
    bool has_files = job->request.files.count > 0 || job->request.collect != RUN_COLLECT_LIST;
    return has_files ? start_with_files(job, &run, err) : send_order(job, &run, err);
}

void run_job_cancel(struct run_job *job)
{
    if (!job->is_cancelled)
        shutdown(job->link_fd, SHUT_WR);
    job->is_cancelled = true;
}

int run_job_receive(struct run_job *job, const char **ret_event, json_t **ret_data, struct error *err)
{
    json_t *answer = NULL;
    int status = wire_receive(job->link_fd, &answer, &job->json, NULL);
    if (status < 0) {
        scope_close_fd(&job->link_fd);
        return error_host(err, status, "the keeper went away");
    }
    const json_t *failure = json_object_get(answer, "error"), *progress = json_object_get(answer, "progress");
    if (failure) {
        wire_to_error(failure, err);
        status = err->code < 0 ? err->code : -EIO;
    } else if (progress) {
        *ret_event = "progress";
        *ret_data = json_incref((json_t *)(uintptr_t)progress);
    } else if (json_object_get(answer, "shown")) {
        *ret_event = "result";
        *ret_data = json_loadb(job->json.data ? job->json.data : "", job->json.length, JSON_ALLOW_NUL, NULL);
        job->json.length = 0;
        if (!*ret_data)
            run_job_cancel(job); /* what follows on this connection is of no use */
        if (!*ret_data)
            status = error_host(err, -EPROTO, "the keeper's answer cannot be read");
    } else {
        status = wire_to_result(json_object_get(answer, "result"), job->result) < 0
                     ? error_host(err, -EPROTO, "the keeper's answer cannot be read")
                     : 1;
    }
    json_decref(answer);
    if (status != 0 && job->is_cancelled)
        scope_close_fd(&job->link_fd); /* it is shut */
    else if (status != 0)
        keeper_link_give(job->server, take_fd(&job->link_fd));
    return status;
}

void run_append_encoded(struct buffer *into, const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~/";
    for (; *text; text++)
        if (strchr(plain, *text))
            buffer_append(into, text, 1);
        else
            buffer_print(into, "%%%02X", (unsigned char)*text);
}

static void set_url(const struct run_job *job, json_t *file, const char *path)
{
    scope_buffer url = {0};
    buffer_print(&url, "/v1/runs/%s/files/", job->id);
    run_append_encoded(&url, path);
    json_object_set_new(file, "url", json_string(url.data));
}

static int set_content(const struct run_job *job, json_t *file, const char *path)
{
    scope_fd fd = run_room_open_file(&job->room, path);
    json_int_t size = json_integer_value(json_object_get(file, "size"));
    char *bytes = fd < 0 ? NULL : malloc((size_t)size + 1);
    ssize_t got = 0, step = 0;
    while (bytes && got < size && (step = pread(fd, bytes + got, (size_t)(size - got), got)) > 0)
        got += step;
    char *text = bytes && got == size ? base64_encode((struct slice){bytes, (size_t)got}) : NULL;
    free(bytes);
    int status = text ? json_object_set_new(file, "content_base64", json_string(text)) : -1;
    free(text);
    return status;
}

/* On our disk: a million empty files are not nothing. */
static int64_t room_bytes(const char *path, int64_t size)
{
    int64_t entries = 1;
    for (; *path; path++)
        entries += *path == '/';
    return size + entries * RUN_ROOM_FILE_BYTES;
}

/* As many inline as there is room for, in their order; the others are kept, as if that had been asked for. */
static int present_files(struct run_job *job, json_t *files, struct error *err)
{
    json_int_t left = job->request.collect == RUN_COLLECT_INLINE ? INLINE_BYTES_MAX : -1;
    int64_t bytes = 0;
    size_t index;
    json_t *file;
    json_array_foreach(files, index, file)
    {
        const char *path = json_string_value(json_object_get(file, "path"));
        const char *encoded = json_string_value(json_object_get(file, "path_base64"));
        scope_buffer exact = {0};
        if (encoded && base64_decode((struct slice){encoded, strlen(encoded)}, &exact) == 0)
            path = exact.data;
        json_int_t size = json_integer_value(json_object_get(file, "size"));
        bytes += room_bytes(path, size);
        if (size <= left && set_content(job, file, path) == 0) {
            left -= size;
            continue;
        }
        set_url(job, file, path);
        job->is_kept = true;
    }
    return job->is_kept ? run_room_keep(&job->room, exchange_tenant(job->exchange), bytes, err) : 0;
}

json_t *run_job_finish_object(struct run_job *job, struct error *err)
{
    json_t *object = json_loadb(job->json.data ? job->json.data : "", job->json.length, JSON_ALLOW_NUL, NULL);
    if (!object) {
        error_host(err, -EPROTO, "the keeper's answer cannot be read");
        return NULL;
    }
    json_t *named = json_pack("{s:s}", "id", job->id);
    if (named && json_object_update(named, object) == 0) {
        json_decref(object);
        object = named;
    }
    if (job->request.collect != RUN_COLLECT_LIST &&
        present_files(job, json_object_get(object, "files"), err) < 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

int run_job_finish(struct run_job *job, struct buffer *ret, struct error *err)
{
    if (job->request.collect == RUN_COLLECT_LIST && job->json.length > 1 && job->json.data[0] == '{') {
        /* Nothing of it need be understood: the id goes before the rest. */
        int status = buffer_print(ret, "{\"id\":\"%s\",", job->id);
        if (status == 0)
            status = buffer_append(ret, job->json.data + 1, job->json.length - 1);
        return status < 0 ? error_host(err, status, "no memory for an answer") : 0;
    }
    json_t *object = run_job_finish_object(job, err);
    char *text = object ? json_text(object, JSON_COMPACT | JSON_REAL_PRECISION(12)) : NULL;
    json_decref(object);
    if (!text)
        return err->kind ? err->code : error_host(err, -ENOMEM, "no memory for an answer");
    *ret = (struct buffer){.data = text, .length = strlen(text)};
    return 0;
}

static void release_upload(const struct run_job *job, const char *sha256)
{
    if (sha256[0])
        store_release(job->server->store, sha256);
}

void run_job_close(struct run_job *job)
{
    run_gate_leave(job);
    scope_close_fd(&job->link_fd);
    for (size_t i = 0; i < job->request.files.count; i++)
        release_upload(job, job->request.files.items[i].held_sha256);
    release_upload(job, job->request.stdin_sha256);
    run_room_close(&job->room, job->is_kept);
    run_request_free(&job->request);
    result_free(job->result);
    buffer_free(&job->json);
    job->result = NULL;
}
