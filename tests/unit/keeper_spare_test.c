/* What a box that waited is given: the code, at a name of its own. No box is made. */
#include "harness.h"

#include "keeper/spare.h"
#include "runtime/runner.h"
#include "names.h"

#include <limits.h>
#include <sys/socket.h>

/* Gives a spare code whose file is of that name. Its runner has gone, so nothing runs. */
static void give_code(const struct scratch *scratch, const struct language_table *languages, const char *name)
{
    struct spare *spare = spare_new(&kinds[kind_by_name("javascript")], languages);
    assert_non_null(spare);
    assert_false(spare->kind->preloads); /* else its code is written when the order is out */
    struct language row = *spare->language;
    row.file = (char *)name; /* what a spec wants is looked at once more before; a row only when it is read */
    spare->language = &row;
    struct lease *lease = &spare->lease;
    lease->box.engine = &engine_container;
    lease->box.limits = &lease->limits;
    lease->box.scratch_fd = openat(scratch->fd, "box", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    spare->link.fd = ends[0];
    close(ends[1]);
    scope_spec *spec = spec_new();
    spec->limits = lease->limits;
    spec->code_name = strdup(name);
    buffer_append_text(&spec->code, "code");
    struct policy policy = {0};
    struct supervise_io io = {0};
    struct result *result = NULL;
    struct error err = {0};
    assert_int_equal(spare_run(spare, spec, &policy, &io, -1, &result, &err), -EAGAIN);
    scope_close_fd(&lease->box.scratch_fd);
    spare_destroy(spare);
}

static void code_has_no_name_that_leads_elsewhere(void **state)
{
    const struct scratch *scratch = *state;
    struct language_table languages = {0};
    const struct string_list none = {0};
    struct error err = {0};
    assert_int_equal(language_table_load(&none, &languages, &err), 0);
    struct bad_names bad;
    bad_names_list(&bad, scratch->path);
    static const char *const directories[] = {"box", "box/code", "box/code/a"};
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++)
        assert_int_equal(mkdirat(scratch->fd, directories[i], 0755), 0);
    for (size_t i = 0; i < BAD_NAMES; i++) {
        give_code(scratch, &languages, bad.items[i]);
        static const char *const elsewhere[] = {"x", "box/x", "box/code/x", "box/code/a/b"};
        for (size_t k = 0; k < sizeof elsewhere / sizeof *elsewhere; k++)
            if (exists(scratch->fd, elsewhere[k]))
                fail_msg("code of the name '%.64s' is at %s", bad.items[i], elsewhere[k]);
    }
    give_code(scratch, &languages, "..x.js");
    assert_file_holds(scratch->fd, "box/code/..x.js", "code");
    assert_int_equal(unlinkat(scratch->fd, "box/code/..x.js", 0), 0);
    assert_int_equal(unlinkat(scratch->fd, "box/code/a", AT_REMOVEDIR), 0);
    assert_int_equal(unlinkat(scratch->fd, "box/code", AT_REMOVEDIR), 0); /* there is nothing else */
    language_table_free(&languages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {SCRATCH_TEST(code_has_no_name_that_leads_elsewhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
