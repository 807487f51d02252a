/* Runs JavaScript in the module of quickjs-wasi, which is an engine without surroundings: console, timers and
 * the like are made by prelude.js from one host function. */
#pragma once

#include "imports.h"
#include "interpreter.h"
#include "task.h"

/* The exit status, where the interpreter's last call came back as it should. */
int javascript_run(struct interpreter *interpreter, const struct task *task, struct run_state *state);

/* What the engine imports. */
wasm_trap_t *javascript_host_call(void *env, wasmtime_caller_t *caller, const wasmtime_val_t *args,
                                  size_t arg_count, wasmtime_val_t *results, size_t result_count);
wasm_trap_t *javascript_rejection(void *env, wasmtime_caller_t *caller, const wasmtime_val_t *args,
                                  size_t arg_count, wasmtime_val_t *results, size_t result_count);
wasm_trap_t *javascript_zero(void *env, wasmtime_caller_t *caller, const wasmtime_val_t *args,
                             size_t arg_count, wasmtime_val_t *results, size_t result_count);
