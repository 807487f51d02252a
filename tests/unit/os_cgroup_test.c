/* Control groups as this machine has them, v1 or v2. */
#include "harness.h"

#include "os/cgroup/cgroup.h"
#include "os/process.h"

#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>

static const struct cgroup_limits some_limits = {.memory_bytes = 64 << 20, .pids = 16, .millicpus = 500};

struct world {
    struct cgroup_layout layout;
    char name[64];
};

static int world_setup(void **state)
{
    static struct world world;
    static int serial;
    cgroup_layout_find(&world.layout);
    snprintf(world.name, sizeof world.name, "unit-%d-%d", (int)getpid(), serial++);
    *state = &world;
    return 0;
}

/* Also after a test that failed half-way. */
static int world_teardown(void **state)
{
    const struct world *world = *state;
    struct cgroup left;
    cgroup_open_leftover(&world->layout, world->name, &left);
    cgroup_destroy(&left);
    return 0;
}

static struct world *world_or_skip(void **state)
{
    struct world *world = *state;
    need_root();
    if (world->layout.version == CGROUP_NONE)
        skip_because(world->layout.why_not);
    return world;
}

static void group_path(const struct world *world, enum cgroup_controller controller, char *into, size_t size)
{
    snprintf(into, size, "%s/%s", world->layout.base[controller], world->name);
}

static bool group_is_there(const struct world *world)
{
    bool there = false;
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        char path[512];
        group_path(world, (enum cgroup_controller)i, path, sizeof path);
        there |= world->layout.base[i][0] && access(path, F_OK) == 0;
    }
    return there;
}

static void create(const struct world *world, const struct cgroup_limits *limits, struct cgroup *group)
{
    struct error err = {0};
    if (cgroup_create(&world->layout, world->name, limits, group, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(cgroup_usage_open(group, &err), 0);
}

/* A child that is inside, in every hierarchy, before it does anything else, and before this returns. */
static pid_t start_inside(const struct cgroup *group, void (*body)(void))
{
    int pidfd = -1, ready[2];
    char byte;
    bool born_inside = group->version == CGROUP_V2;
    fflush(NULL);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    pid_t pid = process_clone(0, born_inside ? group->dir_fd[CGROUP_MEMORY] : -1, &pidfd);
    if (pid == 0) {
        if (!born_inside)
            must(cgroup_join_self(group) == 0);
        must(write(ready[1], "x", 1) == 1);
        body();
        _exit(0);
    }
    assert_true(pid > 0);
    close(pidfd);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void sleep_on(void)
{
    for (;;)
        pause();
}

static void await_members(const struct cgroup *group, int64_t count)
{
    struct cgroup_usage usage;
    for (int i = 0; i < 2000; i++) {
        cgroup_usage_read(group, &usage);
        if (usage.pids_now >= count)
            return;
        usleep(1000);
    }
    fail_msg("%lld members, not %lld", (long long)usage.pids_now, (long long)count);
}

static int end_of(pid_t pid)
{
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void layout_says_where_or_why_not(void **state)
{
    struct world *world = *state;
    const struct cgroup_layout *layout = &world->layout;
    if (layout->version == CGROUP_NONE) {
        assert_true(strlen(layout->why_not) > 10);
        for (int i = 0; i < CGROUP_CONTROLLERS; i++)
            assert_false(cgroup_layout_has(layout, (enum cgroup_controller)i));
        return;
    }
    assert_true(cgroup_layout_has(layout, CGROUP_MEMORY));
    assert_true(cgroup_layout_has(layout, CGROUP_PIDS));
    for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
        if (!layout->base[i][0])
            continue;
        struct stat status;
        assert_int_equal(stat(layout->base[i], &status), 0);
        assert_true(S_ISDIR(status.st_mode));
        const char *slash = strrchr(layout->base[i], '/');
        assert_string_equal(slash, "/cloche");
    }
}

static void ordinary_user_body(void *data)
{
    (void)data;
    become_some_user();
    struct cgroup_layout layout;
    cgroup_layout_find(&layout);
    must(layout.version == CGROUP_NONE); /* that user owns nothing */
    must(strstr(layout.why_not, "root") || strstr(layout.why_not, "delegated") ||
         strstr(layout.why_not, "mounted"));
}

static void stranger_is_told_why_not(void **state)
{
    (void)state;
    need_root();
    in_child(ordinary_user_body, NULL);
}

static void limits_are_written_before_anyone_is_inside(void **state)
{
    struct world *world = world_or_skip(state);
    struct cgroup group;
    create(world, &some_limits, &group);
    char text[64], path[512];
    group_path(world, CGROUP_MEMORY, path, sizeof path);
    bool v2 = world->layout.version == CGROUP_V2;
    scope_fd memory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(file_read_attribute(memory, v2 ? "memory.max" : "memory.limit_in_bytes", text, sizeof text) >
                0);
    assert_int_equal(atoll(text), 64 << 20);
    group_path(world, CGROUP_PIDS, path, sizeof path);
    scope_fd pids = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(file_read_attribute(pids, "pids.max", text, sizeof text) > 0);
    assert_int_equal(atoll(text), 16);
    if (cgroup_layout_has(&world->layout, CGROUP_CPU)) {
        group_path(world, CGROUP_CPU, path, sizeof path);
        scope_fd cpu = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(file_read_attribute(cpu, v2 ? "cpu.max" : "cpu.cfs_quota_us", text, sizeof text) > 0);
        assert_int_equal(atoll(text), 50000);
    }
    assert_int_equal(cgroup_destroy(&group), 0);
    assert_false(group_is_there(world));
}

static void proof_needs_the_process_inside_and_the_limits_in_force(void **state)
{
    struct world *world = world_or_skip(state);
    struct cgroup group;
    struct error err = {0};
    create(world, &some_limits, &group);
    assert_true(cgroup_verify(&group, &some_limits, getpid(), &err) < 0);
    assert_error(&err, ERROR_LAYER, "cgroup", "not inside");
    pid_t member = start_inside(&group, sleep_on);
    await_members(&group, 1);
    assert_int_equal(cgroup_verify(&group, &some_limits, member, &err), 0);
    struct cgroup_limits other = some_limits;
    other.pids = 17;
    assert_true(cgroup_verify(&group, &other, member, &err) < 0);
    assert_error(&err, ERROR_LAYER, "cgroup", "pids.max is 16 after 17 was written");
    other = some_limits;
    other.memory_bytes += 4096;
    assert_true(cgroup_verify(&group, &other, member, &err) < 0);
    assert_error(&err, ERROR_LAYER, "cgroup", "memory");
    cgroup_kill(&group);
    assert_int_equal(WTERMSIG(end_of(member)), SIGKILL);
    assert_int_equal(cgroup_destroy(&group), 0);
}

static void odd_sizes_are_rounded_to_pages_and_still_proved(void **state)
{
    struct world *world = world_or_skip(state);
    struct cgroup group;
    struct error err = {0};
    struct cgroup_limits limits = {.memory_bytes = (64 << 20) + 1234, .pids = 4};
    create(world, &limits, &group);
    pid_t member = start_inside(&group, sleep_on);
    await_members(&group, 1);
    if (cgroup_verify(&group, &limits, member, &err) < 0)
        fail_msg("%s", err.text);
    cgroup_kill(&group);
    end_of(member);
    assert_int_equal(cgroup_destroy(&group), 0);
}

static void use_some(void)
{
    enum { BYTES = 8 << 20 };
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(memory != MAP_FAILED);
    memset(memory, 1, BYTES);
    struct timespec now = {0};
    while (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now), now.tv_nsec < 60000000)
        ;
    for (int i = 0; i < 30; i++) /* sixteen are allowed */
        if (fork() == 0)
            sleep_on();
    sleep_on();
}

static void usage_is_counted(void **state)
{
    struct world *world = world_or_skip(state);
    struct cgroup group;
    struct cgroup_usage usage;
    create(world, &some_limits, &group);
    cgroup_usage_read(&group, &usage);
    assert_int_equal(usage.pids_now, 0);
    assert_int_equal(usage.oom_kills, 0);
    pid_t member = start_inside(&group, use_some);
    await_members(&group, 16);
    usleep(50000);
    cgroup_usage_read(&group, &usage);
    assert_int_equal(usage.pids_now, 16);
    assert_true(usage.pids_peak == -1 || usage.pids_peak == 16);
    assert_true(usage.pids_refused > 0);
    assert_true(usage.memory_bytes >= 8 << 20 && usage.memory_bytes <= 64 << 20);
    assert_true(usage.memory_peak_bytes >= usage.memory_bytes);
    assert_true(usage.cpu_user_us + usage.cpu_system_us >= 50000);
    cgroup_kill(&group);
    end_of(member);
    assert_int_equal(cgroup_destroy(&group), 0);
}

static void eat_memory(void)
{
    for (;;) {
        char *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must(memory != MAP_FAILED);
        memset(memory, 1, 1 << 20);
    }
}

static void running_out_of_memory_is_seen(void **state)
{
    struct world *world = world_or_skip(state);
    struct cgroup group;
    struct cgroup_usage usage;
    struct cgroup_limits limits = {.memory_bytes = 16 << 20, .pids = 4};
    create(world, &limits, &group);
    struct pollfd polled = {0};
    scope_fd watch = cgroup_watch_oom(&group, &polled.events);
    assert_true(watch >= 0);
    polled.fd = watch;
    char discarded[512];
    if (polled.events == POLLPRI)
        (void)!pread(watch, discarded, sizeof discarded, 0);
    assert_int_equal(poll(&polled, 1, 0), 0);
    pid_t member = start_inside(&group, eat_memory);
    assert_int_equal(poll(&polled, 1, 10000), 1);
    int status = end_of(member);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    cgroup_usage_read(&group, &usage);
    assert_true(usage.oom_kills > 0);
    assert_true(usage.memory_peak_bytes <= 16 << 20);
    assert_int_equal(cgroup_destroy(&group), 0);
}

static void fork_storm(void)
{
    signal(SIGCHLD, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    for (;;)
        if (fork() < 0)
            usleep(100);
}

static void storm_inside_is_killed_and_the_group_goes(void **state)
{
    struct world *world = world_or_skip(state);
    struct cgroup group;
    create(world, &some_limits, &group);
    pid_t member = start_inside(&group, fork_storm);
    await_members(&group, 16);
    assert_int_equal(cgroup_destroy(&group), 0);
    assert_int_equal(WTERMSIG(end_of(member)), SIGKILL);
    assert_false(group_is_there(world));
    assert_int_equal(group.version, CGROUP_NONE);
    assert_int_equal(cgroup_destroy(&group), 0); /* a second time is harmless */
}

/* A byte says when, and its exit code whether it could fork. */
static int may_fork[2];
static void fork_when_told(void)
{
    char word;
    must(read(may_fork[0], &word, 1) == 1);
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    _exit(pid < 0 ? 11 : 12);
}

static void one_may_be_spared_and_starts_nothing_any_more(void **state)
{
    struct world *world = world_or_skip(state);
    struct cgroup group;
    create(world, &some_limits, &group);
    must(pipe(may_fork) == 0);
    pid_t spared = start_inside(&group, fork_when_told), other = start_inside(&group, sleep_on);
    await_members(&group, 2);
    cgroup_kill_all_but(&group, spared);
    assert_int_equal(WTERMSIG(end_of(other)), SIGKILL);
    must(write(may_fork[1], "", 1) == 1);
    int status = end_of(spared);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 11);
    close(may_fork[0]);
    close(may_fork[1]);
    assert_int_equal(cgroup_destroy(&group), 0);
}

static void limits_of_zero_are_none(void **state)
{
    struct world *world = world_or_skip(state);
    struct cgroup group;
    struct error err = {0};
    const struct cgroup_limits none = {0};
    create(world, &none, &group);
    pid_t member = start_inside(&group, sleep_on);
    await_members(&group, 1);
    assert_int_equal(cgroup_verify(&group, &none, member, &err), 0);
    cgroup_kill(&group);
    end_of(member);
    assert_int_equal(cgroup_destroy(&group), 0);
}

static void group_that_cannot_be_made_leaves_nothing(void **state)
{
    struct world *world = world_or_skip(state);
    struct cgroup group;
    struct error err = {0};
    int before = open_descriptors();
    assert_true(cgroup_create(&world->layout, "no/such/parent", &some_limits, &group, &err) < 0);
    assert_int_equal(err.kind, ERROR_HOST);
    struct cgroup_limits absurd = {.memory_bytes = 64 << 20, .pids = INT64_MAX};
    err = (struct error){0};
    assert_true(cgroup_create(&world->layout, world->name, &absurd, &group, &err) < 0);
    assert_error(&err, ERROR_LAYER, "cgroup", "pids.max");
    assert_false(group_is_there(world));
    assert_int_equal(open_descriptors(), before);
}

static void count_name(void *data, const char *name)
{
    struct world *world = data;
    if (strcmp(name, world->name) == 0)
        world->layout.why_not[0]++;
}

/* As its owner's death does; our own child has the descriptors, too. */
static void let_go(const struct cgroup *group)
{
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        if (group->dir_fd[i] >= 0)
            flock(group->dir_fd[i], LOCK_UN);
}

static void group_of_another_is_not_taken(void **state)
{
    struct world *world = world_or_skip(state);
    struct error err = {0};
    struct cgroup group, other;
    create(world, &some_limits, &group);
    assert_int_equal(cgroup_create(&world->layout, world->name, &some_limits, &other, &err), -EBUSY);
    assert_true(group_is_there(world) && strstr(err.text, "another's"));
    assert_int_equal(cgroup_destroy(&group), 0);
}

static void leftover_is_found_and_removed(void **state)
{
    struct world *world = world_or_skip(state);
    struct cgroup group, leftover;
    create(world, &some_limits, &group);
    pid_t member = start_inside(&group, sleep_on);
    await_members(&group, 1);
    struct world seen = *world;
    seen.layout.why_not[0] = 0;
    cgroup_each(&world->layout, "unit-", count_name, &seen);
    assert_true(seen.layout.why_not[0] > 0);
    seen.layout.why_not[0] = 0;
    cgroup_each(&world->layout, "other-", count_name, &seen);
    assert_int_equal(seen.layout.why_not[0], 0);
    assert_false(cgroup_open_leftover(&world->layout, world->name, &leftover)); /* its owner lives: we */
    assert_int_equal(cgroup_destroy(&leftover), 0);
    assert_true(group_is_there(world));
    let_go(&group);
    assert_true(cgroup_open_leftover(&world->layout, world->name, &leftover));
    assert_int_equal(cgroup_destroy(&leftover), 0);
    assert_int_equal(WTERMSIG(end_of(member)), SIGKILL);
    assert_false(group_is_there(world));
    assert_true(cgroup_open_leftover(&world->layout, world->name, &leftover)); /* nothing is there now */
    assert_int_equal(cgroup_destroy(&leftover), 0);
    cgroup_destroy(&group);
}

static void unset_group_uses_nothing(void **state)
{
    (void)state;
    struct cgroup group = CGROUP_UNSET;
    struct cgroup_usage usage;
    cgroup_usage_read(&group, &usage);
    assert_int_equal(usage.memory_bytes + usage.pids_now + usage.oom_kills + usage.cpu_user_us, 0);
    assert_int_equal(usage.pids_peak, -1);
    assert_int_equal(cgroup_join_self(&group), 0);
    assert_int_equal(cgroup_destroy(&group), 0);
}

#define WORLD_TEST(function) cmocka_unit_test_setup_teardown(function, world_setup, world_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(layout_says_where_or_why_not),
        WORLD_TEST(stranger_is_told_why_not),
        WORLD_TEST(limits_are_written_before_anyone_is_inside),
        WORLD_TEST(proof_needs_the_process_inside_and_the_limits_in_force),
        WORLD_TEST(odd_sizes_are_rounded_to_pages_and_still_proved),
        WORLD_TEST(usage_is_counted),
        WORLD_TEST(running_out_of_memory_is_seen),
        WORLD_TEST(storm_inside_is_killed_and_the_group_goes),
        WORLD_TEST(one_may_be_spared_and_starts_nothing_any_more),
        WORLD_TEST(limits_of_zero_are_none),
        WORLD_TEST(group_that_cannot_be_made_leaves_nothing),
        WORLD_TEST(group_of_another_is_not_taken),
        WORLD_TEST(leftover_is_found_and_removed),
        WORLD_TEST(unset_group_uses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
