/* The side of a gateway that its starter sees. */
#include "harness.h"

#include "engine/wasm/fetched.h"
#include "engine/wasm/gateway.h"

#include <jansson.h>
#include <sys/socket.h>

static int theirs = -1, ours = -1;

static int open_control(void **state)
{
    (void)state;
    int pair[2], bytes = 8 << 20;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    theirs = pair[0];
    ours = pair[1];
    /* More room than a socket has, for more words: root's, and else as much as there may be. */
    if (setsockopt(theirs, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) < 0)
        setsockopt(theirs, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    return 0;
}

static int close_control(void **state)
{
    (void)state;
    return close(theirs) | close(ours);
}

#define CONTROL_TEST(function) cmocka_unit_test_setup_teardown(function, open_control, close_control)

static int tell(struct gateway_word word, int times)
{
    int told = 0;
    while (told < times &&
           send(theirs, &word, sizeof word, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof word)
        told++;
    return told;
}

static const struct gateway_word fine = {
    .kind = GATEWAY_FETCHED, .status = 200, .method = "GET", .site = "http://a.test:80"};

static void words_are_heard_a_few_at_a_time(void **state)
{
    (void)state;
    need_root();
    struct fetched fetched = {.rows = json_array()};
    assert_int_equal(tell(fine, 600), 600);
    for (size_t i = 1; i <= 3; i++) {
        fetched_hear(&fetched, ours);
        assert_int_equal(json_array_size(fetched.rows), i < 3 ? i * 256 : 600);
    }
    assert_int_equal(fetched.more, 0);
    json_decref(fetched.rows);
}

static void what_is_not_listed_is_counted(void **state)
{
    (void)state;
    struct fetched fetched = {.rows = json_array()};
    struct gateway_word no_text = fine;
    memcpy(no_text.site, "\xff", 2);
    for (int i = 0; i < 1100; i++) {
        assert_int_equal(tell(fine, 1), 1);
        fetched_hear(&fetched, ours);
    }
    assert_int_equal(json_array_size(fetched.rows), 1000);
    assert_int_equal(fetched.more, 100);
    json_array_clear(fetched.rows);
    tell(no_text, 1);
    fetched_hear(&fetched, ours);
    assert_int_equal(json_array_size(fetched.rows), 0);
    assert_int_equal(fetched.more, 101);
    json_decref(fetched.rows);
}

static void words_that_are_none_are_not_listed(void **state)
{
    (void)state;
    struct fetched fetched = {.rows = json_array()};
    tell((struct gateway_word){.kind = 'x'}, 3);
    assert_int_equal(send(theirs, "f", 1, MSG_NOSIGNAL), 1);
    fetched_hear(&fetched, ours);
    assert_int_equal(json_array_size(fetched.rows) + (size_t)fetched.more, 0);
    json_decref(fetched.rows);
}

static void layer_says_what_the_kernel_does_not_hold(void **state)
{
    (void)state;
    assert_non_null(strstr(gateway_layer_detail(1), "TCP to any port"));
    assert_non_null(strstr(gateway_layer_detail(3), "TCP to any port"));
    assert_non_null(strstr(gateway_layer_detail(4), "signals: the filter alone"));
    assert_non_null(strstr(gateway_layer_detail(5), "signals: the filter alone"));
    assert_string_equal(gateway_layer_detail(6), "own filter, Landlock for files, TCP ports and signals");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTROL_TEST(words_are_heard_a_few_at_a_time),
        CONTROL_TEST(what_is_not_listed_is_counted),
        CONTROL_TEST(words_that_are_none_are_not_listed),
        cmocka_unit_test(layer_says_what_the_kernel_does_not_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
