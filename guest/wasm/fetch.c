#include "fetch.h"

#include "imports.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

enum { NAME_MAX_LENGTH = 256, SHOWN_MAX = 200 };

struct fetch *fetch_new(int fd)
{
    struct fetch *fetch = calloc(1, sizeof *fetch);
    if (fetch)
        fetch->fd = fd;
    return fetch;
}

void fetch_free(struct fetch *fetch)
{
    free(fetch);
}

static bool send_all(int fd, const void *data, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t sent = send(fd, (const char *)data + done, length - done, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return false;
        done += sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

static bool receive_all(int fd, void *into, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t got = recv(fd, (char *)into + done, length - done, MSG_WAITALL);
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        done += got > 0 ? (size_t)got : 0;
    }
    return true;
}

static int32_t refuse(struct fetch *fetch, enum fetch_code code, const char *reason)
{
    fetch->status = code;
    fetch->left = 0;
    fetch->text_length = (uint32_t)snprintf(fetch->text, sizeof fetch->text, "%s", reason);
    return code;
}

/* What was not read of the answer before. */
static bool skip_rest(struct fetch *fetch)
{
    char thrown_away[4096];
    while (fetch->left) {
        size_t piece = fetch->left < sizeof thrown_away ? (size_t)fetch->left : sizeof thrown_away;
        if (!receive_all(fetch->fd, thrown_away, piece))
            return false;
        fetch->left -= piece;
    }
    return true;
}

/* After an answer that cannot be, or none, there are no more. */
static int32_t lose(struct fetch *fetch)
{
    fetch->fd = -1;
    return refuse(fetch, FETCH_FAILED, "the gateway has ended");
}

static int32_t ask(struct fetch *fetch, const struct fetch_request_head *head, uint8_t *const *parts)
{
    struct fetch_answer_head answer;
    if (fetch->fd < 0 || !skip_rest(fetch)) /* also before a refusal: the next answer begins behind it */
        return lose(fetch);
    if (head->method_length > FETCH_METHOD_MAX || head->url_length > FETCH_URL_MAX ||
        head->headers_length > FETCH_HEADERS_MAX)
        return refuse(fetch, FETCH_MALFORMED,
                      "method, address or headers are longer than 16 bytes, 8 KiB and 32 KiB");
    if (!send_all(fetch->fd, head, sizeof *head) || !send_all(fetch->fd, parts[0], head->method_length) ||
        !send_all(fetch->fd, parts[1], head->url_length) ||
        !send_all(fetch->fd, parts[2], head->headers_length) ||
        !send_all(fetch->fd, parts[3], (size_t)head->body_length) ||
        !receive_all(fetch->fd, &answer, sizeof answer) || answer.magic != FETCH_MAGIC ||
        answer.text_length > sizeof fetch->text || !receive_all(fetch->fd, fetch->text, answer.text_length))
        return lose(fetch);
    fetch->text_length = answer.text_length;
    fetch->left = answer.body_length;
    return fetch->status = answer.status;
}

/* A module can write what it likes to stderr; who reads it should not see what it cannot. */
static void tell(const struct run_state *state, const uint8_t *url, uint32_t length)
{
    char shown[SHOWN_MAX + 1];
    const struct fetch *fetch = state->fetch;
    uint32_t count = length < SHOWN_MAX ? length : SHOWN_MAX;
    for (uint32_t i = 0; i < count; i++)
        shown[i] = (char)(url[i] > ' ' && url[i] < 0x7f ? url[i] : '?');
    shown[count] = '\0';
    dprintf(state->stderr_fd, "fetch: %s: %s: %.*s\n", shown,
            fetch->status == FETCH_DENIED    ? "denied"
            : fetch->status == FETCH_LIMITED ? "limit reached"
                                             : "failed",
            (int)fetch->text_length, fetch->text);
}

wasm_trap_t *fetch_request(void *env, wasmtime_caller_t *caller, const wasmtime_val_t *args, size_t arg_count,
                           wasmtime_val_t *results, size_t result_count)
{
    (void)env, (void)arg_count, (void)result_count;
    enum { PARTS = 4 };
    uint8_t *parts[PARTS];
    uint32_t lengths[PARTS];
    struct run_state *state = imports_state(caller);
    for (int i = 0; i < PARTS; i++) {
        lengths[i] = (uint32_t)args[2 * i + 1].of.i32;
        if (!imports_range(caller, (uint32_t)args[2 * i].of.i32, lengths[i], &parts[i]))
            return imports_outside();
    }
    const struct fetch_request_head head = {.magic = FETCH_MAGIC,
                                            .method_length = lengths[0],
                                            .url_length = lengths[1],
                                            .headers_length = lengths[2],
                                            .body_length = lengths[3]};
    int32_t status = ask(state->fetch, &head, parts);
    if (status < 0)
        tell(state, parts[1], lengths[1]);
    imports_answer(results, status);
    return NULL;
}

wasm_trap_t *fetch_read(void *env, wasmtime_caller_t *caller, const wasmtime_val_t *args, size_t arg_count,
                        wasmtime_val_t *results, size_t result_count)
{
    (void)env, (void)arg_count, (void)result_count;
    struct fetch *fetch = imports_state(caller)->fetch;
    uint32_t room = (uint32_t)args[1].of.i32;
    uint8_t *into;
    if (!imports_range(caller, (uint32_t)args[0].of.i32, room, &into))
        return imports_outside();
    size_t wanted = fetch->left < room ? (size_t)fetch->left : room;
    if (wanted > INT32_MAX)
        wanted = INT32_MAX;
    if (wanted && !receive_all(fetch->fd, into, wanted)) {
        imports_answer(results, lose(fetch));
        return NULL;
    }
    fetch->left -= wanted;
    imports_answer(results, fetch->status < 0 ? fetch->status : (int32_t)wanted);
    return NULL;
}

/* The first line of this name: where its value is, and how long; NULL: there is none. */
static const char *find_header(const struct fetch *fetch, const uint8_t *name, uint32_t length,
                               size_t *ret_length)
{
    const char *at = fetch->text, *end = at + fetch->text_length;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
        if ((size_t)(stop - at) > length && at[length] == ':' &&
            strncasecmp(at, (const char *)name, length) == 0) {
            const char *value = at + length + 1;
            while (value < stop && (*value == ' ' || *value == '\t'))
                value++;
            *ret_length = (size_t)(stop - value);
            return value;
        }
        at = newline ? newline + 1 : end;
    }
    return NULL;
}

/* As the group kv does: the length, and as much of it as there is room for. */
static int32_t hand_out(const char *value, size_t length, uint8_t *into, uint32_t room)
{
    memcpy(into, value, length < room ? length : room);
    return (int32_t)length;
}

wasm_trap_t *fetch_header(void *env, wasmtime_caller_t *caller, const wasmtime_val_t *args, size_t arg_count,
                          wasmtime_val_t *results, size_t result_count)
{
    (void)env, (void)arg_count, (void)result_count;
    const struct fetch *fetch = imports_state(caller)->fetch;
    uint32_t length = (uint32_t)args[1].of.i32, room = (uint32_t)args[3].of.i32;
    uint8_t *name, *into;
    if (!imports_range(caller, (uint32_t)args[0].of.i32, length, &name) ||
        !imports_range(caller, (uint32_t)args[2].of.i32, room, &into))
        return imports_outside();
    size_t value_length = 0;
    const char *value = fetch->status > 0 && length && length <= NAME_MAX_LENGTH
                            ? find_header(fetch, name, length, &value_length)
                            : NULL;
    imports_answer(results, value ? hand_out(value, value_length, into, room) : -1);
    return NULL;
}

wasm_trap_t *fetch_error(void *env, wasmtime_caller_t *caller, const wasmtime_val_t *args, size_t arg_count,
                         wasmtime_val_t *results, size_t result_count)
{
    (void)env, (void)arg_count, (void)result_count;
    const struct fetch *fetch = imports_state(caller)->fetch;
    uint32_t room = (uint32_t)args[1].of.i32;
    uint8_t *into;
    if (!imports_range(caller, (uint32_t)args[0].of.i32, room, &into))
        return imports_outside();
    imports_answer(results, fetch->status < 0 ? hand_out(fetch->text, fetch->text_length, into, room) : 0);
    return NULL;
}
