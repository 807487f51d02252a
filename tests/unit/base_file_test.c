/* Small files, and trees that go away whoever made them. */
#define SCRATCH_ROOT "/dev/shm"
#include "harness.h"

#include <poll.h>
#include <sched.h>
#include <sys/mount.h>

static void all_is_written_across_short_writes(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20 };
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t reader = fork();
    if (reader == 0) {
        close(ends[1]);
        char chunk[777];
        size_t seen = 0;
        for (ssize_t length; (length = read(ends[0], chunk, sizeof chunk)) > 0;)
            for (ssize_t i = 0; i < length; i++)
                must(chunk[i] == (char)(seen++ % 251));
        must(seen == SIZE);
        _exit(0);
    }
    close(ends[0]);
    scope_free char *data = malloc(SIZE);
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (char)(i % 251);
    assert_int_equal(file_write_all(ends[1], data, SIZE), 0);
    close(ends[1]);
    int status;
    assert_int_equal(waitpid(reader, &status, 0), reader);
    assert_int_equal(status, 0);
}

static void write_that_fails_is_told(void **state)
{
    struct scratch *scratch = *state;
    write_text(scratch->fd, "file", "");
    scope_fd fd = openat(scratch->fd, "file", O_RDONLY | O_CLOEXEC);
    assert_int_equal(file_write_all(fd, "x", 1), -EBADF);
    assert_int_equal(file_write_all(fd, "x", 0), 0);
}

static void attribute_is_written_and_read(void **state)
{
    struct scratch *scratch = *state;
    char text[8];
    write_text(scratch->fd, "attribute", "former value");
    assert_int_equal(file_write_attribute(scratch->fd, "attribute", "12"), 0);
    assert_int_equal(file_read_attribute(scratch->fd, "attribute", text, sizeof text), 7);
    assert_string_equal(text, "12rmer "); /* one write at the start, one read of what fits */
    assert_int_equal(file_read_attribute(scratch->fd, "absent", text, sizeof text), -ENOENT);
    assert_int_equal(file_write_attribute(scratch->fd, "absent", "1"), -ENOENT);
    assert_false(exists(scratch->fd, "absent"));
}

static void attribute_is_not_written_through_a_link(void **state)
{
    struct scratch *scratch = *state;
    write_text(scratch->fd, "target", "kept");
    assert_int_equal(symlinkat("target", scratch->fd, "link"), 0);
    assert_int_equal(file_write_attribute(scratch->fd, "link", "lost"), -ELOOP);
    assert_file_holds(scratch->fd, "target", "kept");
}

static void whole_file_is_read_up_to_its_limit(void **state)
{
    struct scratch *scratch = *state;
    static char bytes[40000];
    memset(bytes, 'x', sizeof bytes);
    bytes[17] = '\0';
    write_bytes(scratch->fd, "file", bytes, sizeof bytes);
    scope_buffer whole = {0}, over = {0}, empty = {0}, absent = {0};
    assert_int_equal(file_read_whole(scratch->fd, "file", sizeof bytes, &whole), 0);
    assert_int_equal(whole.length, sizeof bytes);
    assert_memory_equal(whole.data, bytes, sizeof bytes);
    assert_int_equal(file_read_whole(scratch->fd, "file", sizeof bytes - 1, &over), -EFBIG);
    assert_true(over.length < sizeof bytes);
    write_text(scratch->fd, "empty", "");
    assert_int_equal(file_read_whole(scratch->fd, "empty", 0, &empty), 0);
    assert_string_equal(empty.data, "");
    assert_int_equal(file_read_whole(scratch->fd, "absent", 10, &absent), -ENOENT);
    assert_int_equal(file_read_whole(AT_FDCWD, scratch->path, 10, &absent), -EISDIR);
}

static void directories_are_made_with_those_above(void **state)
{
    struct scratch *scratch = *state;
    assert_int_equal(file_make_directories(scratch_path(scratch, "a/b//c/"), 0755), 0);
    assert_true(exists(scratch->fd, "a/b/c"));
    assert_int_equal(file_make_directories(scratch_path(scratch, "a/b"), 0755), 0);
    write_text(scratch->fd, "file", "x");
    assert_int_equal(file_make_directories(scratch_path(scratch, "file"), 0755), -ENOTDIR);
    assert_int_equal(file_make_directories(scratch_path(scratch, "file/below"), 0755), -ENOTDIR);
    assert_true(file_make_directories("", 0755) < 0);
    static char longer[5000];
    memset(longer, 'x', sizeof longer - 1);
    assert_int_equal(file_make_directories(longer, 0755), -ENAMETOOLONG);
}

/* ---- removal ---- */

static void make_deep(int dir_fd, const char *name, int depth, unsigned mode)
{
    int fds[2] = {dir_fd, -1};
    for (int i = 0; i < depth; i++) {
        must(mkdirat(fds[0], name, 0755) == 0);
        fds[1] = openat(fds[0], name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        must(fds[1] >= 0);
        if (i > 1) /* the level above is complete now; the top is left to the caller */
            must(fchmod(fds[0], mode) == 0);
        if (i > 0)
            close(fds[0]);
        fds[0] = fds[1];
        name = "d";
    }
    close(fds[0]);
}

static void parent_of_a_foreign_path_is_below(void **state)
{
    struct scratch *scratch = *state;
    const char *name = NULL;
    scope_fd parent = file_open_parent(scratch->fd, "a/b/c", 0755, &name);
    assert_true(parent >= 0 && exists(scratch->fd, "a/b") && !exists(scratch->fd, "a/b/c"));
    assert_string_equal(name, "c");
    write_text(parent, "c", "x");
    assert_true(exists(scratch->fd, "a/b/c"));
    scope_fd top = file_open_parent(scratch->fd, "...", 0755, &name); /* a name as any other */
    assert_true(top >= 0);
    static const char *const wrong[] = {"",   "/",    "/x",   "x/",     "x//y", ".",
                                        "..", "../x", "x/..", "x/../y", "./x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(file_open_parent(scratch->fd, wrong[i], 0755, &name), -EINVAL);
    assert_int_equal(symlinkat("/tmp", scratch->fd, "link"), 0);
    assert_int_equal(symlinkat("a", scratch->fd, "inward"), 0);
    assert_int_equal(file_open_parent(scratch->fd, "link/x", 0755, &name), -ENOTDIR);
    assert_int_equal(file_open_parent(scratch->fd, "inward/x", 0755, &name), -ENOTDIR);
    assert_int_equal(file_open_parent(scratch->fd, "a/b/c/x", 0755, &name), -ENOTDIR);
}

static void absent_tree_is_removed_already(void **state)
{
    struct scratch *scratch = *state;
    assert_int_equal(file_remove_tree(scratch->fd, "absent"), 0);
    assert_int_equal(file_remove_tree(scratch->fd, "absent/below"), 0);
}

static void tree_is_removed_with_all_kinds_of_entries(void **state)
{
    struct scratch *scratch = *state;
    assert_int_equal(file_make_directories(scratch_path(scratch, "tree/a/b"), 0755), 0);
    write_text(scratch->fd, "tree/file", "x");
    write_text(scratch->fd, "tree/a/ \n\xff", "x");
    assert_int_equal(mkfifoat(scratch->fd, "tree/a/fifo", 0600), 0);
    assert_int_equal(symlinkat("/", scratch->fd, "tree/a/b/link"), 0);
    assert_int_equal(symlinkat("nowhere", scratch->fd, "tree/a/b/dangling"), 0);
    assert_int_equal(file_remove_tree(scratch->fd, "tree"), 0);
    assert_false(exists(scratch->fd, "tree"));
    write_text(scratch->fd, "file", "x");
    assert_int_equal(file_remove_tree(scratch->fd, "file"), 0);
    assert_false(exists(scratch->fd, "file"));
}

static void removal_follows_no_link(void **state)
{
    struct scratch *scratch = *state;
    assert_int_equal(file_make_directories(scratch_path(scratch, "precious"), 0755), 0);
    write_text(scratch->fd, "precious/file", "kept");
    assert_int_equal(mkdirat(scratch->fd, "tree", 0755), 0);
    assert_int_equal(symlinkat("../precious", scratch->fd, "tree/link"), 0);
    assert_int_equal(file_remove_tree(scratch->fd, "tree"), 0);
    assert_int_equal(symlinkat("precious", scratch->fd, "link"), 0);
    assert_int_equal(file_remove_tree(scratch->fd, "link"), 0);
    assert_false(exists(scratch->fd, "link"));
    assert_file_holds(scratch->fd, "precious/file", "kept");
}

static void deep_tree_body(void *data)
{
    struct scratch *scratch = data;
    make_deep(scratch->fd, "deep", 5000, 0755);
    int before = open_descriptors();
    must(file_remove_tree(scratch->fd, "deep") == 0);
    must(open_descriptors() == before);
    must(!exists(scratch->fd, "deep"));
}

static void tree_deeper_than_any_path_is_removed(void **state)
{
    in_child(deep_tree_body, *state);
}

static void closed_directories_body(void *data)
{
    struct scratch *scratch = data;
    become_some_user();
    must(mkdirat(scratch->fd, "tree", 0755) == 0);
    must(mkdirat(scratch->fd, "tree/closed", 0755) == 0);
    must(mkdirat(scratch->fd, "tree/closed/below", 0755) == 0);
    must(mkdirat(scratch->fd, "tree/read-only", 0755) == 0);
    must(mkdirat(scratch->fd, "tree/read-only/below", 0755) == 0);
    must(fchmodat(scratch->fd, "tree/closed/below", 0, 0) == 0);
    must(fchmodat(scratch->fd, "tree/closed", 0, 0) == 0);
    must(fchmodat(scratch->fd, "tree/read-only", 0500, 0) == 0);
    must(file_remove_tree(scratch->fd, "tree") == 0);
    must(!exists(scratch->fd, "tree"));
}

static void user_removes_directories_that_were_closed_to_him(void **state)
{
    in_child(closed_directories_body, *state);
}

static void deep_and_closed_body(void *data)
{
    struct scratch *scratch = data;
    become_some_user();
    make_deep(scratch->fd, "deep", 450, 0500);
    must(file_remove_tree(scratch->fd, "deep") == 0);
    must(!exists(scratch->fd, "deep"));
}

static void user_removes_deep_directories_that_were_made_read_only(void **state)
{
    in_child(deep_and_closed_body, *state);
}

static void closed_top_body(void *data)
{
    struct scratch *scratch = data;
    become_some_user();
    for (unsigned mode = 0; mode <= 0700; mode += 0100) {
        must(mkdirat(scratch->fd, "tree", 0755) == 0 && mkdirat(scratch->fd, "tree/below", 0755) == 0);
        must(fchmodat(scratch->fd, "tree", mode, 0) == 0);
        must(file_remove_tree(scratch->fd, "tree") == 0);
        must(!exists(scratch->fd, "tree"));
    }
}

static void user_removes_a_tree_that_is_closed_itself(void **state)
{
    in_child(closed_top_body, *state);
}

/* Our own names for what is moved up are no secret: a guest may have taken them. */
static void taken_names_body(void *data)
{
    struct scratch *scratch = data;
    /* A tmpfs lists the newest first: the deep one is met while the other is still there. */
    char top[] = "/dev/shm/cloche-unit-XXXXXX", name[96];
    must(mkdtemp(top));
    int top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(mkdirat(top_fd, "tree", 0755) == 0);
    int tree_fd = openat(top_fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, ".cloche-deep-%d-%d", (int)getpid(), i);
        must(mkdirat(tree_fd, name, 0755) == 0);
        strcat(name, "/occupied");
        must(mkdirat(tree_fd, name, 0755) == 0);
    }
    make_deep(tree_fd, "zz-deep", 450, 0755);
    int removed = file_remove_tree(top_fd, "tree");
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", top);
    must(system(command) == 0);
    (void)scratch;
    must(removed == 0);
}

static void deep_tree_is_removed_although_our_names_are_taken(void **state)
{
    in_child(taken_names_body, *state);
}

static void other_mount_body(void *data)
{
    struct scratch *scratch = data;
    must(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    must(file_make_directories(scratch_path(scratch, "tree/mounted"), 0755) == 0);
    must(mount("tmpfs", scratch_path(scratch, "tree/mounted"), "tmpfs", 0, NULL) == 0);
    scope_fd top = open(scratch->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* of this namespace */
    scope_fd fd = openat(top, "tree/mounted/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    must(fd >= 0);
    must(file_remove_tree(top, "tree") == -EXDEV);
    must(exists(top, "tree/mounted/file"));
}

static void removal_stops_at_another_mount(void **state)
{
    need_root();
    in_child(other_mount_body, *state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(all_is_written_across_short_writes),
        SCRATCH_TEST(write_that_fails_is_told),
        SCRATCH_TEST(attribute_is_written_and_read),
        SCRATCH_TEST(attribute_is_not_written_through_a_link),
        SCRATCH_TEST(whole_file_is_read_up_to_its_limit),
        SCRATCH_TEST(directories_are_made_with_those_above),
        SCRATCH_TEST(parent_of_a_foreign_path_is_below),
        SCRATCH_TEST(absent_tree_is_removed_already),
        SCRATCH_TEST(tree_is_removed_with_all_kinds_of_entries),
        SCRATCH_TEST(removal_follows_no_link),
        SCRATCH_TEST(tree_deeper_than_any_path_is_removed),
        SCRATCH_TEST(user_removes_directories_that_were_closed_to_him),
        SCRATCH_TEST(user_removes_deep_directories_that_were_made_read_only),
        SCRATCH_TEST(user_removes_a_tree_that_is_closed_itself),
        SCRATCH_TEST(deep_tree_is_removed_although_our_names_are_taken),
        SCRATCH_TEST(removal_stops_at_another_mount),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
