/* Mounts, in a mount namespace of the test's own. */
#include "harness.h"

#include "os/mount.h"

#include <dirent.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

/* A private place to mount in: a tmpfs of this namespace on the scratch directory. */
static void enter(const struct scratch *scratch)
{
    must(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    must(mount("tmpfs", scratch->path, "tmpfs", 0, "mode=0755") == 0);
    must(chdir(scratch->path) == 0);
}

static void make_file(const char *name, const char *text)
{
    scope_fd fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static unsigned long flags_of(const char *path)
{
    struct statvfs status;
    must(statvfs(path, &status) == 0);
    return status.f_flag & (ST_RDONLY | ST_NOSUID | ST_NODEV | ST_NOEXEC);
}

static bool can_write(const char *path)
{
    scope_fd fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    must(fd >= 0 || errno == EROFS);
    return fd >= 0;
}

static const struct {
    unsigned flag;
    unsigned long seen;
} flag_rows[] = {{MOUNT_READ_ONLY, ST_RDONLY},
                 {MOUNT_NO_SUID, ST_NOSUID},
                 {MOUNT_NO_DEVICES, ST_NODEV},
                 {MOUNT_NO_EXEC, ST_NOEXEC}};

static void flags_body(void *data)
{
    enter(data);
    must(mkdir("from", 0755) == 0 && mkdir("to", 0755) == 0 && mkdir("new", 0755) == 0);
    for (unsigned flags = 0; flags < 16; flags++) {
        unsigned long wanted = 0;
        for (size_t i = 0; i < sizeof flag_rows / sizeof *flag_rows; i++)
            wanted |= flags & flag_rows[i].flag ? flag_rows[i].seen : 0;
        must(mount_bind(AT_FDCWD, "from", AT_FDCWD, "to", flags) == 0);
        must(flags_of("to") == wanted && flags_of("from") == 0);
        must(umount2("to", MNT_DETACH) == 0);
        must(mount_new("tmpfs", "new", flags, "size=64k,mode=0700") == 0);
        must(flags_of("new") == wanted);
        must(umount2("new", MNT_DETACH) == 0);
        must(mount_bind(AT_FDCWD, "from", AT_FDCWD, "to", 0) == 0 &&
             mount_restrict(AT_FDCWD, "to", flags) == 0);
        must(flags_of("to") == wanted);
        must(umount2("to", MNT_DETACH) == 0);
    }
}

static void every_flag_arrives_by_every_way(void **state)
{
    need_root();
    in_child(flags_body, *state);
}

static void read_only_body(void *data)
{
    enter(data);
    must(mkdir("from", 0755) == 0 && mkdir("to", 0755) == 0);
    make_file("from/file", "x");
    must(mount_bind(AT_FDCWD, "from", AT_FDCWD, "to", MOUNT_READ_ONLY) == 0);
    must(!can_write("to/file") && !can_write("to/new"));
    must(can_write("from/file") && can_write("from/new"));
    must(access("to/new", F_OK) == 0); /* the same directory, seen through two mounts */
}

static void read_only_holds_for_the_copy_alone(void **state)
{
    need_root();
    in_child(read_only_body, *state);
}

static void recursive_body(void *data)
{
    enter(data);
    must(mkdir("from", 0755) == 0 && mkdir("to", 0755) == 0 && mkdir("from/below", 0755) == 0);
    must(mount("tmpfs", "from/below", "tmpfs", 0, NULL) == 0);
    make_file("from/below/file", "x");
    must(mount_bind(AT_FDCWD, "from", AT_FDCWD, "to", MOUNT_READ_ONLY | MOUNT_NO_SUID | MOUNT_RECURSIVE) ==
         0);
    must(!can_write("to/new") && !can_write("to/below/file"));
    must(flags_of("to/below") == (ST_RDONLY | ST_NOSUID));
    must(can_write("from/below/file"));
    must(umount2("to", MNT_DETACH) == 0);
    must(mount_bind(AT_FDCWD, "from", AT_FDCWD, "to", MOUNT_READ_ONLY) == 0);
    must(access("to/below/file", F_OK) < 0); /* what is mounted below does not come along */
}

static void flags_hold_for_what_is_mounted_below(void **state)
{
    need_root();
    in_child(recursive_body, *state);
}

static void link_body(void *data)
{
    enter(data);
    must(mkdir("secret", 0755) == 0 && mkdir("to", 0755) == 0 && mkdir("from", 0755) == 0);
    make_file("secret/file", "secret");
    make_file("from/harmless", "x");
    must(symlink("secret", "from-link") == 0 && symlink("secret", "to-link") == 0);
    if (mount_bind(AT_FDCWD, "from-link", AT_FDCWD, "to", 0) == 0)
        must(access("to/file", F_OK) < 0);
    (void)!mount_bind(AT_FDCWD, "from", AT_FDCWD, "to-link", 0);
    must(access("secret/file", F_OK) == 0 && access("secret/harmless", F_OK) < 0);
}

static void links_at_either_end_are_not_followed(void **state)
{
    need_root();
    in_child(link_body, *state);
}

static void descriptor_body(void *data)
{
    enter(data);
    must(mkdir("from", 0755) == 0 && mkdir("to", 0755) == 0);
    make_file("from/file", "x");
    make_file("one", "the file");
    make_file("cover", "covered");
    scope_fd from = open("from", O_PATH | O_DIRECTORY | O_CLOEXEC),
             to = open("to", O_PATH | O_DIRECTORY | O_CLOEXEC);
    scope_fd tree = mount_clone_tree(from, "", MOUNT_READ_ONLY, -1);
    must(tree >= 0 && (fcntl(tree, F_GETFD) & FD_CLOEXEC));
    must(mount_attach(tree, to, "") == 0);
    must(access("to/file", F_OK) == 0 && !can_write("to/file"));
    must(mount_bind(AT_FDCWD, "one", AT_FDCWD, "cover", MOUNT_READ_ONLY) == 0);
    char text[16] = "";
    scope_fd covered = open("cover", O_RDONLY | O_CLOEXEC);
    must(read(covered, text, sizeof text - 1) == 8 && strcmp(text, "the file") == 0);
    must(!can_write("cover"));
    must(mount_cover("/dev/null", "one") == 0);
    struct stat status;
    must(stat("one", &status) == 0 && S_ISCHR(status.st_mode));
}

static void files_and_descriptors_can_be_mounted(void **state)
{
    need_root();
    in_child(descriptor_body, *state);
}

static void failure_body(void *data)
{
    enter(data);
    int before = open_descriptors();
    must(mkdir("to", 0755) == 0);
    must(mount_clone_tree(AT_FDCWD, "absent", 0, -1) == -ENOENT);
    must(mount_bind(AT_FDCWD, "absent", AT_FDCWD, "to", 0) == -ENOENT);
    must(mount_bind(AT_FDCWD, "to", AT_FDCWD, "absent", 0) == -ENOENT);
    must(mount_new("no-such-type", "to", 0, NULL) == -ENODEV);
    must(mount_restrict(AT_FDCWD, "to", MOUNT_READ_ONLY) < 0); /* not a mount */
    must(mount_cover("/dev/null", "to") < 0);
    must(open_descriptors() == before);
}

static void failures_are_told_and_leave_nothing(void **state)
{
    need_root();
    in_child(failure_body, *state);
}

static int say_seven(void)
{
    return 7;
}

static void pivot_body(void *data)
{
    enter(data);
    must(mkdir("root", 0755) == 0 && mount_new("tmpfs", "root", 0, NULL) == 0);
    must(mkdir("root/old", 0755) == 0);
    make_file("root/new-root", "x");
    int status;
    must(mount_pivot("root", "old", say_seven, NULL) == 0);
    must(waitpid(-1, &status, 0) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    must(access("/new-root", F_OK) == 0);
    must(access("/proc", F_OK) < 0 && access("/usr", F_OK) < 0 && access("/../usr", F_OK) < 0);
    struct dirent *entry;
    DIR *old = opendir("/old");
    while (old && (entry = readdir(old)))
        must(entry->d_name[0] == '.');
    char here[64];
    must(old && getcwd(here, sizeof here) && strcmp(here, "/") == 0);
}

static void pivot_leaves_nothing_of_the_old_root(void **state)
{
    need_root();
    in_child(pivot_body, *state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRATCH_TEST(every_flag_arrives_by_every_way),
        SCRATCH_TEST(read_only_holds_for_the_copy_alone),
        SCRATCH_TEST(flags_hold_for_what_is_mounted_below),
        SCRATCH_TEST(links_at_either_end_are_not_followed),
        SCRATCH_TEST(files_and_descriptors_can_be_mounted),
        SCRATCH_TEST(failures_are_told_and_leave_nothing),
        SCRATCH_TEST(pivot_leaves_nothing_of_the_old_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
