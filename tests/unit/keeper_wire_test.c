/* What the keeper and its clients say to each other: there and back, and what is no frame at all. */
#include "harness.h"

#include "keeper/wire.h"

#include <pthread.h>
#include <sys/socket.h>

struct wire {
    int ours, theirs;
};

static struct wire make_wire(void)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    return (struct wire){ends[0], ends[1]};
}

static void close_wire(struct wire *wire)
{
    close(wire->ours);
    if (wire->theirs >= 0)
        close(wire->theirs);
}

static bool is_same_file(int one, int other)
{
    struct stat a, b;
    return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static void frames_arrive_with_header_body_and_descriptors(void **state)
{
    (void)state;
    struct wire wire = make_wire();
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    for (size_t count = 0; count <= 2; count++) {
        int descriptors = open_descriptors();
        assert_int_equal(
            wire_send(wire.theirs, json_pack("{s:i}", "n", 7), (struct slice){"a\0b", 3}, ends, count), 0);
        json_t *header = NULL;
        scope_buffer body = {0};
        int fds[WIRE_DESCRIPTORS] = {99, 99, 99};
        assert_int_equal(wire_receive(wire.ours, &header, &body, fds), 0);
        assert_int_equal(json_integer_value(json_object_get(header, "n")), 7);
        assert_int_equal(body.length, 3);
        assert_memory_equal(body.data, "a\0b", 3);
        for (size_t i = 0; i < WIRE_DESCRIPTORS; i++) {
            if (i >= count) {
                assert_int_equal(fds[i], -1);
                continue;
            }
            assert_true(is_same_file(fds[i], ends[i]));
            assert_true(fcntl(fds[i], F_GETFD) & FD_CLOEXEC);
            close(fds[i]);
        }
        json_decref(header);
        assert_int_equal(open_descriptors(), descriptors);
    }
    close(ends[0]);
    close(ends[1]);
    close_wire(&wire);
}

static void descriptors_that_nobody_wants_are_closed(void **state)
{
    (void)state;
    struct wire wire = make_wire();
    int ends[5] = {0, 1, 2, 0, 1}; /* more than there are places for */
    for (size_t count = 0; count <= 5; count++) {
        int descriptors = open_descriptors();
        assert_int_equal(wire_send(wire.theirs, json_object(), (struct slice){"", 0}, ends, count), 0);
        json_t *header = NULL;
        scope_buffer body = {0};
        assert_int_equal(wire_receive(wire.ours, &header, &body, NULL), 0);
        json_decref(header);
        assert_int_equal(open_descriptors(), descriptors);
    }
    close_wire(&wire);
}

struct sending {
    int fd;
    struct slice body;
    int status;
};

static void *send_body(void *data)
{
    struct sending *sending = data;
    sending->status = wire_send(sending->fd, json_pack("{s:s}", "type", "large"), sending->body, NULL, 0);
    return NULL;
}

static void bodies_larger_than_the_socket_arrive_whole(void **state)
{
    (void)state;
    enum { SIZE = (8 << 20) + 77 };
    struct wire wire = make_wire();
    unsigned char *bytes = malloc(SIZE);
    assert_non_null(bytes);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)(i * 31 + (i >> 13));
    struct sending sending = {.fd = wire.theirs, .body = {(char *)bytes, SIZE}};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, send_body, &sending), 0);
    json_t *header = NULL;
    scope_buffer body = {0};
    int status = wire_receive(wire.ours, &header, &body, NULL);
    pthread_join(thread, NULL);
    assert_int_equal(status, 0);
    assert_int_equal(sending.status, 0);
    assert_int_equal(body.length, SIZE);
    assert_memory_equal(body.data, bytes, SIZE);
    json_decref(header);
    free(bytes);
    close_wire(&wire);
}

static void peer_that_is_gone_is_an_error_and_no_signal(void **state)
{
    (void)state;
    struct wire wire = make_wire();
    json_t *header = NULL;
    scope_buffer body = {0};
    close(wire.theirs);
    wire.theirs = -1;
    assert_int_equal(wire_receive(wire.ours, &header, &body, NULL), -EPIPE);
    assert_int_equal(wire_send(wire.ours, json_object(), (struct slice){"", 0}, NULL, 0), -EPIPE);
    assert_null(header);
    close_wire(&wire);
}

/* What wire_receive makes of these bytes, sent with descriptors, and of their end. */
static int receive_bytes(const char *bytes, size_t length)
{
    struct wire wire = make_wire();
    int descriptors = open_descriptors();
    int given[] = {0, 1, 2}, fds[WIRE_DESCRIPTORS] = {[0 ... WIRE_DESCRIPTORS - 1] = -1};
    if (length > 0) {
        union {
            char bytes[CMSG_SPACE(sizeof given)];
            struct cmsghdr align;
        } space = {0};
        struct iovec vector = {(void *)(uintptr_t)bytes, length};
        struct msghdr message = {.msg_iov = &vector,
                                 .msg_iovlen = 1,
                                 .msg_control = space.bytes,
                                 .msg_controllen = sizeof space.bytes};
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof given);
        memcpy(CMSG_DATA(header), given, sizeof given);
        assert_int_equal(sendmsg(wire.theirs, &message, 0), (ssize_t)length);
    }
    assert_int_equal(shutdown(wire.theirs, SHUT_WR), 0);
    json_t *header = NULL;
    scope_buffer body = {0};
    int status = wire_receive(wire.ours, &header, &body, fds);
    assert_true((status == 0) == (header != NULL));
    json_decref(header);
    for (int i = 0; status == 0 && i < WIRE_DESCRIPTORS; i++)
        close(fds[i]);
    for (int i = 0; status < 0 && i < WIRE_DESCRIPTORS; i++)
        assert_int_equal(fds[i], -1);
    assert_int_equal(open_descriptors(), descriptors);
    close_wire(&wire);
    return status;
}

static size_t put_frame(char *into, uint32_t header_length, uint32_t body_length, const char *content)
{
    memcpy(into, &header_length, 4);
    memcpy(into + 4, &body_length, 4);
    memcpy(into + 8, content, strlen(content));
    return 8 + strlen(content);
}

static void frames_that_are_cut_anywhere_are_refused(void **state)
{
    (void)state;
    char frame[64];
    size_t length = put_frame(frame, 7, 4, "{\"a\":1}body");
    assert_int_equal(receive_bytes(frame, length), 0);
    for (size_t cut = 0; cut < length; cut++)
        assert_int_equal(receive_bytes(frame, cut), -EPIPE);
}

static void frames_that_are_none_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t header, body;
        const char *content;
        int status;
    } wrong[] = {
        {0, 0, "", -EPROTO},
        {2, 0, "{]", -EPROTO},
        {2, 0, "[]", -EPROTO},
        {4, 0, "null", -EPROTO},
        {1, 0, "5", -EPROTO},
        {7, 0, "{\"a\":1", -EPIPE}, /* longer than what comes */
        {6, 1, "{\"a\":1}", -EPROTO},
        {9, 0, "{\"a\":1}xx", -EPROTO},
        {7, 0, "{\"\xff\":1}", -EPROTO},
        {2, 5, "{}four", -EPIPE},
        {WIRE_HEADER_MAX + 1, 0, "{}", -EPROTO},
        {2, WIRE_BODY_MAX + 1, "{}", -EPROTO},
        {UINT32_MAX, UINT32_MAX, "{}", -EPROTO},
        {UINT32_MAX, 0, "", -EPROTO},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char frame[64];
        size_t length = put_frame(frame, wrong[i].header, wrong[i].body, wrong[i].content);
        int status = receive_bytes(frame, length);
        if (status != wrong[i].status)
            fail_msg("'%s' (%u, %u): %d, not %d", wrong[i].content, wrong[i].header, wrong[i].body, status,
                     wrong[i].status);
    }
}

static void what_is_too_large_is_not_sent(void **state)
{
    (void)state;
    struct wire wire = make_wire();
    char *large = calloc(1, WIRE_HEADER_MAX + 2);
    memset(large, 'x', WIRE_HEADER_MAX + 1);
    assert_int_equal(wire_send(wire.theirs, json_pack("{s:s}", "x", large), (struct slice){"", 0}, NULL, 0),
                     -EFBIG);
    free(large);
    assert_int_equal(
        wire_send(wire.theirs, json_object(), (struct slice){"", (size_t)WIRE_BODY_MAX + 1}, NULL, 0),
        -EFBIG);
    assert_int_equal(
        wire_send(wire.theirs, json_object(), (struct slice){"", (size_t)UINT32_MAX + 1}, NULL, 0), -EFBIG);
    assert_int_equal(wire_send(wire.theirs, NULL, (struct slice){"", 0}, NULL, 0), -ENOMEM);
    char byte;
    assert_int_equal(recv(wire.ours, &byte, 1, MSG_DONTWAIT), -1); /* nothing of them has gone out */
    close_wire(&wire);
}

static void assert_same_list(const struct string_list *one, const struct string_list *other)
{
    assert_int_equal(one->count, other->count);
    for (size_t i = 0; i < one->count; i++)
        assert_string_equal(one->items[i], other->items[i]);
}

static void specs_come_back_as_they_were(void **state)
{
    (void)state;
    static const char *const fields[][2] = {
        {"language", "python"},
        {"code", "print(1)"},
        {"arg", "a"},
        {"arg", ""},
        {"arg", "\xc3\xa9\n"},
        {"env", "A=1"},
        {"env", "B=x=y"},
        {"image", "data"},
        {"isolation", "container"},
        {"input", "/etc/hostname:name"},
        {"read", "/usr"},
        {"write", "/tmp"},
        {"output", "/tmp/out"},
        {"accept", "memory"},
        {"cwd", "/tmp"},
        {"memory", "123M"},
        {"wall", "7s"},
        {"compile.disk", "1G"},
    };
    scope_spec *spec = spec_new(), *back = spec_new();
    struct error err = {0};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (spec_set(spec, fields[i][0], fields[i][1], &err) < 0)
            fail_msg("%s", err.text);
    json_t *object = wire_from_spec(spec);
    assert_non_null(object);
    assert_int_equal(wire_to_spec(object, back, &err), 0);
    assert_string_equal(back->language, "python");
    assert_string_equal(back->image, "data");
    assert_string_equal(back->working_directory, "/tmp");
    assert_string_equal(back->output_directory, "/tmp/out");
    assert_true(back->has_code && back->has_isolation && back->isolation == ISOLATION_CONTAINER);
    assert_int_equal(back->code.length, 0); /* it is the body */
    assert_same_list(&back->arguments, &spec->arguments);
    assert_same_list(&back->environment, &spec->environment);
    assert_same_list(&back->accepted, &spec->accepted);
    assert_same_list(&back->command, &spec->command);
    assert_int_equal(back->grant_count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(back->grants[i].kind, spec->grants[i].kind);
        assert_string_equal(back->grants[i].host_path, spec->grants[i].host_path);
        assert_int_equal(back->grants[i].name != NULL, spec->grants[i].name != NULL);
    }
    assert_string_equal(back->grants[0].name, "name");
    for (int i = 0; i < LIMIT_FIELDS; i++) {
        assert_int_equal(back->limit_set[i], spec->limit_set[i]);
        assert_int_equal(back->compile_limit_set[i], spec->compile_limit_set[i]);
        if (spec->limit_set[i])
            assert_int_equal(back->limits.value[i], spec->limits.value[i]);
    }
    assert_int_equal(back->limits.value[LIMIT_memory], 123 << 20);
    assert_int_equal(back->compile_limits.value[LIMIT_disk], 1 << 30);
    json_decref(object);
}

static void spec_that_is_not_utf8_is_not_for_the_wire(void **state)
{
    (void)state;
    static const char *const fields[][2] = {
        {"arg", "\xff"}, {"env", "A=\xff"}, {"read", "/\xff"}, {"output", "/\xff"}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        scope_spec *spec = spec_new();
        struct error err = {0};
        if (spec_set(spec, fields[i][0], fields[i][1], &err) == 0)
            assert_null(wire_from_spec(spec));
    }
}

static void specs_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "[]",
        "null",
        "{\"isolation\": -1}",
        "{\"isolation\": 99}",
        "{\"isolation\": 4294967296}",
        "{\"arguments\": [5]}",
        "{\"command\": [null]}",
        "{\"grants\": [{}]}",
        "{\"grants\": [{\"kind\": 0}]}",
        "{\"grants\": [{\"kind\": 3, \"path\": \"/x\"}]}",
        "{\"grants\": [{\"kind\": -1, \"path\": \"/x\"}]}",
        "{\"grants\": [{\"kind\": 4294967296, \"path\": \"/x\"}]}",
        "{\"grants\": [5]}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        scope_spec *spec = spec_new();
        struct error err = {0};
        json_t *object = json_loads(wrong[i], JSON_DECODE_ANY, NULL);
        assert_non_null(object);
        if (wire_to_spec(object, spec, &err) >= 0)
            fail_msg("taken: %s", wrong[i]);
        assert_error(&err, ERROR_HOST, "", "cannot be read");
        json_decref(object);
    }
    json_t *grants = json_array();
    for (int i = 0; i <= SPEC_GRANTS_MAX; i++)
        json_array_append_new(grants, json_pack("{s:i, s:s}", "kind", 1, "path", "/usr"));
    json_t *object = json_pack("{s:o}", "grants", grants);
    scope_spec *spec = spec_new();
    struct error err = {0};
    assert_true(wire_to_spec(object, spec, &err) < 0);
    assert_int_equal(spec->grant_count, SPEC_GRANTS_MAX);
    json_decref(object);
}

static void results_come_back_as_they_were(void **state)
{
    (void)state;
    for (int cause = 0; cause < CAUSE_COUNT; cause++) {
        struct result *result = result_new(), *back = result_new();
        result->cause = (enum cause)cause;
        result->exit_code = cause - 1;
        result->signal = cause;
        snprintf(result->detail, sizeof result->detail, "detail %d", cause);
        result->output.dropped_bytes = INT64_C(1) << 40;
        result->errors.dropped_bytes = 5;
        result->left_behind = cause % 2;
        result_add_omission(result, "x", "why");
        result->omissions_uncounted = 3;
        result->isolation = (enum isolation)(cause % ISOLATION_COUNT);
        snprintf(result->chosen, sizeof result->chosen, "because of %d", cause);
        json_t *object = wire_from_result(result);
        assert_int_equal(wire_to_result(object, back), 0);
        assert_int_equal(back->cause, result->cause);
        assert_int_equal(back->exit_code, result->exit_code);
        assert_int_equal(back->signal, result->signal);
        assert_string_equal(back->detail, result->detail);
        assert_int_equal(back->output.dropped_bytes, result->output.dropped_bytes);
        assert_int_equal(back->errors.dropped_bytes, 5);
        assert_int_equal(back->left_behind, result->left_behind);
        assert_int_equal(back->omissions_uncounted, 4);
        assert_int_equal(back->isolation, result->isolation);
        assert_string_equal(back->chosen, result->chosen);
        json_decref(object);
        result_free(result);
        result_free(back);
    }
}

static void results_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"{}",
                                        "[]",
                                        "{\"cause\": 0}",
                                        "{\"cause\": -1, \"detail\": \"\"}",
                                        "{\"cause\": 999, \"detail\": \"\"}",
                                        "{\"cause\": 0, \"detail\": \"\", \"isolation\": -1}",
                                        "{\"cause\": 0, \"detail\": \"\", \"isolation\": 99}",
                                        "{\"cause\": 0, \"detail\": 5}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct result *result = result_new();
        json_t *object = json_loads(wrong[i], 0, NULL);
        assert_int_equal(wire_to_result(object, result), -EPROTO);
        json_decref(object);
        result_free(result);
    }
    struct result *result = result_new();
    char *endless = calloc(1, 100001);
    memset(endless, 'x', 100000);
    json_t *object = json_pack("{s:i, s:s}", "cause", 0, "detail", endless);
    assert_int_equal(wire_to_result(object, result), 0);
    assert_int_equal(strlen(result->detail), sizeof result->detail - 1);
    json_decref(object);
    free(endless);
    result_free(result);
}

static void errors_come_back_as_they_were(void **state)
{
    (void)state;
    struct error err = {0}, back = {0};
    error_spec(&err, "memory", "memory: '%s' is no size", "lots");
    json_t *object = wire_from_error(&err);
    wire_to_error(object, &back);
    json_decref(object);
    assert_error(&back, ERROR_SPEC, "memory", "memory: 'lots' is no size");
    assert_int_equal(back.code, err.code);
}

static void errors_that_were_cut_inside_a_character_arrive(void **state)
{
    (void)state;
    struct error err = {0}, back = {0};
    error_spec(&err, "language", "language: '%.7s'", "\u20ac\u20ac\u20ac");
    json_t *object = wire_from_error(&err);
    assert_non_null(object);
    wire_to_error(object, &back);
    json_decref(object);
    assert_error(&back, ERROR_SPEC, "language", "language: '\u20ac\u20ac\uFFFD'");
    struct result *result = result_new();
    snprintf(result->detail, sizeof result->detail, "%.4s", "\u20ac\u20ac");
    object = wire_from_result(result);
    assert_non_null(object);
    assert_string_equal(json_string_value(json_object_get(object, "detail")), "\u20ac\uFFFD");
    json_decref(object);
    result_free(result);
}

static void errors_that_are_none_are_errors_nevertheless(void **state)
{
    (void)state;
    static const char *const wrong[] = {"{}",
                                        "[]",
                                        "5",
                                        "{\"kind\": 99, \"code\": 0, \"text\": \"x\"}",
                                        "{\"kind\": -1, \"code\": 7, \"text\": \"x\"}",
                                        "{\"kind\": 0, \"code\": -1}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct error err = {0};
        json_t *object = json_loads(wrong[i], JSON_DECODE_ANY, NULL);
        wire_to_error(object, &err);
        assert_int_equal(err.kind, ERROR_HOST);
        assert_true(err.code < 0);
        assert_true(err.text[0]);
        json_decref(object);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_arrive_with_header_body_and_descriptors),
        cmocka_unit_test(descriptors_that_nobody_wants_are_closed),
        cmocka_unit_test(bodies_larger_than_the_socket_arrive_whole),
        cmocka_unit_test(peer_that_is_gone_is_an_error_and_no_signal),
        cmocka_unit_test(frames_that_are_cut_anywhere_are_refused),
        cmocka_unit_test(frames_that_are_none_are_refused),
        cmocka_unit_test(what_is_too_large_is_not_sent),
        cmocka_unit_test(specs_come_back_as_they_were),
        cmocka_unit_test(spec_that_is_not_utf8_is_not_for_the_wire),
        cmocka_unit_test(specs_that_are_none_are_refused),
        cmocka_unit_test(results_come_back_as_they_were),
        cmocka_unit_test(results_that_are_none_are_refused),
        cmocka_unit_test(errors_come_back_as_they_were),
        cmocka_unit_test(errors_that_were_cut_inside_a_character_arrive),
        cmocka_unit_test(errors_that_are_none_are_errors_nevertheless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
