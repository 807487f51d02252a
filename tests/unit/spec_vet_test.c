/* Reports of a vetter, which are a guest's words, and the operator's lists. */
#include "harness.h"

#include "spec/spec.h"
#include "spec/vet.h"

#include <jansson.h>

#define LISTS   "\"imports\":[\"os\"],\"missing\":[],\"network\":[],\"processes\":[],\"files\":[]"
#define FACTS   "\"facts\":{" LISTS ",\"pure\":false}"
#define FINDING "{\"line\":3,\"column\":5,\"rule\":\"call\",\"message\":\"m\",\"advice\":\"a\"}"

static json_t *read_text(const char *text)
{
    return vet_report_read(VET_block, (struct slice){text, strlen(text)});
}

static void report_is_taken_value_by_value(void **state)
{
    (void)state;
    json_t *report = read_text("{\"findings\":[" FINDING "]," FACTS ",\"more\":7,\"mode\":\"off\",\"x\":1}");
    assert_non_null(report);
    assert_int_equal(vet_report_mode(report), VET_block); /* not what the guest says */
    assert_int_equal(vet_report_count(report), 1);
    struct vet_finding finding = vet_report_finding(report, 0);
    assert_true(finding.line == 3 && finding.column == 5);
    assert_string_equal(finding.rule, "call");
    assert_int_equal(vet_report_more(report), 7);
    assert_null(json_object_get(report, "x"));
    assert_true(vet_report_blocks(report));
    json_decref(report);
}

static void what_code_needs_is_taken_where_it_is_said(void **state)
{
    (void)state;
    json_t *report = read_text("{\"findings\":[],\"facts\":{" LISTS ",\"pure\":true,\"beyond\":[\"Buf\\u001b"
                               "fer\"],\"computes\":\"a loop\"}}");
    const json_t *facts = json_object_get(report, "facts");
    assert_string_equal(json_string_value(json_array_get(json_object_get(facts, "beyond"), 0)), "Buf fer");
    assert_string_equal(json_string_value(json_object_get(facts, "computes")), "a loop");
    json_decref(report);
    report = read_text("{\"findings\":[]," FACTS "}");
    facts = json_object_get(report, "facts");
    assert_true(facts && !json_object_get(facts, "beyond") && !json_object_get(facts, "computes"));
    json_decref(report);
}

static void what_is_no_report_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "",
        "[]",
        "{}",
        "{\"findings\":[]}",
        "{\"findings\":{}," FACTS "}",
        "{\"findings\":[1]," FACTS "}",
        "{\"findings\":[{\"line\":0,\"column\":1,\"rule\":\"a\",\"message\":\"\",\"advice\":\"\"}]," FACTS
        "}",
        "{\"findings\":[{\"line\":1,\"column\":-1,\"rule\":\"a\",\"message\":\"\",\"advice\":\"\"}]," FACTS
        "}",
        "{\"findings\":[{\"line\":99999999999,\"column\":1,\"rule\":\"a\",\"message\":\"\",\"advice\":\"\"}]"
        "," FACTS "}",
        "{\"findings\":[{\"line\":1,\"column\":1,\"rule\":\"A B\",\"message\":\"\",\"advice\":\"\"}]," FACTS
        "}",
        "{\"findings\":[{\"line\":1,\"column\":1,\"rule\":\"a\",\"message\":1,\"advice\":\"\"}]," FACTS "}",
        "{\"findings\":[{\"line\":1,\"column\":1,\"rule\":\"a\",\"message\":\"\"}]," FACTS "}",
        "{\"findings\":[],\"facts\":{\"imports\":[]}}",
        "{\"findings\":[],\"facts\":{" LISTS ",\"pure\":true,\"beyond\":5}}",
        "{\"findings\":[],\"facts\":{" LISTS ",\"pure\":true,\"beyond\":[5]}}",
        "{\"findings\":[],\"facts\":{" LISTS ",\"pure\":true,\"computes\":false}}",
        "{\"findings\":[],\"more\":-1," FACTS "}",
        "{\"findings\":[],\"more\":\"1\"," FACTS "}",
        "{\"findings\":[],\"findings\":[]," FACTS "}",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (read_text(wrong[i]))
            fail_msg("taken: %s", wrong[i]);
}

static void counts_and_lengths_are_bounded(void **state)
{
    (void)state;
    scope_buffer text = {0};
    buffer_append_text(&text, "{" FACTS ",\"findings\":[");
    for (int i = 0; i <= VET_FINDINGS_MAX; i++)
        buffer_print(&text, "%s" FINDING, i ? "," : "");
    buffer_append_text(&text, "]}");
    assert_null(vet_report_read(VET_warn, (struct slice){text.data, text.length}));
    text.length = 0;
    buffer_append_text(
        &text,
        "{" FACTS ",\"findings\":[{\"line\":1,\"column\":1,\"rule\":\"a\",\"advice\":\"\",\"message\":\"");
    for (int i = 0; i <= VET_TEXT_MAX; i++)
        buffer_append_text(&text, "x");
    buffer_append_text(&text, "\"}]}");
    assert_null(vet_report_read(VET_warn, (struct slice){text.data, text.length}));
    text.length = 0;
    buffer_append_text(&text, "{" FACTS ",\"findings\":[]");
    while (text.length <= VET_REPORT_MAX)
        buffer_append_text(&text, "                                                                ");
    buffer_append_text(&text, "}");
    assert_null(vet_report_read(VET_warn, (struct slice){text.data, text.length}));
}

static void texts_hold_nothing_that_a_terminal_obeys(void **state)
{
    (void)state;
    json_t *report = read_text("{\"findings\":[{\"line\":1,\"column\":1,\"rule\":\"a\","
                               "\"message\":\"a\\u001b[2Jb\\nc\",\"advice\":\"x\\u0000y\"}]," FACTS "}");
    assert_non_null(report);
    assert_string_equal(vet_report_finding(report, 0).message, "a [2Jb c");
    assert_string_equal(vet_report_finding(report, 0).advice, "x");
    json_decref(report);
}

static void notes_alone_do_not_block(void **state)
{
    (void)state;
    json_t *report =
        read_text("{\"findings\":[{\"line\":1,\"column\":1,\"rule\":\"missing\",\"message\":\"m\","
                  "\"advice\":\"a\",\"severity\":\"note\"}]," FACTS "}");
    assert_non_null(report);
    assert_false(vet_report_blocks(report));
    assert_true(vet_report_finding(report, 0).is_note);
    json_decref(report);
    report = read_text("{\"findings\":[],\"more\":1," FACTS "}"); /* what is not listed counts as well */
    assert_true(vet_report_blocks(report));
    json_decref(report);
    report = vet_report_of_host(
        VET_block,
        (struct vet_finding){.line = 1, .column = 1, .rule = "parser", .message = "it died", .advice = "a"});
    assert_true(vet_report_blocks(report));
    json_t *again = vet_report_copy(VET_block, report); /* it goes over the wire, too */
    assert_true(json_equal(report, again));
    json_decref(again);
    json_decref(report);
}

static void what_is_not_said_to_be_a_note_blocks(void **state)
{
    (void)state;
    static const char *const severities[] = {"", ",\"severity\":\"warning\"", ",\"severity\":\"NOTE\"",
                                             ",\"severity\":7", ",\"severity\":null"};
    for (size_t i = 0; i < sizeof severities / sizeof *severities; i++) {
        scope_buffer text = {0};
        buffer_print(&text,
                     "{\"findings\":[{\"line\":1,\"column\":1,\"rule\":\"missing\",\"message\":\"m\","
                     "\"advice\":\"a\"%s}]," FACTS "}",
                     severities[i]);
        json_t *report = vet_report_read(VET_block, (struct slice){text.data, text.length});
        assert_non_null(report);
        assert_true(vet_report_blocks(report));
        const json_t *finding = json_array_get(json_object_get(report, "findings"), 0);
        assert_string_equal(json_string_value(json_object_get(finding, "severity")), "warning");
        json_decref(report);
    }
}

/* Fifty notes and more that were cut off: a vetter tells warnings first, so there are none. */
static void a_full_list_of_notes_does_not_block(void **state)
{
    (void)state;
    scope_buffer text = {0};
    buffer_append_text(&text, "{" FACTS ",\"more\":9,\"findings\":[");
    for (int i = 0; i < VET_FINDINGS_MAX; i++)
        buffer_print(&text,
                     "%s{\"line\":%d,\"column\":1,\"rule\":\"text\",\"message\":\"m\",\"advice\":\"a\","
                     "\"severity\":\"note\"}",
                     i ? "," : "", i + 1);
    buffer_append_text(&text, "]}");
    json_t *report = vet_report_read(VET_block, (struct slice){text.data, text.length});
    assert_non_null(report);
    assert_false(vet_report_blocks(report));
    json_decref(report);
}

static void lists_of_names_are_read(void **state)
{
    (void)state;
    struct vet_policy policy = {0};
    struct error err = {0};
    assert_int_equal(vet_policy_set(&policy, "vet.block_modules", " os, shutil  node:fs,@a/b ", &err), 1);
    assert_int_equal(policy.block_modules.count, 4);
    assert_string_equal(policy.block_modules.items[3], "@a/b");
    assert_int_equal(vet_policy_set(&policy, "vet.allow_calls", "", &err), 1);
    assert_int_equal(vet_policy_set(&policy, "vet.blocked", "os", &err), 0);
    assert_int_equal(vet_policy_set(&policy, "block_modules", "os", &err), 0);
    assert_true(vet_policy_set(&policy, "vet.block_calls", "a\"b", &err) < 0);
    assert_error(&err, ERROR_SPEC, "vet.block_calls", "list of names");
    json_t *order = vet_order(VET_block, true, &policy);
    assert_string_equal(json_string_value(json_object_get(order, "mode")), "block");
    assert_int_equal(json_array_size(json_object_get(order, "block_modules")), 4);
    assert_null(json_object_get(order, "only_modules"));
    json_decref(order);
    vet_policy_free(&policy);
}

static int validate(const struct scratch *scratch, const char *config, const char *mode, bool is_command,
                    struct spec *spec, struct error *err)
{
    struct policy policy;
    *err = (struct error){0};
    write_text(scratch->fd, "cloche.conf", config);
    if (policy_load(scratch_path(scratch, "cloche.conf"), &policy, err) < 0)
        fail_msg("%s", err->text);
    spec_set(spec, is_command ? "command" : "code", "1", err);
    if (mode)
        assert_int_equal(spec_set(spec, "vet", mode, err), 0);
    int status = spec_validate(spec, &policy, err);
    policy_free(&policy);
    return status;
}

static void mode_is_what_was_asked_for_and_no_less_than_the_operators(void **state)
{
    static const struct {
        const char *config, *mode;
        enum vet_mode expected;
        bool thorough;
    } rows[] = {
        {"", NULL, VET_warn, false},
        {"", "warn", VET_warn, true},
        {"", "off", VET_off, false},
        {"", "only", VET_only, true},
        {"vet = off", NULL, VET_off, false},
        {"vet = block", NULL, VET_block, true},
        {"vet.min = block", NULL, VET_block, true},
        {"vet.min = block", "restricted", VET_restricted, true},
        {"vet.min = block", "only", VET_only, true},
        {"vet = warn\nvet.min = warn", NULL, VET_warn, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct error err;
        scope_spec *spec = spec_new();
        if (validate(*state, rows[i].config, rows[i].mode, false, spec, &err) < 0)
            fail_msg("%zu: %s", i, err.text);
        assert_int_equal(spec->vet, rows[i].expected);
        assert_int_equal(spec->vet_thorough, rows[i].thorough);
    }
}

static void less_than_the_operators_minimum_is_refused(void **state)
{
    struct error err;
    scope_spec *spec = spec_new(), *command = spec_new(), *own = spec_new();
    assert_true(validate(*state, "vet.min = block", "warn", false, spec, &err) < 0);
    assert_error(&err, ERROR_SPEC, "vet", "'warn'", "'block'", "cloche.conf");
    /* A command cannot be read: with that minimum it does not run. */
    assert_true(validate(*state, "vet.min = block", NULL, true, command, &err) < 0);
    assert_error(&err, ERROR_SPEC, "vet", "command");
    own->is_ours = true;
    assert_int_equal(validate(*state, "vet.min = block", NULL, true, own, &err), 0);
    assert_int_equal(own->vet, VET_off);
    assert_true(spec_set(own, "vet", "loud", &err) < 0);
    assert_error(&err, ERROR_SPEC, "vet", "'loud'", "off, warn, block, restricted, only");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(report_is_taken_value_by_value),
        cmocka_unit_test(what_code_needs_is_taken_where_it_is_said),
        cmocka_unit_test(what_is_no_report_is_refused),
        cmocka_unit_test(counts_and_lengths_are_bounded),
        cmocka_unit_test(texts_hold_nothing_that_a_terminal_obeys),
        cmocka_unit_test(notes_alone_do_not_block),
        cmocka_unit_test(what_is_not_said_to_be_a_note_blocks),
        cmocka_unit_test(a_full_list_of_notes_does_not_block),
        cmocka_unit_test(lists_of_names_are_read),
        SCRATCH_TEST(mode_is_what_was_asked_for_and_no_less_than_the_operators),
        SCRATCH_TEST(less_than_the_operators_minimum_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
