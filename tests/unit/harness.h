/* What the unit tests share: a directory of their own, children that check for themselves, skips that say
 * why. */
#pragma once

#include "base/error.h"
#include "base/file.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define maybe_unused __attribute__((unused))

/* ---- children ---- */

/* A cmocka assertion that fails in a child would go on with the group's other tests there. */
#define must(condition)                                                                                      \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: does not hold in the child: %s (errno: %s)\n", __FILE__, __LINE__,       \
                    #condition, strerror(errno));                                                            \
            _exit(1);                                                                                        \
        }                                                                                                    \
    } while (0)

/* Runs `body` in a child and returns its wait status; a body that returns has done well. */
static maybe_unused int child_run(void (*body)(void *data), void *data)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        body(data);
        _exit(0);
    }
    int status = -1;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static maybe_unused void in_child(void (*body)(void *data), void *data)
{
    assert_int_equal(child_run(body, data), 0);
}

/* ---- skips ---- */

/* In CI nothing is quietly left out. */
static maybe_unused void skip_because(const char *reason)
{
    const char *must_work = getenv("MUST_WORK");
    if (must_work && strcmp(must_work, "1") == 0)
        fail_msg("skipped although MUST_WORK=1: %s", reason);
    print_message("skipped: %s\n", reason);
    skip();
}

static maybe_unused void need_root(void)
{
    if (geteuid() != 0)
        skip_because("needs root");
}

/* An ordinary user that owns nothing on this machine; in a child of root's, for good. */
enum { SOME_USER = 64999 };

static maybe_unused void become_some_user(void)
{
    if (geteuid() == 0)
        must(setresgid(SOME_USER, SOME_USER, SOME_USER) == 0 &&
             setresuid(SOME_USER, SOME_USER, SOME_USER) == 0);
}

/* ---- a directory of one's own ---- */

/* A test that makes thousands of files says /dev/shm before it includes this. */
#ifndef SCRATCH_ROOT
#define SCRATCH_ROOT "/tmp"
#endif

struct scratch {
    char path[64];
    int fd;
};

static maybe_unused int scratch_setup(void **state)
{
    struct scratch *scratch = calloc(1, sizeof *scratch);
    assert_non_null(scratch);
    bool has_root = access(SCRATCH_ROOT, W_OK) == 0;
    snprintf(scratch->path, sizeof scratch->path, "%s/cloche-unit-XXXXXX", has_root ? SCRATCH_ROOT : "/tmp");
    assert_non_null(mkdtemp(scratch->path));
    assert_int_equal(chmod(scratch->path, 0777), 0); /* children as other users work in it too */
    scratch->fd = open(scratch->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(scratch->fd >= 0);
    *state = scratch;
    return 0;
}

static maybe_unused int scratch_teardown(void **state)
{
    struct scratch *scratch = *state;
    close(scratch->fd);
    /* Not with the code under test. */
    char command[256];
    snprintf(command, sizeof command, "chmod -R u+rwX %s 2>/dev/null; rm -rf %s", scratch->path,
             scratch->path);
    int status = system(command);
    free(scratch);
    return status;
}

#define SCRATCH_TEST(function) cmocka_unit_test_setup_teardown(function, scratch_setup, scratch_teardown)

/* The path of a name in it; good until the next call but three. */
static maybe_unused const char *scratch_path(const struct scratch *scratch, const char *name)
{
    static char paths[4][4096];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", scratch->path, name);
    return path;
}

static maybe_unused void write_bytes(int dir_fd, const char *name, const void *data, size_t length)
{
    scope_fd fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, data, length) != (ssize_t)length)
        fail_msg("cannot write %s: %s", name, strerror(errno));
}

static maybe_unused void write_text(int dir_fd, const char *name, const char *text)
{
    write_bytes(dir_fd, name, text, strlen(text));
}

static maybe_unused void assert_file_holds(int dir_fd, const char *name, const char *text)
{
    char found[4096] = "";
    scope_fd fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, found, sizeof found - 1) < 0)
        fail_msg("cannot read %s: %s", name, strerror(errno));
    assert_string_equal(found, text);
}

static maybe_unused bool exists(int dir_fd, const char *name)
{
    return faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* ---- errors ---- */

/* A refusal of that kind, about that subject, whose text has the words in it (up to a NULL). */
static maybe_unused void check_error(const struct error *err, enum error_kind kind, const char *subject,
                                     const char *const *words)
{
    if (err->kind != kind || strcmp(err->subject, subject) != 0)
        fail_msg("expected %s about '%s', not %s about '%s': %s", error_kind_name(kind), subject,
                 error_kind_name(err->kind), err->subject, err->text);
    assert_true(err->code < 0);
    for (; *words; words++)
        if (!strstr(err->text, *words))
            fail_msg("'%s' is not in: %s", *words, err->text);
}

#define assert_error(err, kind, subject, ...)                                                                \
    check_error((err), (kind), (subject), (const char *const[]){__VA_ARGS__, NULL})

/* ---- descriptors ---- */

static maybe_unused int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}
