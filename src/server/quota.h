/* The quotas of a tenant, as a table: options of `cloche key`, fields of the keys file, defaults, texts of
 * refusals and the operator's page come from these rows. */
#pragma once

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum quota_unit {
    QUOTA_COUNT,
    QUOTA_BYTES,
    QUOTA_MS,
};

/* field, option, unit, placeholder, default, what it counts. The default is text, so that help and table
 * cannot differ. */
#define QUOTA_ROWS(X)                                                                                        \
    X(boxes, "boxes", QUOTA_COUNT, "NUMBER", "20", "boxes of live sandboxes, checkpoints too")               \
    X(runs, "runs", QUOTA_COUNT, "NUMBER", "16", "runs at one time, those that wait included")               \
    X(runs_minute, "runs-minute", QUOTA_COUNT, "NUMBER", "600", "runs a minute")                             \
    X(cpu_hour, "cpu-hour", QUOTA_MS, "TIME", "2h", "CPU time an hour, of all runs together")                \
    X(memory, "memory", QUOTA_BYTES, "SIZE", "16G", "memory limits of all boxes and runs, together")         \
    X(disk, "disk", QUOTA_BYTES, "SIZE", "8G", "disk limits of all boxes and runs, together")                \
    X(uploads, "uploads", QUOTA_BYTES, "SIZE", "10G", "bytes of uploaded files that are kept")               \
    X(kept, "kept", QUOTA_BYTES, "SIZE", "4G", "bytes of files of runs that are kept for an hour")

enum quota_field {
#define X(field, option, unit, placeholder, normal, help) QUOTA_##field,
    QUOTA_ROWS(X)
#undef X
        QUOTA_FIELDS,
};

struct quota_row {
    const char *name;
    const char *option;
    enum quota_unit unit;
    const char *normal;
    const char *help;
};

extern const struct quota_row quota_rows[QUOTA_FIELDS];

/* Values beside plain numbers. */
#define QUOTA_UNSET INT64_MIN /* the default counts */
#define QUOTA_NONE  INT64_MAX /* no bound: "none" */

struct quotas {
    int64_t value[QUOTA_FIELDS];
};

/* -1 when there is none of that name (`name` as in the keys file) or option. */
int quota_find(const char *name);
int quota_find_option(const char *option);

/* "none", or a quantity in the field's unit. */
int quota_parse(enum quota_field field, const char *text, int64_t *ret, struct error *err);
const char *quota_format(enum quota_field field, int64_t value, char *into, size_t size);

/* All rows: unset, the defaults, without bounds. */
void quotas_unset(struct quotas *quotas);
void quotas_default(struct quotas *quotas);
void quotas_none(struct quotas *quotas);

/* The default where nothing is set. */
int64_t quotas_get(const struct quotas *quotas, enum quota_field field);
