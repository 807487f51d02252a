/* The host's end of a runner's channel, with a runner that we play ourselves. */
#include "harness.h"

#include "base/clock.h"
#include "keeper/runner_link.h"
#include "os/process.h"

#include <pthread.h>
#include <sys/socket.h>

#define scope_runner_link __attribute__((cleanup(runner_link_close))) struct runner_link

static int make_link(struct runner_link *ret)
{
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    *ret = (struct runner_link){.fd = ends[0]};
    return ends[1];
}

static void say(int fd, const char *header, const char *body)
{
    uint32_t lengths[2] = {(uint32_t)strlen(header), (uint32_t)strlen(body)};
    assert_int_equal(write(fd, lengths, sizeof lengths), sizeof lengths);
    assert_int_equal(write(fd, header, lengths[0]), lengths[0]);
    assert_int_equal(write(fd, body, lengths[1]), lengths[1]);
}

#define READY "{\"type\":\"ready\",\"run\":null,\"protocol\":1,\"language\":\"python\",\"version\":\"3\"}"

static void events_come_one_after_the_other(void **state)
{
    (void)state;
    scope_runner_link link = RUNNER_LINK_UNSET;
    scope_fd runner = make_link(&link);
    struct runner_event event;
    struct error err = {0};
    say(runner, READY, "");
    say(runner, "{\"type\":\"stdout\",\"run\":1}", "one");
    say(runner, "{\"type\":\"stderr\",\"run\":1}", "two");
    assert_int_equal(runner_link_await_ready(&link, 1000, &err), 0);
    assert_int_equal(runner_link_next(&link, 1000, &event, &err), 0);
    assert_int_equal(event.kind, RUNNER_stdout);
    assert_memory_equal(event.body.data, "one", 3);
    assert_int_equal(runner_link_next(&link, 0, &event, &err), 0); /* it is there already */
    assert_int_equal(event.kind, RUNNER_stderr);
}

static void what_has_come_is_heard_without_waiting(void **state)
{
    (void)state;
    scope_runner_link link = RUNNER_LINK_UNSET;
    scope_fd runner = make_link(&link);
    struct runner_event event;
    struct error err = {0};
    assert_int_equal(runner_link_hear(&link, &event, &err), 0);
    assert_int_equal(write(runner, "\x19", 1), 1); /* the begin of a frame */
    assert_int_equal(runner_link_hear(&link, &event, &err), 0);
    assert_int_equal(write(runner, "\0\0\0\2\0\0\0", 7), 7);
    assert_int_equal(write(runner, "{\"type\":\"vet\",\"run\":null}{}", 27), 27);
    assert_int_equal(runner_link_hear(&link, &event, &err), 1);
    assert_int_equal(event.kind, RUNNER_vet);
    assert_memory_equal(event.body.data, "{}", 2);
    scope_close_fd(&runner);
    assert_int_equal(runner_link_hear(&link, &event, &err), -EPIPE);
}

static void silence_is_waited_for_and_no_longer(void **state)
{
    (void)state;
    scope_runner_link link = RUNNER_LINK_UNSET;
    scope_fd runner = make_link(&link);
    struct runner_event event;
    struct error err = {0};
    int64_t before_us = clock_monotonic_us();
    assert_int_equal(runner_link_next(&link, 100, &event, &err), -ETIMEDOUT);
    assert_true(clock_monotonic_us() - before_us >= 100000);
    assert_error(&err, ERROR_HOST, "", "does not answer");
    uint32_t half = 50; /* half a frame is silence too */
    assert_int_equal(write(runner, &half, sizeof half), sizeof half);
    assert_int_equal(runner_link_next(&link, 50, &event, &err), -ETIMEDOUT);
}

static void runner_that_is_gone_is_an_error_and_no_signal(void **state)
{
    (void)state;
    scope_runner_link link = RUNNER_LINK_UNSET;
    int runner = make_link(&link);
    struct runner_event event;
    struct error err = {0};
    say(runner, "{\"type\":\"stdout\",\"run\":1}", "last words");
    close(runner);
    assert_int_equal(runner_link_next(&link, 1000, &event, &err), 0);
    assert_int_equal(runner_link_next(&link, 1000, &event, &err), -EPIPE);
    assert_error(&err, ERROR_HOST, "", "is gone");
    scope_buffer frame = {0};
    assert_int_equal(runner_write_fork(&frame, 6, RUNNER_AHEAD), 0);
    assert_int_equal(runner_link_send(&link, &frame, NULL, 0), -EPIPE);
    assert_int_equal(runner_link_send(&link, &frame, (int[]){0, 1}, 2), -EPIPE);
}

static void words_before_ready_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        int status;
        const char *word;
    } wrong[] = {
        {"{\"type\":\"refused\",\"run\":null,\"text\":\"2 threads are running\"}", -ECANCELED, "2 threads"},
        {"{\"type\":\"stdout\",\"run\":null}", -EPROTO, "before it was ready"},
        {"{\"type\":\"dance\",\"run\":null}", -EPROTO, ""},
        {"[]", -EPROTO, ""},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        scope_runner_link link = RUNNER_LINK_UNSET;
        scope_fd runner = make_link(&link);
        struct error err = {0};
        say(runner, wrong[i].header, "");
        assert_int_equal(runner_link_await_ready(&link, 1000, &err), wrong[i].status);
        assert_true(err.text[0] && strstr(err.text, wrong[i].word) != NULL);
    }
}

static void frame_that_is_too_large_is_refused_at_once(void **state)
{
    (void)state;
    scope_runner_link link = RUNNER_LINK_UNSET;
    scope_fd runner = make_link(&link);
    struct runner_event event;
    struct error err = {0};
    uint32_t lengths[2] = {RUNNER_HEADER_MAX + 1, 0};
    assert_int_equal(write(runner, lengths, sizeof lengths), sizeof lengths);
    assert_int_equal(runner_link_next(&link, 10000, &event, &err), -EPROTO);
}

static void descriptors_go_with_the_frame(void **state)
{
    (void)state;
    scope_runner_link link = RUNNER_LINK_UNSET;
    scope_fd runner = make_link(&link);
    scope_buffer frame = {0};
    int given[PROCESS_DESCRIPTORS_MAX], taken[PROCESS_DESCRIPTORS_MAX];
    for (int i = 0; i < PROCESS_DESCRIPTORS_MAX; i++)
        given[i] = i % 3;
    assert_int_equal(runner_write_fork(&frame, 6, RUNNER_AHEAD), 0);
    assert_int_equal(runner_link_send(&link, &frame, given, PROCESS_DESCRIPTORS_MAX), 0);
    char received[256];
    assert_int_equal(process_receive_many(runner, received, sizeof received, taken, PROCESS_DESCRIPTORS_MAX),
                     1);
    for (int i = 0; i < PROCESS_DESCRIPTORS_MAX; i++) {
        struct stat one, other;
        assert_true(taken[i] >= 0 && fstat(taken[i], &one) == 0 && fstat(given[i], &other) == 0);
        assert_true(one.st_ino == other.st_ino && one.st_dev == other.st_dev);
        close(taken[i]);
    }
    assert_int_equal(read(runner, received + 1, sizeof received - 1), (ssize_t)frame.length - 1);
    assert_memory_equal(received, frame.data, frame.length);
    assert_int_equal(runner_link_send(&link, &frame, given, PROCESS_DESCRIPTORS_MAX + 1), -EINVAL);
}

struct slow_reader {
    int fd;
    size_t wanted, sum;
};

static void *read_slowly(void *data)
{
    struct slow_reader *reader = data;
    char chunk[4096];
    for (ssize_t got; reader->wanted && (got = read(reader->fd, chunk, sizeof chunk)) > 0;) {
        reader->wanted -= (size_t)got;
        for (ssize_t i = 0; i < got; i++)
            reader->sum += (unsigned char)chunk[i];
    }
    return NULL;
}

static void large_orders_wait_for_the_runner_to_read(void **state)
{
    (void)state;
    scope_runner_link link = RUNNER_LINK_UNSET;
    scope_fd runner = make_link(&link);
    assert_int_equal(fcntl(link.fd, F_SETFL, O_NONBLOCK), 0);
    scope_buffer frame = {0};
    size_t sum = 0;
    for (unsigned i = 0; i < (3 << 20); i++) {
        char byte = (char)(i * 7);
        sum += (unsigned char)byte;
        assert_int_equal(buffer_append(&frame, &byte, 1), 0);
    }
    struct slow_reader reader = {.fd = runner, .wanted = frame.length};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, read_slowly, &reader), 0);
    int status = runner_link_send(&link, &frame, NULL, 0);
    pthread_join(thread, NULL);
    assert_int_equal(status, 0);
    assert_int_equal(reader.wanted, 0);
    assert_int_equal(reader.sum, sum);
}

static void closed_link_may_be_closed_again(void **state)
{
    (void)state;
    int descriptors = open_descriptors();
    struct runner_link link = RUNNER_LINK_UNSET;
    runner_link_close(&link);
    int runner = make_link(&link);
    struct runner_event event;
    struct error err = {0};
    say(runner, READY, "");
    assert_int_equal(runner_link_next(&link, 1000, &event, &err), 0);
    runner_link_close(&link);
    runner_link_close(&link);
    assert_int_equal(link.fd, -1);
    close(runner);
    assert_int_equal(open_descriptors(), descriptors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_come_one_after_the_other),
        cmocka_unit_test(what_has_come_is_heard_without_waiting),
        cmocka_unit_test(silence_is_waited_for_and_no_longer),
        cmocka_unit_test(runner_that_is_gone_is_an_error_and_no_signal),
        cmocka_unit_test(words_before_ready_are_refused),
        cmocka_unit_test(frame_that_is_too_large_is_refused_at_once),
        cmocka_unit_test(descriptors_go_with_the_frame),
        cmocka_unit_test(large_orders_wait_for_the_runner_to_read),
        cmocka_unit_test(closed_link_may_be_closed_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
