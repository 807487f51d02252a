#include "run.h"

#include "fetch.h"
#include "imports.h"
#include "javascript.h"
#include "python.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { TICK_US = 10000, STDIN_MAX = 64 << 20 };

/* What the clock of a run looks at, 100 times a second. */
struct watch {
    int64_t cpu_until_us, wall_until_us;
    const char *limit; /* that it has reached */
};

struct run {
    struct machine *machine;
    const struct task *task;
    const struct linked *linked;
    struct report *report;
    struct run_state state;
    struct watch watch;
    wasmtime_store_t *store;
    wasmtime_context_t *context;
    wasmtime_instance_t instance;
    char code_directory[4096], tmp_directory[4096];
};

static wasm_engine_t *ticking;

static void tick(int signal)
{
    (void)signal;
    wasmtime_engine_increment_epoch(ticking); /* an atomic addition: fit for a handler */
}

static void set_ticks(int every_us)
{
    struct itimerval every = {.it_interval.tv_usec = every_us, .it_value.tv_usec = every_us};
    setitimer(ITIMER_REAL, &every, NULL);
}

static int64_t now_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static wasmtime_error_t *look_at_clock(const wasmtime_context_t *context, void *data, uint64_t *ret_delta,
                                       uint8_t *ret_kind)
{
    (void)context;
    struct watch *watch = data;
    if (now_us(CLOCK_PROCESS_CPUTIME_ID) >= watch->cpu_until_us)
        watch->limit = FIELD_CPU;
    else if (now_us(CLOCK_MONOTONIC) >= watch->wall_until_us)
        watch->limit = FIELD_WALL;
    *ret_delta = 1;
    *ret_kind = DEADLINE_CONTINUE;
    return watch->limit ? wasmtime_error_new("its time is over") : NULL;
}

static void start_clock(struct run *run)
{
    const struct task *task = run->task;
    run->watch = (struct watch){
        .cpu_until_us = now_us(CLOCK_PROCESS_CPUTIME_ID) + task->cpu_ms * 1000,
        .wall_until_us = now_us(CLOCK_MONOTONIC) + task->wall_ms * 1000,
    };
    if (!ticking) {
        struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
        sigaction(SIGALRM, &action, NULL);
    }
    ticking = machine_engine(run->machine);
    set_ticks(TICK_US);
    wasmtime_store_epoch_deadline_callback(run->store, look_at_clock, &run->watch, NULL);
    wasmtime_context_set_epoch_deadline(run->context, 1);
}

static ptrdiff_t write_stream(void *data, const unsigned char *bytes, size_t length)
{
    int fd = (int)(intptr_t)data;
    for (size_t done = 0; done < length;) {
        ssize_t written = write(fd, bytes + done, length - done);
        if (written < 0 && errno != EINTR)
            return -errno;
        done += written > 0 ? (size_t)written : 0;
    }
    return (ptrdiff_t)length;
}

/* A file is written to where the module calls; what is not one for Wasmtime is written to by a thread of its
 * own, which has to be woken. A stream of another user, as that of a run without a keeper, cannot be opened.
 */
static void give_output(const struct task *task, wasi_config_t *wasi)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", task->stdout_fd);
    if (!wasi_config_set_stdout_file(wasi, path))
        wasi_config_set_stdout_custom(wasi, write_stream, (void *)(intptr_t)task->stdout_fd, NULL);
    snprintf(path, sizeof path, "/proc/self/fd/%d", task->stderr_fd);
    if (!wasi_config_set_stderr_file(wasi, path))
        wasi_config_set_stderr_custom(wasi, write_stream, (void *)(intptr_t)task->stderr_fd, NULL);
}

/* Wasmtime keeps what it has read of the process's own stdin for whoever asks next: in a process that serves
 * several runs, each gets its own as bytes. */
static bool give_stdin(const struct task *task, wasi_config_t *wasi)
{
    if (!task->owns_stdin) {
        wasi_config_inherit_stdin(wasi);
        return true;
    }
    char *bytes = NULL;
    size_t length = 0, room = 0;
    for (;;) {
        if (length == room) {
            room = room ? room * 2 : 4096;
            char *larger = room > STDIN_MAX ? NULL : realloc(bytes, room);
            if (!larger) {
                free(bytes);
                return false;
            }
            bytes = larger;
        }
        ssize_t got = task->stdin_fd < 0 ? 0 : read(task->stdin_fd, bytes + length, room - length);
        if (got == 0 || (got < 0 && errno != EINTR))
            break;
        length += got > 0 ? (size_t)got : 0;
    }
    wasm_byte_vec_t given;
    wasm_byte_vec_new(&given, length, bytes);
    free(bytes);
    wasi_config_set_stdin_bytes(wasi, &given);
    return true;
}

static bool give_environment(const struct task *task, wasi_config_t *wasi)
{
    static const char *names[TASK_LIST_MAX], *values[TASK_LIST_MAX];
    bool is_given = true;
    size_t count = 0;
    for (size_t i = 0; i < task->environment_count; i++) {
        const char *equals = strchr(task->environment[i], '=');
        if (!equals)
            continue;
        names[count] = strndup(task->environment[i], (size_t)(equals - task->environment[i]));
        values[count++] = equals + 1;
        is_given &= names[count - 1] != NULL;
    }
    is_given = is_given && wasi_config_set_env(wasi, count, names, values);
    for (size_t i = 0; i < count; i++)
        free((char *)names[i]);
    return is_given;
}

/* A directory that no other run of this process has had. */
static bool make_directory(const struct task *task, const char *kind, char *into, size_t size)
{
    static unsigned long number;
    snprintf(into, size, "%s/%s-%lu", task->scratch, kind, ++number);
    return mkdir(into, 0700) == 0;
}

/* The code of an interpreter is a file for it, in a directory that has nothing else. */
static bool place_code(struct run *run)
{
    const struct task *task = run->task;
    char path[sizeof run->code_directory + 300];
    if (!make_directory(task, "code", run->code_directory, sizeof run->code_directory))
        return false;
    snprintf(path, sizeof path, "%s/%s", run->code_directory, task->name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
    bool is_written = fd >= 0 && write_stream((void *)(intptr_t)fd, task->code, task->code_length) >= 0;
    if (fd >= 0)
        close(fd);
    return is_written;
}

/* What a run has left in its /tmp stays there: the host sees that, and gives the process no other run. */
static void remove_directories(const struct run *run)
{
    char path[sizeof run->code_directory + 300];
    if (run->tmp_directory[0])
        rmdir(run->tmp_directory);
    if (!run->code_directory[0])
        return;
    snprintf(path, sizeof path, "%s/%s", run->code_directory, run->task->name);
    unlink(path);
    rmdir(run->code_directory);
}

/* In this order: an interpreter that has begun already (setup/wasm/snapshot) knows them by their numbers.
 * C libraries look in "." for relative names, and for all that lie in no other directory. */
static bool give_directories(struct run *run, wasi_config_t *wasi)
{
    const struct task *task = run->task;
    if (!make_directory(task, "tmp", run->tmp_directory, sizeof run->tmp_directory))
        return false;
    const struct {
        const char *path, *name;
        bool is_writable;
    } places[] = {{task->input, "/data/input", false},
                  {task->output, "/data/output", true},
                  {task->runtime ? run->code_directory : NULL, "/code", false},
                  {run->tmp_directory, "/tmp", true}},
      *own = NULL;
    bool is_given = true;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (places[i].path)
            is_given &= wasi_config_preopen_dir(wasi, places[i].path, places[i].name, places[i].is_writable);
        if (task->directory && strcmp(task->directory, places[i].name) == 0)
            own = &places[i];
    }
    if (own && own->path && !run->linked->finds_its_place)
        is_given &= wasi_config_preopen_dir(wasi, own->path, ".", own->is_writable);
    return is_given;
}

/* Arguments, environment, streams, and the directories of a run; nothing else of this process is there. */
static const char *give_world(struct run *run)
{
    const struct task *task = run->task;
    wasi_config_t *wasi = wasi_config_new();
    give_output(task, wasi);
    if (!wasi_config_set_argv(wasi, task->argument_count, (const char **)task->arguments) ||
        !give_environment(task, wasi))
        return "its arguments and environment must be UTF-8";
    if (!give_stdin(task, wasi))
        return "stdin is larger than 64 MiB";
    if (task->runtime && !place_code(run))
        return "its code cannot be placed";
    if (run->linked->sees_files && !give_directories(run, wasi))
        return "a directory cannot be opened for it";
    wasmtime_error_t *error = wasmtime_context_set_wasi(run->context, wasi);
    if (error)
        wasmtime_error_delete(error);
    return error ? "its surroundings cannot be made" : NULL;
}

static const char *trap_name(uint8_t code)
{
    static const char *const names[] = {"stack_overflow",
                                        "memory_out_of_bounds",
                                        "heap_misaligned",
                                        "table_out_of_bounds",
                                        "indirect_call_to_null",
                                        "bad_signature",
                                        "integer_overflow",
                                        "integer_division_by_zero",
                                        "bad_conversion_to_integer",
                                        "unreachable",
                                        "interrupt",
                                        "out_of_fuel",
                                        "atomic_wait_non_shared_memory",
                                        "null_reference",
                                        "array_out_of_bounds",
                                        "allocation_too_large",
                                        "cast_failure"};
    return code < sizeof names / sizeof *names ? names[code] : "other";
}

/* Where linear memory could not grow any more, code of most languages ends in a trap: a megabyte below the
 * limit and beyond it counts as that. */
static bool memory_is_full(int64_t used, int64_t limit)
{
    return used + (1 << 20) + limit / 16 > limit;
}

struct used {
    int64_t largest, all; /* bytes: of one memory, each of which has the limit, and together */
};

/* A memory that is not exported cannot be seen from here. */
static struct used memory_used(const struct run *run)
{
    struct used used = {0};
    wasmtime_extern_t seen[MACHINE_PER_MODULE];
    for (size_t i = 0; i < MACHINE_PER_MODULE && run->linked->memories[i]; i++) {
        const char *name = run->linked->memories[i];
        if (!wasmtime_instance_export_get(run->context, &run->instance, name, strlen(name), &seen[i]))
            break;
        bool is_known = false; /* under another name */
        for (size_t k = 0; k < i; k++)
            is_known |= seen[k].of.memory.of.hidden1 == seen[i].of.memory.of.hidden1 &&
                        seen[k].of.memory.hidden2 == seen[i].of.memory.hidden2;
        int64_t size = (int64_t)wasmtime_memory_data_size(run->context, &seen[i].of.memory);
        used.all += is_known ? 0 : size;
        if (size > used.largest)
            used.largest = size;
    }
    return used;
}

/* How a call came back: its exit code. */
static int settle(struct run *run, wasmtime_error_t *error, wasm_trap_t *trap)
{
    uint8_t kind;
    if (!error && !trap)
        return 0;
    if (run->state.has_exited) {
        if (error)
            wasmtime_error_delete(error);
        if (trap)
            wasm_trap_delete(trap);
        return run->state.exit_code;
    }
    if (run->watch.limit)
        report_add(run->report, REPORT_LIMIT, "%s", run->watch.limit);
    else if (trap && wasmtime_trap_code(trap, &kind)) {
        const char *name = trap_name(kind);
        report_add(run->report, REPORT_TRAP, "%s", name);
        if (strcmp(name, "out_of_fuel") == 0)
            report_add(run->report, REPORT_LIMIT, "%s", FIELD_FUEL);
        else if (strcmp(name, "unreachable") == 0 &&
                 memory_is_full(memory_used(run).largest, run->task->memory_bytes))
            report_add(run->report, REPORT_LIMIT, "%s", FIELD_MEMORY);
    } else {
        report_add(run->report, REPORT_TRAP, "host");
    }
    report_words(run->report, REPORT_MESSAGE, error, trap);
    return EXIT_TRAPPED;
}

static bool read_value(const char *text, uint8_t type, wasmtime_val_t *into)
{
    char *end = NULL;
    errno = 0;
    *into = (wasmtime_val_t){.kind = type};
    if (type == TYPE_I32) {
        long long value = strtoll(text, &end, 0);
        into->of.i32 = (int32_t)value;
        return end != text && !*end && !errno && value >= INT32_MIN && value <= UINT32_MAX;
    }
    if (type == TYPE_I64) {
        into->of.i64 = text[0] == '-' ? strtoll(text, &end, 0) : (int64_t)strtoull(text, &end, 0);
        return end != text && !*end && !errno;
    }
    double value = strtod(text, &end);
    if (type == TYPE_F32)
        into->of.f32 = (float)value;
    else
        into->of.f64 = value;
    return (type == TYPE_F32 || type == TYPE_F64) && end != text && !*end;
}

/* As one number, its highest lane first. */
static void tell_vector(struct report *report, const uint8_t *bytes)
{
    char text[2 * 16 + 1];
    for (int i = 0; i < 16; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[15 - i]);
    report_add(report, REPORT_RETURNED, "0x%s", text);
}

static void tell_value(struct report *report, const wasmtime_val_t *value)
{
    if (value->kind == VAL_I32)
        report_add(report, REPORT_RETURNED, "%d", value->of.i32);
    else if (value->kind == VAL_I64)
        report_add(report, REPORT_RETURNED, "%lld", (long long)value->of.i64);
    else if (value->kind == VAL_F32)
        report_add(report, REPORT_RETURNED, "%.9g", (double)value->of.f32);
    else if (value->kind == VAL_F64)
        report_add(report, REPORT_RETURNED, "%.17g", value->of.f64);
    else if (value->kind == VAL_V128)
        tell_vector(report, value->of.v128);
    else
        report_add(report, REPORT_RETURNED, "(a reference)");
}

enum { VALUES_MAX = 32 };

static const char *const type_names[] = {"i32", "i64", "f32", "f64"};

/* Compared, and not asked for its kind: Wasmtime's C API aborts when it is asked for that of a vector, or of
 * a reference that is newer than the API. */
static bool find_kind(const wasm_valtype_t *type, uint8_t *ret)
{
    static wasm_valtype_t *known[TYPE_F64 + 1];
    for (uint8_t kind = TYPE_I32; kind <= TYPE_F64; kind++) {
        if (!known[kind])
            known[kind] = wasm_valtype_new(kind);
        if (wasmtime_wasm_valtype_equal(type, known[kind])) {
            *ret = kind;
            return true;
        }
    }
    return false;
}

static bool fill_values(struct run *run, const wasm_functype_t *type, wasmtime_val_t *into)
{
    const wasm_valtype_vec_t *params = wasm_functype_params(type);
    const struct task *task = run->task;
    if (params->size != task->argument_count || params->size > VALUES_MAX ||
        wasm_functype_results(type)->size > VALUES_MAX) {
        report_add(run->report, REPORT_REFUSED, "'%.100s' takes %zu values, and %zu are given", task->call,
                   params->size, task->argument_count);
        return false;
    }
    for (size_t i = 0; i < params->size; i++) {
        uint8_t kind;
        if (!find_kind(params->data[i], &kind)) {
            report_add(run->report, REPORT_REFUSED,
                       "'%.100s' cannot be called from outside: its value %zu is a vector or a reference, "
                       "and only i32, i64, f32 and f64 can be given",
                       task->call, i + 1);
            return false;
        }
        if (!read_value(task->arguments[i], kind, &into[i])) {
            report_add(run->report, REPORT_REFUSED, "'%.100s': value %zu, '%.64s', is not %s", task->call,
                       i + 1, task->arguments[i], type_names[kind]);
            return false;
        }
    }
    return true;
}

static int call_with_values(struct run *run, const wasmtime_func_t *function)
{
    wasmtime_val_t values[VALUES_MAX], results[VALUES_MAX];
    wasm_functype_t *type = wasmtime_func_type(run->context, function);
    size_t params = wasm_functype_params(type)->size, returned = wasm_functype_results(type)->size;
    bool is_filled = fill_values(run, type, values);
    wasm_functype_delete(type);
    if (!is_filled)
        return EXIT_TRAPPED;
    wasm_trap_t *trap = NULL;
    wasmtime_error_t *error =
        wasmtime_func_call(run->context, function, values, params, results, returned, &trap);
    int code = settle(run, error, trap);
    for (size_t i = 0; !error && !trap && i < returned; i++)
        tell_value(run->report, &results[i]);
    return code;
}

static bool find_function(struct run *run, const char *name, wasmtime_func_t *ret)
{
    wasmtime_extern_t item;
    bool found = wasmtime_instance_export_get(run->context, &run->instance, name, strlen(name), &item) &&
                 item.kind == EXTERN_FUNC;
    if (found)
        *ret = item.of.func;
    return found;
}

/* A module that is not a program itself may have something to do before its functions are called. */
static int call_exported(struct run *run)
{
    const char *name = run->task->call ? run->task->call : "_start";
    wasmtime_func_t initialize, function;
    wasm_trap_t *trap = NULL;
    if (!find_function(run, name, &function)) {
        report_add(run->report, REPORT_REFUSED,
                   run->task->call
                       ? "the module exports no function '%.100s'"
                       : "the module exports no '%.100s': it is not a program; say which function to call",
                   name);
        return EXIT_TRAPPED;
    }
    if (run->task->call && find_function(run, "_initialize", &initialize)) {
        wasmtime_error_t *error = wasmtime_func_call(run->context, &initialize, NULL, 0, NULL, 0, &trap);
        if (error || trap)
            return settle(run, error, trap);
    }
    if (run->task->call)
        return call_with_values(run, &function);
    wasmtime_error_t *error = wasmtime_func_call(run->context, &function, NULL, 0, NULL, 0, &trap);
    return settle(run, error, trap);
}

/* What interpreter the runtime is shows in what it exports. One that is a program reads its code itself. */
static int interpret(struct run *run)
{
    struct interpreter interpreter = {.context = run->context, .instance = &run->instance};
    wasmtime_func_t known;
    int code = 0;
    if (find_function(run, "qjs_eval", &known))
        code = javascript_run(&interpreter, run->task, &run->state);
    else if (find_function(run, "PyObject_CallOneArg", &known))
        python_run(&interpreter, run->task);
    else
        return call_exported(run);
    return interpreter_is_over(&interpreter) ? settle(run, interpreter.error, interpreter.trap) : code;
}

static int run_instance(struct run *run)
{
    wasm_trap_t *trap = NULL;
    wasmtime_error_t *error =
        wasmtime_instance_pre_instantiate(run->linked->pre, run->context, &run->instance, &trap);
    if (error) { /* more memory or tables at the start than its limits are */
        report_words(run->report, REPORT_REFUSED, error, trap);
        return EXIT_TRAPPED;
    }
    if (trap)
        return settle(run, NULL, trap);
    int code = run->task->runtime ? interpret(run) : call_exported(run);
    int64_t used = memory_used(run).all; /* together they may have more than one is allowed */
    report_add(run->report, REPORT_MEMORY, "%lld",
               (long long)(used < run->task->memory_bytes ? used : run->task->memory_bytes));
    return code;
}

static void tell_fuel(struct run *run)
{
    uint64_t left = 0;
    wasmtime_error_t *error = wasmtime_context_get_fuel(run->context, &left);
    if (error)
        wasmtime_error_delete(error);
    else
        report_add(run->report, REPORT_FUEL, "%llu", (unsigned long long)((uint64_t)run->task->fuel - left));
}

int run_task(struct machine *machine, const struct task *task, struct report *report)
{
    struct run run = {.machine = machine, .task = task, .report = report, .state.stderr_fd = task->stderr_fd};
    run.linked = machine_link(machine, task, report);
    if (!run.linked)
        return EXIT_TRAPPED;
    run.store = wasmtime_store_new(machine_engine(machine), &run.state, NULL);
    run.context = wasmtime_store_context(run.store);
    wasmtime_store_limiter(run.store, task->memory_bytes, MACHINE_TABLE_ELEMENTS, 1, MACHINE_PER_MODULE,
                           MACHINE_PER_MODULE);
    wasmtime_error_t *error =
        task->fuel >= 0 ? wasmtime_context_set_fuel(run.context, (uint64_t)task->fuel) : NULL;
    const char *missing = error ? "fuel cannot be counted" : give_world(&run);
    if (!missing && task->host_groups & IMPORT_FETCH && !(run.state.fetch = fetch_new(task->fetch_fd)))
        missing = "there is no memory for what it fetches";
    int code = EXIT_TRAPPED;
    if (missing) {
        report_add(report, REPORT_REFUSED, "%s", missing);
    } else {
        start_clock(&run);
        code = run_instance(&run);
        set_ticks(0);
        if (task->fuel >= 0)
            tell_fuel(&run);
    }
    wasmtime_store_delete(run.store);
    kv_free(run.state.kv);
    fetch_free(run.state.fetch);
    remove_directories(&run);
    return code;
}
