/* Descendants: found, however they were made, and ended, all of them. */
#include "harness.h"

#include "os/process_tree.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>

enum { MANY = 40 };

/* The tree reports through a pipe when it stands. */
struct tree {
    int ready[2];
};

static void report_ready(const struct tree *tree)
{
    must(write(tree->ready[1], "x", 1) == 1);
}

static void wait_ready(const struct tree *tree, int count)
{
    char byte;
    for (int i = 0; i < count; i++)
        must(read(tree->ready[0], &byte, 1) == 1);
}

static void sleep_for_ever(const struct tree *tree)
{
    report_ready(tree);
    for (;;)
        pause();
}

static pid_t start_chain(const struct tree *tree, int length)
{
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        if (length > 1)
            start_chain(tree, length - 1);
        sleep_for_ever(tree);
    }
    return pid;
}

static void *fork_in_thread(void *data)
{
    const struct tree *tree = data;
    start_chain(tree, 1);
    pause(); /* its children would be given to another thread at its end */
    return NULL;
}

static bool is_listed(const pid_t *pids, size_t count, pid_t pid)
{
    for (size_t i = 0; i < count; i++)
        if (pids[i] == pid)
            return true;
    return false;
}

static void list_body(void *data)
{
    struct tree *tree = data;
    pid_t pids[64];
    must(process_tree_list(getpid(), pids, 64) == 0);
    pid_t first = start_chain(tree, 3);
    pthread_t thread;
    must(pthread_create(&thread, NULL, fork_in_thread, tree) == 0);
    wait_ready(tree, 4);
    must(process_tree_list(getpid(), pids, 64) == 4);
    must(is_listed(pids, 4, first));
    must(!is_listed(pids, 4, getpid()));
    must(process_tree_list(first, pids, 64) == 2);
    must(process_tree_count_children() == 4);
    must(process_tree_list(getpid(), pids, 2) <= 4);
    must(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    must(process_tree_kill_children(false));
    must(process_tree_list(getpid(), pids, 64) == 0);
    must(process_tree_count_children() == 0);
}

static void children_of_children_and_of_threads_are_listed(void **state)
{
    in_child(list_body, *state);
}

static void many_body(void *data)
{
    struct tree *tree = data;
    pid_t pids[4 * MANY];
    struct {
        pid_t list[8];
        pid_t behind;
    } guarded = {.behind = 4711};
    must(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    for (int i = 0; i < MANY; i++)
        start_chain(tree, 2);
    wait_ready(tree, 2 * MANY);
    must(process_tree_list(getpid(), pids, 4 * MANY) == 2 * MANY);
    process_tree_list(getpid(), guarded.list, 8);
    must(guarded.behind == 4711);
    must(process_tree_kill_children(false));
}

static void list_is_bounded_by_its_room(void **state)
{
    in_child(many_body, *state);
}

static void start_stubborn(const struct tree *tree, int kind)
{
    pid_t pid = fork();
    must(pid >= 0);
    if (pid > 0)
        return;
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    if (kind == 0) { /* a daemon: another session, an orphan */
        setsid();
        if (fork() > 0)
            _exit(0);
    } else if (kind == 1) { /* forks for ever */
        report_ready(tree);
        for (;;) {
            pid_t next = fork();
            if (next > 0)
                _exit(0);
            usleep(500);
        }
    } else if (kind == 2) { /* stopped, and so never to act on anything but SIGKILL */
        report_ready(tree);
        for (;;)
            raise(SIGSTOP);
    }
    sleep_for_ever(tree);
}

static void stubborn_body(void *data)
{
    struct tree *tree = data;
    pid_t left[64];
    must(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    for (int round = 0; round < 4; round++)
        for (int kind = 0; kind < 4; kind++)
            start_stubborn(tree, kind);
    wait_ready(tree, 16);
    must(process_tree_kill_children(false));
    must(process_tree_list(getpid(), left, 64) == 0);
    must(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

static void stubborn_children_are_ended_and_reaped(void **state)
{
    in_child(stubborn_body, *state);
}

static void stranger_body(void *data)
{
    struct tree *tree = data;
    pid_t stranger = start_chain(tree, 1);
    wait_ready(tree, 1);
    pid_t killer = fork();
    must(killer >= 0);
    if (killer == 0) {
        must(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
        start_chain(tree, 2);
        wait_ready(tree, 2);
        must(process_tree_kill_children(false));
        _exit(0);
    }
    int status;
    must(waitpid(killer, &status, 0) == killer && status == 0);
    must(waitpid(stranger, &status, WNOHANG) == 0);
    must(kill(stranger, SIGKILL) == 0 && waitpid(stranger, &status, 0) == stranger);
}

static void strangers_are_left_alone(void **state)
{
    in_child(stranger_body, *state);
}

static void nothing_to_end_body(void *data)
{
    (void)data;
    must(process_tree_kill_children(false));
}

static void nothing_to_end_is_soon_done(void **state)
{
    in_child(nothing_to_end_body, *state);
}

/* kill(-1) of the code under test: only as the first process of a pid namespace, where -1 means its own. */
static void own_uid_in_namespace(const struct tree *tree)
{
    must(getpid() == 1);
    must(setresuid(65534, 65534, 65534) == 0); /* root never signals everyone */
    for (int kind = 0; kind < 4; kind++)
        start_stubborn(tree, kind);
    wait_ready(tree, 4);
    must(process_tree_kill_children(true));
    must(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
    _exit(0);
}

static void own_uid_body(void *data)
{
    must(unshare(CLONE_NEWPID) == 0);
    pid_t first = fork();
    must(first >= 0);
    if (first == 0)
        own_uid_in_namespace(data);
    int status;
    must(waitpid(first, &status, 0) == first && status == 0);
}

static void all_of_one_uid_are_ended_at_once(void **state)
{
    need_root();
    in_child(own_uid_body, *state);
}

static int tree_setup(void **state)
{
    static struct tree tree;
    assert_int_equal(pipe2(tree.ready, O_CLOEXEC), 0);
    *state = &tree;
    return 0;
}

static int tree_teardown(void **state)
{
    struct tree *tree = *state;
    close(tree->ready[0]);
    close(tree->ready[1]);
    return 0;
}

#define TREE_TEST(function) cmocka_unit_test_setup_teardown(function, tree_setup, tree_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TREE_TEST(children_of_children_and_of_threads_are_listed),
        TREE_TEST(list_is_bounded_by_its_room),
        TREE_TEST(stubborn_children_are_ended_and_reaped),
        TREE_TEST(strangers_are_left_alone),
        TREE_TEST(nothing_to_end_is_soon_done),
        TREE_TEST(all_of_one_uid_are_ended_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
