/* The limits of a run, as a table: option names, JSON fields, defaults, ceilings, help and man page all come
 * from these rows. */
#pragma once

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

enum limit_unit {
    LIMIT_BYTES,
    LIMIT_MS,
    LIMIT_MILLICPUS,
    LIMIT_COUNT,
};

/* field, unit, default, compile default, minimum, ceiling, help */
#define LIMIT_ROWS(X)                                                                                        \
    X(memory, LIMIT_BYTES, INT64_C(512) << 20, INT64_C(2) << 30, INT64_C(8) << 20, INT64_C(64) << 30,        \
      "memory of all processes together, swap and files in /tmp included")                                   \
    X(cpu, LIMIT_MS, 30000, 120000, 10, 86400000, "CPU time of all processes together")                      \
    X(wall, LIMIT_MS, 30000, 120000, 10, 86400000, "time from start to end")                                 \
    X(cpus, LIMIT_MILLICPUS, 1000, 2000, 10, 256000, "share of the CPUs: 0.5 or 50% is half a core")         \
    X(pids, LIMIT_COUNT, 64, 256, 1, 32768, "processes and threads at one time")                             \
    X(disk, LIMIT_BYTES, INT64_C(100) << 20, INT64_C(1) << 30, 65536, INT64_C(64) << 30,                     \
      "bytes in /tmp, home, /dev/shm and /data/output together")                                             \
    X(inodes, LIMIT_COUNT, 20000, 100000, 16, 10000000, "files and directories in the same places")          \
    X(open_files, LIMIT_COUNT, 1024, 1024, 16, 65536, "open files of each process")                          \
    X(output_limit, LIMIT_BYTES, INT64_C(16) << 20, INT64_C(1) << 20, 0, INT64_C(1) << 30,                   \
      "bytes kept of stdout, and of stderr; what is more is cut, and 16 times as much ends the run")         \
    X(collect, LIMIT_BYTES, INT64_C(100) << 20, INT64_C(1) << 30, 0, INT64_C(64) << 30,                      \
      "bytes of files collected from /data/output")                                                          \
    X(collect_files, LIMIT_COUNT, 1000, 1000, 0, 1000000, "number of files collected from /data/output")

enum limit_field {
#define X(field, unit, normal, compile, least, most, help) LIMIT_##field,
    LIMIT_ROWS(X)
#undef X
        LIMIT_FIELDS,
};

struct limit_row {
    const char *name;
    enum limit_unit unit;
    int64_t normal;  /* default of a run */
    int64_t compile; /* default of a compile step */
    int64_t least;
    int64_t most; /* ceiling that an operator can lower or raise */
    const char *help;
};

extern const struct limit_row limit_rows[LIMIT_FIELDS];

struct limits {
    int64_t value[LIMIT_FIELDS];
};

/* -1 when there is no such limit. */
int limit_find(const char *name);

/* Text in the field's unit ("256M", "10s", "50%") to a number; the error names field, value and what is
 * allowed, and suggests units. Ceilings are checked by the policy (policy.h), not here. */
int limit_parse(enum limit_field field, const char *text, int64_t *ret, struct error *err);

const char *limit_format(enum limit_field field, int64_t value, char *into, size_t size);

/* The suffix that makes JSON field names say their unit: "_bytes", "_ms", … */
const char *limit_unit_example(enum limit_unit unit);
