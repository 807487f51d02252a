/* Wasmtime's engine with the modules that it has: those that were compiled ahead are mapped, a user's own are
 * compiled here, inside the box, and kept for as long as this process lives. */
#pragma once

#include "api.h"
#include "report.h"
#include "task.h"

enum { MACHINE_STACK_BYTES = 16 << 20, MACHINE_TABLE_ELEMENTS = 200000, MACHINE_PER_MODULE = 4 };

struct machine;

/* counts_fuel: every run must be given fuel, and nothing that was compiled ahead fits. NULL: it cannot be. */
struct machine *machine_open(bool counts_fuel);
wasm_engine_t *machine_engine(struct machine *machine);

/* The module of the task, linked with what its run may import; the machine's. NULL: the report says why not.
 */
const struct linked {
    const wasmtime_module_t *module;
    wasmtime_instance_pre_t *pre;
    bool sees_files;                    /* else there is no use in opening its directories */
    bool finds_its_place;               /* it has begun already, and goes to its directory by itself */
    char *memories[MACHINE_PER_MODULE]; /* names under which it shows its memories; NULL after the last */
} * machine_link(struct machine *machine, const struct task *task, struct report *report);

/* Compiles a file ahead, for machine_link to map; 0, or 1 with words on stderr. */
int machine_compile(struct machine *machine, const char *from, const char *into);
