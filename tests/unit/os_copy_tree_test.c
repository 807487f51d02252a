/* Copies of a guest's files: what comes along, what does not, and what a hostile tree can do. */
#define SCRATCH_ROOT "/dev/shm"
#include "harness.h"

#include "os/copy_tree.h"

#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

struct sides {
    int from, to;
};

static struct sides make_sides(const struct scratch *scratch)
{
    assert_int_equal(mkdirat(scratch->fd, "from", 0755), 0);
    assert_int_equal(mkdirat(scratch->fd, "to", 0755), 0);
    struct sides sides = {openat(scratch->fd, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC),
                          openat(scratch->fd, "to", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    assert_true(sides.from >= 0 && sides.to >= 0);
    return sides;
}

static int copy(const struct sides *sides)
{
    return copy_tree(sides->from, sides->to, geteuid(), getegid());
}

static void close_sides(struct sides *sides)
{
    close(sides->from);
    close(sides->to);
}

static struct stat look_at(int dir_fd, const char *name)
{
    struct stat status;
    if (fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        fail_msg("%s: %s", name, strerror(errno));
    return status;
}

static void contents_modes_and_times_come_along(void **state)
{
    struct sides sides = make_sides(*state);
    static const struct {
        const char *name;
        mode_t mode, copied;
    } files[] = {{"plain", 0644, 0644}, {"secret", 0600, 0600},  {"program", 0755, 0755},
                 {"none", 0000, 0000},  {"set-id", 06755, 0755}, {"sticky", 01777, 01777}};
    const struct timespec times[] = {{1000000000, 5}, {1100000000, 123456789}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        write_text(sides.from, files[i].name, files[i].name);
        assert_int_equal(fchmodat(sides.from, files[i].name, files[i].mode, 0), 0);
        assert_int_equal(utimensat(sides.from, files[i].name, times, 0), 0);
    }
    assert_int_equal(mkdirat(sides.from, "d", 0700), 0);
    assert_int_equal(mkdirat(sides.from, "d/empty", 0711), 0);
    write_text(sides.from, "d/f", "");
    assert_int_equal(fchmodat(sides.from, "d", 0500, 0), 0);
    assert_int_equal(utimensat(sides.from, "d", times, 0), 0);
    assert_int_equal(copy(&sides), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct stat copied = look_at(sides.to, files[i].name);
        assert_int_equal(copied.st_mode, S_IFREG | files[i].copied);
        assert_int_equal(copied.st_mtim.tv_sec, 1100000000);
        assert_int_equal(copied.st_mtim.tv_nsec, 123456789);
        if (geteuid() == 0 || (files[i].mode & 0400))
            assert_file_holds(sides.to, files[i].name, files[i].name);
    }
    assert_int_equal(look_at(sides.to, "d").st_mode, S_IFDIR | 0500);
    assert_int_equal(look_at(sides.to, "d").st_mtim.tv_sec, 1100000000); /* after what was put into it */
    assert_int_equal(look_at(sides.to, "d/empty").st_mode, S_IFDIR | 0711);
    assert_int_equal(look_at(sides.to, "d/f").st_size, 0);
    close_sides(&sides);
}

static void copies_belong_to_whom_they_are_for(void **state)
{
    need_root();
    struct sides sides = make_sides(*state);
    write_text(sides.from, "f", "x");
    assert_int_equal(mkdirat(sides.from, "d", 0755), 0);
    assert_int_equal(symlinkat("f", sides.from, "l"), 0);
    assert_int_equal(mkfifoat(sides.from, "p", 0640), 0);
    assert_int_equal(copy_tree(sides.from, sides.to, SOME_USER, SOME_USER + 1), 0);
    static const char *const names[] = {"f", "d", "l", "p"};
    for (size_t i = 0; i < 4; i++) {
        struct stat status = look_at(sides.to, names[i]);
        assert_int_equal(status.st_uid, SOME_USER);
        assert_int_equal(status.st_gid, SOME_USER + 1);
    }
    close_sides(&sides);
}

static void links_are_copied_and_never_followed(void **state)
{
    struct scratch *scratch = *state;
    struct sides sides = make_sides(scratch);
    write_text(scratch->fd, "canary", "alive");
    static const char *const targets[] = {"../canary", "/etc/passwd", "/", "loop", "no such place", "."};
    char name[16], target[64];
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        snprintf(name, sizeof name, i == 3 ? "loop" : "l%zu", i);
        assert_int_equal(symlinkat(targets[i], sides.from, name), 0);
    }
    assert_int_equal(copy(&sides), 0);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        snprintf(name, sizeof name, i == 3 ? "loop" : "l%zu", i);
        ssize_t length = readlinkat(sides.to, name, target, sizeof target - 1);
        assert_true(length > 0);
        target[length] = '\0';
        assert_string_equal(target, targets[i]);
    }
    assert_file_holds(scratch->fd, "canary", "alive");
    close_sides(&sides);
}

static void link_in_the_place_of_a_copy_is_not_followed(void **state)
{
    struct scratch *scratch = *state;
    struct sides sides = make_sides(scratch);
    write_text(scratch->fd, "canary", "alive");
    assert_int_equal(mkdirat(scratch->fd, "elsewhere", 0755), 0);
    write_text(sides.from, "f", "overwritten");
    assert_int_equal(symlinkat("../canary", sides.to, "f"), 0);
    assert_int_equal(copy(&sides), -EEXIST);
    assert_file_holds(scratch->fd, "canary", "alive");
    assert_int_equal(unlinkat(sides.from, "f", 0), 0);
    assert_int_equal(mkdirat(sides.from, "d", 0755), 0);
    write_text(sides.from, "d/f", "x");
    assert_int_equal(symlinkat("../elsewhere", sides.to, "d"), 0);
    assert_int_equal(copy(&sides), -EEXIST);
    assert_false(exists(scratch->fd, "elsewhere/f"));
    close_sides(&sides);
}

static void pipes_are_made_anew_and_sockets_left_out(void **state)
{
    struct scratch *scratch = *state;
    struct sides sides = make_sides(scratch);
    assert_int_equal(mkfifoat(sides.from, "pipe", 0600), 0);
    assert_int_equal(fchmodat(sides.from, "pipe", 0620, 0), 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s/from/socket", scratch->path);
    scope_fd listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    mode_t before = umask(0); /* as where it is called */
    assert_int_equal(copy(&sides), 0);
    umask(before);
    assert_int_equal(look_at(sides.to, "pipe").st_mode, S_IFIFO | 0620);
    assert_false(exists(sides.to, "socket"));
    close_sides(&sides);
}

static void any_name_comes_along(void **state)
{
    struct sides sides = make_sides(*state);
    char longest[256];
    memset(longest, 'x', 255);
    longest[255] = '\0';
    const char *const names[] = {"a\nb", " ", "-rf", "...", "\xff\xfe", "\x1b[31m", "a\\b", longest};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        write_text(sides.from, names[i], "named");
    assert_int_equal(copy(&sides), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_file_holds(sides.to, names[i], "named");
    close_sides(&sides);
}

static void many_entries_come_along(void **state)
{
    enum { COUNT = 3000 }; /* more than one block of a directory */
    struct sides sides = make_sides(*state);
    char name[32];
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "entry-%d", i);
        write_text(sides.from, name, name);
    }
    assert_int_equal(copy(&sides), 0);
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "entry-%d", i);
        assert_file_holds(sides.to, name, name);
    }
    close_sides(&sides);
}

static void nest(int fd, int depth)
{
    int at = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    for (int i = 0; i < depth; i++) {
        assert_int_equal(mkdirat(at, "d", 0755), 0);
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        close(at);
        at = next;
    }
    write_text(at, "bottom", "deep");
    close(at);
}

static void deep_trees_are_copied_and_deeper_ones_refused(void **state)
{
    struct sides sides = make_sides(*state);
    int descriptors = open_descriptors();
    nest(sides.from, 200);
    assert_int_equal(copy(&sides), 0);
    char path[512] = "";
    for (int i = 0; i < 200; i++)
        strcat(path, "d/");
    strcat(path, "bottom");
    assert_file_holds(sides.to, path, "deep");
    assert_int_equal(mkdirat(sides.from, "e", 0755), 0);
    scope_fd deeper = openat(sides.from, "e", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    nest(deeper, 200);
    scope_fd other = -1;
    assert_int_equal(mkdirat(sides.to, "again", 0755), 0);
    other = openat(sides.to, "again", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(copy_tree(sides.from, other, geteuid(), getegid()), -ELOOP);
    assert_int_equal(open_descriptors(), descriptors + 2);
    close_sides(&sides);
}

static void holes_stay_holes(void **state)
{
    struct sides sides = make_sides(*state);
    const off_t size = (off_t)1 << 40;
    scope_fd from = openat(sides.from, "sparse", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(pwrite(from, "begin", 5, 0), 5);
    assert_int_equal(pwrite(from, "middle", 6, (off_t)1 << 30), 6);
    assert_int_equal(ftruncate(from, size), 0);
    write_text(sides.from, "empty", "");
    scope_fd hole = openat(sides.from, "hole", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(hole, 5000000), 0);
    assert_int_equal(copy(&sides), 0);
    struct stat copied = look_at(sides.to, "sparse");
    assert_true(copied.st_size == size && copied.st_blocks < 1000);
    scope_fd to = openat(sides.to, "sparse", O_RDONLY | O_CLOEXEC);
    char bytes[8] = "";
    assert_int_equal(pread(to, bytes, 5, 0), 5);
    assert_string_equal(bytes, "begin");
    assert_int_equal(pread(to, bytes, 6, (off_t)1 << 30), 6);
    assert_memory_equal(bytes, "middle", 6);
    assert_int_equal(pread(to, bytes, 1, (off_t)1 << 35), 1);
    assert_int_equal(bytes[0], 0);
    assert_int_equal(look_at(sides.to, "hole").st_size, 5000000);
    assert_int_equal(look_at(sides.to, "hole").st_blocks, 0);
    close_sides(&sides);
}

static void large_contents_are_whole(void **state)
{
    enum { SIZE = (20 << 20) + 4321 };
    struct sides sides = make_sides(*state);
    unsigned *data = malloc(SIZE + 4);
    assert_non_null(data);
    for (unsigned i = 0; i < SIZE / 4 + 1; i++)
        data[i] = i * 2654435761u;
    write_bytes(sides.from, "large", data, SIZE);
    assert_int_equal(copy(&sides), 0);
    char *copied = malloc(SIZE);
    scope_fd to = openat(sides.to, "large", O_RDONLY | O_CLOEXEC);
    assert_int_equal(look_at(sides.to, "large").st_size, SIZE);
    assert_int_equal(read(to, copied, SIZE), SIZE);
    assert_memory_equal(copied, data, SIZE);
    free(copied);
    free(data);
    close_sides(&sides);
}

static void empty_tree_is_copied(void **state)
{
    struct sides sides = make_sides(*state);
    assert_int_equal(copy(&sides), 0);
    close_sides(&sides);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(contents_modes_and_times_come_along),
        SCRATCH_TEST(copies_belong_to_whom_they_are_for),
        SCRATCH_TEST(links_are_copied_and_never_followed),
        SCRATCH_TEST(link_in_the_place_of_a_copy_is_not_followed),
        SCRATCH_TEST(pipes_are_made_anew_and_sockets_left_out),
        SCRATCH_TEST(any_name_comes_along),
        SCRATCH_TEST(many_entries_come_along),
        SCRATCH_TEST(deep_trees_are_copied_and_deeper_ones_refused),
        SCRATCH_TEST(holes_stay_holes),
        SCRATCH_TEST(large_contents_are_whole),
        SCRATCH_TEST(empty_tree_is_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
