#include "unit/harness.h"

#include "server/journal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>

#define HASH_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HASH_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static struct journal *open_journal(struct scratch *scratch, int *ret_lost)
{
    struct journal *journal;
    struct error err = {0};
    int lost = -1;
    int status = journal_open(scratch->fd, &journal, &lost, &err);
    if (status < 0)
        fail_msg("%s", err.text);
    if (ret_lost)
        *ret_lost = lost;
    return journal;
}

/* An answer; the outcome's body is compared when there is one to expect. */
static int ask(struct journal *journal, const char *tenant, const char *key, const char *hash, int status,
               const char *body)
{
    struct journal_request request = {.tenant = tenant, .key = key, .hash = hash};
    struct journal_outcome outcome = {0};
    struct error err = {0};
    int answer = journal_accept(journal, &request, -1, &outcome, &err);
    if (answer < 0)
        fail_msg("%s", err.text);
    if (answer == JOURNAL_RECORDED && body) {
        assert_int_equal(outcome.status, status);
        assert_true(outcome.kept);
        assert_string_equal(outcome.body.data, body);
    }
    buffer_free(&outcome.body);
    return answer;
}

static void record(struct journal *journal, const char *tenant, const char *key, int status, const char *body)
{
    struct journal_request request = {.tenant = tenant, .key = key};
    struct journal_outcome outcome = {
        .status = status, .kept = true, .body = {.data = (char *)body, .length = strlen(body)}};
    struct error err = {0};
    if (journal_record(journal, &request, &outcome, &err) < 0)
        fail_msg("%s", err.text);
}

static void the_same_request_gets_the_recorded_outcome(void **state)
{
    struct journal *journal = open_journal(*state, NULL);
    assert_int_equal(ask(journal, "acme", "k", HASH_A, 0, NULL), JOURNAL_FRESH);
    record(journal, "acme", "k", 200, "{\"id\":\"run_1\",\"text\":\"\\u0000 \\n\"}");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(
            ask(journal, "acme", "k", HASH_A, 200, "{\"id\":\"run_1\",\"text\":\"\\u0000 \\n\"}"),
            JOURNAL_RECORDED);
        journal_close(journal);
        journal = open_journal(*state, NULL);
    }
    journal_close(journal);
}

static void another_request_with_the_key_is_a_conflict(void **state)
{
    struct journal *journal = open_journal(*state, NULL);
    assert_int_equal(ask(journal, "acme", "k", HASH_A, 0, NULL), JOURNAL_FRESH);
    assert_int_equal(ask(journal, "acme", "k", HASH_B, 0, NULL), JOURNAL_OTHER); /* under way, too */
    record(journal, "acme", "k", 200, "{}");
    assert_int_equal(ask(journal, "acme", "k", HASH_B, 0, NULL), JOURNAL_OTHER);
    journal_close(journal);
}

static void keys_count_within_their_tenant(void **state)
{
    struct journal *journal = open_journal(*state, NULL);
    assert_int_equal(ask(journal, "acme", "k", HASH_A, 0, NULL), JOURNAL_FRESH);
    assert_int_equal(ask(journal, "other", "k", HASH_A, 0, NULL), JOURNAL_FRESH);
    assert_int_equal(ask(journal, "acm", "ek", HASH_A, 0, NULL), JOURNAL_FRESH);
    journal_close(journal);
}

static void a_request_without_outcome_has_failed_at_the_next_start(void **state)
{
    int lost;
    struct journal *journal = open_journal(*state, NULL);
    assert_int_equal(ask(journal, "acme", "k", HASH_A, 0, NULL), JOURNAL_FRESH);
    journal_close(journal);
    for (int i = 0; i < 2; i++) { /* once, and for good */
        journal = open_journal(*state, &lost);
        assert_int_equal(lost, i == 0 ? 1 : 0);
        struct journal_request request = {.tenant = "acme", .key = "k", .hash = HASH_A};
        struct journal_outcome outcome = {0};
        struct error err = {0};
        assert_int_equal(journal_accept(journal, &request, -1, &outcome, &err), JOURNAL_RECORDED);
        assert_int_equal(outcome.status, 500);
        assert_non_null(strstr(outcome.body.data, "host_failure"));
        buffer_free(&outcome.body);
        journal_close(journal);
    }
}

static void what_was_released_may_run(void **state)
{
    struct journal *journal = open_journal(*state, NULL);
    struct journal_request request = {.tenant = "acme", .key = "k", .hash = HASH_A};
    assert_int_equal(ask(journal, "acme", "k", HASH_A, 0, NULL), JOURNAL_FRESH);
    journal_release(journal, &request);
    journal_close(journal);
    int lost;
    journal = open_journal(*state, &lost);
    assert_int_equal(lost, 0);
    assert_int_equal(ask(journal, "acme", "k", HASH_B, 0, NULL), JOURNAL_FRESH);
    journal_close(journal);
}

/* Whatever byte the file ends at: it opens, a promise that was on the disk is kept, and nothing runs twice.
 */
static void the_file_may_end_at_every_byte(void **state)
{
    struct scratch *scratch = *state;
    struct journal *journal = open_journal(scratch, NULL);
    assert_int_equal(ask(journal, "acme", "one", HASH_A, 0, NULL), JOURNAL_FRESH);
    int64_t one_accepted = journal_size_bytes(journal);
    record(journal, "acme", "one", 200, "{\"n\":1}");
    int64_t one_done = journal_size_bytes(journal);
    assert_int_equal(ask(journal, "acme", "two", HASH_A, 0, NULL), JOURNAL_FRESH);
    int64_t two_accepted = journal_size_bytes(journal);
    record(journal, "acme", "two", 201, "{\"n\":2}");
    int64_t two_done = journal_size_bytes(journal);
    journal_close(journal);
    scope_buffer whole = {0};
    assert_int_equal(file_read_whole(scratch->fd, "journal", 65536, &whole), 0);
    assert_int_equal(whole.length, two_done);
    for (int64_t length = 0; length <= two_done; length++) {
        scope_fd fd = openat(scratch->fd, "journal", O_WRONLY | O_TRUNC | O_CLOEXEC);
        assert_int_equal(file_write_all(fd, whole.data, (size_t)length), 0);
        int lost;
        journal = open_journal(scratch, &lost);
        bool one_lost = length >= one_accepted && length < one_done;
        bool two_lost = length >= two_accepted && length < two_done;
        assert_int_equal(lost, one_lost + two_lost);
        assert_int_equal(ask(journal, "acme", "one", HASH_A, 200, one_lost ? NULL : "{\"n\":1}"),
                         length < one_accepted ? JOURNAL_FRESH : JOURNAL_RECORDED);
        assert_int_equal(ask(journal, "acme", "two", HASH_A, 201, two_lost ? NULL : "{\"n\":2}"),
                         length < two_accepted ? JOURNAL_FRESH : JOURNAL_RECORDED);
        if (length < one_accepted)
            record(journal, "acme", "one", 200, "{\"n\":3}");
        journal_close(journal);
        journal = open_journal(scratch, NULL); /* what was written after the cut is whole */
        if (length < one_accepted)
            assert_int_equal(ask(journal, "acme", "one", HASH_A, 200, "{\"n\":3}"), JOURNAL_RECORDED);
        journal_close(journal);
    }
}

static void rubbish_in_the_middle_is_passed_over(void **state)
{
    struct scratch *scratch = *state;
    struct journal *journal = open_journal(scratch, NULL);
    assert_int_equal(ask(journal, "acme", "one", HASH_A, 0, NULL), JOURNAL_FRESH);
    record(journal, "acme", "one", 200, "{}");
    journal_close(journal);
    static const char rubbish[] =
        "\0\0\0\n{}\n[1]\n{\"event\":\"outcome\",\"key\":\"x\"}\n{\"event\":7}\n\n\xff\n";
    scope_fd fd = openat(scratch->fd, "journal", O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(file_write_all(fd, rubbish, sizeof rubbish - 1), 0);
    journal = open_journal(scratch, NULL);
    assert_int_equal(ask(journal, "acme", "two", HASH_A, 0, NULL), JOURNAL_FRESH);
    record(journal, "acme", "two", 200, "{}");
    journal_close(journal);
    journal = open_journal(scratch, NULL);
    assert_int_equal(ask(journal, "acme", "one", HASH_A, 200, "{}"), JOURNAL_RECORDED);
    assert_int_equal(ask(journal, "acme", "two", HASH_A, 200, "{}"), JOURNAL_RECORDED);
    journal_close(journal);
}

static void a_long_body_leaves_only_a_mark(void **state)
{
    struct journal *journal = open_journal(*state, NULL);
    size_t length = JOURNAL_BODY_MAX + 1;
    scope_free char *body = malloc(length + 1);
    memset(body, 'x', length);
    body[length] = '\0';
    assert_int_equal(ask(journal, "acme", "long", HASH_A, 0, NULL), JOURNAL_FRESH);
    record(journal, "acme", "long", 200, body);
    body[JOURNAL_BODY_MAX] = '\0';
    assert_int_equal(ask(journal, "acme", "most", HASH_A, 0, NULL), JOURNAL_FRESH);
    record(journal, "acme", "most", 200, body);
    assert_int_equal(ask(journal, "acme", "most", HASH_A, 200, body), JOURNAL_RECORDED);
    struct journal_request request = {.tenant = "acme", .key = "long", .hash = HASH_A};
    struct journal_outcome outcome = {0};
    struct error err = {0};
    assert_int_equal(journal_accept(journal, &request, -1, &outcome, &err), JOURNAL_RECORDED);
    assert_false(outcome.kept);
    assert_int_equal(outcome.body_bytes, JOURNAL_BODY_MAX + 1);
    assert_int_equal(outcome.status, 200);
    journal_close(journal);
}

static void a_day_later_the_key_is_free_and_the_file_short(void **state)
{
    struct journal *journal = open_journal(*state, NULL);
    scope_free char *body = calloc(1, 300001);
    memset(body, 'y', 300000);
    char key[16];
    for (int i = 0; i < 8; i++) {
        snprintf(key, sizeof key, "k%d", i);
        assert_int_equal(ask(journal, "acme", key, HASH_A, 0, NULL), JOURNAL_FRESH);
        if (i < 7)
            record(journal, "acme", key, 200, body);
    }
    assert_true(journal_size_bytes(journal) > 2000000);
    journal_expire(journal, time(NULL) + JOURNAL_LIFE_S - 60);
    assert_int_equal(journal_count(journal), 8);
    journal_expire(journal, time(NULL) + JOURNAL_LIFE_S + 1);
    assert_int_equal(journal_count(journal), 1); /* what is under way stays */
    assert_true(journal_size_bytes(journal) < 1000);
    record(journal, "acme", "k7", 200, "{\"n\":7}");
    assert_int_equal(ask(journal, "acme", "k0", HASH_B, 0, NULL), JOURNAL_FRESH);
    record(journal, "acme", "k0", 200, "{\"n\":0}");
    journal_close(journal);
    int lost;
    journal = open_journal(*state, &lost);
    assert_int_equal(lost, 0);
    assert_int_equal(ask(journal, "acme", "k7", HASH_A, 200, "{\"n\":7}"), JOURNAL_RECORDED);
    assert_int_equal(ask(journal, "acme", "k0", HASH_B, 200, "{\"n\":0}"), JOURNAL_RECORDED);
    journal_close(journal);
}

/* Forgotten, but not yet gone from the file, and used anew: the new one counts after a restart. */
static void a_key_that_is_used_anew_counts_anew(void **state)
{
    struct journal *journal = open_journal(*state, NULL);
    assert_int_equal(ask(journal, "acme", "k", HASH_A, 0, NULL), JOURNAL_FRESH);
    record(journal, "acme", "k", 200, "{\"n\":1}");
    journal_expire(journal, time(NULL) + JOURNAL_LIFE_S + 1);
    assert_int_equal(ask(journal, "acme", "k", HASH_B, 0, NULL), JOURNAL_FRESH);
    record(journal, "acme", "k", 200, "{\"n\":2}");
    journal_close(journal);
    journal = open_journal(*state, NULL);
    assert_int_equal(ask(journal, "acme", "k", HASH_B, 200, "{\"n\":2}"), JOURNAL_RECORDED);
    journal_close(journal);
}

static void two_servers_do_not_share_a_journal(void **state)
{
    struct scratch *scratch = *state;
    struct journal *journal = open_journal(scratch, NULL), *other;
    struct error err = {0};
    int lost;
    assert_true(journal_open(scratch->fd, &other, &lost, &err) < 0);
    assert_non_null(strstr(err.text, "another server"));
    journal_close(journal);
}

/* ---- threads ---- */

struct caller {
    struct journal *journal;
    pthread_t thread;
    int client_fd, answer, number;
};

static atomic_int ran;

static void *call(void *data)
{
    struct caller *caller = data;
    struct journal_request request = {.tenant = "acme", .key = "shared", .hash = HASH_A};
    struct journal_outcome outcome = {0};
    struct error err = {0};
    caller->answer = journal_accept(caller->journal, &request, caller->client_fd, &outcome, &err);
    if (caller->answer == JOURNAL_FRESH) {
        atomic_fetch_add(&ran, 1);
        usleep(100000);
        record(caller->journal, "acme", "shared", 200, "{\"n\":1}");
    } else if (caller->answer == JOURNAL_RECORDED) {
        must(strcmp(outcome.body.data, "{\"n\":1}") == 0);
    }
    buffer_free(&outcome.body);
    return NULL;
}

static void of_many_at_once_one_runs_and_the_others_wait(void **state)
{
    struct journal *journal = open_journal(*state, NULL);
    struct caller callers[16];
    atomic_store(&ran, 0);
    for (int i = 0; i < 16; i++) {
        callers[i] = (struct caller){.journal = journal, .client_fd = -1};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
    int recorded = 0;
    for (int i = 0; i < 16; i++) {
        pthread_join(callers[i].thread, NULL);
        recorded += callers[i].answer == JOURNAL_RECORDED;
    }
    assert_int_equal(atomic_load(&ran), 1);
    assert_int_equal(recorded, 15);
    journal_close(journal);
}

static void who_hangs_up_waits_no_longer(void **state)
{
    struct journal *journal = open_journal(*state, NULL);
    assert_int_equal(ask(journal, "acme", "shared", HASH_A, 0, NULL), JOURNAL_FRESH);
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    struct caller caller = {.journal = journal, .client_fd = pair[0]};
    assert_int_equal(pthread_create(&caller.thread, NULL, call, &caller), 0);
    close(pair[1]);
    pthread_join(caller.thread, NULL);
    assert_int_equal(caller.answer, -ECANCELED);
    close(pair[0]);
    journal_close(journal);
}

static void *call_many(void *data)
{
    struct caller *caller = data;
    char key[32], body[32];
    for (int i = 0; i < 20; i++) {
        snprintf(key, sizeof key, "%d-%d", caller->number, i);
        snprintf(body, sizeof body, "{\"n\":\"%d-%d\"}", caller->number, i);
        must(ask(caller->journal, "acme", key, HASH_A, 0, NULL) == JOURNAL_FRESH);
        record(caller->journal, "acme", key, 200, body);
        must(ask(caller->journal, "acme", key, HASH_A, 200, body) == JOURNAL_RECORDED);
        if (i % 10 == 0)
            journal_expire(caller->journal, time(NULL));
    }
    return NULL;
}

static void threads_write_whole_lines(void **state)
{
    struct journal *journal = open_journal(*state, NULL);
    struct caller callers[8];
    for (int i = 0; i < 8; i++) {
        callers[i] = (struct caller){.journal = journal, .client_fd = -1, .number = i};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call_many, &callers[i]), 0);
    }
    for (int i = 0; i < 8; i++)
        pthread_join(callers[i].thread, NULL);
    journal_close(journal);
    int lost;
    journal = open_journal(*state, &lost);
    assert_int_equal(lost, 0);
    assert_int_equal(journal_count(journal), 160);
    journal_close(journal);
}

static void keys_are_short_and_printable(void **state)
{
    (void)state;
    char text[300];
    memset(text, 'a', sizeof text);
    text[255] = '\0';
    assert_true(journal_key_is_valid("a b-c:1"));
    assert_true(journal_key_is_valid(text));
    text[255] = 'a';
    text[256] = '\0';
    assert_false(journal_key_is_valid(text));
    assert_false(journal_key_is_valid(""));
    assert_false(journal_key_is_valid("a\nb"));
    assert_false(journal_key_is_valid("\xc3\xa4"));
}

#define test(name) cmocka_unit_test_setup_teardown(name, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(the_same_request_gets_the_recorded_outcome),
        test(another_request_with_the_key_is_a_conflict),
        test(keys_count_within_their_tenant),
        test(a_request_without_outcome_has_failed_at_the_next_start),
        test(what_was_released_may_run),
        test(the_file_may_end_at_every_byte),
        test(rubbish_in_the_middle_is_passed_over),
        test(a_long_body_leaves_only_a_mark),
        test(a_day_later_the_key_is_free_and_the_file_short),
        test(a_key_that_is_used_anew_counts_anew),
        test(two_servers_do_not_share_a_journal),
        test(of_many_at_once_one_runs_and_the_others_wait),
        test(who_hangs_up_waits_no_longer),
        test(threads_write_whole_lines),
        test(keys_are_short_and_printable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
