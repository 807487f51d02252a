/* Forks of contexts in real boxes, and a census of what the boxes of a test left on the host. */
#pragma once

#include "context_session.h"

#include "base/clock.h"
#include "keeper/context_inside.h"
#include "os/process.h"

#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>

/* What this test itself made; other people's boxes come and go beside it. */
enum { MADE_MAX = 128 };
static struct made {
    char record[32];
    char group[CGROUP_CONTROLLERS][400];
    int pidfd;
} made[MADE_MAX];
static int made_count;
static struct session *opened[MADE_MAX];
static int opened_count;
static int descriptors_before, threads_before;

static maybe_unused pid_t init_pid(struct context *context)
{
    pthread_mutex_lock(&context->lock);
    pid_t pid = context->box ? context->box->pid : -1;
    pthread_mutex_unlock(&context->lock);
    return pid;
}

static maybe_unused void note_box(struct context *context)
{
    assert_true(made_count < MADE_MAX);
    struct made *note = &made[made_count++];
    pthread_mutex_lock(&context->lock);
    const struct box *box = context->box;
    assert_non_null(box);
    /* box-UID-NUMBER is the box, box-NUMBER its record */
    snprintf(note->record, sizeof note->record, "/run/cloche/box-%.12s",
             strrchr(box->identity->name, '-') + 1);
    for (int i = 0; i < CGROUP_CONTROLLERS; i++)
        snprintf(note->group[i], sizeof note->group[i], "%.255s/%.80s", box->group.base[i], box->group.name);
    note->pidfd = process_pidfd_open(box->pid);
    pthread_mutex_unlock(&context->lock);
    assert_true(note->pidfd >= 0);
}

static maybe_unused bool is_ended(int pidfd)
{
    struct pollfd polled = {.fd = pidfd, .events = POLLIN};
    return poll(&polled, 1, 5000) == 1;
}

/* A number is given out again: a record that another process holds is not ours any more, nor is its group. */
static maybe_unused bool is_anothers(const char *record)
{
    scope_fd fd = open(record, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0)
        return false;
    FILE *locks = fopen("/proc/locks", "re");
    char line[256];
    bool found = false;
    while (locks && fgets(line, sizeof line, locks)) {
        int pid;
        unsigned long inode;
        if (sscanf(line, "%*d: FLOCK ADVISORY WRITE %d %*x:%*x:%lu", &pid, &inode) == 2 &&
            inode == status.st_ino)
            found |= pid != getpid();
    }
    if (locks)
        fclose(locks);
    return found;
}

static maybe_unused bool is_left(const char *path, const char *record, int64_t until_us)
{
    while (access(path, F_OK) ==
           0) { /* between its making and its lock another's looks like one of nobody's */
        if (is_anothers(record))
            return false;
        if (clock_monotonic_us() > until_us)
            return true;
        usleep(20000);
    }
    return false;
}

static maybe_unused int count_entries(const char *path)
{
    int count = 0;
    DIR *list = opendir(path);
    for (struct dirent *entry; list && (entry = readdir(list));)
        count += entry->d_name[0] != '.';
    if (list)
        closedir(list);
    return count;
}

static maybe_unused int census_begin(void **state)
{
    (void)state;
    made_count = opened_count = 0;
    descriptors_before = open_descriptors();
    threads_before = count_entries("/proc/self/task");
    return 0;
}

/* Before the end of the test. */
static maybe_unused void close_one(struct session *session)
{
    for (int i = 0; i < opened_count; i++)
        if (opened[i] == session)
            memmove(&opened[i], &opened[i + 1], (size_t)(--opened_count - i) * sizeof *opened);
    close_session(session);
}

/* After a test: none of its processes, groups, records, threads and descriptors is left. */
static maybe_unused int census_end(void **state)
{
    (void)state;
    int left = 0;
    while (opened_count)
        close_session(opened[--opened_count]);
    int64_t until_us = clock_monotonic_us() + 3000000;
    for (int i = 0; i < made_count; i++) {
        const struct made *note = &made[i];
        if (!is_ended(note->pidfd))
            left++, print_error("a process of %s is left\n", note->record);
        close(note->pidfd);
        if (is_left(note->record, note->record, until_us))
            left++, print_error("%s is left\n", note->record);
        for (int c = 0; c < CGROUP_CONTROLLERS; c++)
            if (is_left(note->group[c], note->record, until_us))
                left++, print_error("%s is left\n", note->group[c]);
    }
    char children[64] = "";
    file_read_attribute(AT_FDCWD, "/proc/thread-self/children", children, sizeof children);
    if (children[0])
        left++, print_error("children are left: %s\n", children);
    /* A thread that was joined is in the list for a moment longer. */
    while (count_entries("/proc/self/task") != threads_before && clock_monotonic_us() < until_us)
        usleep(1000);
    if (count_entries("/proc/self/task") != threads_before)
        left++, print_error("threads are left\n");
    if (open_descriptors() != descriptors_before)
        left++, print_error("%d descriptors are left\n", open_descriptors() - descriptors_before);
    return left ? -1 : 0;
}

#define CENSUS_TEST(function) cmocka_unit_test_setup_teardown(function, census_begin, census_end)

static maybe_unused struct session *open_first(const char *const *fields,
                                               const struct context_options *wanted)
{
    need_root();
    struct session *session = open_session("container", fields, wanted);
    opened[opened_count++] = session;
    note_box(session->context);
    return session;
}

static maybe_unused int try_fork(struct session *parent, struct session **ret, struct error *err)
{
    struct session *session = calloc(1, sizeof *session);
    struct context_options options = parent->context->options;
    options.data = session;
    int status = context_fork(parent->context, &options, &session->context, err);
    if (status < 0) {
        free(session);
        return status;
    }
    opened[opened_count++] = session;
    note_box(session->context);
    *ret = session;
    return 0;
}

static maybe_unused struct session *fork_session(struct session *parent)
{
    struct session *session = NULL;
    struct error err = {0};
    if (try_fork(parent, &session, &err) < 0)
        fail_msg("fork %d: %s", made_count, err.text);
    return session;
}

static maybe_unused void close_all(struct session **sessions, size_t count)
{
    for (size_t i = 0; i < count; i++)
        close_one(sessions[i]);
}

static maybe_unused void check_cause(struct session *session, enum cause wanted)
{
    const struct result *result = context_result(session->context);
    if (session->outcome.cause != wanted)
        fail_msg("%s, not %s; signal %d, %s", cause_names[session->outcome.cause], cause_names[wanted],
                 result ? result->signal : 0, result ? result->detail : "alive");
}

/* The value of an expression, which must come to one. */
static maybe_unused const char *value_of(struct session *session, const char *expression)
{
    run(session, expression);
    if (session->outcome.status != RUNNER_STATUS_ok)
        fail_msg("%s: %s %s", expression, text(&session->error_name), text(&session->err));
    return text(&session->value);
}

#define assert_value(session, expression, wanted)                                                            \
    assert_string_equal(value_of((session), (expression)), (wanted))
