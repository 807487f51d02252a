/* The store: names, listing, removal, and what is left when a maker dies. */
#include "image_archive.h"
#include "image/store.h"

#include <signal.h>
#include <sys/wait.h>

static void small_archive(struct buffer *archive)
{
    scope_buffer layer = {0};
    tar_file(&layer, "bin/sh", 0755, "a shell");
    tar_file(&layer, "bin/plain", 0644, "not a program");
    tar_directory(&layer, "dir", 0755);
    tar_symlink(&layer, "usr/bin/relative", "../../bin/sh");
    tar_symlink(&layer, "usr/bin/absolute", "/bin/sh");
    tar_symlink(&layer, "usr/bin/climbing", "../../../../../../../../bin/sh");
    tar_symlink(&layer, "usr/bin/outside", "/bin/cat");
    tar_symlink(&layer, "usr/bin/magic", "/proc/self/exe");
    tar_symlink(&layer, "usr/bin/loop", "loop");
    tar_end(&layer);
    docker_archive(archive, &layer, 1);
}

static void import_named(struct place *place, const char *name)
{
    scope_buffer archive = {0};
    struct error err = {0};
    small_archive(&archive);
    place_write_archive(place, &archive);
    if (image_import(place->store, name, place->archive, NULL, NULL, &err) < 0)
        fail_msg("%s", err.text);
}

static void host_image_is_the_host(void **state)
{
    struct place *place = *state;
    struct image *image;
    struct error err;
    assert_int_equal(image_open(place->store, "host", &image, &err), 0);
    assert_true(image->is_host);
    assert_string_equal(image->name, "host");
    assert_string_equal(image->root, "/");
    assert_int_equal(image->environment.count, 0);
    assert_true(image_has_program(image, "/bin/sh"));
    assert_false(image_has_program(image, "/etc/passwd"));
    assert_false(image_has_program(image, "/tmp"));
    /* What a box does not show of the host is not there. */
    char hidden[128], roundabout[160];
    snprintf(hidden, sizeof hidden, "%s/program", place->directory);
    snprintf(roundabout, sizeof roundabout, "/usr/..%s", hidden);
    int fd = open(hidden, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
    assert_int_equal(fchmod(fd, 0755), 0);
    close(fd);
    assert_false(image_has_program(image, hidden));
    assert_false(image_has_program(image, roundabout));
    image_free(image);
}

static void programs_are_found_as_the_image_sees_them(void **state)
{
    struct place *place = *state;
    struct image *image;
    struct error err;
    import_named(place, "test");
    assert_int_equal(image_open(place->store, "test", &image, &err), 0);
    assert_false(image->is_host);
    assert_true(image->root[0] == '/');
    assert_true(image_has_program(image, "/bin/sh"));
    assert_true(image_has_program(image, "/usr/bin/relative"));
    assert_true(image_has_program(image, "/usr/bin/absolute"));
    assert_true(image_has_program(image, "/usr/bin/climbing"));
    assert_true(image_has_program(image, "/../bin/sh"));
    assert_false(image_has_program(image, "/usr/bin/outside")); /* the host has it, the image does not */
    assert_false(image_has_program(image, "/usr/bin/magic"));
    assert_false(image_has_program(image, "/usr/bin/loop"));
    assert_false(image_has_program(image, "/bin/plain"));
    assert_false(image_has_program(image, "/dir"));
    assert_false(image_has_program(image, "/absent"));
    assert_false(image_has_program(image, "bin/sh"));
    assert_false(image_has_program(image, ""));
    image_free(image);
}

static void unknown_image_names_those_there_are(void **state)
{
    struct place *place = *state;
    struct image *image = NULL;
    struct error err = {0};
    assert_true(image_open(place->store, "absent", &image, &err) < 0); /* there is no store yet */
    assert_int_equal(err.kind, ERROR_SPEC);
    import_named(place, "first");
    import_named(place, "second");
    assert_true(image_open(place->store, "absent", &image, &err) < 0);
    assert_null(image);
    assert_int_equal(err.kind, ERROR_SPEC);
    assert_string_equal(err.subject, "image");
    static const char *const words[] = {"\"absent\"", "host, first, second", "`cloche image build`",
                                        "`cloche image import`"};
    for (size_t i = 0; i < 4; i++)
        assert_non_null(strstr(err.text, words[i]));
}

static void names_that_are_no_names_are_refused(void **state)
{
    struct place *place = *state;
    static const char *const names[] = {"", "..", ".incoming-1", "a/b", "../canary", "a b", "-x", NULL};
    struct image *image = NULL;
    struct error err;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        err = (struct error){0};
        assert_true(image_open(place->store, names[i], &image, &err) < 0);
        assert_int_equal(err.kind, ERROR_SPEC);
        assert_true(image_import(place->store, names[i], place->canary, NULL, NULL, &err) < 0);
        assert_string_equal(err.subject, "image");
        assert_true(image_build(place->store, names[i], "bookworm", NULL, NULL, &err) < 0);
        assert_string_equal(err.subject, "image");
        assert_true(image_remove(place->store, names[i], &err) < 0);
        assert_string_equal(err.subject, "image");
    }
    assert_true(image_import(place->store, "host", place->canary, NULL, NULL, &err) < 0);
    assert_true(image_remove(place->store, "host", &err) < 0);
    assert_non_null(strstr(err.text, "host"));
    assert_int_equal(place_count(place->directory), 1); /* the canary */
}

static void packages_and_suites_that_are_options_are_refused(void **state)
{
    struct place *place = *state;
    scope_string_list packages = {0};
    struct error err = {0};
    string_list_add(&packages, "--customize-hook=touch /tmp/cloche-hostile");
    assert_true(image_build(place->store, "test", "bookworm", &packages, NULL, &err) < 0);
    assert_string_equal(err.subject, "packages");
    assert_true(image_build(place->store, "test", "--help", NULL, NULL, &err) < 0);
    assert_string_equal(err.subject, "suite");
}

static void archives_that_are_not_there_are_told(void **state)
{
    struct place *place = *state;
    struct error err = {0};
    assert_true(image_import(place->store, "test", "/not/there", NULL, NULL, &err) < 0);
    assert_int_equal(err.kind, ERROR_SPEC);
    assert_non_null(strstr(err.text, "/not/there"));
    assert_true(image_import(place->store, "test", place->directory, NULL, NULL, &err) < 0);
    assert_non_null(strstr(err.text, "directory"));
    assert_int_equal(place_count(place->directory), 1);
}

static void taken_name_is_refused_and_the_image_stays(void **state)
{
    struct place *place = *state;
    struct error err = {0};
    import_named(place, "test");
    assert_true(image_import(place->store, "test", place->archive, NULL, NULL, &err) < 0);
    assert_int_equal(err.kind, ERROR_SPEC);
    assert_string_equal(err.subject, "image");
    assert_non_null(strstr(err.text, "`cloche image remove test`"));
    assert_int_equal(place_count(place->store), 1);
    tree_check_text(place, "bin/sh", "a shell");
}

/* Two makers of one name: the first to finish wins, the other is told, and both leave the store clean. */
static void name_taken_meanwhile_is_refused(void **state)
{
    struct place *place = *state;
    struct error err = {0};
    struct incoming slow;
    assert_int_equal(incoming_begin(&slow, place->store, "test", &err), 0);
    import_named(place, "test");
    assert_int_equal(place_count(place->store), 2);
    assert_true(incoming_commit(&slow, &err) < 0);
    assert_string_equal(err.subject, "image");
    incoming_end(&slow);
    assert_int_equal(place_count(place->store), 1);
    tree_check_text(place, "bin/sh", "a shell");
}

static void list_is_sorted_and_shows_images_only(void **state)
{
    struct place *place = *state;
    struct image_summary *summaries;
    size_t count;
    struct error err;
    assert_int_equal(image_list(place->store, &summaries, &count, &err), 0); /* there is no store yet */
    assert_int_equal(count, 0);
    import_named(place, "zebra");
    import_named(place, "ant");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/not-an-image", place->store);
    assert_int_equal(mkdir(path, 0755), 0);
    assert_int_equal(image_list(place->store, &summaries, &count, &err), 0);
    assert_int_equal(count, 2);
    assert_string_equal(summaries[0].name, "ant");
    assert_string_equal(summaries[1].name, "zebra");
    assert_string_equal(summaries[0].source, "docker archive test:1");
    assert_true(summaries[0].created_s > 1500000000);
    image_summaries_free(summaries, count);
}

static void damaged_description_hides_no_image(void **state)
{
    struct place *place = *state;
    struct image_summary *summaries;
    struct image *image;
    size_t count;
    struct error err;
    import_named(place, "test");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/test/image.json", place->store);
    assert_int_equal(truncate(path, 10), 0);
    assert_int_equal(image_list(place->store, &summaries, &count, &err), 0);
    assert_int_equal(count, 1);
    assert_non_null(strstr(summaries[0].source, "damaged"));
    image_summaries_free(summaries, count);
    assert_true(image_open(place->store, "test", &image, &err) < 0);
    assert_int_equal(err.kind, ERROR_HOST);
    assert_non_null(strstr(err.text, "image.json"));
    /* Without any description it is a tree that asks for nothing. */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(image_open(place->store, "test", &image, &err), 0);
    assert_int_equal(image->environment.count, 0);
    image_free(image);
}

static void removed_image_is_gone(void **state)
{
    struct place *place = *state;
    struct error err = {0};
    assert_true(image_remove(place->store, "test", &err) < 0);
    assert_int_equal(err.kind, ERROR_SPEC);
    import_named(place, "test");
    import_named(place, "other");
    assert_int_equal(image_remove(place->store, "test", &err), 0);
    assert_int_equal(place_count(place->store), 1);
    assert_true(image_remove(place->store, "test", &err) < 0);
    assert_int_equal(err.kind, ERROR_SPEC);
    import_named(place, "test"); /* the name is free again */
}

static void list_images(const struct place *place)
{
    struct image_summary *summaries;
    size_t count;
    struct error err;
    assert_int_equal(image_list(place->store, &summaries, &count, &err), 0);
    assert_int_equal(count, 0);
    image_summaries_free(summaries, count);
}

static void living_makers_are_left_alone_and_dead_ones_swept(void **state)
{
    struct place *place = *state;
    struct error err;
    struct incoming incoming;
    assert_int_equal(incoming_begin(&incoming, place->store, "test", &err), 0);
    assert_int_equal(mkdirat(incoming.fd, "rootfs", 0755), 0);
    list_images(place);
    assert_int_equal(place_count(place->store), 1);
    scope_close_fd(&incoming.fd); /* the lock goes, as in death */
    incoming_end(&incoming);
    assert_int_equal(place_count(place->store), 1);
    list_images(place);
    assert_int_equal(place_count(place->store), 0);
}

/* A real death: the import hangs on a FIFO with half an archive in it, and is killed. */
static void killed_import_leaves_nothing_past_the_next_sweep(void **state)
{
    struct place *place = *state;
    scope_buffer archive = {0};
    struct error err;
    small_archive(&archive);
    assert_int_equal(mkfifo(place->archive, 0600), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(image_import(place->store, "test", place->archive, NULL, NULL, &err) < 0);
    scope_fd fifo = open(place->archive, O_WRONLY | O_CLOEXEC);
    assert_int_equal(file_write_all(fifo, archive.data, 2048), 0);
    for (int i = 0; i < 500 && place_count(place->store) == 0; i++)
        usleep(10000);
    assert_int_equal(place_count(place->store), 1);
    list_images(place); /* it lives */
    assert_int_equal(place_count(place->store), 1);
    kill(child, SIGKILL);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(place_count(place->store), 1);
    list_images(place);
    assert_int_equal(place_count(place->store), 0);
}

/* Also a pipe is an archive. */
static void archive_may_come_through_a_fifo(void **state)
{
    struct place *place = *state;
    scope_buffer archive = {0};
    small_archive(&archive);
    assert_int_equal(mkfifo(place->archive, 0600), 0);
    pid_t child = fork();
    if (child == 0) {
        int fd = open(place->archive, O_WRONLY | O_CLOEXEC);
        _exit(file_write_all(fd, archive.data, archive.length) < 0);
    }
    struct error err;
    assert_int_equal(image_import(place->store, "test", place->archive, NULL, NULL, &err), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    tree_check_text(place, "bin/sh", "a shell");
}

static int open_default_store_as_user(const struct place *place, const char *data_home, const char *wanted)
{
    struct error err;
    struct store store;
    if (geteuid() == 0 && (chown(place->directory, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0))
        return 2;
    setenv("HOME", place->directory, 1);
    if (data_home)
        setenv("XDG_DATA_HOME", data_home, 1);
    else
        unsetenv("XDG_DATA_HOME");
    if (store_open(&store, NULL, true, &err) < 0)
        return 3;
    int status = strcmp(store.path, wanted) == 0 ? 0 : 4;
    store_close(&store);
    return status;
}

static void default_store_follows_the_users_directories(void **state)
{
    struct place *place = *state;
    char data_home[128], wanted[2][256];
    snprintf(data_home, sizeof data_home, "%s/data", place->directory);
    snprintf(wanted[0], sizeof wanted[0], "%s/cloche/images", data_home);
    snprintf(wanted[1], sizeof wanted[1], "%s/.local/share/cloche/images", place->directory);
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(open_default_store_as_user(place, i == 0 ? data_home : NULL, wanted[i]));
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, place_setup, place_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(host_image_is_the_host),
        TEST(programs_are_found_as_the_image_sees_them),
        TEST(unknown_image_names_those_there_are),
        TEST(names_that_are_no_names_are_refused),
        TEST(packages_and_suites_that_are_options_are_refused),
        TEST(archives_that_are_not_there_are_told),
        TEST(taken_name_is_refused_and_the_image_stays),
        TEST(name_taken_meanwhile_is_refused),
        TEST(list_is_sorted_and_shows_images_only),
        TEST(damaged_description_hides_no_image),
        TEST(removed_image_is_gone),
        TEST(living_makers_are_left_alone_and_dead_ones_swept),
        TEST(killed_import_leaves_nothing_past_the_next_sweep),
        TEST(archive_may_come_through_a_fifo),
        TEST(default_store_follows_the_users_directories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
