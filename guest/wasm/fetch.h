/* Requests of a module, which the gateway does (src/gateway): here they are only handed over, and what is
 * answered is handed out in pieces, without being kept. */
#pragma once

#include "api.h"
#include "gateway/talk.h"

struct fetch {
    int fd; /* to the gateway; -1: there is none */
    int32_t status;
    uint64_t left; /* bytes of the answer's body that are still to be read */
    uint32_t text_length;
    char text[FETCH_TEXT_MAX]; /* its headers, or why there are none */
};

struct fetch *fetch_new(int fd);
void fetch_free(struct fetch *fetch);

wasm_trap_t *fetch_request(void *env, wasmtime_caller_t *caller, const wasmtime_val_t *args, size_t arg_count,
                           wasmtime_val_t *results, size_t result_count);
wasm_trap_t *fetch_read(void *env, wasmtime_caller_t *caller, const wasmtime_val_t *args, size_t arg_count,
                        wasmtime_val_t *results, size_t result_count);
wasm_trap_t *fetch_header(void *env, wasmtime_caller_t *caller, const wasmtime_val_t *args, size_t arg_count,
                          wasmtime_val_t *results, size_t result_count);
wasm_trap_t *fetch_error(void *env, wasmtime_caller_t *caller, const wasmtime_val_t *args, size_t arg_count,
                         wasmtime_val_t *results, size_t result_count);
