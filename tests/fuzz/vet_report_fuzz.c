/* Any bytes as a vetter's report: refused, or a report of bounded values that is taken again and comes back
 * the same. */
#include "fuzz.h"

#include "spec/vet.h"

#include <jansson.h>
#include <string.h>

static void check_text(const char *text)
{
    check(text && strlen(text) <= VET_TEXT_MAX, "a text is bounded");
    for (; *text; text++)
        check((unsigned char)*text >= ' ' && *text != 0x7f, "a text is one line");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *report = vet_report_read(VET_block, (struct slice){(const char *)data, size});
    if (!report)
        return 0;
    check(vet_report_mode(report) == VET_block, "the mode is ours");
    check(vet_report_count(report) <= VET_FINDINGS_MAX && vet_report_more(report) >= 0, "counts are bounded");
    bool blocks = vet_report_more(report) > 0 && vet_report_count(report) < VET_FINDINGS_MAX;
    for (size_t i = 0; i < vet_report_count(report); i++) {
        struct vet_finding finding = vet_report_finding(report, i);
        check(finding.line > 0 && finding.column > 0, "a place is one");
        check_text(finding.rule);
        check_text(finding.message);
        check_text(finding.advice);
        blocks |= !finding.is_note;
    }
    check(blocks == vet_report_blocks(report), "all findings count");
    json_t *again = vet_report_copy(VET_block, report);
    check(json_equal(report, again), "what was taken is taken again");
    json_decref(again);
    json_decref(report);
    return 0;
}
