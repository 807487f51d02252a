/* The files of a fork: a copy of its parent's scratch space, whatever the guest has put there. */
#include "fork_session.h"

static void links_pipes_modes_and_times_come_along(void **state)
{
    (void)state;
    struct session *first = open_first(NULL, NULL);
    run(first, "import os, stat\nos.symlink('/etc/passwd', 'l'); os.symlink('gone', 'dangling'); "
               "os.mkfifo('p', 0o640)\n"
               "open('f', 'w').write('x'); os.chmod('f', 0o741); os.utime('f', (1, 1000000000))\n"
               "os.mkdir('d'); open('d/a\\nb', 'w').write('named'); os.chmod('d', 0o500)\n"
               "open('none', 'w').write('x'); os.chmod('none', 0)\n"
               "os.mkdir('closed'); open('closed/in', 'w').write('inside'); os.chmod('closed', 0)");
    assert_int_equal(first->outcome.status, RUNNER_STATUS_ok);
    struct session *fork = fork_session(first);
    const char *look = "[os.readlink('l'), os.readlink('dangling')] + [oct(os.lstat(n).st_mode) for n in "
                       "('p', 'f', 'd', 'none', 'closed')] + [os.stat('f').st_mtime, os.listdir('d'), "
                       "os.stat('f').st_uid]";
    assert_value(fork, look,
                 "['/etc/passwd', 'gone', '0o10640', '0o100741', '0o40500', '0o100000', '0o40000', "
                 "1000000000.0, ['a\\nb'], 1000]");
    assert_value(fork, "os.chmod('closed', 0o700); open('closed/in').read()", "'inside'");
}

/* Nothing is copied where nothing is; but that a place was changed is seen. */
static void places_come_along_without_a_file_in_them(void **state)
{
    (void)state;
    struct session *first = open_first(NULL, NULL);
    const char *look = "[(oct(os.stat(p).st_mode), os.listdir(p)) for p in ('/tmp', '/data/output')]";
    run(first, "import os");
    struct session *plain = fork_session(first);
    assert_value(plain, look, "[('0o41777', []), ('0o40755', [])]");
    run(first, "os.chmod('/tmp', 0o711)");
    struct session *changed = fork_session(first);
    assert_value(changed, look, "[('0o40711', []), ('0o40755', [])]");
}

static void tree_that_is_too_deep_is_refused_by_name(void **state)
{
    (void)state;
    struct session *first = open_first(NULL, NULL), *fork = NULL;
    run(first, "import os, shutil\nos.makedirs('/tmp/' + 'd/' * 300)");
    struct error err = {0};
    assert_true(try_fork(first, &fork, &err) < 0);
    if (!strstr(err.text, "nested"))
        fail_msg("%s", err.text);
    run(first, "shutil.rmtree('/tmp/d')");
    assert_int_equal(first->outcome.status, RUNNER_STATUS_ok);
    fork_session(first);
}

static void files_that_take_all_the_space_are_copied(void **state)
{
    (void)state;
    static const char *const fields[] = {"disk", "20M", "memory", "256M", NULL};
    struct session *first = open_first(fields, NULL);
    run(first,
        "import os\nwith open('/tmp/full', 'wb') as f:\n    try:\n        while True: f.write(b'x' * 65536)\n"
        "    except OSError: pass\nf.closed");
    assert_int_equal(first->outcome.status, RUNNER_STATUS_ok);
    struct session *fork = fork_session(first);
    run(fork, "a = os.path.getsize('/tmp/full')");
    struct context_usage usage;
    context_look(fork->context, &usage);
    assert_in_range(usage.disk_bytes, 19 << 20, 20 << 20);
    assert_in_range(usage.memory_bytes, 19 << 20, 256 << 20); /* what was copied counts for the fork */
    assert_value(fork, "a > 19 << 20", "True");
    run(fork, "open('/tmp/more', 'wb').write(b'x' * (2 << 20))");
    assert_true(fork->outcome.status == RUNNER_STATUS_error || fork->outcome.died);
}

/* None may be larger than the limit, but all together. */
static void sparse_files_take_no_more_than_before(void **state)
{
    (void)state;
    static const char *const fields[] = {"disk", "20M", NULL};
    struct session *first = open_first(fields, NULL);
    run(first, "import os\nfor i in range(10):\n    with open(f'/tmp/sparse{i}', 'wb') as f:\n"
               "        f.truncate(15 << 20); f.seek(5 << 20); f.write(b'data%d' % i)");
    assert_int_equal(first->outcome.status, RUNNER_STATUS_ok);
    struct session *fork = fork_session(first);
    assert_value(fork, "f = open('/tmp/sparse7', 'rb'); f.seek(5 << 20); f.read(6), f.seek(0, 2) == 15 << 20",
                 "(b'data7\\x00', True)");
}

/* Two names of one file become two files: where they do not fit, that is said. */
static void hard_links_that_do_not_fit_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const fields[] = {"disk", "20M", NULL};
    struct session *first = open_first(fields, NULL), *fork = NULL;
    run(first, "import os\nopen('a', 'wb').write(b'x' * (12 << 20)); os.link('a', 'b')");
    struct error err = {0};
    assert_true(try_fork(first, &fork, &err) < 0);
    if (!strstr(err.text, "fit"))
        fail_msg("%s", err.text);
    run(first, "os.remove('b')");
    fork_session(first);
}

static void many_small_files_come_along(void **state)
{
    (void)state;
    struct session *first = open_first(NULL, NULL);
    run(first, "import os\nfor i in range(2000): open(f'/tmp/{i}', 'w').write(str(i))");
    assert_int_equal(first->outcome.status, RUNNER_STATUS_ok);
    struct session *fork = fork_session(first);
    assert_value(fork, "all(open(f'/tmp/{i}').read() == str(i) for i in range(2000))", "True");
}

static void directory_that_was_removed_is_no_obstacle(void **state)
{
    (void)state;
    struct session *first = open_first(NULL, NULL);
    run(first, "import os\nos.mkdir('/tmp/d'); os.chdir('/tmp/d'); os.rmdir('/tmp/d')");
    struct session *fork = fork_session(first);
    assert_value(fork, "os.getcwd()", "'/data/output'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CENSUS_TEST(links_pipes_modes_and_times_come_along),
        CENSUS_TEST(places_come_along_without_a_file_in_them),
        CENSUS_TEST(tree_that_is_too_deep_is_refused_by_name),
        CENSUS_TEST(files_that_take_all_the_space_are_copied),
        CENSUS_TEST(sparse_files_take_no_more_than_before),
        CENSUS_TEST(hard_links_that_do_not_fit_are_refused_by_name),
        CENSUS_TEST(many_small_files_come_along),
        CENSUS_TEST(directory_that_was_removed_is_no_obstacle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
