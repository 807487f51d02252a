#include "imports.h"

#include "fetch.h"
#include "javascript.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { KV_BYTES_MAX = 1 << 20, KV_ENTRIES_MAX = 1024, LOG_MAX = 64 << 10 };

struct kv_entry {
    uint8_t *key, *value;
    uint32_t key_length, value_length;
};

struct kv {
    struct kv_entry entries[KV_ENTRIES_MAX];
    size_t count, bytes;
};

void kv_free(struct kv *kv)
{
    for (size_t i = 0; kv && i < kv->count; i++) {
        free(kv->entries[i].key);
        free(kv->entries[i].value);
    }
    free(kv);
}

bool imports_range(wasmtime_caller_t *caller, uint32_t at, uint32_t length, uint8_t **ret)
{
    wasmtime_extern_t memory;
    if (!wasmtime_caller_export_get(caller, "memory", 6, &memory) || memory.kind != EXTERN_MEMORY)
        return false;
    wasmtime_context_t *context = wasmtime_caller_context(caller);
    size_t size = wasmtime_memory_data_size(context, &memory.of.memory);
    if (at > size || length > size - at)
        return false;
    *ret = wasmtime_memory_data(context, &memory.of.memory) + at;
    return true;
}

wasm_trap_t *imports_outside(void)
{
    static const char text[] = "a host function was given memory outside of the module's own";
    return wasmtime_trap_new(text, sizeof text - 1);
}

struct run_state *imports_state(wasmtime_caller_t *caller)
{
    return wasmtime_context_get_data(wasmtime_caller_context(caller));
}

void imports_answer(wasmtime_val_t *results, int32_t value)
{
    results[0] = (wasmtime_val_t){.kind = VAL_I32, .of.i32 = value};
}

#define HOST_FUNCTION(name)                                                                                  \
    static wasm_trap_t *name(void *env, wasmtime_caller_t *caller, const wasmtime_val_t *args,               \
                             size_t arg_count, wasmtime_val_t *results, size_t result_count)
#define UNUSED (void)env, (void)caller, (void)args, (void)arg_count, (void)results, (void)result_count

HOST_FUNCTION(clock_now)
{
    UNUSED;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    results[0] = (wasmtime_val_t){.kind = VAL_I64, .of.i64 = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec};
    return NULL;
}

HOST_FUNCTION(random_fill)
{
    UNUSED;
    uint8_t *into;
    uint32_t length = (uint32_t)args[1].of.i32;
    if (!imports_range(caller, (uint32_t)args[0].of.i32, length, &into))
        return imports_outside();
    for (uint32_t done = 0; done < length;) {
        ssize_t got = getrandom(into + done, length - done, 0);
        if (got < 0 && errno != EINTR)
            return wasmtime_trap_new("no randomness", 13);
        done += got > 0 ? (uint32_t)got : 0;
    }
    return NULL;
}

/* Every line that a module logs is marked as its words on stderr. */
HOST_FUNCTION(log_line)
{
    UNUSED;
    uint8_t *text;
    uint32_t length = (uint32_t)args[1].of.i32;
    if (length > LOG_MAX)
        length = LOG_MAX;
    if (!imports_range(caller, (uint32_t)args[0].of.i32, length, &text))
        return imports_outside();
    dprintf(imports_state(caller)->stderr_fd, "log: %.*s\n", (int)length, (const char *)text);
    return NULL;
}

/* In place of Wasmtime's own, for which a code from 126 on is a trap. */
HOST_FUNCTION(proc_exit)
{
    UNUSED;
    struct run_state *state = imports_state(caller);
    state->has_exited = true;
    state->exit_code = args[0].of.i32 & 0xff;
    return wasmtime_trap_new("exit", 4);
}

static struct kv_entry *kv_find(struct kv *kv, const uint8_t *key, uint32_t length)
{
    for (size_t i = 0; kv && i < kv->count; i++)
        if (kv->entries[i].key_length == length && memcmp(kv->entries[i].key, key, length) == 0)
            return &kv->entries[i];
    return NULL;
}

static uint8_t *copy(const uint8_t *bytes, uint32_t length)
{
    uint8_t *made = malloc(length ? length : 1);
    if (made)
        memcpy(made, bytes, length);
    return made;
}

/* 0, or -1 when there is no room. */
HOST_FUNCTION(kv_set)
{
    UNUSED;
    uint8_t *key, *value;
    uint32_t key_length = (uint32_t)args[1].of.i32, value_length = (uint32_t)args[3].of.i32;
    if (!imports_range(caller, (uint32_t)args[0].of.i32, key_length, &key) ||
        !imports_range(caller, (uint32_t)args[2].of.i32, value_length, &value))
        return imports_outside();
    struct run_state *state = imports_state(caller);
    if (!state->kv)
        state->kv = calloc(1, sizeof *state->kv);
    struct kv *kv = state->kv;
    imports_answer(results, -1);
    if (!kv)
        return NULL;
    struct kv_entry *entry = kv_find(kv, key, key_length);
    size_t freed = entry ? entry->value_length : 0, added = (entry ? 0 : key_length) + (size_t)value_length;
    if (kv->bytes - freed + added > KV_BYTES_MAX || (!entry && kv->count == KV_ENTRIES_MAX))
        return NULL;
    uint8_t *value_copy = copy(value, value_length), *key_copy = entry ? NULL : copy(key, key_length);
    if (!value_copy || (!entry && !key_copy)) {
        free(value_copy);
        free(key_copy);
        return NULL;
    }
    if (!entry) {
        entry = &kv->entries[kv->count++];
        *entry = (struct kv_entry){.key = key_copy, .key_length = key_length};
    }
    free(entry->value);
    entry->value = value_copy;
    entry->value_length = value_length;
    kv->bytes += added - freed;
    imports_answer(results, 0);
    return NULL;
}

/* The length of the value, of which as much is written as there is room for; -1: there is none. */
HOST_FUNCTION(kv_get)
{
    UNUSED;
    uint8_t *key, *into;
    uint32_t key_length = (uint32_t)args[1].of.i32, room = (uint32_t)args[3].of.i32;
    if (!imports_range(caller, (uint32_t)args[0].of.i32, key_length, &key) ||
        !imports_range(caller, (uint32_t)args[2].of.i32, room, &into))
        return imports_outside();
    const struct kv_entry *entry = kv_find(imports_state(caller)->kv, key, key_length);
    imports_answer(results, entry ? (int32_t)entry->value_length : -1);
    if (entry)
        memcpy(into, entry->value, entry->value_length < room ? entry->value_length : room);
    return NULL;
}

/* Types as letters: i for i32, I for i64. */
static const struct host_function {
    enum import_group group;
    const char *module, *name, *params, *results;
    wasmtime_func_callback_t call;
} functions[] = {
    {IMPORT_WASI, "wasi_snapshot_preview1", "proc_exit", "i", "", proc_exit},
    {IMPORT_CLOCK, "cloche", "clock_now", "", "I", clock_now},
    {IMPORT_RANDOM, "cloche", "random_fill", "ii", "", random_fill},
    {IMPORT_LOG, "cloche", "log", "ii", "", log_line},
    {IMPORT_KV, "cloche", "kv_set", "iiii", "i", kv_set},
    {IMPORT_KV, "cloche", "kv_get", "iiii", "i", kv_get},
    {IMPORT_FETCH, "cloche", "fetch", "iiiiiiii", "i", fetch_request},
    {IMPORT_FETCH, "cloche", "fetch_read", "ii", "i", fetch_read},
    {IMPORT_FETCH, "cloche", "fetch_header", "iiii", "i", fetch_header},
    {IMPORT_FETCH, "cloche", "fetch_error", "ii", "i", fetch_error},
    {IMPORT_JAVASCRIPT, "env", "host_call", "iiiii", "i", javascript_host_call},
    {IMPORT_JAVASCRIPT, "env", "host_interrupt", "", "i", javascript_zero},
    {IMPORT_JAVASCRIPT, "env", "host_promise_rejection", "iii", "", javascript_rejection},
    {IMPORT_JAVASCRIPT, "env", "host_module_normalize", "ii", "i", javascript_zero},
    {IMPORT_JAVASCRIPT, "env", "host_module_load", "ii", "i", javascript_zero},
    {IMPORT_JAVASCRIPT, "env", "host_get_timezone_offset", "ii", "i", javascript_zero},
};

enum { FUNCTIONS = sizeof functions / sizeof *functions };

static const struct {
    const char *name;
    enum import_group group;
} groups_by_name[] = {{"wasi", IMPORT_WASI}, {"clock", IMPORT_CLOCK}, {"random", IMPORT_RANDOM},
                      {"log", IMPORT_LOG},   {"kv", IMPORT_KV},       {"fetch", IMPORT_FETCH}};

bool imports_group(const char *name, unsigned *into)
{
    for (size_t i = 0; i < sizeof groups_by_name / sizeof *groups_by_name; i++)
        if (strcmp(name, groups_by_name[i].name) == 0) {
            *into |= groups_by_name[i].group;
            return true;
        }
    return false;
}

static bool is_called(const wasm_byte_vec_t *name, const char *text)
{
    return name->size == strlen(text) && memcmp(name->data, text, name->size) == 0;
}

/* The function that it is; NULL: it is none of ours. */
static const struct host_function *find_function(const wasm_byte_vec_t *module, const wasm_byte_vec_t *name)
{
    for (size_t i = 0; i < FUNCTIONS; i++)
        if (is_called(module, functions[i].module) && is_called(name, functions[i].name))
            return &functions[i];
    return NULL;
}

static const char *group_name(enum import_group group)
{
    for (size_t i = 0; i < sizeof groups_by_name / sizeof *groups_by_name; i++)
        if (groups_by_name[i].group == group)
            return groups_by_name[i].name;
    return NULL;
}

/* Eight names of this length, and the words around them, have room in what the host takes over. */
enum { NAMED_MAX = 8, NAME_SHOWN_MAX = 32 };

static int shown_length(const wasm_byte_vec_t *name)
{
    return (int)(name->size < NAME_SHOWN_MAX ? name->size : NAME_SHOWN_MAX);
}

bool imports_explain(const wasmtime_module_t *module, unsigned groups, char *into, size_t size)
{
    wasm_importtype_vec_t imports;
    wasmtime_module_imports(module, &imports);
    size_t found = 0, unknown = 0, length = 0;
    for (size_t i = 0; i < imports.size; i++) {
        const wasm_byte_vec_t *from = wasm_importtype_module(imports.data[i]),
                              *name = wasm_importtype_name(imports.data[i]);
        const struct host_function *function = find_function(from, name);
        bool is_wasi = is_called(from, "wasi_snapshot_preview1");
        if (is_wasi ? groups & IMPORT_WASI : function && groups & function->group)
            continue;
        const char *group = is_wasi ? "wasi" : function ? group_name(function->group) : NULL;
        unknown += group == NULL;
        if (found++ >= NAMED_MAX)
            continue;
        length += (size_t)snprintf(into + length, size - length, "%s'%.*s.%.*s'",
                                   found == 1 ? "the module imports " : ", ", shown_length(from), from->data,
                                   shown_length(name), name->data);
        if (group)
            length += (size_t)snprintf(into + length, size - length, " (group '%s')", group);
    }
    wasm_importtype_vec_delete(&imports);
    if (found > NAMED_MAX)
        length += (size_t)snprintf(into + length, size - length, " and %zu more", found - NAMED_MAX);
    if (found)
        length += (size_t)snprintf(into + length, size - length, ", which %s not approved",
                                   found == 1 ? "is" : "are");
    if (unknown)
        snprintf(into + length, size - length,
                 "; host functions are in the groups wasi, clock, random, log, kv, fetch");
    return found > 0;
}

bool imports_files(const wasmtime_module_t *module)
{
    /* All that a program imports which has streams, but no path in it. */
    static const char *const others[] = {
        "args_get",       "args_sizes_get", "environ_get",   "environ_sizes_get", "clock_res_get",
        "clock_time_get", "fd_close",       "fd_fdstat_get", "fd_read",           "fd_seek",
        "fd_write",       "poll_oneoff",    "proc_exit",     "random_get",        "sched_yield"};
    wasm_importtype_vec_t imports;
    wasmtime_module_imports(module, &imports);
    bool found = false;
    for (size_t i = 0; i < imports.size && !found; i++) {
        bool is_other = !is_called(wasm_importtype_module(imports.data[i]), "wasi_snapshot_preview1");
        for (size_t k = 0; k < sizeof others / sizeof *others && !is_other; k++)
            is_other = is_called(wasm_importtype_name(imports.data[i]), others[k]);
        found = !is_other;
    }
    wasm_importtype_vec_delete(&imports);
    return found;
}

static void fill_types(const char *letters, wasm_valtype_vec_t *into)
{
    wasm_valtype_t *types[8];
    size_t count = strlen(letters);
    for (size_t i = 0; i < count; i++)
        types[i] = wasm_valtype_new(letters[i] == 'I' ? TYPE_I64 : TYPE_I32);
    wasm_valtype_vec_new(into, count, types);
}

static wasmtime_error_t *define(wasmtime_linker_t *linker, const struct host_function *function)
{
    wasm_valtype_vec_t params, results;
    fill_types(function->params, &params);
    fill_types(function->results, &results);
    wasm_functype_t *type = wasm_functype_new(&params, &results);
    wasmtime_error_t *error =
        wasmtime_linker_define_func(linker, function->module, strlen(function->module), function->name,
                                    strlen(function->name), type, function->call, NULL, NULL);
    wasm_functype_delete(type);
    return error;
}

wasmtime_linker_t *imports_link(wasm_engine_t *engine, unsigned groups)
{
    wasmtime_linker_t *linker = wasmtime_linker_new(engine);
    wasmtime_error_t *error = groups & IMPORT_WASI ? wasmtime_linker_define_wasi(linker) : NULL;
    wasmtime_linker_allow_shadowing(linker, true); /* ours come last */
    for (size_t i = 0; i < FUNCTIONS && !error; i++)
        if (groups & functions[i].group)
            error = define(linker, &functions[i]);
    if (!error)
        return linker;
    wasmtime_error_delete(error);
    wasmtime_linker_delete(linker);
    return NULL;
}
