#include "remote/given_stdin.h"

#include "cli/report.h"
#include "remote/upload.h"

#include "base/base64.h"
#include "base/scope.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

enum { IN_REQUEST_MAX = 1 << 20, IN_SANDBOX_MAX = 32 << 20, PATIENCE_MS = 3000 };

/* Whoever wonders why nothing happens is told. */
static int read_bytes(struct given_stdin *into, size_t most, bool quiet, struct error *err)
{
    bool is_told = quiet;
    while (into->bytes.length <= most) {
        char chunk[65536];
        struct pollfd polled = {.fd = STDIN_FILENO, .events = POLLIN};
        if (!is_told && poll(&polled, 1, PATIENCE_MS) == 0) {
            is_told = true;
            report_error("waiting for the end of stdin, which the server gets whole (</dev/null: none)");
        }
        ssize_t got = read(STDIN_FILENO, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno != EBADF && errno != EISDIR && errno != EIO)
            return error_host(err, -errno, "stdin");
        if (got <= 0)
            return 0;
        int status = buffer_append(&into->bytes, chunk, (size_t)got);
        if (status < 0)
            return error_host(err, status, "stdin");
    }
    into->has_more = true;
    return 0;
}

static int begin(struct given_stdin *ret, const struct run_options *given, size_t most, struct error *err)
{
    const struct spec *spec = given->spec;
    if (spec->stdin_kind != STDIN_BYTES && !given->spec_from_stdin && !isatty(STDIN_FILENO))
        return read_bytes(ret, most, given->quiet || given->json, err);
    int status = spec->stdin_kind == STDIN_BYTES
                     ? buffer_append(&ret->bytes, spec->stdin_bytes.data, spec->stdin_bytes.length)
                     : 0;
    return status < 0 ? error_host(err, status, "stdin") : 0;
}

int given_stdin_begin(struct given_stdin *ret, const struct run_options *given, struct error *err)
{
    return begin(ret, given, IN_REQUEST_MAX, err);
}

static int add_bytes(json_t *body, const struct buffer *bytes)
{
    if (!bytes->length)
        return 0;
    json_t *text = json_stringn(bytes->data, bytes->length);
    if (text)
        return json_object_set_new(body, "stdin", text);
    scope_free char *encoded = base64_encode((struct slice){bytes->data, bytes->length});
    return json_object_set_new(body, "stdin_base64", encoded ? json_string(encoded) : json_null());
}

int given_stdin_send(const struct given_stdin *is, struct http *http, json_t *body,
                     struct string_list *temporary, struct error *err)
{
    if (!is->has_more)
        return add_bytes(body, &is->bytes);
    const struct http_source source = {
        .fd = STDIN_FILENO, .size_bytes = -1, .first = {is->bytes.data, is->bytes.length}};
    int status = upload_temporary(http, &source, "stdin", temporary, err);
    if (status < 0)
        return status;
    return json_object_set_new(body, "stdin_upload", json_string(temporary->items[temporary->count - 1]));
}

int given_stdin_add(json_t *body, const struct run_options *given, struct error *err)
{
    struct given_stdin is = {0};
    int status = begin(&is, given, IN_SANDBOX_MAX, err);
    if (status == 0 && is.has_more)
        status =
            error_spec(err, "stdin", "stdin: more than 32 MiB; put it there as a file, with `cloche files`");
    if (status == 0)
        status = add_bytes(body, &is.bytes);
    buffer_free(&is.bytes);
    return status;
}
