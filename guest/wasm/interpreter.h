/* Calls into an instance that is an interpreter: its exported functions, all of whose values are i32. */
#pragma once

#include "api.h"

struct interpreter {
    wasmtime_context_t *context;
    const wasmtime_instance_t *instance;
    wasmtime_error_t *error; /* of the call that did not come back as it should: one of both, and the */
    wasm_trap_t *trap;       /* caller's; after that nothing is called any more */
};

bool interpreter_is_over(const struct interpreter *self);

uint32_t interpreter_call(struct interpreter *self, const char *name, size_t count, const uint32_t *values,
                          bool returns);

/* Bytes of its memory; NULL when they are not inside: then it is broken. */
uint8_t *interpreter_memory(struct interpreter *self, uint32_t at, size_t length);

/* A constant that it exports; 0: there is none. */
uint32_t interpreter_constant(struct interpreter *self, const char *name);
