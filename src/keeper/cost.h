/* What engines cost on this machine, in milliseconds, measured with small programs.
 *
 * Theory of operation. Two figures for each language and engine: the least run, which is the start of a box
 * and an interpreter, and a run with a sample of work, as some engines compute much slower than they start.
 * Each is measured when it is first asked for, and kept for a week in the state directory (costs.json). That
 * an engine does not run is never kept: it may be set up in the next minute. */
#pragma once

#include "spec/policy.h"
#include "spec/spec.h"

struct json_t;

enum cost_kind { COST_START, COST_WORK };

struct cost_table {
    const struct spec *spec; /* whose image and accepted limits count; validated */
    const struct policy *policy;
    const char *language;
    struct json_t *figures;
    bool has_grown;
};

void cost_table_open(struct cost_table *table, const struct spec *spec, const struct policy *policy,
                     const char *language);
void cost_table_close(struct cost_table *table);

/* Measures what is not known. Negative: it does not run here, and `err` says why. */
double cost_of(struct cost_table *table, enum isolation isolation, enum cost_kind kind, struct error *err);
