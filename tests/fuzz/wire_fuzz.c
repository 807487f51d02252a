/* Any bytes on the keeper's socket: a frame or a refusal, and what is taken as a spec is one that goes over
 * the wire again and comes back the same. */
#include "fuzz.h"

#include "keeper/wire.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { INPUT_MAX = 65536 }; /* fits into the socket: nobody reads while we write */

static void check_spec(const json_t *object)
{
    scope_spec *spec = spec_new(), *again = spec_new();
    struct error err = {0};
    if (wire_to_spec(object, spec, &err) < 0) {
        check(err.text[0] && err.code < 0, "a refusal has a reason");
        return;
    }
    check(spec->grant_count <= SPEC_GRANTS_MAX && spec->isolation < ISOLATION_COUNT, "numbers are in range");
    for (size_t i = 0; i < spec->grant_count; i++)
        check(spec->grants[i].host_path != NULL, "a grant has a path");
    json_t *one = wire_from_spec(spec);
    check(one != NULL, "what came from JSON goes into it");
    check(wire_to_spec(one, again, &err) == 0, "what was sent is taken");
    json_t *other = wire_from_spec(again);
    check(json_equal(one, other), "there and back is the same");
    json_decref(one);
    json_decref(other);
}

static void check_result(const json_t *object)
{
    struct result *result = result_new();
    if (wire_to_result(object, result) == 0)
        check(result->cause < CAUSE_COUNT && strlen(result->detail) < sizeof result->detail,
              "a result is in range");
    result_free(result);
    struct error err = {0};
    wire_to_error(object, &err);
    check(err.code < 0 && err.text[0] && err.kind != ERROR_NONE, "an error is one, whatever came");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int ends[2];
    if (size > INPUT_MAX)
        return 0;
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "there are sockets");
    check(send(ends[1], data, size, MSG_DONTWAIT) == (ssize_t)size, "the input fits");
    check(shutdown(ends[1], SHUT_WR) == 0, "it ends");
    int status;
    size_t frames = 0, bytes = 0;
    do {
        json_t *header = NULL;
        struct buffer body = {0};
        int fds[WIRE_DESCRIPTORS] = {[0 ... WIRE_DESCRIPTORS - 1] = -1};
        status = wire_receive(ends[0], &header, &body, frames % 2 ? NULL : fds);
        check((status == 0) == (header != NULL), "a frame has a header, a refusal has none");
        check(fds[0] == -1 && fds[1] == -1 && fds[2] == -1, "no descriptor came");
        bytes += body.length;
        check(bytes <= size, "no more comes out than went in");
        if (status == 0) {
            check(json_is_object(header), "a header is an object");
            json_t *spec = json_object_get(header, "spec");
            check_spec(spec ? spec : header);
            check_result(header);
        }
        json_decref(header);
        buffer_free(&body);
        frames++;
    } while (status == 0);
    close(ends[0]);
    close(ends[1]);
    return 0;
}
