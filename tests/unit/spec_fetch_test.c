/* Rules of what may be fetched from where. */
#include "harness.h"

#include "spec/fetch.h"

static struct fetch_rule read_rule(const char *text)
{
    struct fetch_rule rule;
    const char *fault = fetch_rule_read(text, &rule);
    if (fault)
        fail_msg("'%s' %s", text, fault);
    return rule;
}

static void rules_are_read_and_written(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"a.test", "a.test"},
        {"A.Test.:8080", "a.test:8080"},
        {"*.a.test", "*.a.test"},
        {"*.A.test:1=10.0.0.1", "*.a.test:1=10.0.0.1"},
        {"xn--bcher-kva.test", "xn--bcher-kva.test"},
        {"127.0.0.1:80", "127.0.0.1:80"},
        {"[::1]", "[::1]"},
        {"[2001:DB8::7]:443", "[2001:db8::7]:443"},
        {"a.test=fd00::7", "a.test=fd00::7"},
        {"localhost", "localhost"},
        {"a.test:https", "a.test:https"},
        {"*.a.test:http=10.0.0.1", "*.a.test:http=10.0.0.1"},
        {"[::1]:https", "[::1]:https"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fetch_rule rule = read_rule(rows[i][0]);
        char text[FETCH_RULE_SIZE];
        fetch_rule_write(&rule, text);
        assert_string_equal(text, rows[i][1]);
    }
}

static void what_is_shown_does_not_say_where_it_is(void **state)
{
    (void)state;
    struct fetch_rule rule = read_rule("a.test:8080=10.0.0.1");
    char text[FETCH_RULE_SIZE];
    fetch_rule_show(&rule, text);
    assert_string_equal(text, "a.test:8080");
}

static void other_texts_are_no_rules(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        ".",
        "a..b",
        "*",
        "*.",
        "*.test",
        "**.a.test",
        "a.*.test",
        "a.test:",
        "a:0",
        "a:65536",
        "a:1:2",
        "a:1x",
        "a:ftp",
        "a:HTTPS",
        "a:https:443",
        "a b",
        "a/b",
        "a@b",
        "a%41",
        "a=",
        "a=b",
        "a=1.2.3",
        "1",
        "1.2",
        "1.2.3.04",
        "0x7f.0.0.1",
        "1.2.3.4.",
        "256.1.1.1",
        "[::1",
        "::1",
        "[]",
        "[::1]x",
        "[1.2.3.4]",
        "[0::1]",
        "[::FFFF:1.2.3.256]",
        "1.2.3.4=5.6.7.8",
        "[::1%lo]",
        "a.test\n",
        "\xc3\xa4.test",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct fetch_rule rule;
        if (!fetch_rule_read(texts[i], &rule))
            fail_msg("'%s' was taken for a rule", texts[i]);
    }
    char too_long[FETCH_RULE_SIZE * 2];
    memset(too_long, 'a', sizeof too_long);
    too_long[sizeof too_long - 1] = '\0';
    struct fetch_rule rule;
    assert_non_null(fetch_rule_read(too_long, &rule));
}

static void longest_names_are_names(void **state)
{
    (void)state;
    char name[256], into[FETCH_HOST_SIZE];
    enum fetch_host_kind kind;
    memset(name, 'a', sizeof name);
    for (size_t i = 49; i < 253; i += 50)
        name[i] = '.';
    assert_null(fetch_host_read((struct slice){name, 253}, into, &kind));
    assert_non_null(fetch_host_read((struct slice){name, 254}, into, &kind));
    name[253] = '.';
    assert_null(fetch_host_read((struct slice){name, 254}, into, &kind));
    assert_int_equal(strlen(into), 253);
}

static int validate(const char *hosts, const char *asked, bool is_callers, char *into, struct error *err)
{
    struct fetch_policy policy;
    struct string_list rules = {0};
    fetch_policy_init(&policy);
    policy.is_callers = is_callers;
    *err = (struct error){0};
    if (hosts)
        assert_int_equal(fetch_policy_set(&policy, "fetch.hosts", hosts, err), 1);
    assert_int_equal(string_list_add(&rules, asked), 0);
    int status = fetch_rules_validate(&rules, &policy, "cloche.conf", err);
    snprintf(into, FETCH_RULE_SIZE, "%s", rules.items[0]);
    string_list_free(&rules);
    fetch_policy_free(&policy);
    return status;
}

static void operators_rule_says_where_a_name_is(void **state)
{
    (void)state;
    struct error err;
    char text[FETCH_RULE_SIZE];
    assert_int_equal(validate("*.a.test=10.0.0.1", "X.a.test", false, text, &err), 0);
    assert_string_equal(text, "x.a.test=10.0.0.1");
    assert_int_equal(validate("*.a.test=10.0.0.1", text, false, text, &err), 0); /* once more is the same */
    assert_string_equal(text, "x.a.test=10.0.0.1");
    assert_true(validate("a.test", "a.test=10.0.0.1", false, text, &err) < 0);
    assert_true(validate("a.test=10.0.0.2", "a.test=10.0.0.1", false, text, &err) < 0);
    assert_null(strstr(err.text, "10.0.0.2")); /* which is nobody's business */
}

static void rules_are_of_ports_and_schemes(void **state)
{
    (void)state;
    static const struct {
        const char *rule;
        int port;
        bool is_usual, fits;
    } rows[] = {
        {"a.test", 80, true, true},          {"a.test", 443, true, true},
        {"a.test", 443, false, false},       {"a.test", 8080, false, false},
        {"a.test:443", 443, true, true},     {"a.test:443", 443, false, true},
        {"a.test:443", 80, true, false},     {"a.test:https", 443, true, true},
        {"a.test:https", 443, false, false}, {"a.test:https", 80, true, false},
        {"a.test:http", 80, true, true},     {"a.test:http", 80, false, false},
        {"a.test:8080", 8080, false, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fetch_rule rule = read_rule(rows[i].rule);
        if (fetch_rule_fits(&rule, "a.test", FETCH_NAME, rows[i].port, rows[i].is_usual) != rows[i].fits)
            fail_msg("row %zu: %s", i, rows[i].rule);
    }
}

static void narrower_rule_keeps_the_scheme_of_the_operators(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        {"a.test", "a.test", "a.test"},
        {"a.test", "a.test:443", "a.test:https"},
        {"a.test", "a.test:80", "a.test:http"},
        {"a.test", "a.test:https", "a.test:https"},
        {"*.a.test=10.0.0.1", "x.a.test:443", "x.a.test:https=10.0.0.1"},
        {"a.test:443", "a.test:443", "a.test:443"},
        {"a.test:443", "a.test:https", "a.test:https"},
        {"a.test:https", "a.test:443", "a.test:https"},
        {"a.test:https", "a.test:https", "a.test:https"},
        {"a.test:8443", "a.test:8443", "a.test:8443"},
        {"a.test", "a.test:8443", NULL},
        {"a.test:https", "a.test", NULL},
        {"a.test:https", "a.test:http", NULL},
        {"a.test:https", "a.test:80", NULL},
        {"a.test:443", "a.test", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error err;
        char text[FETCH_RULE_SIZE];
        int status = validate(rows[i][0], rows[i][1], false, text, &err);
        if (!rows[i][2] ? status == 0 : status < 0 || strcmp(text, rows[i][2]) != 0)
            fail_msg("%s within %s is %s", rows[i][1], rows[i][0], status < 0 ? "refused" : text);
    }
}

static void without_a_list_only_who_is_the_operator_is_allowed_anything(void **state)
{
    (void)state;
    struct error err;
    char text[FETCH_RULE_SIZE];
    assert_true(validate(NULL, "a.test", false, text, &err) < 0);
    assert_non_null(strstr(err.text, "none"));
    assert_int_equal(validate(NULL, "a.test=127.0.0.1", true, text, &err), 0);
    assert_true(validate("b.test", "a.test", true, text, &err) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_are_read_and_written),
        cmocka_unit_test(what_is_shown_does_not_say_where_it_is),
        cmocka_unit_test(other_texts_are_no_rules),
        cmocka_unit_test(longest_names_are_names),
        cmocka_unit_test(operators_rule_says_where_a_name_is),
        cmocka_unit_test(rules_are_of_ports_and_schemes),
        cmocka_unit_test(narrower_rule_keeps_the_scheme_of_the_operators),
        cmocka_unit_test(without_a_list_only_who_is_the_operator_is_allowed_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
