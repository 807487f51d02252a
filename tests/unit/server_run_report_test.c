#include "server/run_report.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

static int take(struct run_report *report, const char *frame, const char *body, size_t length,
                struct buffer *events)
{
    json_t *header = json_loads(frame, 0, NULL);
    assert_non_null(header);
    int status = run_report_take(report, header, (struct slice){body, length}, events);
    json_decref(header);
    return status;
}

static const char outcome[] = "{\"outcome\": {\"status\": \"ok\", \"cause\": \"exit\", \"exit_code\": 0, "
                              "\"duration_us\": 1500, \"cpu_us\": 500, \"died\": false}}";

static void a_character_that_is_cut_waits_for_its_rest(void **state)
{
    (void)state;
    struct run_report report;
    struct buffer events = {0};
    assert_int_equal(run_report_open(&report, -1), 0);
    assert_int_equal(take(&report, "{\"event\": \"stdout\"}", "a\xC3", 2, &events), 0);
    assert_non_null(strstr(events.data, "{\"text\":\"a\"}"));
    events.length = 0;
    assert_int_equal(take(&report, "{\"event\": \"stdout\"}", "\xA9", 1, &events), 0);
    assert_non_null(strstr(events.data, "\xC3\xA9"));
    events.length = 0;
    assert_int_equal(take(&report, "{\"event\": \"stdout\"}", "\xE2\x82", 2, &events), 0);
    assert_int_equal(events.length, 0);
    assert_int_equal(take(&report, outcome, "", 0, &events), 0); /* then it is no character */
    assert_non_null(strstr(events.data, "{\"bytes\":\"4oI=\"}"));
    json_t *whole = run_report_to_json(&report);
    assert_string_equal(json_string_value(json_object_get(whole, "stdout_base64")), "YcOp4oI=");
    json_decref(whole);
    buffer_free(&events);
    run_report_close(&report);
}

static void contents_are_text_or_base64_by_their_type(void **state)
{
    (void)state;
    struct run_report report;
    assert_int_equal(run_report_open(&report, 3), 0);
    assert_int_equal(
        take(&report,
             "{\"event\": \"result\", \"is_value\": true, \"media\": [{\"type\": \"text/plain\", "
             "\"length\": 2}, {\"type\": \"image/png\", \"length\": 3}]}",
             "42\x89PN", 5, NULL),
        0);
    assert_int_equal(take(&report, outcome, "", 0, NULL), 0);
    json_t *whole = run_report_to_json(&report);
    json_t *media = json_object_get(json_array_get(json_object_get(whole, "results"), 0), "media");
    assert_string_equal(json_string_value(json_object_get(media, "text/plain")), "42");
    assert_string_equal(json_string_value(json_object_get(media, "image/png")), "iVBO");
    assert_int_equal(json_integer_value(json_object_get(whole, "branch")), 3);
    json_decref(whole);
    run_report_close(&report);
}

static void lengths_that_lie_are_refused(void **state)
{
    (void)state;
    static const char *const frames[] = {
        "{\"event\": \"result\", \"media\": [{\"type\": \"a/b\", \"length\": 6}]}",
        "{\"event\": \"result\", \"media\": [{\"type\": \"a/b\", \"length\": 5}, {\"type\": \"a/c\", "
        "\"length\": 1}]}",
        "{\"event\": \"result\", \"media\": [{\"type\": \"a/b\", \"length\": -1}]}",
        "{\"event\": \"result\", \"media\": [{\"length\": 1}]}",
        "{}",
    };
    struct run_report report;
    assert_int_equal(run_report_open(&report, -1), 0);
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++)
        assert_int_equal(take(&report, frames[i], "12345", 5, NULL), -EPROTO);
    run_report_close(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_character_that_is_cut_waits_for_its_rest),
        cmocka_unit_test(contents_are_text_or_base64_by_their_type),
        cmocka_unit_test(lengths_that_lie_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
