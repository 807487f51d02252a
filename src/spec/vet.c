#include "spec/vet.h"

#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

const char *const vet_mode_names[VET_MODE_COUNT] = {
#define X(name, meaning) #name,
    VET_MODES(X)
#undef X
};

int vet_mode_find(const char *name, struct error *err)
{
    for (int i = 0; i < VET_MODE_COUNT; i++)
        if (strcmp(name, vet_mode_names[i]) == 0)
            return i;
    return error_spec(err, "vet", "vet: '%.64s' is not a mode; there are: off, warn, block, restricted, only",
                      name);
}

/* ---- the operator's lists ---- */

static const struct {
    const char *name;
    size_t offset;
} lists[] = {
    {"block_modules", offsetof(struct vet_policy, block_modules)},
    {"allow_modules", offsetof(struct vet_policy, allow_modules)},
    {"only_modules", offsetof(struct vet_policy, only_modules)},
    {"block_calls", offsetof(struct vet_policy, block_calls)},
    {"allow_calls", offsetof(struct vet_policy, allow_calls)},
};

static struct string_list *list_at(const struct vet_policy *policy, size_t index)
{
    return (struct string_list *)((uintptr_t)policy + lists[index].offset);
}

void vet_policy_free(struct vet_policy *policy)
{
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        string_list_free(list_at(policy, i));
}

/* os.path, child_process, node:fs, @scope/package */
static bool is_name(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)text[i]) && !strchr("_.:/@-$", text[i]))
            return false;
    return length > 0 && length <= 128;
}

int vet_policy_set(struct vet_policy *policy, const char *key, const char *value, struct error *err)
{
    struct string_list *list = NULL;
    for (size_t i = 0; strncmp(key, "vet.", 4) == 0 && i < sizeof lists / sizeof *lists; i++)
        if (strcmp(key + 4, lists[i].name) == 0)
            list = list_at(policy, i);
    if (!list)
        return 0;
    static const char between[] = ", \t";
    for (const char *at = value + strspn(value, between); *at; at += strspn(at, between)) {
        size_t length = strcspn(at, between);
        char name[129];
        if (!is_name(at, length))
            return error_spec(err, key, "%s: '%.64s' is not a list of names such as: subprocess, os.path",
                              key, value);
        if (list->count >= VET_NAMES_MAX)
            return error_spec(err, key, "%s: more than %d names", key, VET_NAMES_MAX);
        snprintf(name, sizeof name, "%.*s", (int)length, at);
        if (string_list_add(list, name) < 0)
            return error_host(err, -ENOMEM, "%s", key);
        at += length;
    }
    return 1;
}

json_t *vet_order(enum vet_mode mode, bool thorough, const struct vet_policy *policy)
{
    json_t *order = json_pack("{s:s}", "mode", vet_mode_names[mode]);
    if (thorough)
        json_object_set_new(order, "thorough", json_true());
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const struct string_list *list = list_at(policy, i);
        json_t *names = list->count ? json_array() : NULL;
        for (size_t k = 0; k < list->count; k++)
            json_array_append_new(names, json_string(list->items[k]));
        if (names)
            json_object_set_new(order, lists[i].name, names);
    }
    return order;
}

/* ---- reports ---- */

/* Texts of a guest: bounded, and without what a terminal or a log would obey. */
static json_t *checked_text(const json_t *said)
{
    const char *text = json_string_value(said);
    if (!text || json_string_length(said) > VET_TEXT_MAX)
        return NULL;
    char clean[VET_TEXT_MAX + 1];
    size_t length = strlen(text); /* a NUL ends it */
    for (size_t i = 0; i < length; i++)
        clean[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? ' ' : text[i];
    return json_stringn(clean, length);
}

static bool is_rule(const char *text)
{
    size_t length = text ? strlen(text) : 0;
    for (size_t i = 0; i < length; i++)
        if ((text[i] < 'a' || text[i] > 'z') && text[i] != '-')
            return false;
    return length > 0 && length <= 32;
}

static json_t *checked_finding(const json_t *said)
{
    const json_t *line = json_object_get(said, "line"), *column = json_object_get(said, "column");
    const char *rule = json_string_value(json_object_get(said, "rule"));
    if (!json_is_integer(line) || json_integer_value(line) < 1 || json_integer_value(line) > INT32_MAX ||
        !json_is_integer(column) || json_integer_value(column) < 1 ||
        json_integer_value(column) > INT32_MAX || !is_rule(rule))
        return NULL;
    const char *severity = json_string_value(json_object_get(said, "severity"));
    json_t *message = checked_text(json_object_get(said, "message"));
    json_t *advice = checked_text(json_object_get(said, "advice"));
    /* It takes both, and fails where one is NULL. Whatever is not said to be a note blocks. */
    return json_pack("{s:I, s:I, s:s, s:s, s:o, s:o}", "line", json_integer_value(line), "column",
                     json_integer_value(column), "rule", rule, "severity",
                     severity && strcmp(severity, "note") == 0 ? "note" : "warning", "message", message,
                     "advice", advice);
}

static json_t *checked_list(const json_t *said, size_t most, json_t *(*check)(const json_t *item))
{
    size_t index;
    json_t *item;
    if (!json_is_array(said) || json_array_size(said) > most)
        return NULL;
    json_t *list = json_array();
    json_array_foreach(said, index, item)
    {
        if (json_array_append_new(list, check(item)) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static const char *const fact_lists[] = {"imports", "missing", "network", "processes", "files"};

/* Facts that not every reading has: only where the code does not run is there time for them. */
static int take_needs(json_t *facts, const json_t *said)
{
    const json_t *beyond = json_object_get(said, "beyond"), *computes = json_object_get(said, "computes");
    int status =
        beyond ? json_object_set_new(facts, "beyond", checked_list(beyond, VET_NAMES_MAX, checked_text)) : 0;
    return status == 0 && computes ? json_object_set_new(facts, "computes", checked_text(computes)) : status;
}

static json_t *checked_facts(const json_t *said)
{
    json_t *facts = json_object();
    int status = json_is_object(said) ? 0 : -1;
    for (size_t i = 0; status == 0 && i < sizeof fact_lists / sizeof *fact_lists; i++)
        status = json_object_set_new(
            facts, fact_lists[i],
            checked_list(json_object_get(said, fact_lists[i]), VET_NAMES_MAX, checked_text));
    const json_t *pure = json_object_get(said, "pure");
    if (status == 0)
        status =
            json_is_boolean(pure) ? json_object_set_new(facts, "pure", json_boolean(json_is_true(pure))) : -1;
    if (status == 0)
        status = take_needs(facts, said);
    if (status == 0)
        return facts;
    json_decref(facts);
    return NULL;
}

json_t *vet_report_copy(enum vet_mode mode, const json_t *said)
{
    const json_t *more = json_object_get(said, "more"), *facts = json_object_get(said, "facts");
    if (!json_is_object(said) || (more && (!json_is_integer(more) || json_integer_value(more) < 0)))
        return NULL;
    json_t *report = json_pack("{s:s}", "mode", vet_mode_names[mode]);
    int status = json_object_set_new(
        report, "findings",
        checked_list(json_object_get(said, "findings"), VET_FINDINGS_MAX, checked_finding));
    if (status == 0 && more)
        status = json_object_set_new(report, "more", json_integer(json_integer_value(more)));
    if (status == 0)
        status =
            json_object_set_new(report, "facts", json_is_null(facts) ? json_null() : checked_facts(facts));
    if (status == 0)
        return report;
    json_decref(report);
    return NULL;
}

json_t *vet_report_read(enum vet_mode mode, struct slice text)
{
    if (text.length > VET_REPORT_MAX)
        return NULL;
    json_t *said = json_loadb(text.data, text.length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    json_t *report = vet_report_copy(mode, said);
    json_decref(said);
    return report;
}

json_t *vet_report_of_host(enum vet_mode mode, struct vet_finding finding)
{
    scope_buffer clean = {0};
    text_append_utf8(&clean, finding.message, strlen(finding.message));
    return json_pack("{s:s, s:[{s:I, s:I, s:s, s:s, s:s, s:s}], s:n}", "mode", vet_mode_names[mode],
                     "findings", "line", (json_int_t)finding.line, "column", (json_int_t)finding.column,
                     "rule", finding.rule, "severity", finding.is_note ? "note" : "warning", "message",
                     clean.data ? clean.data : "", "advice", finding.advice, "facts");
}

size_t vet_report_count(const json_t *report)
{
    return json_array_size(json_object_get(report, "findings"));
}

struct vet_finding vet_report_finding(const json_t *report, size_t index)
{
    const json_t *finding = json_array_get(json_object_get(report, "findings"), index);
    const char *severity = json_string_value(json_object_get(finding, "severity"));
    return (struct vet_finding){.line = json_integer_value(json_object_get(finding, "line")),
                                .column = json_integer_value(json_object_get(finding, "column")),
                                .rule = json_string_value(json_object_get(finding, "rule")),
                                .message = json_string_value(json_object_get(finding, "message")),
                                .advice = json_string_value(json_object_get(finding, "advice")),
                                .is_note = severity && strcmp(severity, "note") == 0};
}

long long vet_report_more(const json_t *report)
{
    return json_integer_value(json_object_get(report, "more"));
}

size_t vet_report_warnings(const json_t *report, struct vet_finding *ret_first)
{
    size_t warnings = 0;
    for (size_t i = 0; i < vet_report_count(report); i++) {
        struct vet_finding finding = vet_report_finding(report, i);
        if (!finding.is_note && warnings++ == 0 && ret_first)
            *ret_first = finding;
    }
    return warnings;
}

bool vet_report_blocks(const json_t *report)
{
    bool is_cut = vet_report_count(report) == VET_FINDINGS_MAX;
    return vet_report_warnings(report, NULL) > 0 || (vet_report_more(report) > 0 && !is_cut);
}

enum vet_mode vet_report_mode(const json_t *report)
{
    const char *name = json_string_value(json_object_get(report, "mode"));
    for (int i = 0; name && i < VET_MODE_COUNT; i++)
        if (strcmp(name, vet_mode_names[i]) == 0)
            return (enum vet_mode)i;
    return VET_off;
}
