/* The part of Wasmtime's C API that is used here, as its version 50 has it: the library is taken prebuilt,
 * and comes without headers. tests/unit/wasm_api checks the sizes and numbers against the declarations that
 * come with the library. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wasm_config_t wasm_config_t;
typedef struct wasm_engine_t wasm_engine_t;
typedef struct wasm_trap_t wasm_trap_t;
typedef struct wasm_functype_t wasm_functype_t;
typedef struct wasm_valtype_t wasm_valtype_t;
typedef struct wasm_externtype_t wasm_externtype_t;
typedef struct wasm_importtype_t wasm_importtype_t;
typedef struct wasm_exporttype_t wasm_exporttype_t;
typedef struct wasmtime_error wasmtime_error_t;
typedef struct wasmtime_module wasmtime_module_t;
typedef struct wasmtime_linker wasmtime_linker_t;
typedef struct wasmtime_store wasmtime_store_t;
typedef struct wasmtime_context wasmtime_context_t;
typedef struct wasmtime_caller wasmtime_caller_t;
typedef struct wasmtime_instance_pre wasmtime_instance_pre_t;
typedef struct wasmtime_pooling_allocation_config_t wasmtime_pooling_allocation_config_t;
typedef struct wasi_config_t wasi_config_t;

#define WASM_VEC(name, type)                                                                                 \
    typedef struct {                                                                                         \
        size_t size;                                                                                         \
        type *data;                                                                                          \
    } wasm_##name##_vec_t;                                                                                   \
    void wasm_##name##_vec_delete(wasm_##name##_vec_t *)

WASM_VEC(byte, char);
WASM_VEC(valtype, wasm_valtype_t *);
WASM_VEC(importtype, wasm_importtype_t *);
WASM_VEC(exporttype, wasm_exporttype_t *);
void wasm_byte_vec_new(wasm_byte_vec_t *, size_t, const char *);
void wasm_valtype_vec_new(wasm_valtype_vec_t *, size_t, wasm_valtype_t *const *);

typedef struct {
    uint64_t store_id;
    void *hidden;
} wasmtime_func_t;

typedef struct {
    struct {
        uint64_t store_id;
        uint32_t hidden1;
    } of;
    uint32_t hidden2;
} wasmtime_memory_t;

typedef struct {
    uint64_t store_id;
    uint32_t hidden[3];
} wasmtime_global_t;

typedef struct {
    uint64_t store_id;
    size_t hidden;
} wasmtime_instance_t;

typedef struct {
    uint8_t kind;
    union {
        wasmtime_func_t func;
        wasmtime_memory_t memory;
        wasmtime_global_t global;
        uint64_t room[3];
    } of;
} wasmtime_extern_t;

typedef struct {
    uint8_t kind;
    union {
        int32_t i32;
        int64_t i64;
        float f32;
        double f64;
        uint8_t v128[16];
        uint64_t room[3];
    } of;
} wasmtime_val_t;

enum { EXTERN_FUNC = 0, EXTERN_GLOBAL = 1, EXTERN_MEMORY = 3 };
enum { VAL_I32 = 0, VAL_I64 = 1, VAL_F32 = 2, VAL_F64 = 3, VAL_V128 = 4 }; /* of a wasmtime_val_t */
enum { TYPE_I32 = 0, TYPE_I64 = 1, TYPE_F32 = 2, TYPE_F64 = 3 };           /* of a wasm_valtype_t */
enum { DEADLINE_CONTINUE = 0 };

wasm_config_t *wasm_config_new(void);
wasm_engine_t *wasm_engine_new_with_config(wasm_config_t *);
void wasmtime_config_epoch_interruption_set(wasm_config_t *, bool);
void wasmtime_config_consume_fuel_set(wasm_config_t *, bool);
void wasmtime_config_memory_init_cow_set(wasm_config_t *, bool);
void wasmtime_config_wasm_threads_set(wasm_config_t *, bool);
void wasmtime_config_parallel_compilation_set(wasm_config_t *, bool);
void wasmtime_config_async_stack_size_set(wasm_config_t *, uint64_t);
void wasmtime_config_max_wasm_stack_set(wasm_config_t *, size_t);
void wasmtime_config_cranelift_nan_canonicalization_set(wasm_config_t *, bool);

wasmtime_pooling_allocation_config_t *wasmtime_pooling_allocation_config_new(void);
void wasmtime_pooling_allocation_config_delete(wasmtime_pooling_allocation_config_t *);
void wasmtime_pooling_allocation_config_total_memories_set(wasmtime_pooling_allocation_config_t *, uint32_t);
void wasmtime_pooling_allocation_config_total_tables_set(wasmtime_pooling_allocation_config_t *, uint32_t);
void wasmtime_pooling_allocation_config_total_core_instances_set(wasmtime_pooling_allocation_config_t *,
                                                                 uint32_t);
void wasmtime_pooling_allocation_config_total_stacks_set(wasmtime_pooling_allocation_config_t *, uint32_t);
void wasmtime_pooling_allocation_config_max_memories_per_module_set(wasmtime_pooling_allocation_config_t *,
                                                                    uint32_t);
void wasmtime_pooling_allocation_config_max_tables_per_module_set(wasmtime_pooling_allocation_config_t *,
                                                                  uint32_t);
void wasmtime_pooling_allocation_config_table_elements_set(wasmtime_pooling_allocation_config_t *, size_t);
void wasmtime_pooling_allocation_config_max_memory_size_set(wasmtime_pooling_allocation_config_t *, size_t);
void wasmtime_pooling_allocation_config_max_core_instance_size_set(wasmtime_pooling_allocation_config_t *,
                                                                   size_t);
void wasmtime_pooling_allocation_config_linear_memory_keep_resident_set(
    wasmtime_pooling_allocation_config_t *, size_t);
void wasmtime_pooling_allocation_strategy_set(wasm_config_t *, const wasmtime_pooling_allocation_config_t *);

wasmtime_error_t *wasmtime_module_new(wasm_engine_t *, const uint8_t *, size_t, wasmtime_module_t **);
wasmtime_error_t *wasmtime_module_serialize(const wasmtime_module_t *, wasm_byte_vec_t *);
wasmtime_error_t *wasmtime_module_deserialize_file(wasm_engine_t *, const char *, wasmtime_module_t **);
void wasmtime_module_imports(const wasmtime_module_t *, wasm_importtype_vec_t *);
void wasmtime_module_exports(const wasmtime_module_t *, wasm_exporttype_vec_t *);
void wasmtime_module_image_range(const wasmtime_module_t *, void **, void **);
void wasmtime_module_delete(wasmtime_module_t *);
wasmtime_error_t *wasmtime_wat2wasm(const char *, size_t, wasm_byte_vec_t *);

const wasm_byte_vec_t *wasm_importtype_module(const wasm_importtype_t *);
const wasm_byte_vec_t *wasm_importtype_name(const wasm_importtype_t *);
const wasm_externtype_t *wasm_importtype_type(const wasm_importtype_t *);
const wasm_byte_vec_t *wasm_exporttype_name(const wasm_exporttype_t *);
const wasm_externtype_t *wasm_exporttype_type(const wasm_exporttype_t *);
uint8_t wasm_externtype_kind(const wasm_externtype_t *);
const wasm_functype_t *wasm_externtype_as_functype_const(const wasm_externtype_t *);
wasm_functype_t *wasm_functype_new(wasm_valtype_vec_t *, wasm_valtype_vec_t *);
void wasm_functype_delete(wasm_functype_t *);
const wasm_valtype_vec_t *wasm_functype_params(const wasm_functype_t *);
const wasm_valtype_vec_t *wasm_functype_results(const wasm_functype_t *);
wasm_valtype_t *wasm_valtype_new(uint8_t);
bool wasmtime_wasm_valtype_equal(const wasm_valtype_t *, const wasm_valtype_t *);

typedef wasm_trap_t *(*wasmtime_func_callback_t)(void *, wasmtime_caller_t *, const wasmtime_val_t *, size_t,
                                                 wasmtime_val_t *, size_t);
wasmtime_linker_t *wasmtime_linker_new(wasm_engine_t *);
void wasmtime_linker_delete(wasmtime_linker_t *);
void wasmtime_linker_allow_shadowing(wasmtime_linker_t *, bool);
wasmtime_error_t *wasmtime_linker_define_wasi(wasmtime_linker_t *);
wasmtime_error_t *wasmtime_linker_define_func(wasmtime_linker_t *, const char *, size_t, const char *, size_t,
                                              const wasm_functype_t *, wasmtime_func_callback_t, void *,
                                              void (*)(void *));
wasmtime_error_t *wasmtime_linker_instantiate_pre(const wasmtime_linker_t *, const wasmtime_module_t *,
                                                  wasmtime_instance_pre_t **);
wasmtime_error_t *wasmtime_instance_pre_instantiate(const wasmtime_instance_pre_t *, wasmtime_context_t *,
                                                    wasmtime_instance_t *, wasm_trap_t **);
void wasmtime_instance_pre_delete(wasmtime_instance_pre_t *);
bool wasmtime_instance_export_get(wasmtime_context_t *, const wasmtime_instance_t *, const char *, size_t,
                                  wasmtime_extern_t *);

wasmtime_store_t *wasmtime_store_new(wasm_engine_t *, void *, void (*)(void *));
wasmtime_context_t *wasmtime_store_context(wasmtime_store_t *);
void wasmtime_store_delete(wasmtime_store_t *);
void wasmtime_store_limiter(wasmtime_store_t *, int64_t, int64_t, int64_t, int64_t, int64_t);
void wasmtime_store_epoch_deadline_callback(wasmtime_store_t *,
                                            wasmtime_error_t *(*)(const wasmtime_context_t *, void *,
                                                                  uint64_t *, uint8_t *),
                                            void *, void (*)(void *));
void wasmtime_context_set_epoch_deadline(wasmtime_context_t *, uint64_t);
void wasmtime_engine_increment_epoch(wasm_engine_t *);
wasmtime_error_t *wasmtime_context_set_fuel(wasmtime_context_t *, uint64_t);
wasmtime_error_t *wasmtime_context_get_fuel(const wasmtime_context_t *, uint64_t *);
wasmtime_error_t *wasmtime_context_set_wasi(wasmtime_context_t *, wasi_config_t *);
void *wasmtime_context_get_data(const wasmtime_context_t *);
wasmtime_context_t *wasmtime_caller_context(wasmtime_caller_t *);
bool wasmtime_caller_export_get(wasmtime_caller_t *, const char *, size_t, wasmtime_extern_t *);
uint8_t *wasmtime_memory_data(const wasmtime_context_t *, const wasmtime_memory_t *);
size_t wasmtime_memory_data_size(const wasmtime_context_t *, const wasmtime_memory_t *);
void wasmtime_global_get(wasmtime_context_t *, const wasmtime_global_t *, wasmtime_val_t *);
wasm_functype_t *wasmtime_func_type(const wasmtime_context_t *, const wasmtime_func_t *);
wasmtime_error_t *wasmtime_func_call(wasmtime_context_t *, const wasmtime_func_t *, const wasmtime_val_t *,
                                     size_t, wasmtime_val_t *, size_t, wasm_trap_t **);

wasmtime_error_t *wasmtime_error_new(const char *);
void wasmtime_error_delete(wasmtime_error_t *);
void wasmtime_error_message(const wasmtime_error_t *, wasm_byte_vec_t *);
void wasm_trap_message(const wasm_trap_t *, wasm_byte_vec_t *);
void wasm_trap_delete(wasm_trap_t *);
wasm_trap_t *wasmtime_trap_new(const char *, size_t);
bool wasmtime_trap_code(const wasm_trap_t *, uint8_t *);

wasi_config_t *wasi_config_new(void);
bool wasi_config_set_argv(wasi_config_t *, size_t, const char *[]);
bool wasi_config_set_env(wasi_config_t *, size_t, const char *[], const char *[]);
void wasi_config_inherit_stdin(wasi_config_t *);
void wasi_config_set_stdin_bytes(wasi_config_t *, wasm_byte_vec_t *);
void wasi_config_set_stdout_custom(wasi_config_t *, ptrdiff_t (*)(void *, const unsigned char *, size_t),
                                   void *, void (*)(void *));
void wasi_config_set_stderr_custom(wasi_config_t *, ptrdiff_t (*)(void *, const unsigned char *, size_t),
                                   void *, void (*)(void *));
bool wasi_config_set_stdout_file(wasi_config_t *, const char *);
bool wasi_config_set_stderr_file(wasi_config_t *, const char *);
bool wasi_config_preopen_dir(wasi_config_t *, const char *, const char *, bool);
