/* What a module may import: WASI preview 1, and the groups of host functions of the module "cloche" that were
 * approved for its run. Nothing else is linked. */
#pragma once

#include "api.h"

#include <stdbool.h>

enum import_group {
    IMPORT_WASI = 1 << 0,
    IMPORT_CLOCK = 1 << 1,
    IMPORT_RANDOM = 1 << 2,
    IMPORT_LOG = 1 << 3,
    IMPORT_KV = 1 << 4,
    IMPORT_FETCH = 1 << 5,
    IMPORT_JAVASCRIPT = 1 << 6, /* not for users: what our own JavaScript engine asks for */
};

/* False: there is no group of that name. */
bool imports_group(const char *name, unsigned *into);

/* Is there something that the module imports and the groups do not have? Then a sentence that names it. */
bool imports_explain(const wasmtime_module_t *module, unsigned groups, char *into, size_t size);

/* Does it import anything that reaches a file? */
bool imports_files(const wasmtime_module_t *module);

/* A linker with these groups, or NULL. */
wasmtime_linker_t *imports_link(wasm_engine_t *engine, unsigned groups);

/* Values that a run keeps by the group kv; they go with it. */
struct kv;
void kv_free(struct kv *kv);

/* What host functions need of a run: the data of its store. */
struct run_state {
    int stderr_fd;
    struct kv *kv;
    struct fetch *fetch; /* with its group, always */
    struct javascript *javascript;
    bool has_exited; /* by WASI's own call, with this code */
    int exit_code;
};

/* Memory of the instance that called; false: it has none, or the range is not inside. */
bool imports_range(wasmtime_caller_t *caller, uint32_t at, uint32_t length, uint8_t **ret);
wasm_trap_t *imports_outside(void); /* what it then ends with */

struct run_state *imports_state(wasmtime_caller_t *caller);
void imports_answer(wasmtime_val_t *results, int32_t value);
