/* What goes into the root of a box: the code, at a name of its own. Nothing is mounted. */
#include "harness.h"

#include "engine/furnish.h"
#include "names.h"

#include <limits.h>

/* In a child: names are relative to the working directory, which is the new root. */
static void write_code_by_each_name(void *data)
{
    const struct scratch *scratch = data;
    struct bad_names bad;
    bad_names_list(&bad, scratch->path);
    umask(0);
    must(chdir(scratch->path) == 0 && mkdir("root", 0755) == 0 && chdir("root") == 0);
    must(mkdir("code", 0755) == 0 && mkdir("code/a", 0755) == 0);
    for (size_t i = 0; i < BAD_NAMES; i++) {
        const struct program program = {.code_name = (char *)bad.items[i], .code = {"code", 4}};
        if (furnish_code(&program, "code") != -EINVAL) {
            fprintf(stderr, "'%.64s' was taken as the name of code\n", bad.items[i]);
            _exit(1);
        }
    }
    must(!exists(AT_FDCWD, "x") && !exists(AT_FDCWD, "../x") && !exists(AT_FDCWD, "code/x"));
    must(rmdir("code/a") == 0 && rmdir("code") == 0 && mkdir("code", 0755) == 0); /* they are empty */
    const struct program good = {.code_name = (char *)"..x.py", .code = {"code", 4}};
    must(furnish_code(&good, "code") == 0 && access("code/..x.py", R_OK) == 0);
}

static void code_has_no_name_that_leads_elsewhere(void **state)
{
    in_child(write_code_by_each_name, *state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {SCRATCH_TEST(code_has_no_name_that_leads_elsewhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
