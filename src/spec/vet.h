/* The first filter: what is known about code before it runs, see docs/vet.md.
 *
 * A vetter in the box (guest/python/cloche/vet.py, guest/javascript/vet.cjs) reads the code and says what it
 * found. That is the word of a guest: a report is copied value by value, each checked, and what is longer
 * than it may be is refused. It decides nothing but whether the code of this very run is let go. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"

#include <stdbool.h>

struct json_t;

/* In order of strictness: who asks for a minimum gets it by all that follow. */
#define VET_MODES(X)                                                                                         \
    X(off, "the code is not looked at")                                                                      \
    X(warn, "findings are told, and the code runs")                                                          \
    X(block, "code with warnings does not run")                                                              \
    X(restricted, "the same, and it runs under RestrictedPython; python only")                               \
    X(only, "findings are told, and the code does not run")

enum vet_mode {
#define X(name, meaning) VET_##name,
    VET_MODES(X)
#undef X
        VET_MODE_COUNT,
};

extern const char *const vet_mode_names[VET_MODE_COUNT];

enum {
    VET_REPORT_MAX = 256 << 10, /* bytes of a vetter's report */
    VET_FINDINGS_MAX = 50,
    VET_NAMES_MAX = 100, /* of each fact */
    VET_TEXT_MAX = 1024,
};

int vet_mode_find(const char *name, struct error *err);

/* What the operator has changed in the built-in lists. */
struct vet_policy {
    struct string_list block_modules, allow_modules, only_modules, block_calls, allow_calls;
};

void vet_policy_free(struct vet_policy *policy);

/* Takes a setting (vet.block_modules = a, b); 1: it is one, 0: it is not. */
int vet_policy_set(struct vet_policy *policy, const char *key, const char *value, struct error *err);

/* What a vetter is told, as an object to be freed. `thorough`: all of the code is parsed, whatever it costs.
 */
struct json_t *vet_order(enum vet_mode mode, bool thorough, const struct vet_policy *policy);

/* A report {mode, findings, facts, more?} of checked values; NULL: it is not one. */
struct json_t *vet_report_read(enum vet_mode mode, struct slice text);
struct json_t *vet_report_copy(enum vet_mode mode, const struct json_t *said);

struct vet_finding {
    long long line, column;
    const char *rule, *message, *advice; /* the report's */
    bool is_note; /* it only tells; all others are warnings, for which code is blocked */
};

/* A report with one finding, which is the host's own: on code that was not read, or not to its end. */
struct json_t *vet_report_of_host(enum vet_mode mode, struct vet_finding finding);

/* Is there a finding that keeps code from running? A vetter tells warnings before notes: where none is among
 * the findings, there is none among those that were cut off. */
bool vet_report_blocks(const struct json_t *report);

/* How many findings are warnings; the first of them, where there is one. */
size_t vet_report_warnings(const struct json_t *report, struct vet_finding *ret_first);

size_t vet_report_count(const struct json_t *report);
struct vet_finding vet_report_finding(const struct json_t *report, size_t index);
long long vet_report_more(const struct json_t *report);
enum vet_mode vet_report_mode(const struct json_t *report);
