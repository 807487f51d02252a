/* Routes: which one a path means, and what its parts are. */
#include "harness.h"

#include "base/identifier.h"
#include "server/route.h"

static int nothing(struct exchange *exchange)
{
    (void)exchange;
    return 0;
}

static const struct route rows[] = {
    {"GET", "/", nothing, 0, ""},
    {"GET", "/a", nothing, 0, ""},
    {"POST", "/a", nothing, 0, ""},
    {"GET", "/a/{x}", nothing, 0, ""},
    {"DELETE", "/a/{x}/b/{y}", nothing, 0, ""},
    {"GET", "/rest/{x}/{path...}", nothing, 0, ""},
};

static const struct route_family family = ROUTE_FAMILY(rows);
const struct route_family *const route_families[] = {&family, NULL};

/* The pattern and the parts, or the methods that are allowed, as one text. */
static void expect(const char *method, const char *path, const char *expected)
{
    char *parts[ROUTE_PARTS_MAX] = {0};
    char allowed[128], seen[512];
    const struct route *route = route_find(method, path, parts, allowed, sizeof allowed);
    int length = snprintf(seen, sizeof seen, "%s", route ? route->pattern : allowed);
    for (int i = 0; i < ROUTE_PARTS_MAX; i++) {
        if (route && parts[i])
            length += snprintf(seen + length, sizeof seen - (size_t)length, " %s", parts[i]);
        assert_true(route || !parts[i]);
        free(parts[i]);
    }
    assert_string_equal(seen, expected);
}

static void paths_find_their_route_and_parts(void **state)
{
    (void)state;
    expect("GET", "/", "/");
    expect("HEAD", "/a", "/a");
    expect("POST", "/a", "/a");
    expect("GET", "/a/1", "/a/{x} 1");
    expect("GET", "/a/%41%2f%c3%a4", "/a/{x} A/ä");
    expect("DELETE", "/a/1/b/2", "/a/{x}/b/{y} 1 2");
    expect("GET", "/rest/1/x/y%20z/", "/rest/{x}/{path...} 1 x/y z/");
}

static void other_paths_and_methods_find_none(void **state)
{
    (void)state;
    expect("PUT", "/a", "GET, HEAD, POST");
    expect("GET", "/a/1/b/2", "DELETE");
    static const char *const wrong[] = {"",        "//",       "/a/",    "/b",    "/a/1/",  "/a//b/2",
                                        "/rest/1", "/rest/1/", "/a/%00", "/a/%4", "/a/%zz", "/a/%"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect("GET", wrong[i], "");
}

static void identifiers_have_one_form_and_never_repeat(void **state)
{
    (void)state;
    char one[IDENTIFIER_SIZE], other[IDENTIFIER_SIZE];
    identifier_make("run_", one);
    identifier_make("run_", other);
    assert_int_equal(strlen(one), 26);
    assert_string_not_equal(one, other);
    assert_true(identifier_has_form(one, "run_"));
    assert_false(identifier_has_form(one, "sbx_"));
    assert_false(identifier_has_form("run_../../../../etc/passwd", "run_"));
    assert_false(identifier_has_form("run_", "run_"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_find_their_route_and_parts),
        cmocka_unit_test(other_paths_and_methods_find_none),
        cmocka_unit_test(identifiers_have_one_form_and_never_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
