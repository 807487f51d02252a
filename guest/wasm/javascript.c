#include "javascript.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* quickjs-wasi: JS_EVAL_FLAG_ASYNC lets a script await, JS_EVAL_FLAG_BACKTRACE_BARRIER hides our own frames.
 */
enum { EVAL_ASYNC = 1 << 7, EVAL_BARRIER = 1 << 6 };
enum { PROMISE_PENDING = 0, PROMISE_REJECTED = 2, EXIT_UNSETTLED = 13, SLICE_MS = 50 };
enum { ENGINE_STACK_BYTES = 700 << 10 }; /* of its own: an error of JavaScript comes before the trap */

static const char prelude[] = {
#include "wasm_prelude.h" /* prelude.js */
};

struct javascript {
    struct interpreter *interpreter;
    const struct task *task;
    uint32_t length_at; /* four bytes in the engine's memory, for lengths */
    uint32_t tools;     /* what prelude.js gives back */
    uint32_t reason;    /* of the last rejection that nobody handled */
    int unhandled;
    bool has_exited;
    int exit_code;
};

static bool is_over(const struct javascript *self)
{
    return interpreter_is_over(self->interpreter);
}

static uint32_t call(struct javascript *self, const char *name, size_t count, const uint32_t *values,
                     bool returns)
{
    return interpreter_call(self->interpreter, name, count, values, returns);
}

static void release(struct javascript *self, const char *name, uint32_t what)
{
    if (what)
        call(self, name, 1, &what, false);
}

#define CALL(self, name, ...)                                                                                \
    call(self, name, sizeof(uint32_t[]){__VA_ARGS__} / sizeof(uint32_t), (uint32_t[]){__VA_ARGS__}, true)

static uint8_t *memory_at(struct javascript *self, uint32_t at, size_t length)
{
    return interpreter_memory(self->interpreter, at, length);
}

static uint32_t put_text(struct javascript *self, const void *text, size_t length)
{
    uint32_t at = length < UINT32_MAX ? CALL(self, "wasm_malloc", (uint32_t)length + 1) : 0;
    uint8_t *into = memory_at(self, at, length + 1);
    if (!into) {
        if (!is_over(self))
            self->interpreter->error = wasmtime_error_new("the code does not fit into the memory limit");
        return 0;
    }
    memcpy(into, text, length);
    into[length] = '\0';
    return at;
}

/* The text of a value, in the engine's memory until it is released. */
struct seen {
    uint32_t at, length;
    const char *bytes;
};

static struct seen text_of(struct javascript *self, uint32_t value)
{
    struct seen seen = {.at = CALL(self, "qjs_get_string_len", value, self->length_at), .bytes = ""};
    const uint8_t *length = memory_at(self, self->length_at, 4);
    if (!seen.at || !length)
        return seen;
    memcpy(&seen.length, length, 4);
    const uint8_t *bytes = memory_at(self, seen.at, seen.length);
    if (bytes)
        seen.bytes = (const char *)bytes;
    else
        seen.length = 0;
    return seen;
}

/* As much as there is room for, and released. */
static void copy_text(struct javascript *self, uint32_t value, char *into, size_t size)
{
    struct seen seen = text_of(self, value);
    size_t length = seen.length < size - 1 ? seen.length : size - 1;
    memcpy(into, seen.bytes, length);
    into[length] = '\0';
    release(self, "qjs_free_cstring", seen.at);
}

static void write_all(int fd, const char *text, size_t length)
{
    for (size_t done = 0; done < length;) {
        ssize_t written = write(fd, text + done, length - done);
        if (written < 0 && errno != EINTR)
            return;
        done += written > 0 ? (size_t)written : 0;
    }
}

static wasm_trap_t *give_up(struct javascript *self)
{
    struct interpreter *engine = self->interpreter;
    if (engine->error)
        wasmtime_error_delete(engine->error);
    wasm_trap_t *trap = engine->trap;
    engine->error = NULL;
    engine->trap = NULL;
    return trap ? trap : wasmtime_trap_new("a call into the engine failed", 29);
}

/* say(kind, text) */
wasm_trap_t *javascript_host_call(void *env, wasmtime_caller_t *caller, const wasmtime_val_t *args,
                                  size_t arg_count, wasmtime_val_t *results, size_t result_count)
{
    (void)env, (void)arg_count, (void)result_count;
    struct run_state *state = wasmtime_context_get_data(wasmtime_caller_context(caller));
    struct javascript *self = state->javascript;
    uint32_t values[2];
    const uint8_t *list =
        args[3].of.i32 == 2 ? memory_at(self, (uint32_t)args[4].of.i32, sizeof values) : NULL;
    uint32_t nothing = call(self, "qjs_get_undefined", 0, NULL, true);
    results[0] = (wasmtime_val_t){.kind = VAL_I32, .of.i32 = (int32_t)nothing};
    if (!list || is_over(self))
        return is_over(self) ? give_up(self) : NULL;
    memcpy(values, list, sizeof values);
    char kind[8], code[8];
    copy_text(self, values[0], kind, sizeof kind);
    if (strcmp(kind, "exit") == 0) {
        copy_text(self, values[1], code, sizeof code);
        self->has_exited = true;
        self->exit_code = atoi(code) & 0xff;
        return wasmtime_trap_new("exit", 4); /* unwinds all of it: code cannot catch its own end */
    }
    struct seen text = text_of(self, values[1]);
    if (!is_over(self))
        write_all(strcmp(kind, "stdout") == 0 ? self->task->stdout_fd : self->task->stderr_fd, text.bytes,
                  text.length);
    release(self, "qjs_free_cstring", text.at);
    return is_over(self) ? give_up(self) : NULL;
}

wasm_trap_t *javascript_rejection(void *env, wasmtime_caller_t *caller, const wasmtime_val_t *args,
                                  size_t arg_count, wasmtime_val_t *results, size_t result_count)
{
    (void)env, (void)arg_count, (void)results, (void)result_count;
    struct run_state *state = wasmtime_context_get_data(wasmtime_caller_context(caller));
    bool is_handled = args[2].of.i32 != 0;
    state->javascript->unhandled += is_handled ? -1 : 1;
    if (!is_handled)
        state->javascript->reason = (uint32_t)args[1].of.i32;
    return NULL;
}

wasm_trap_t *javascript_zero(void *env, wasmtime_caller_t *caller, const wasmtime_val_t *args,
                             size_t arg_count, wasmtime_val_t *results, size_t result_count)
{
    (void)env, (void)caller, (void)args, (void)arg_count, (void)result_count;
    results[0] = (wasmtime_val_t){.kind = VAL_I32};
    return NULL;
}

/* Text that grows; without memory it ends early, and the code is then refused as one that does not parse. */
struct text {
    char *bytes;
    size_t length, room;
};

static void append(struct text *text, const char *bytes, size_t length)
{
    if (text->length + length > text->room) {
        size_t room = (text->length + length) * 2;
        char *larger = realloc(text->bytes, room);
        if (!larger)
            return;
        text->bytes = larger;
        text->room = room;
    }
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
}

static void append_quoted(struct text *text, const char *value, size_t length)
{
    append(text, "\"", 1);
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)value[i];
        char escaped[8];
        if (byte >= 0x20 && byte != '"' && byte != '\\')
            append(text, value + i, 1);
        else
            append(text, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", byte));
    }
    append(text, "\"", 1);
}

#define APPEND(text, constant) append(text, constant, sizeof constant - 1)

/* The prelude, called with say and what the program is given. */
static void write_start(const struct task *task, struct text *into)
{
    append(into, prelude, sizeof prelude);
    APPEND(into, "(__say, {arguments: [");
    for (size_t i = 1; i < task->argument_count; i++) {
        append_quoted(into, task->arguments[i], strlen(task->arguments[i]));
        APPEND(into, ",");
    }
    APPEND(into, "], environment: {");
    for (size_t i = 0; i < task->environment_count; i++) {
        size_t name = strcspn(task->environment[i], "=");
        append_quoted(into, task->environment[i], name);
        APPEND(into, ":");
        const char *value = task->environment[i] + name + (task->environment[i][name] == '=');
        append_quoted(into, value, strlen(value));
        APPEND(into, ",");
    }
    APPEND(into, "}})");
}

static uint32_t evaluate(struct javascript *self, const void *code, size_t length, const char *name,
                         uint32_t flags)
{
    uint32_t code_at = put_text(self, code, length), name_at = put_text(self, name, strlen(name));
    uint32_t value = CALL(self, "qjs_eval", code_at, (uint32_t)length, name_at, flags);
    release(self, "wasm_free", code_at);
    release(self, "wasm_free", name_at);
    return value;
}

/* A function of the tools, with at most one value. */
static uint32_t call_tool(struct javascript *self, const char *name, uint32_t value)
{
    uint32_t name_at = put_text(self, name, strlen(name)), list_at = 0;
    uint32_t tool = CALL(self, "qjs_get_prop_string", self->tools, name_at);
    if (value) {
        list_at = CALL(self, "wasm_malloc", 4u);
        uint8_t *list = memory_at(self, list_at, 4);
        if (list)
            memcpy(list, &value, 4);
    }
    uint32_t result = CALL(self, "qjs_call", tool, self->tools, (uint32_t)(value != 0), list_at);
    release(self, "qjs_free_value", tool);
    release(self, "wasm_free", list_at);
    release(self, "wasm_free", name_at);
    return result;
}

static int number_of(struct javascript *self, uint32_t value)
{
    char digits[16];
    copy_text(self, value, digits, sizeof digits);
    release(self, "qjs_free_value", value);
    return atoi(digits);
}

static void tell(struct javascript *self, uint32_t reason)
{
    call_tool(self, "told", reason);
    self->exit_code = 1;
}

static void open_engine(struct javascript *self)
{
    call(self, "_initialize", 0, NULL, false);
    call(self, "qjs_init", 0, NULL, true);
    call(self, "qjs_set_max_stack_size", 1, (uint32_t[]){ENGINE_STACK_BYTES}, false);
    call(self, "qjs_set_promise_rejection_handler", 1, (uint32_t[]){1}, false);
    self->length_at = CALL(self, "wasm_malloc", 4u);
    uint32_t name_at = put_text(self, "__say", 5);
    uint32_t say = CALL(self, "qjs_new_host_function", name_at, 5u, 2u);
    uint32_t global = call(self, "qjs_get_global", 0, NULL, true);
    CALL(self, "qjs_set_prop_string", global, name_at, say);
    struct text start = {0};
    write_start(self->task, &start);
    self->tools = evaluate(self, start.bytes ? start.bytes : "", start.length, "prelude", 0);
    free(start.bytes);
    evaluate(self, "delete globalThis.__say", 23, "prelude", 0);
}

/* Until nothing can happen any more. False: an exception ended it. */
static bool do_jobs(struct javascript *self)
{
    while (!is_over(self) && call(self, "qjs_is_job_pending", 0, NULL, true)) {
        if ((int32_t)call(self, "qjs_execute_pending_job", 0, NULL, true) >= 0)
            continue;
        tell(self, call(self, "qjs_get_exception", 0, NULL, true));
        return false;
    }
    return !is_over(self);
}

/* In slices: between them the engine is entered, and with it the clock of the run looked at. */
static void wait_some(int ms)
{
    struct timespec pause = {.tv_nsec = (ms < SLICE_MS ? ms : SLICE_MS) * 1000000L};
    nanosleep(&pause, NULL);
}

static void go_on(struct javascript *self, uint32_t promise)
{
    while (do_jobs(self)) {
        if (CALL(self, "qjs_promise_state", promise) == PROMISE_REJECTED) {
            tell(self, CALL(self, "qjs_promise_result", promise));
            return;
        }
        int wait_ms = number_of(self, call_tool(self, "ask", 0));
        if (is_over(self) || wait_ms < 0)
            break;
        if (wait_ms > 0)
            wait_some(wait_ms);
        else if (CALL(self, "qjs_is_exception", call_tool(self, "due", 0))) {
            tell(self, call(self, "qjs_get_exception", 0, NULL, true));
            return;
        }
    }
    if (is_over(self) || self->exit_code)
        return;
    if (self->unhandled > 0)
        tell(self, self->reason);
    else if (CALL(self, "qjs_promise_state", promise) == PROMISE_PENDING) {
        static const char words[] = "Warning: the code awaits something that will never come\n";
        write_all(self->task->stderr_fd, words, sizeof words - 1);
        self->exit_code = EXIT_UNSETTLED;
    } else
        self->exit_code = number_of(self, call_tool(self, "code", 0));
}

int javascript_run(struct interpreter *interpreter, const struct task *task, struct run_state *state)
{
    struct javascript self = {.interpreter = interpreter, .task = task};
    state->javascript = &self;
    open_engine(&self);
    uint32_t promise = evaluate(&self, task->code, task->code_length, task->name, EVAL_ASYNC | EVAL_BARRIER);
    if (!is_over(&self) && CALL(&self, "qjs_is_exception", promise))
        tell(&self, call(&self, "qjs_get_exception", 0, NULL, true));
    else if (!is_over(&self))
        go_on(&self, promise);
    state->javascript = NULL;
    if (self.has_exited && interpreter->trap) {
        wasm_trap_delete(interpreter->trap);
        interpreter->trap = NULL;
    }
    if (self.has_exited && interpreter->error) {
        wasmtime_error_delete(interpreter->error);
        interpreter->error = NULL;
    }
    return self.exit_code;
}
