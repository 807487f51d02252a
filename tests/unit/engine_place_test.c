/* What goes into the private directory of a box without namespaces: inputs that are what was granted,
 * whatever is put at their paths meanwhile, and code at a name of its own. No box is made. */
#include "harness.h"

#include "engine/process/place.h"

#include <dirent.h>
#include <sys/syscall.h>

/* ---- the world changes behind the back of the code under test ---- */

/* Called when a path has been looked at so many times. */
static struct {
    const char *path;
    int looks;
    void (*change)(const struct scratch *scratch);
    const struct scratch *scratch;
} meanwhile;

/* In place of the C library's. The type is that of both, with 64 bits. */
int stat64(const char *restrict path, struct stat64 *restrict into)
{
    int status = (int)syscall(SYS_newfstatat, AT_FDCWD, path, into, 0), error = errno;
    if (meanwhile.path && strcmp(path, meanwhile.path) == 0 && --meanwhile.looks == 0) {
        meanwhile.path = NULL;
        meanwhile.change(meanwhile.scratch);
    }
    errno = error;
    return status;
}

/* ---- a box that has its directory ---- */

enum { UID_OF_BOX = 64998 };

struct world {
    struct scratch *scratch;
    struct box box;
    struct box_identity identity;
    struct program program;
    struct spec spec;
};

/* granted/way/file is what a box gets, host/ what it must not. */
static int world_setup(void **state)
{
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    void *scratch;
    scratch_setup(&scratch);
    world->scratch = scratch;
    int fd = world->scratch->fd;
    static const char *const directories[] = {"box",         "box/input",        "box/code",
                                              "box/code/a",  "granted",          "host",
                                              "granted/way", "granted/way/tree", "host/tree"};
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++)
        assert_int_equal(mkdirat(fd, directories[i], 0755), 0);
    write_text(fd, "granted/way/file", "granted");
    write_text(fd, "granted/way/tree/inside", "granted");
    write_text(fd, "host/file", "secret");
    write_text(fd, "host/tree/inside", "secret");
    box_init(&world->box);
    world->box.engine = &engine_process;
    world->box.identity = &world->identity;
    world->box.spec = &world->spec;
    world->box.program = &world->program;
    world->identity.has_uid = true;
    world->identity.uid = UID_OF_BOX;
    snprintf(world->identity.directory, sizeof world->identity.directory, "%s/box", world->scratch->path);
    world->box.scratch_fd = openat(fd, "box", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(world->box.scratch_fd >= 0);
    *state = world;
    return 0;
}

static int world_teardown(void **state)
{
    struct world *world = *state;
    void *scratch = world->scratch;
    meanwhile.path = NULL;
    scope_close_fd(&world->box.scratch_fd);
    free(world->spec.grants[0].host_path);
    free(world->spec.grants[0].name);
    free(world);
    return scratch_teardown(&scratch);
}

#define WORLD_TEST(function) cmocka_unit_test_setup_teardown(function, world_setup, world_teardown)

/* As keeper/handed.c pins what a server hands over. */
static void grant(struct world *world, const char *name, bool is_pinned)
{
    struct stat what;
    assert_int_equal(fstatat(world->scratch->fd, name, &what, AT_SYMLINK_NOFOLLOW), 0);
    world->spec.grant_count = 1;
    world->spec.grants[0] = (struct grant){.kind = GRANT_INPUT,
                                           .host_path = strdup(scratch_path(world->scratch, name)),
                                           .name = strdup("shown"),
                                           .is_pinned = is_pinned,
                                           .device = is_pinned ? what.st_dev : 0,
                                           .inode = is_pinned ? what.st_ino : 0};
}

static int entries_of(int dir_fd, const char *name)
{
    int count = 0;
    DIR *list = fdopendir(openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    assert_non_null(list);
    while (readdir(list))
        count++;
    closedir(list);
    return count - 2;
}

/* Nothing of the host's has come in: no byte, no link. An empty place for it may have been made. */
static void assert_nothing_came_in(const struct world *world)
{
    struct stat shown;
    if (fstatat(world->box.scratch_fd, "input/shown", &shown, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    assert_false(S_ISLNK(shown.st_mode));
    if (S_ISREG(shown.st_mode))
        assert_int_equal(shown.st_size, 0);
    else
        assert_int_equal(entries_of(world->box.scratch_fd, "input/shown"), 0);
}

static void assert_refused(struct world *world, const char *why)
{
    struct error err = {0};
    alarm(20); /* a pipe that is opened for reading would wait for ever */
    int status = place_show_inputs(&world->box, &err);
    alarm(0);
    if (status >= 0)
        fail_msg("%s: it was given to the box", why);
    if (world->spec.grants[0].is_pinned && strstr(err.text, world->scratch->path))
        fail_msg("%s: a server's client learns where its file is: %s", why, err.text);
    assert_nothing_came_in(world);
}

/* ---- changes ---- */

static void replace(const struct scratch *scratch, const char *name)
{
    assert_int_equal(renameat(scratch->fd, name, scratch->fd, "moved"), 0);
}

static void put_a_link(const struct scratch *scratch)
{
    replace(scratch, "granted/way/file");
    assert_int_equal(symlinkat("../../host/file", scratch->fd, "granted/way/file"), 0);
}

static void put_a_link_on_the_way(const struct scratch *scratch)
{
    replace(scratch, "granted/way");
    assert_int_equal(symlinkat("../host", scratch->fd, "granted/way"), 0);
}

static void put_a_pipe(const struct scratch *scratch)
{
    replace(scratch, "granted/way/file");
    assert_int_equal(mkfifoat(scratch->fd, "granted/way/file", 0666), 0);
}

static void put_another(const struct scratch *scratch)
{
    replace(scratch, "granted/way/file");
    assert_int_equal(linkat(scratch->fd, "host/file", scratch->fd, "granted/way/file", 0), 0);
}

static void put_another_on_the_way(const struct scratch *scratch)
{
    replace(scratch, "granted/way");
    assert_int_equal(renameat(scratch->fd, "host", scratch->fd, "granted/way"), 0);
}

static void put_a_tree(const struct scratch *scratch)
{
    replace(scratch, "granted/way/file");
    assert_int_equal(renameat(scratch->fd, "host/tree", scratch->fd, "granted/way/file"), 0);
}

static void put_a_tree_by_a_link(const struct scratch *scratch)
{
    replace(scratch, "granted/way/tree");
    assert_int_equal(symlinkat("../../host/tree", scratch->fd, "granted/way/tree"), 0);
}

static void put_another_tree(const struct scratch *scratch)
{
    replace(scratch, "granted/way/tree");
    assert_int_equal(renameat(scratch->fd, "host/tree", scratch->fd, "granted/way/tree"), 0);
}

static void put_a_pipe_for_a_tree(const struct scratch *scratch)
{
    replace(scratch, "granted/way/tree");
    assert_int_equal(mkfifoat(scratch->fd, "granted/way/tree", 0666), 0);
}

static void put_it_back(const struct scratch *scratch)
{
    assert_int_equal(renameat(scratch->fd, "moved", scratch->fd, "granted/way/file"), 0);
}

static void remove_it(const struct scratch *scratch)
{
    replace(scratch, "granted/way/file");
}

static const struct change {
    const char *why, *input;
    void (*change)(const struct scratch *scratch);
    bool is_for_pinned; /* the caller's own path may have another plain file by now: it is the caller's */
} changes[] = {
    {"a link", "granted/way/file", put_a_link, false},
    {"a link on the way", "granted/way/file", put_a_link_on_the_way, false},
    {"a pipe", "granted/way/file", put_a_pipe, false},
    {"a directory", "granted/way/file", put_a_tree, false},
    {"nothing", "granted/way/file", remove_it, false},
    {"another file", "granted/way/file", put_another, true},
    {"another directory on the way", "granted/way/file", put_another_on_the_way, true},
    {"a link for a directory", "granted/way/tree", put_a_tree_by_a_link, true},
    {"a link on the way to a directory", "granted/way/tree", put_a_link_on_the_way, true},
    {"another directory", "granted/way/tree", put_another_tree, true},
    {"a pipe for a directory", "granted/way/tree", put_a_pipe_for_a_tree, true},
};
enum { CHANGES = sizeof changes / sizeof *changes };

static void each_change(bool is_pinned, int looks)
{
    for (size_t i = 0; i < CHANGES; i++) {
        if (changes[i].is_for_pinned && !is_pinned)
            continue;
        void *state;
        world_setup(&state);
        struct world *world = state;
        grant(world, changes[i].input, is_pinned);
        meanwhile.scratch = world->scratch;
        meanwhile.change = changes[i].change;
        meanwhile.looks = looks;
        meanwhile.path = looks ? world->spec.grants[0].host_path : NULL;
        if (!looks)
            changes[i].change(world->scratch);
        assert_refused(world, changes[i].why);
        assert_int_equal(meanwhile.looks, 0); /* it was changed when this says */
        world_teardown(&state);
    }
}

static void what_is_put_there_after_the_look_is_not_given(void **state)
{
    (void)state;
    each_change(false, 1);
}

static void what_is_put_there_after_the_look_is_not_what_was_pinned(void **state)
{
    (void)state;
    each_change(true, 1);
}

static void what_is_put_there_before_is_not_what_was_pinned(void **state)
{
    (void)state;
    each_change(true, 0);
}

/* It is pinned, but who holds the link could lead the next look elsewhere. */
static void no_link_leads_to_what_was_pinned(void **state)
{
    struct world *world = *state;
    grant(world, "granted/way/file", true);
    replace(world->scratch, "granted/way/file");
    assert_int_equal(symlinkat("../../moved", world->scratch->fd, "granted/way/file"), 0);
    assert_refused(world, "a link to it");
}

/* Only for the look it is something that would be linked to. */
static void what_is_put_back_after_the_look_is_not_linked_to(void **state)
{
    struct world *world = *state;
    grant(world, "granted/way/file", true);
    put_a_pipe(world->scratch);
    meanwhile.scratch = world->scratch;
    meanwhile.change = put_it_back;
    meanwhile.looks = 1;
    meanwhile.path = world->spec.grants[0].host_path;
    assert_refused(world, "what it was");
    assert_int_equal(meanwhile.looks, 0);
}

static int give_own_directory(struct box_identity *identity, struct error *err)
{
    (void)err;
    identity->directory_fd = open(identity->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return identity->directory_fd < 0 ? -errno : 0;
}

/* A caller who is not root has no other uids: inputs are linked to. Returns what place_furnish does. */
static int furnish_as_caller(struct world *world, struct error *err)
{
    struct place_rules none = PLACE_RULES_UNSET;
    assert_int_equal(mkdirat(world->scratch->fd, "own", 0755), 0);
    world->identity.has_uid = false;
    world->identity.make_directory = give_own_directory;
    snprintf(world->identity.directory, sizeof world->identity.directory, "%s/own", world->scratch->path);
    scope_close_fd(&world->box.scratch_fd);
    int status = place_furnish(&world->box, &none, err);
    close(world->identity.directory_fd);
    return status;
}

static void caller_gets_a_link_to_what_was_pinned(void **state)
{
    struct world *world = *state;
    struct error err = {0};
    grant(world, "granted/way/file", true);
    if (furnish_as_caller(world, &err) < 0)
        fail_msg("%s", err.text);
    assert_file_holds(world->box.scratch_fd, "input/shown", "granted");
}

static void caller_gets_no_link_to_anything_else(void **state)
{
    struct world *world = *state;
    struct error err = {0};
    grant(world, "granted/way/file", true);
    put_another(world->scratch);
    assert_true(furnish_as_caller(world, &err) < 0);
    assert_false(exists(world->box.scratch_fd, "input/shown"));
}

static void what_stays_is_given(void **state)
{
    struct world *world = *state;
    struct error err = {0};
    for (int is_pinned = 0; is_pinned < 2; is_pinned++) {
        grant(world, "granted/way/file", is_pinned);
        if (place_show_inputs(&world->box, &err) < 0)
            fail_msg("%s", err.text);
        assert_file_holds(world->box.scratch_fd, "input/shown", "granted");
        assert_int_equal(unlinkat(world->box.scratch_fd, "input/shown", 0), 0);
        free(world->spec.grants[0].host_path);
        free(world->spec.grants[0].name);
    }
    grant(world, "granted/way/tree", true);
    if (place_show_inputs(&world->box, &err) < 0)
        fail_msg("%s", err.text);
    assert_file_holds(world->box.scratch_fd, "input/shown/inside", "granted");
}

/* ---- the name of the code ---- */

static int write_code_as(struct world *world, const char *name)
{
    struct error err = {0};
    world->program.code_name = strdup(name);
    world->program.code = (struct slice){"code", 4};
    int status = place_write_code(&world->box, &err);
    free(world->program.code_name);
    world->program.code_name = NULL;
    return status;
}

static void code_has_no_name_that_leads_elsewhere(void **state)
{
    struct world *world = *state;
    char too_long[NAME_MAX + 2], absolute[128];
    memset(too_long, 'x', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = '\0';
    snprintf(absolute, sizeof absolute, "%s/x", world->scratch->path);
    const char *const names[] = {"../x", "../../x", absolute, "a/b", "a/../x", "./x",
                                 "/",    "",        ".",      "..",  too_long};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (write_code_as(world, names[i]) != -EINVAL)
            fail_msg("'%.64s' was taken as the name of code", names[i]);
    assert_false(exists(world->scratch->fd, "x") || exists(world->box.scratch_fd, "x"));
    assert_int_equal(entries_of(world->box.scratch_fd, "code"), 1);
    assert_int_equal(entries_of(world->box.scratch_fd, "code/a"), 0);
    assert_int_equal(write_code_as(world, "..x.py"), 0);
    assert_file_holds(world->box.scratch_fd, "code/..x.py", "code");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD_TEST(what_stays_is_given),
        cmocka_unit_test(what_is_put_there_after_the_look_is_not_given),
        cmocka_unit_test(what_is_put_there_after_the_look_is_not_what_was_pinned),
        cmocka_unit_test(what_is_put_there_before_is_not_what_was_pinned),
        WORLD_TEST(no_link_leads_to_what_was_pinned),
        WORLD_TEST(what_is_put_back_after_the_look_is_not_linked_to),
        WORLD_TEST(caller_gets_a_link_to_what_was_pinned),
        WORLD_TEST(caller_gets_no_link_to_anything_else),
        WORLD_TEST(code_has_no_name_that_leads_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
