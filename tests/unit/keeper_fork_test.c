/* Forks of contexts: what they keep, what they share no more, and who is harmed by whom. */
#include "fork_session.h"

#include <sys/resource.h>

#include <pthread.h>

static void fork_keeps_variables_imports_directory_and_files(void **state)
{
    (void)state;
    struct session *first = open_first(NULL, NULL);
    run(first, "import os, json, sys\nx = {'a': [1, 2]}\ndef f(): return len(x['a'])\n"
               "os.makedirs('/tmp/deep/er')\nopen('/tmp/deep/er/t', 'w').write('kept')\n"
               "open('o', 'w').write('out')\nopen(os.path.expanduser('~/h'), 'w').write('home')\n"
               "open('/dev/shm/s', 'w').write('shm')\nos.chdir('/tmp/deep')\nos.umask(0o77)\n"
               "os.environ['COLOUR'] = 'red'\nsys.path.insert(0, '/tmp/deep')\nsys.setrecursionlimit(1234)");
    assert_int_equal(first->outcome.status, RUNNER_STATUS_ok);
    struct session *fork = fork_session(first);
    assert_value(fork, "x, f(), json.dumps([1])", "({'a': [1, 2]}, 2, '[1]')");
    assert_value(fork, "os.getcwd(), open('er/t').read()", "('/tmp/deep', 'kept')");
    assert_value(fork,
                 "[open(p).read() for p in ('/data/output/o', os.path.expanduser('~/h'), '/dev/shm/s')]",
                 "['out', 'home', 'shm']");
    assert_value(fork, "os.umask(0o77), os.environ['COLOUR'], sys.path[0], sys.getrecursionlimit()",
                 "(63, 'red', '/tmp/deep', 1234)");
    assert_value(fork,
                 "os.getpid() == int(os.readlink('/proc/self')), os.listdir('/proc/self/task') == "
                 "[str(os.getpid())]",
                 "(True, True)");
}

static void parent_and_fork_share_nothing_afterwards(void **state)
{
    (void)state;
    struct session *first = open_first(NULL, NULL);
    run(first, "import os\nx = [1]\nos.environ['E'] = 'both'\nopen('f', 'w').write('both')\nopen('g', 'w')");
    struct session *fork = fork_session(first);
    run(first, "x.append('parent'); os.environ['E'] = 'parent'; open('f', 'w').write('parent'); "
               "open('parents', 'w'); os.chdir('/tmp')");
    run(fork, "x.append('fork'); os.environ['E'] = 'fork'; open('g', 'w').write('fork'); open('forks', 'w'); "
              "os.remove('f')");
    const char *look =
        "x, os.environ['E'], sorted(os.listdir('/data/output')), open('/data/output/g').read(), "
        "os.getcwd()";
    assert_value(first, look, "([1, 'parent'], 'parent', ['f', 'g', 'parents'], '', '/tmp')");
    assert_value(fork, look, "([1, 'fork'], 'fork', ['forks', 'g'], 'fork', '/data/output')");
}

static void fork_of_a_fork_goes_to_the_limit_and_is_refused_there(void **state)
{
    (void)state;
    struct session *line[FORK_GENERATIONS_MAX + 1];
    size_t count = 0;
    struct error err = {0};
    line[count++] = open_first(NULL, NULL);
    run(line[0], "trace = [0]");
    while (count < FORK_GENERATIONS_MAX) {
        char code[64], wanted[8];
        line[count] = fork_session(line[count - 1]);
        snprintf(code, sizeof code, "trace.append(%zu); len(trace)", count);
        snprintf(wanted, sizeof wanted, "%zu", count + 1);
        assert_value(line[count], code, wanted);
        count++;
    }
    int descriptors = open_descriptors();
    struct session *none = NULL;
    assert_true(try_fork(line[count - 1], &none, &err) < 0);
    assert_error(&err, ERROR_SPEC, "fork", "30 generations");
    assert_int_equal(open_descriptors(), descriptors);
    for (size_t i = 0; i < count; i += 6) {
        char wanted[8];
        snprintf(wanted, sizeof wanted, "%zu", i + 1);
        assert_value(line[i], "len(trace)", wanted);
    }
    struct session *beside = fork_session(line[3]); /* where the line is shorter there is room */
    assert_value(beside, "trace", "[0, 1, 2, 3]");
    close_one(beside);
}

static void twenty_forks_live_at_once(void **state)
{
    (void)state;
    enum { COUNT = 20 };
    struct session *first = open_first(NULL, NULL), *forks[COUNT];
    run(first, "import os\nx = 'parent'; open('f', 'w').write('parent')");
    for (int i = 0; i < COUNT; i++) {
        char code[96];
        forks[i] = fork_session(first);
        snprintf(code, sizeof code, "x = %d; open('f', 'w').write(str(x))", i);
        run(forks[i], code);
    }
    for (int i = COUNT - 1; i >= 0; i--) {
        char wanted[32];
        snprintf(wanted, sizeof wanted, "(%d, '%d')", i, i);
        assert_value(forks[i], "x, open('f').read()", wanted);
    }
    assert_value(first, "x, open('f').read()", "('parent', 'parent')");
    close_all(forks, COUNT);
    /* The first processes of boxes that are gone are waited for by their parent: at the next fork. */
    fork_session(first);
    assert_value(first, "len(open(f'/proc/self/task/{os.getpid()}/children').read().split())", "1");
}

static void parent_may_be_closed_before_its_forks(void **state)
{
    (void)state;
    struct session *first = open_first(NULL, NULL);
    run(first, "x = 1");
    struct session *one = fork_session(first), *other = fork_session(first), *grandchild = fork_session(one);
    context_close(first->context);
    context_close(one->context);
    first->context = one->context = NULL;
    assert_value(other, "x + 1", "2");
    assert_value(grandchild, "x + 2", "3");
    struct session *late = fork_session(grandchild);
    assert_value(late, "x + 3", "4");
    assert_false(is_ended(made[0].pidfd)); /* it waits for its last fork */
    close_one(grandchild);
    close_one(other);
    assert_value(late, "x + 4", "5");
    close_one(late);
    assert_true(is_ended(made[0].pidfd) && is_ended(made[1].pidfd));
}

static const struct {
    const char *code;
    enum cause cause;
} deaths[] = {
    {"y = bytearray(1 << 30)\nfor i in range(0, len(y), 4096): y[i] = 1", CAUSE_memory},
    {"import os; os.kill(os.getpid(), 11)", CAUSE_signal},
    {"import os; os._exit(3)", CAUSE_exit},
    {"import os, subprocess\nfor i in range(5): subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
     "os._exit(3)",
     CAUSE_exit},
    {"import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass", CAUSE_wall_time},
    {"import ctypes; ctypes.CDLL(None).mount(0, 0, 0, 0, 0)", CAUSE_denied_syscall},
};

static void fork_that_dies_harms_nobody(void **state)
{
    (void)state;
    static const char *const fields[] = {"memory", "128M", "wall", "1s", NULL};
    struct session *first = open_first(fields, &(struct context_options){.runs_max = 100});
    run(first, "x = 'parent'");
    struct session *sibling = fork_session(first);
    run(sibling, "x = 'sibling'");
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) {
        struct session *fork = fork_session(first);
        run(fork, deaths[i].code);
        assert_true(fork->outcome.died);
        check_cause(fork, deaths[i].cause);
        struct session *none = NULL;
        struct error err = {0};
        assert_int_equal(try_fork(fork, &none, &err), -EPIPE);
        assert_error(&err, ERROR_SPEC, "context", "has ended");
        close_one(fork);
        assert_value(first, "x", "'parent'");
        assert_value(sibling, "x", "'sibling'");
    }
}

/* How many processes are left in the group of a box. */
static int64_t left_in(const struct made *box)
{
    char path[512], text[32];
    snprintf(path, sizeof path, "%s/pids.current", box->group[CGROUP_PIDS]);
    return file_read_attribute(AT_FDCWD, path, text, sizeof text) > 0 ? strtoll(text, NULL, 10) : -1;
}

/* The kernel ends pid namespaces with the one above, so the first process stays, and nothing else does. */
static void forks_outlive_their_parent_however_it_dies(void **state)
{
    (void)state;
    static const char *const fields[] = {"memory", "128M", "wall", "1s", NULL};
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) {
        int at = made_count;
        struct session *first = open_first(fields, NULL);
        run(first, "x = 'first'");
        struct session *parent = fork_session(first), *child = fork_session(parent);
        run(parent, deaths[i].code);
        assert_true(parent->outcome.died);
        check_cause(parent, deaths[i].cause);
        assert_int_equal(parent->outcome.status,
                         deaths[i].cause == CAUSE_exit ? RUNNER_STATUS_exit : RUNNER_STATUS_error);
        assert_int_equal(parent->outcome.exit_code, deaths[i].cause == CAUSE_exit ? 3 : 0);
        assert_int_equal(left_in(&made[at + 1]), 1);
        assert_value(child, "x", "'first'");
        run(first, deaths[i].code);
        assert_true(first->outcome.died);
        check_cause(first, deaths[i].cause);
        assert_int_equal(left_in(&made[at]), 1);
        struct error err = {0};
        struct session *none = NULL;
        assert_int_equal(try_fork(first, &none, &err), -EPIPE);
        assert_int_equal(try_run(first, "x", &err), -EPIPE);
        assert_true(context_restart(first->context, &err) < 0);
        assert_error(&err, ERROR_SPEC, "context", "1 forks", "alive");
        struct session *late = fork_session(child); /* it is the first one's filter that is asked */
        assert_value(late, "import subprocess; subprocess.run(['true']).returncode, x", "(0, 'first')");
        run(late, "import ctypes; ctypes.CDLL(None).mount(0, 0, 0, 0, 0)");
        check_cause(late, CAUSE_denied_syscall);
        assert_value(child, "x", "'first'");
        close_one(late);
        close_one(child);
        close_one(parent);
        assert_true(is_ended(made[at + 1].pidfd));
        assert_int_equal(context_restart(first->context, &err), 0);
        note_box(first->context);
        assert_value(first, "'x' in globals()", "False");
        close_one(first);
        assert_true(is_ended(made[at].pidfd));
    }
}

/* The parent is gone in the middle of a fork, while the host is at work on both boxes. */
static void parent_that_dies_while_it_forks_is_an_error(void **state)
{
    (void)state;
    static const char *const hooks[] = {
        "import os; os.register_at_fork(before=lambda: os.kill(os.getpid(), 9))",
        "import os; os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), 9))",
        "import os; os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), 9))",
    };
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++) {
        struct session *first = open_first(NULL, NULL), *fork = NULL;
        run(first, hooks[i]);
        struct error err = {0};
        int status = try_fork(first, &fork, &err);
        if (i != 1) { /* after it, the fork may have been there for a moment */
            assert_true(status < 0);
            assert_true(err.text[0]);
        }
        if (status == 0)
            close_one(fork);
        if (i == 2)
            assert_value(first, "1", "1");
        close_one(first);
    }
}

/* Kills the parent's init as soon as the fork's first process is there. */
static void *kill_in_the_middle(void *data)
{
    struct context *context = data;
    char path[64], children[64];
    pid_t init = init_pid(context), program;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)init, (int)init);
    if (file_read_attribute(AT_FDCWD, path, children, sizeof children) <= 0)
        return NULL;
    program = atoi(children);
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)program, (int)program);
    while (file_read_attribute(AT_FDCWD, path, children, sizeof children) == 0)
        ;
    kill(init, SIGKILL);
    return NULL;
}

static void parent_that_is_killed_while_its_files_are_copied_is_an_error(void **state)
{
    (void)state;
    struct session *first = open_first(NULL, NULL), *fork = NULL;
    run(first, "for i in range(15000): open(f'/tmp/{i}', 'w').close()");
    assert_int_equal(first->outcome.status, RUNNER_STATUS_ok);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, kill_in_the_middle, first->context), 0);
    struct error err = {0};
    int status = try_fork(first, &fork, &err);
    pthread_join(thread, NULL);
    if (status >= 0 || !err.text[0])
        fail_msg("%d '%s'", status, err.text);
    assert_true(try_run(first, "1", &err) == -EPIPE || first->outcome.died);
}

static void what_cannot_be_forked_is_named(void **state)
{
    (void)state;
    struct session *first = open_first(NULL, NULL), *fork = NULL;
    struct error err = {0};
    run(first, "import threading\ngo = threading.Event()\nt = threading.Thread(target=go.wait, "
               "name='worker bee')\nt.start()");
    assert_true(try_fork(first, &fork, &err) < 0);
    assert_error(&err, ERROR_SPEC, "fork", "1 threads", "worker bee");
    run(first, "go.set(); t.join()");
    run(first, "import subprocess\np = subprocess.Popen(['cat'], stdin=subprocess.PIPE, "
               "stdout=subprocess.PIPE)\np.stdin.write(b'on\\n'); p.stdin.flush(); p.stdout.readline()");
    assert_true(try_fork(first, &fork, &err) < 0);
    assert_error(&err, ERROR_SPEC, "fork", "child processes", "cat");
    run(first, "p.kill(); p.wait(); p.stdin.close(); p.stdout.close()\nimport mmap\nm = mmap.mmap(-1, 4096)");
    assert_true(try_fork(first, &fork, &err) < 0); /* parent and fork are strangers to each other */
    assert_error(&err, ERROR_SPEC, "fork", "memory is shared", "/dev/zero");
    run(first, "m.close()");
    fork = fork_session(first); /* nothing of the refusals is left */
    assert_value(fork, "t.name", "'worker bee'");
}

struct forker {
    struct session *session;
    int status;
    struct error err;
};

static void fork_when_started(void *data, const struct runner_event *event)
{
    struct forker *forker = data;
    struct context *none = NULL;
    if (event->kind == RUNNER_started)
        forker->status = context_fork(forker->session->context, NULL, &none, &forker->err);
}

static void forks_are_refused_during_a_run_of_the_dead_and_of_other_engines(void **state)
{
    (void)state;
    struct session *first = open_first(NULL, NULL), *fork = NULL;
    struct forker forker = {.session = first};
    const struct runner_order order = {.code = {"'done'", 6}};
    assert_int_equal(
        context_run(first->context, &order, fork_when_started, &forker, &first->outcome, &forker.err), 0);
    assert_int_equal(forker.status, -EBUSY);
    assert_error(&forker.err, ERROR_SPEC, "fork", "a run is under way");
    assert_int_equal(first->outcome.status, RUNNER_STATUS_ok);
    run(first, "import os; os._exit(0)");
    struct error err = {0};
    assert_int_equal(try_fork(first, &fork, &err), -EPIPE);
    assert_error(&err, ERROR_SPEC, "context", "has ended");
    close_one(first);
    struct session *process = open_session("process", NULL, NULL);
    opened[opened_count++] = process;
    assert_true(try_fork(process, &fork, &err) < 0);
    assert_error(&err, ERROR_SPEC, "fork", "isolation 'process'");
    assert_value(process, "1", "1");
}

static void open_files_go_on_in_the_fork_and_sockets_are_named(void **state)
{
    (void)state;
    struct session *first = open_first(NULL, NULL), *fork = NULL;
    run(first, "import socket\nr = open('/tmp/r', 'w+'); r.write('abc'); r.flush(); r.seek(0)\n"
               "w = open('/tmp/w', 'w', buffering=1)\na, b = socket.socketpair()");
    struct error err = {0};
    assert_true(try_fork(first, &fork, &err) < 0);
    assert_error(&err, ERROR_SPEC, "fork", "descriptors are open", "(a socket)");
    assert_value(first, "a.send(b'x'); b.recv(1)", "b'x'");
    run(first, "a.close(); b.close()");
    fork = fork_session(first);
    assert_value(fork, "w.write('its own\\n'); r.read(), open('/tmp/w').read()", "('abc', 'its own\\n')");
    assert_value(first, "w.write('mine\\n'); r.read(), open('/tmp/w').read()", "('abc', 'mine\\n')");
    assert_value(fork, "open('/tmp/w').read()", "'its own\\n'");
}

static void what_is_said_between_runs_is_no_obstacle(void **state)
{
    (void)state;
    struct session *first = open_first(NULL, NULL);
    run(first, "import threading, os\nlate = threading.Timer(0.05, print, ['late'])\nlate.start()");
    run(first, "1");
    /* It has printed after a run when it is gone; a fork is refused until then. */
    struct session *fork = NULL;
    int64_t until_us = clock_monotonic_us() + 10000000;
    struct error err = {0};
    while (try_fork(first, &fork, &err) < 0) {
        if (!strstr(err.text, "threads") || clock_monotonic_us() > until_us)
            fail_msg("%s", err.text);
        usleep(20000);
    }
    assert_value(fork, "late.is_alive()", "False");
    close_one(fork);
    run(first, "os.register_at_fork(before=lambda: print('before'), after_in_parent=lambda: print('parent'), "
               "after_in_child=lambda: print('child'))");
    fork = fork_session(first);
    assert_value(fork, "'alive'", "'alive'");
    assert_value(first, "'alive too'", "'alive too'");
}

static void randomness_differs_between_forks(void **state)
{
    (void)state;
    enum { COUNT = 3 };
    static const char *const sources[] = {
        "random.random()",          "uuid.uuid4().hex",
        "uuid.uuid1().hex",         "secrets.token_hex()",
        "os.urandom(8).hex()",      "tempfile.mktemp()",
        "ssl.RAND_bytes(16).hex()", "random.SystemRandom().random()",
        "numpy.random.rand()",      "numpy.random.default_rng().random()",
    };
    struct session *first = open_first(NULL, &(struct context_options){.runs_max = 100}), *all[COUNT + 1];
    run(first, "import os, random, uuid, secrets, tempfile, ssl\n"
               "random.random(), tempfile.mktemp(), ssl.RAND_bytes(1), uuid.uuid1()\n"
               "try:\n    import numpy; numpy.random.rand()\nexcept ImportError: numpy = None");
    assert_int_equal(first->outcome.status, RUNNER_STATUS_ok);
    bool has_numpy = strcmp(value_of(first, "numpy is None"), "False") == 0;
    all[0] = first;
    for (int i = 1; i <= COUNT; i++) {
        all[i] =
            fork_session(i == COUNT ? all[1] : first); /* one of them from a fork, which has the same pid */
        if (i < COUNT) /* it and its fork are in step: what is copied would be the same in both */
            run(all[i], "random.random(), tempfile.mktemp(), ssl.RAND_bytes(1), uuid.uuid1()");
    }
    for (size_t s = 0; s < sizeof sources / sizeof *sources; s++) {
        char said[COUNT + 1][128];
        if (strncmp(sources[s], "numpy", 5) == 0 && !has_numpy)
            continue;
        for (int i = 0; i <= COUNT; i++) {
            snprintf(said[i], sizeof said[i], "%s", value_of(all[i], sources[s]));
            for (int j = 0; j < i; j++)
                if (strcmp(said[i], said[j]) == 0)
                    fail_msg("%s is %s in two", sources[s], said[i]);
        }
    }
}

static void timers_of_the_parent_are_the_forks_from_its_first_run_on(void **state)
{
    (void)state;
    struct session *first = open_first(NULL, NULL);
    run(first, "import signal, time\nfired = []\nsignal.signal(signal.SIGALRM, lambda *_: fired.append(1))\n"
               "signal.setitimer(signal.ITIMER_REAL, 1, 3)");
    struct session *fork = fork_session(first);
    /* Waits in the parent until it has fired there; the fork was there all the time, asleep. */
    assert_value(first, "while not fired: time.sleep(0.02)\nfired[0]", "1");
    assert_value(fork, "left = signal.getitimer(signal.ITIMER_REAL)\nfired, 0 < left[0] <= 1, left[1]",
                 "([], True, 3.0)");
    assert_value(fork, "while not fired: time.sleep(0.02)\nfired", "[1]");
}

static void interrupt_when_started(void *data, const struct runner_event *event)
{
    struct session *session = data;
    take_event(session, event);
    if (event->kind == RUNNER_started)
        context_interrupt(session->context);
}

static void forks_are_interrupted_and_limited_as_any_context(void **state)
{
    (void)state;
    static const char *const fields[] = {"wall", "2s", "cpu", "200ms", "output_limit", "100", NULL};
    struct session *first = open_first(fields, &(struct context_options){.runs_max = 4});
    struct session *fork = fork_session(first);
    const char *endless = "import time\nwhile True: time.sleep(0.01)";
    const struct runner_order order = {.code = {endless, strlen(endless)}};
    struct error err = {0};
    assert_int_equal(context_run(fork->context, &order, interrupt_when_started, fork, &fork->outcome, &err),
                     0);
    if (fork->outcome.status != RUNNER_STATUS_interrupted)
        fail_msg("%s, not interrupted", text(&fork->error_name));
    check_cause(fork, CAUSE_cancelled);
    run(fork, endless);
    check_cause(fork, CAUSE_wall_time);
    assert_false(fork->outcome.died);
    run(fork, "while True: pass");
    check_cause(fork, CAUSE_cpu_time);
    run(fork, "print('x' * 99); print('y' * 99); 'alive'");
    assert_int_equal(fork->out.length, 100);
    assert_true(fork->outcome.truncated_bytes > 0);
    assert_int_equal(try_run(fork, "5", &err), -EBUSY); /* its own runs, and not those of its parent */
    assert_value(first, "1", "1");
    struct context_usage usage;
    context_look(fork->context, &usage);
    assert_int_equal(usage.runs, 4);
    assert_true(usage.lifetime_us <= CONTEXT_LIFETIME_DEFAULT_MS * INT64_C(1000));
}

static void fork_cannot_be_restarted_nor_its_parent_under_it(void **state)
{
    (void)state;
    struct session *first = open_first(NULL, NULL), *fork = fork_session(first);
    struct error err = {0};
    assert_true(context_restart(fork->context, &err) < 0);
    assert_error(&err, ERROR_SPEC, "context", "a fork cannot be restarted");
    assert_true(context_restart(first->context, &err) < 0);
    assert_error(&err, ERROR_SPEC, "context", "1 forks", "alive");
    assert_value(fork, "1", "1");
    close_one(fork);
    run(first, "x = 1");
    assert_int_equal(context_restart(first->context, &err), 0);
    note_box(first->context);
    assert_value(first, "'x' in globals()", "False");
    fork = fork_session(first);
}

/* Each step of a fork takes some: whichever lacks one, nothing is left of it, and the next one does not hear
 * of it. */
static void fork_that_lacks_descriptors_harms_no_other(void **state)
{
    (void)state;
    struct session *first = open_first(NULL, NULL);
    run(first, "x = 1");
    struct rlimit former;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &former), 0);
    int failures = 0;
    for (int more = 2; more < 60; more += 3) {
        int before = open_descriptors();
        struct rlimit few = {(rlim_t)(before + more), former.rlim_max};
        struct session *fork = NULL;
        struct error err = {0};
        setrlimit(RLIMIT_NOFILE, &few);
        int status = try_fork(first, &fork, &err);
        setrlimit(RLIMIT_NOFILE, &former);
        if (status < 0) /* what was on its way out at first may have gone meanwhile */
            assert_true(open_descriptors() <= before);
        failures += status < 0;
        assert_value(status < 0 ? fork_session(first) : fork, "x", "1");
    }
    assert_in_range(failures, 5, 19);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CENSUS_TEST(fork_keeps_variables_imports_directory_and_files),
        CENSUS_TEST(fork_that_lacks_descriptors_harms_no_other),
        CENSUS_TEST(parent_and_fork_share_nothing_afterwards),
        CENSUS_TEST(fork_of_a_fork_goes_to_the_limit_and_is_refused_there),
        CENSUS_TEST(twenty_forks_live_at_once),
        CENSUS_TEST(parent_may_be_closed_before_its_forks),
        CENSUS_TEST(fork_that_dies_harms_nobody),
        CENSUS_TEST(forks_outlive_their_parent_however_it_dies),
        CENSUS_TEST(parent_that_dies_while_it_forks_is_an_error),
        CENSUS_TEST(parent_that_is_killed_while_its_files_are_copied_is_an_error),
        CENSUS_TEST(what_cannot_be_forked_is_named),
        CENSUS_TEST(forks_are_refused_during_a_run_of_the_dead_and_of_other_engines),
        CENSUS_TEST(open_files_go_on_in_the_fork_and_sockets_are_named),
        CENSUS_TEST(what_is_said_between_runs_is_no_obstacle),
        CENSUS_TEST(randomness_differs_between_forks),
        CENSUS_TEST(timers_of_the_parent_are_the_forks_from_its_first_run_on),
        CENSUS_TEST(forks_are_interrupted_and_limited_as_any_context),
        CENSUS_TEST(fork_cannot_be_restarted_nor_its_parent_under_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
