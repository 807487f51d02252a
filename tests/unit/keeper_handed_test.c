/* What the server may have the keeper do with files: hand over its own, and nothing by a path. */
#include "harness.h"

#include "keeper/data_directory.h"
#include "keeper/handed.h"
#include "keeper/run_service.h"
#include "keeper/wire.h"

#include <sys/socket.h>
#include <sys/stat.h>

static int make_file(const char *directory, const char *name, char *path, size_t size)
{
    snprintf(path, size, "%s/%s", directory, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(fchown(fd, data_directory_owner(), data_directory_owner()), 0);
    return fd;
}

static void make_place(char *path, size_t size)
{
    snprintf(path, size, "/tmp/cloche-handed-XXXXXX");
    assert_non_null(mkdtemp(path));
}

static void remove_place(const char *path)
{
    assert_int_equal(file_remove_tree(AT_FDCWD, path), 0);
}

static void files_become_inputs_that_are_pinned(void **state)
{
    (void)state;
    char place[64], path[128];
    make_place(place, sizeof place);
    int fds[WIRE_DESCRIPTORS] = {[0 ... WIRE_DESCRIPTORS - 1] = -1};
    fds[5] = make_file(place, "file", path, sizeof path);
    json_t *list = json_pack("[{s:s, s:i}]", "name", "shown", "fd", 5);
    scope_spec *spec = spec_new();
    struct error err = {0};
    struct stat what;
    assert_int_equal(handed_take_inputs(list, fds, spec, &err), 0);
    assert_int_equal(fstat(fds[5], &what), 0);
    assert_int_equal(spec->grant_count, 1);
    assert_int_equal(spec->grants[0].kind, GRANT_INPUT);
    assert_string_equal(spec->grants[0].host_path, path);
    assert_string_equal(spec->grants[0].name, "shown");
    assert_true(spec->grants[0].is_pinned && spec->grants[0].inode == what.st_ino &&
                spec->grants[0].device == what.st_dev);
    json_decref(list);
    close(fds[5]);
    remove_place(place);
}

static void what_is_no_file_is_no_input(void **state)
{
    (void)state;
    char place[64], path[128];
    make_place(place, sizeof place);
    int fds[WIRE_DESCRIPTORS] = {[0 ... WIRE_DESCRIPTORS - 1] = -1};
    snprintf(path, sizeof path, "%s/removed", place);
    assert_int_equal(mkdir(path, 0700), 0);
    fds[0] = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(rmdir(path), 0);
    fds[1] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    fds[2] = make_file(place, "gone", path, sizeof path);
    unlink(path);
    static const int places[] = {0, 1, 2, 3, -1, WIRE_DESCRIPTORS, 1 << 20};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        json_t *list = json_pack("[{s:s, s:i}]", "name", "x", "fd", places[i]);
        scope_spec *spec = spec_new();
        struct error err = {0};
        assert_true(handed_take_inputs(list, fds, spec, &err) < 0);
        assert_int_equal(err.kind, ERROR_SPEC);
        json_decref(list);
    }
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    remove_place(place);
}

static void output_is_made_anew_and_never_taken_from_what_is_there(void **state)
{
    (void)state;
    char place[64], trap[128];
    struct error err = {0};
    make_place(place, sizeof place);
    int parent = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (data_directory_owner() != geteuid()) /* a directory of somebody else's, as O_PATH gives it */
        assert_true(handed_make_output(parent, &err) < 0);
    assert_int_equal(chown(place, data_directory_owner(), data_directory_owner()), 0);
    snprintf(trap, sizeof trap, "%s/files", place);
    assert_int_equal(symlink("/etc", trap), 0);
    assert_true(handed_make_output(parent, &err) < 0);
    assert_int_equal(unlink(trap), 0);
    int fd = handed_make_output(parent, &err);
    assert_true(fd >= 0);
    assert_true(handed_make_output(parent, &err) < 0);
    assert_int_equal(mkdirat(fd, "below", 0700), 0);
    assert_int_equal(handed_give_output(fd), 0);
    close(fd);
    close(parent);
    remove_place(place);
}

/* The answer to a request of the server's, which no pool is asked for. */
static void ask_inside(json_t *spec_fields, struct error *ret)
{
    int ends[2], fds[WIRE_DESCRIPTORS] = {[0 ... WIRE_DESCRIPTORS - 1] = -1};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    scope_spec *spec = spec_new();
    json_t *sent = wire_from_spec(spec), *request = json_pack("{s:o}", "spec", sent);
    json_object_update(sent, spec_fields);
    scope_buffer code = {0}, body = {0};
    assert_int_equal(run_answer(&(struct run_order){
                         .fd = ends[0], .is_inside = true, .request = request, .code = &code, .fds = fds}),
                     0);
    json_t *answer = NULL;
    assert_int_equal(wire_receive(ends[1], &answer, &body, NULL), 0);
    wire_to_error(json_object_get(answer, "error"), ret);
    assert_non_null(json_object_get(answer, "error"));
    json_decref(answer);
    json_decref(request);
    json_decref(spec_fields);
    close(ends[0]);
    close(ends[1]);
}

static int take_one(int fd, const char *name)
{
    int fds[WIRE_DESCRIPTORS] = {[0 ... WIRE_DESCRIPTORS - 1] = -1};
    fds[0] = fd;
    json_t *list = json_pack("[{s:s, s:i}]", "name", name, "fd", 0);
    scope_spec *spec = spec_new();
    struct error err = {0};
    int status = handed_take_inputs(list, fds, spec, &err);
    json_decref(list);
    return status;
}

/* A box may read an input whatever its mode. */
static void input_is_what_the_server_can_read_itself(void **state)
{
    (void)state;
    char place[64], path[128];
    make_place(place, sizeof place);
    scope_fd own = make_file(place, "own", path, sizeof path);
    assert_int_equal(take_one(own, "name"), 0);
    scope_fd unread = open(path, O_PATH | O_CLOEXEC), written = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(take_one(unread, "name") < 0);
    assert_true(take_one(written, "name") < 0);
    scope_fd foreign = make_file(place, "foreign", path, sizeof path);
    if (geteuid() == 0) {
        assert_int_equal(fchown(foreign, 12345, 12345), 0);
        assert_true(take_one(foreign, "name") < 0);
    }
    snprintf(path, sizeof path, "%s/directory", place);
    assert_int_equal(mkdir(path, 0700), 0);
    scope_fd directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (geteuid() == 0) {
        assert_int_equal(fchown(directory, 12345, 12345), 0);
        assert_true(take_one(directory, "name") < 0);
    }
    assert_int_equal(fchown(directory, data_directory_owner(), data_directory_owner()), 0);
    assert_int_equal(take_one(directory, "name"), 0);
    scope_fd unread_directory = open(path, O_PATH | O_CLOEXEC);
    assert_true(take_one(unread_directory, "name") < 0);
    remove_place(place);
}

static void name_of_an_input_leads_nowhere(void **state)
{
    (void)state;
    char place[64], path[128], longer[300];
    make_place(place, sizeof place);
    scope_fd own = make_file(place, "own", path, sizeof path);
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    const char *const names[] = {"", ".", "..", "a/b", "/", "../x", longer};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_true(take_one(own, names[i]) < 0);
    remove_place(place);
}

/* The keeper writes the code to a file of that name. */
static void name_of_the_code_leads_nowhere(void **state)
{
    (void)state;
    static const char *const names[] = {"/tmp/x.py", "../x.py", "/../x.py", "a/b.py", "..", ".", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct error err = {0};
        ask_inside(json_pack("{s:s, s:b}", "code_name", names[i], "code", true), &err);
        assert_int_equal(err.kind, ERROR_SPEC);
        assert_string_equal(err.subject, "name");
    }
}

static void nothing_but_tools_of_the_server_goes_unvetted(void **state)
{
    (void)state;
    struct error err = {0};
    ask_inside(json_pack("{s:b, s:b}", "ours", true, "code", true), &err);
    assert_int_equal(err.kind, ERROR_SPEC);
    assert_string_equal(err.subject, "vet");
    ask_inside(json_pack("{s:b, s:[s]}", "ours", true, "command", "/bin/sh"), &err);
    assert_string_equal(err.subject, "vet");
    ask_inside(json_pack("{s:b, s:[s], s:[s]}", "ours", true, "command", "/bin/true", "arguments", "x"),
               &err);
    assert_string_equal(err.subject, "vet");
}

static void limits_are_not_waived_for_the_server(void **state)
{
    (void)state;
    struct error err = {0};
    ask_inside(json_pack("{s:[s]}", "accepted", "memory"), &err);
    assert_int_equal(err.kind, ERROR_SPEC);
    assert_string_equal(err.subject, "accept");
}

static void paths_are_refused_from_the_server(void **state)
{
    (void)state;
    struct error err = {0};
    ask_inside(
        json_pack("{s:[{s:i, s:s, s:s}]}", "grants", "kind", GRANT_INPUT, "path", "/etc/shadow", "name", "x"),
        &err);
    assert_int_equal(err.kind, ERROR_SPEC);
    assert_non_null(strstr(err.text, "cannot be granted"));
    ask_inside(json_pack("{s:[{s:i, s:s}]}", "grants", "kind", GRANT_WRITE, "path", "/etc"), &err);
    assert_int_equal(err.kind, ERROR_SPEC);
    ask_inside(json_pack("{s:s}", "output", "/etc/cron.d"), &err);
    assert_int_equal(err.kind, ERROR_SPEC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_become_inputs_that_are_pinned),
        cmocka_unit_test(what_is_no_file_is_no_input),
        cmocka_unit_test(output_is_made_anew_and_never_taken_from_what_is_there),
        cmocka_unit_test(input_is_what_the_server_can_read_itself),
        cmocka_unit_test(name_of_an_input_leads_nowhere),
        cmocka_unit_test(name_of_the_code_leads_nowhere),
        cmocka_unit_test(nothing_but_tools_of_the_server_goes_unvetted),
        cmocka_unit_test(limits_are_not_waived_for_the_server),
        cmocka_unit_test(paths_are_refused_from_the_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
