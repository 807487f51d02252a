/* Runs JavaScript in the module of quickjs-wasi, which is an engine without surroundings: console, timers and
 * the like are made by prelude.js from one host function. */
#pragma once

#include "imports.h"
#include "task.h"

/* A call that did not come back as it should: one of both, and the caller's. */
struct javascript_call {
    wasmtime_error_t *error;
    wasm_trap_t *trap;
};

int javascript_run(wasmtime_context_t *context, const wasmtime_instance_t *instance, const struct task *task,
                   struct run_state *state, struct javascript_call *ret_failed);

/* What the engine imports. */
wasm_trap_t *javascript_host_call(void *env, wasmtime_caller_t *caller, const wasmtime_val_t *args,
                                  size_t arg_count, wasmtime_val_t *results, size_t result_count);
wasm_trap_t *javascript_rejection(void *env, wasmtime_caller_t *caller, const wasmtime_val_t *args,
                                  size_t arg_count, wasmtime_val_t *results, size_t result_count);
wasm_trap_t *javascript_zero(void *env, wasmtime_caller_t *caller, const wasmtime_val_t *args,
                             size_t arg_count, wasmtime_val_t *results, size_t result_count);
