#include "machine.h"

#include "imports.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* What is resident is overwritten after a run: for so little that is less work than to map it anew. Modules
 * of users take memory as long as they are kept: a process that has much of it is not. */
enum { KEPT_MAX = 32, KEPT_BYTES_MAX = 16 << 20, SLOTS = 4, RESIDENT_BYTES = 64 << 10 };

/* A module that is kept, known by its path or by all of its bytes. */
struct kept {
    char *path;
    uint8_t *bytes;
    size_t length;
    size_t held; /* bytes of memory, without those of files */
    unsigned groups;
    wasmtime_module_t *module;
    wasmtime_linker_t *linker;
    struct linked linked;
    uint64_t used; /* the one that was used longest ago goes first */
};

struct machine {
    wasm_engine_t *engine;
    struct kept kept[KEPT_MAX];
    size_t count;
    uint64_t uses;
};

/* Memory comes from a pool of slots whose pages are mapped from the module and copied when they are written.
 */
static void use_pool(wasm_config_t *config)
{
    wasmtime_pooling_allocation_config_t *pool = wasmtime_pooling_allocation_config_new();
    wasmtime_pooling_allocation_config_total_core_instances_set(pool, SLOTS);
    wasmtime_pooling_allocation_config_total_memories_set(pool, SLOTS * MACHINE_PER_MODULE);
    wasmtime_pooling_allocation_config_total_tables_set(pool, SLOTS * MACHINE_PER_MODULE);
    wasmtime_pooling_allocation_config_max_memories_per_module_set(pool, MACHINE_PER_MODULE);
    wasmtime_pooling_allocation_config_max_tables_per_module_set(pool, MACHINE_PER_MODULE);
    wasmtime_pooling_allocation_config_table_elements_set(pool, MACHINE_TABLE_ELEMENTS);
    wasmtime_pooling_allocation_config_max_memory_size_set(pool, (size_t)4 << 30);
    wasmtime_pooling_allocation_config_max_core_instance_size_set(pool, 4 << 20);
    wasmtime_pooling_allocation_config_linear_memory_keep_resident_set(pool, RESIDENT_BYTES);
    wasmtime_pooling_allocation_strategy_set(config, pool);
    wasmtime_pooling_allocation_config_delete(pool);
}

struct machine *machine_open(bool counts_fuel)
{
    struct machine *machine = calloc(1, sizeof *machine);
    wasm_config_t *config = wasm_config_new();
    if (!machine || !config)
        return NULL;
    wasmtime_config_epoch_interruption_set(config, true);
    wasmtime_config_consume_fuel_set(config, counts_fuel);
    wasmtime_config_cranelift_nan_canonicalization_set(
        config, counts_fuel); /* fuel is for runs that are always the same */
    wasmtime_config_memory_init_cow_set(config, true);
    wasmtime_config_async_stack_size_set(
        config, 2 * MACHINE_STACK_BYTES); /* must be above the next, and is not used */
    wasmtime_config_max_wasm_stack_set(config, MACHINE_STACK_BYTES);
    use_pool(config);
    machine->engine = wasm_engine_new_with_config(config);
    return machine->engine ? machine : NULL;
}

wasm_engine_t *machine_engine(struct machine *machine)
{
    return machine->engine;
}

static bool is_same(const struct kept *kept, const struct task *task, unsigned groups)
{
    if (kept->groups != groups || !kept->path != !task->runtime)
        return false;
    return task->runtime
               ? strcmp(kept->path, task->runtime) == 0
               : kept->length == task->code_length && memcmp(kept->bytes, task->code, kept->length) == 0;
}

static void forget(struct kept *kept)
{
    if (kept->linked.pre)
        wasmtime_instance_pre_delete(kept->linked.pre);
    if (kept->linker)
        wasmtime_linker_delete(kept->linker);
    wasmtime_module_delete(kept->module);
    for (size_t i = 0; i < MACHINE_PER_MODULE; i++)
        free(kept->linked.memories[i]);
    free(kept->path);
    free(kept->bytes);
    *kept = (struct kept){0};
}

static size_t held_by_all(const struct machine *machine)
{
    size_t sum = 0;
    for (size_t i = 0; i < machine->count; i++)
        sum += machine->kept[i].held;
    return sum;
}

/* Modules of files are in nobody's way but for their number. */
static struct kept *find_oldest(struct machine *machine, bool with_files)
{
    struct kept *oldest = NULL;
    for (size_t i = 0; i < machine->count; i++)
        if ((with_files || machine->kept[i].held) && (!oldest || machine->kept[i].used < oldest->used))
            oldest = &machine->kept[i];
    return oldest;
}

/* For one of that many bytes, which has its place even if it is too large: it is about to run. */
static struct kept *make_room(struct machine *machine, size_t bytes)
{
    struct kept *oldest;
    while ((machine->count == KEPT_MAX && (oldest = find_oldest(machine, true))) ||
           (held_by_all(machine) + bytes > KEPT_BYTES_MAX && (oldest = find_oldest(machine, false)))) {
        forget(oldest);
        *oldest = machine->kept[--machine->count];
    }
    return &machine->kept[machine->count++];
}

/* Its code, data and tables, and what it was made of. */
static size_t measure_module(const struct task *task, const wasmtime_module_t *module)
{
    void *from, *to;
    wasmtime_module_image_range(module, &from, &to);
    return (size_t)((char *)to - (char *)from) + task->code_length;
}

static bool is_binary(const struct task *task)
{
    return task->code_length >= 4 && memcmp(task->code, "\0asm", 4) == 0;
}

static wasmtime_error_t *compile_binary(const struct machine *machine, const uint8_t *bytes, size_t length,
                                        wasmtime_module_t **ret)
{
    static const uint8_t component[] = {0, 'a', 's', 'm', 13, 0, 1, 0};
    if (length >= sizeof component && memcmp(bytes, component, sizeof component) == 0)
        return wasmtime_error_new(
            "this is a component (WASI preview 2), and the engine runs modules of preview 1: build it for "
            "that, "
            "as with `cargo build --target wasm32-wasip1` or `clang --target=wasm32-wasip1`");
    return wasmtime_module_new(machine->engine, bytes, length, ret);
}

/* The binary format, or the text format, as the command lines of other runtimes take both. */
static wasmtime_error_t *compile(const struct machine *machine, const struct task *task,
                                 wasmtime_module_t **ret)
{
    if (is_binary(task))
        return compile_binary(machine, task->code, task->code_length, ret);
    wasm_byte_vec_t binary;
    wasmtime_error_t *error = wasmtime_wat2wasm((const char *)task->code, task->code_length, &binary);
    if (error)
        return error;
    error = compile_binary(machine, (const uint8_t *)binary.data, binary.size, ret);
    wasm_byte_vec_delete(&binary);
    return error;
}

static void look_at_exports(const wasmtime_module_t *module, struct linked *ret)
{
    static const char begun[] = "cloche_start"; /* setup/wasm/snapshot */
    wasm_exporttype_vec_t exports;
    wasmtime_module_exports(module, &exports);
    for (size_t i = 0, count = 0; i < exports.size; i++) {
        const wasm_byte_vec_t *name = wasm_exporttype_name(exports.data[i]);
        ret->finds_its_place |= name->size == sizeof begun - 1 && memcmp(name->data, begun, name->size) == 0;
        if (count < MACHINE_PER_MODULE &&
            wasm_externtype_kind(wasm_exporttype_type(exports.data[i])) == EXTERN_MEMORY)
            ret->memories[count++] = strndup(name->data, name->size);
    }
    wasm_exporttype_vec_delete(&exports);
}

static bool link_module(const struct machine *machine, struct kept *kept, struct report *report)
{
    char words[800];
    if (imports_explain(kept->module, kept->groups, words, sizeof words)) {
        report_add(report, REPORT_REFUSED, "%s", words);
        return false;
    }
    kept->linker = imports_link(machine->engine, kept->groups);
    if (!kept->linker) {
        report_add(report, REPORT_REFUSED, "the host functions cannot be linked");
        return false;
    }
    wasmtime_error_t *error = wasmtime_linker_instantiate_pre(kept->linker, kept->module, &kept->linked.pre);
    if (error)
        report_words(report, REPORT_REFUSED, error, NULL);
    kept->linked.module = kept->module;
    kept->linked.sees_files = imports_files(kept->module);
    look_at_exports(kept->module, &kept->linked);
    return !error;
}

const struct linked *machine_link(struct machine *machine, const struct task *task, struct report *report)
{
    /* A runtime is ours, and may have what it asks for; a user's own module has what was approved. */
    unsigned groups = task->runtime ? IMPORT_WASI | IMPORT_JAVASCRIPT : task->host_groups;
    for (size_t i = 0; i < machine->count; i++)
        if (machine->kept[i].linked.pre && is_same(&machine->kept[i], task, groups)) {
            machine->kept[i].used = ++machine->uses;
            return &machine->kept[i].linked;
        }
    struct kept made = {.groups = groups, .length = task->code_length};
    wasmtime_error_t *error =
        task->runtime ? wasmtime_module_deserialize_file(machine->engine, task->runtime, &made.module)
                      : compile(machine, task, &made.module);
    if (error) {
        report_words(report, REPORT_REFUSED, error, NULL);
        return NULL;
    }
    made.path = task->runtime ? strdup(task->runtime) : NULL;
    made.bytes = task->runtime ? NULL : malloc(task->code_length ? task->code_length : 1);
    bool is_linked = (made.path || made.bytes) && link_module(machine, &made, report);
    if (!is_linked) {
        forget(&made);
        return NULL;
    }
    if (made.bytes)
        memcpy(made.bytes, task->code, task->code_length);
    made.held = task->runtime ? 0 : measure_module(task, made.module);
    struct kept *place = make_room(machine, made.held);
    made.used = ++machine->uses;
    *place = made;
    return &place->linked;
}

static int fail(const char *what, const char *path)
{
    fprintf(stderr, "cloche-wasm: %s %s: %s\n", what, path, strerror(errno));
    return 1;
}

static int write_file(const char *path, const wasm_byte_vec_t *bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    for (size_t done = 0; fd >= 0 && done < bytes->size;) {
        ssize_t length = write(fd, bytes->data + done, bytes->size - done);
        if (length < 0) {
            close(fd);
            return -1;
        }
        done += (size_t)length;
    }
    return fd < 0 ? -1 : close(fd);
}

int machine_compile(struct machine *machine, const char *from, const char *into)
{
    int fd = open(from, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0)
        return fail("cannot open", from);
    uint8_t *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return fail("cannot read", from);
    wasmtime_module_t *module = NULL;
    wasm_byte_vec_t compiled = {0};
    wasmtime_error_t *error = wasmtime_module_new(machine->engine, bytes, (size_t)status.st_size, &module);
    if (!error)
        error = wasmtime_module_serialize(module, &compiled);
    if (error) {
        wasm_byte_vec_t words;
        wasmtime_error_message(error, &words);
        fprintf(stderr, "cloche-wasm: %s: %.*s\n", from, (int)words.size, words.data);
        return 1;
    }
    return write_file(into, &compiled) < 0 ? fail("cannot write", into) : 0;
}
