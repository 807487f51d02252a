/* Branches: several continuations of one context, side by side. */
#include "fork_session.h"

enum { BRANCHES_MAX = 8 };

/* What the branches of one call did, in the order in which they did it. */
struct record_of_branches {
    struct context_branches branches;
    struct context_branch items[BRANCHES_MAX];
    struct slice inputs[BRANCHES_MAX];
    struct buffer out[BRANCHES_MAX];
    bool has_started[BRANCHES_MAX], has_ended_event[BRANCHES_MAX], is_out_of_order;
    size_t ended[BRANCHES_MAX];
    size_t ended_count;
    int inside; /* callbacks at this moment: never two */
    bool has_overlapped;
    long chosen;       /* that is to win when it ends; -1: none */
    int64_t chosen_us; /* when it was */
};

static void branch_event(void *data, size_t branch, const struct runner_event *event)
{
    struct record_of_branches *all = data;
    all->has_overlapped |= __atomic_fetch_add(&all->inside, 1, __ATOMIC_SEQ_CST) != 0;
    all->is_out_of_order |= all->has_ended_event[branch];
    if (event->kind == RUNNER_started) {
        all->is_out_of_order |= all->has_started[branch];
        all->has_started[branch] = true;
    } else {
        all->is_out_of_order |= !all->has_started[branch];
    }
    if (event->kind == RUNNER_stdout)
        buffer_append(&all->out[branch], event->body.data, event->body.length);
    if (event->kind == RUNNER_end)
        all->has_ended_event[branch] = true;
    __atomic_fetch_sub(&all->inside, 1, __ATOMIC_SEQ_CST);
}

static bool branch_ended(void *data, size_t branch)
{
    struct record_of_branches *all = data;
    all->has_overlapped |= __atomic_fetch_add(&all->inside, 1, __ATOMIC_SEQ_CST) != 0;
    all->ended[all->ended_count++] = branch;
    bool wins = (long)branch == all->chosen;
    if (wins)
        all->chosen_us = clock_monotonic_us();
    __atomic_fetch_sub(&all->inside, 1, __ATOMIC_SEQ_CST);
    return wins;
}

static struct record_of_branches *prepare(const char *const *codes, const char *const *inputs, size_t count)
{
    struct record_of_branches *all = calloc(1, sizeof *all);
    assert_non_null(all);
    all->chosen = -1;
    for (size_t i = 0; i < count; i++) {
        all->inputs[i] = (struct slice){inputs ? inputs[i] : "", inputs ? strlen(inputs[i]) : 0};
        all->items[i].order = (struct runner_order){.code = {codes[i], strlen(codes[i])},
                                                    .stdin_text = inputs ? &all->inputs[i] : NULL};
        all->items[i].status = 77; /* nobody's: it must be filled in */
    }
    all->branches = (struct context_branches){
        .items = all->items, .count = count, .event = branch_event, .ended = branch_ended, .data = all};
    return all;
}

static void dispose(struct record_of_branches *all)
{
    for (size_t i = 0; i < BRANCHES_MAX; i++)
        buffer_free(&all->out[i]);
    free(all);
}

static void run_all(struct session *first, struct record_of_branches *all, struct session **ret_winner)
{
    struct error err = {0};
    struct context *winner = NULL;
    if (context_run_branches(first->context, &all->branches, ret_winner ? &winner : NULL, &err) < 0)
        fail_msg("%s", err.text);
    assert_false(all->has_overlapped);
    assert_false(all->is_out_of_order);
    if (!ret_winner)
        return;
    *ret_winner = NULL;
    if (!winner)
        return;
    *ret_winner = calloc(1, sizeof **ret_winner);
    (*ret_winner)->context = winner;
    opened[opened_count++] = *ret_winner;
    note_box(winner);
}

#define ECHO "import os\nx = input(); print(base + x); open('f', 'w').write(x)"

static void branches_have_their_own_inputs_and_none_is_chosen(void **state)
{
    (void)state;
    static const char *const codes[] = {ECHO, ECHO, ECHO, ECHO};
    static const char *const inputs[] = {"a\n", "b\n", "c\n", "d\n"};
    static const char *const wanted[] = {"base a\n", "base b\n", "base c\n", "base d\n"};
    struct session *first = open_first(NULL, NULL), *winner = NULL;
    run(first, "base = 'base '");
    struct record_of_branches *all = prepare(codes, inputs, 4);
    run_all(first, all, &winner);
    assert_null(winner);
    assert_int_equal(all->ended_count, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(all->items[i].status, 0);
        assert_int_equal(all->items[i].outcome.status, RUNNER_STATUS_ok);
        assert_false(all->items[i].outcome.died);
        assert_string_equal(text(&all->out[i]), wanted[i]);
        assert_true(all->has_ended_event[i]);
    }
    dispose(all);
    assert_value(first, "import os; 'x' in globals(), os.listdir('.')", "(False, [])");
}

static void results_come_as_they_are_there(void **state)
{
    (void)state;
    static const char *const codes[] = {
        "import time\nfor i in range(500): time.sleep(0.01)\nprint('slow')",
        "print('fast')",
    };
    struct session *first = open_first(NULL, NULL);
    struct record_of_branches *all = prepare(codes, NULL, 2);
    run_all(first, all, NULL);
    assert_int_equal(all->ended_count, 2);
    assert_int_equal(all->ended[0], 1);
    assert_int_equal(all->ended[1], 0);
    dispose(all);
}

static void winner_is_kept_and_the_others_end_within_a_second(void **state)
{
    (void)state;
    static const char *const codes[] = {
        "import time\ntime.sleep(25)",
        "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass",
        "x = 'chosen'; open('f', 'w').write(x)",
        "import subprocess\nsubprocess.run(['sleep', '25'])",
    };
    struct session *first = open_first(NULL, NULL), *winner = NULL;
    run(first, "x = 'first'");
    struct record_of_branches *all = prepare(codes, NULL, 4);
    all->chosen = 2;
    run_all(first, all, &winner);
    int64_t took_us = clock_monotonic_us() - all->chosen_us;
    assert_non_null(winner);
    assert_in_range(took_us, 0, 1000000);
    assert_int_equal(all->items[2].status, 0);
    assert_int_equal(all->items[2].outcome.status, RUNNER_STATUS_ok);
    for (size_t i = 0; i < 4; i++) {
        if (i == 2)
            continue;
        const struct context_branch *loser = &all->items[i];
        if (loser->status == 0) {
            assert_true(loser->outcome.died);
            assert_int_equal(loser->outcome.cause, CAUSE_cancelled);
        } else { /* it had not begun */
            assert_true(loser->status == -ECANCELED || loser->status == -EPIPE);
            assert_true(strstr(loser->error.text, "another branch was chosen") != NULL);
        }
        assert_false(all->has_ended_event[i]);
    }
    assert_value(winner, "x, open('f').read()", "('chosen', 'chosen')");
    assert_value(first, "x", "'first'");
    struct session *next = fork_session(winner); /* it is a context as any other */
    assert_value(next, "x", "'chosen'");
    dispose(all);
}

/* The first wins before the last is forked: what was never tried has no outcome. */
static bool first_wins(void *data, size_t branch)
{
    (void)data;
    return branch == 0;
}

static void branches_that_were_not_begun_say_so(void **state)
{
    (void)state;
    static const char *const codes[] = {"1",
                                        "import time; time.sleep(20)",
                                        "import time; time.sleep(20)",
                                        "import time; time.sleep(20)",
                                        "import time; time.sleep(20)",
                                        "import time; time.sleep(20)",
                                        "import time; time.sleep(20)",
                                        "import time; time.sleep(20)"};
    struct session *first = open_first(NULL, NULL);
    struct record_of_branches *all = prepare(codes, NULL, BRANCHES_MAX);
    all->branches.ended = first_wins;
    run_all(first, all, NULL); /* the winner is closed for us */
    for (size_t i = 1; i < BRANCHES_MAX; i++) {
        const struct context_branch *item = &all->items[i];
        if (item->status == 0) /* it had its order; whether it came to begin is a matter of microseconds */
            assert_true(item->outcome.died && item->outcome.cause == CAUSE_cancelled);
        else
            assert_true((item->status == -ECANCELED || item->status == -EPIPE) && item->error.text[0]);
    }
    dispose(all);
}

static void branch_that_dies_is_an_outcome_and_harms_nobody(void **state)
{
    (void)state;
    static const char *const codes[] = {"import os; os.kill(os.getpid(), 11)", "1 / 0", "print('well')",
                                        "raise SystemExit(4)"};
    struct session *first = open_first(NULL, NULL), *winner = NULL;
    struct record_of_branches *all = prepare(codes, NULL, 4);
    run_all(first, all, &winner);
    assert_null(winner);
    assert_int_equal(all->ended_count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(all->items[i].status, 0);
    assert_true(all->items[0].outcome.died);
    assert_int_equal(all->items[0].outcome.cause, CAUSE_signal);
    assert_int_equal(all->items[1].outcome.status, RUNNER_STATUS_error);
    assert_string_equal(text(&all->out[2]), "well\n");
    assert_int_equal(all->items[3].outcome.exit_code, 4);
    dispose(all);
    assert_value(first, "1", "1");
}

static void branches_of_what_cannot_be_forked_say_why(void **state)
{
    (void)state;
    static const char *const codes[] = {"1", "2"};
    struct session *first = open_first(NULL, NULL), *winner = NULL;
    run(first,
        "import threading\ngo = threading.Event()\nthreading.Thread(target=go.wait, name='bee').start()");
    struct record_of_branches *all = prepare(codes, NULL, 2);
    run_all(first, all, &winner);
    assert_null(winner);
    assert_int_equal(all->ended_count, 0);
    for (size_t i = 0; i < 2; i++) {
        assert_true(all->items[i].status < 0);
        assert_error(&all->items[i].error, ERROR_SPEC, "fork", "bee");
    }
    dispose(all);
    run(first, "go.set()");
}

static void no_branches_are_no_error(void **state)
{
    (void)state;
    struct session *first = open_first(NULL, NULL), *winner = NULL;
    struct record_of_branches *all = prepare(NULL, NULL, 0);
    run_all(first, all, &winner);
    assert_null(winner);
    assert_int_equal(all->ended_count, 0);
    dispose(all);
    assert_value(first, "1", "1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CENSUS_TEST(branches_have_their_own_inputs_and_none_is_chosen),
        CENSUS_TEST(results_come_as_they_are_there),
        CENSUS_TEST(winner_is_kept_and_the_others_end_within_a_second),
        CENSUS_TEST(branches_that_were_not_begun_say_so),
        CENSUS_TEST(branch_that_dies_is_an_outcome_and_harms_nobody),
        CENSUS_TEST(branches_of_what_cannot_be_forked_say_why),
        CENSUS_TEST(no_branches_are_no_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
