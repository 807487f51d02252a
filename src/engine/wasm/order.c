#include "engine/wasm/order.h"

#include "base/scope.h"
#include "engine/launch.h"
#include "engine/supervise.h"
#include "os/process.h"
#include "wasm/order.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int add_text(struct buffer *fields, const char *name, const char *value)
{
    int status = buffer_append(fields, name, strlen(name) + 1);
    return status < 0 ? status : buffer_append(fields, value, strlen(value) + 1);
}

static int add_number(struct buffer *fields, const char *name, int64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return add_text(fields, name, text);
}

static int add_list(struct buffer *fields, const char *name, const struct string_list *list)
{
    int status = 0;
    for (size_t i = 0; status == 0 && i < list->count; i++)
        status = add_text(fields, name, list->items[i]);
    return status;
}

static int add_place(struct buffer *fields, const char *name, const struct box *box, const char *place)
{
    char path[sizeof box->identity->directory + 16];
    snprintf(path, sizeof path, "%s/%s", box->identity->directory, place);
    return add_text(fields, name, path);
}

/* With `call` the arguments are values; else the first is the name that the program has. */
static int add_arguments(struct buffer *fields, const struct spec *spec, const struct program *program)
{
    return spec->call ? add_list(fields, FIELD_ARGUMENT, &spec->arguments)
                      : add_list(fields, FIELD_ARGUMENT, &program->arguments);
}

/* A program of Go asks for PWD where others have a directory to stand in, and so does our own of Python. What
 * the caller has set for it stays. */
static int add_directory(struct buffer *fields, const char *directory, const struct string_list *environment)
{
    char pair[64];
    snprintf(pair, sizeof pair, "PWD=%s", directory);
    int status = add_text(fields, FIELD_DIRECTORY, directory);
    for (size_t i = 0; i < environment->count; i++)
        if (strncmp(environment->items[i], "PWD=", 4) == 0)
            return status;
    return status < 0 ? status : add_text(fields, FIELD_ENVIRONMENT, pair);
}

static int fill_fields(const struct box *box, const struct program *program, const char *directory,
                       struct buffer *fields)
{
    const struct string_list usual_host = {.items = (char *[]){"wasi"}, .count = 1};
    const struct spec *spec = box->spec;
    const int64_t *limit = box->limits->value;
    int status = add_arguments(fields, spec, program);
    if (status == 0 && program->runtime)
        status = add_text(fields, FIELD_RUNTIME, program->runtime);
    if (status == 0)
        status = add_text(fields, FIELD_NAME, program->code_name);
    if (status == 0 && spec->call)
        status = add_text(fields, FIELD_CALL, spec->call);
    if (status == 0)
        status = add_directory(fields, directory, &program->environment);
    if (status == 0)
        status = add_list(fields, FIELD_ENVIRONMENT, &program->environment);
    if (status == 0)
        status = add_list(fields, FIELD_HOST, spec->host.count ? &spec->host : &usual_host);
    if (status == 0)
        status = add_place(fields, FIELD_INPUT, box, box->is_served ? "input/" WASM_RUN_PLACE : "input");
    if (status == 0)
        status = add_place(fields, FIELD_OUTPUT, box, box->is_served ? "output/" WASM_RUN_PLACE : "output");
    if (status == 0)
        status = add_place(fields, FIELD_SCRATCH, box, "tmp");
    if (status == 0)
        status = add_number(fields, FIELD_MEMORY, limit[LIMIT_memory]);
    if (status == 0)
        status = add_number(fields, FIELD_CPU, limit[LIMIT_cpu]);
    if (status == 0)
        status = add_number(fields, FIELD_WALL, limit[LIMIT_wall]);
    if (status == 0 && spec->fuel >= 0)
        status = add_number(fields, FIELD_FUEL, spec->fuel);
    return status;
}

/* After the room for a call. */
static int fill_order(const struct box *box, const struct program *program, const char *directory,
                      struct buffer *order)
{
    scope_buffer fields = {0};
    const struct order_call none = {0};
    int status = fill_fields(box, program, directory, &fields);
    const struct order_head head = {
        .magic = ORDER_MAGIC, .fields_length = (uint32_t)fields.length, .code_length = program->code.length};
    if (status == 0 && fields.length > ORDER_FIELDS_MAX)
        status = -E2BIG;
    if (status == 0)
        status = buffer_append(order, &none, sizeof none);
    if (status == 0)
        status = buffer_append(order, &head, sizeof head);
    if (status == 0)
        status = buffer_append(order, fields.data, fields.length);
    return status < 0 ? status : buffer_append(order, program->code.data, program->code.length);
}

/* A module has no directory to stand in: relative names are those of one that it was given. */
static int find_directory(const struct spec *spec, const char **ret, struct error *err)
{
    static const char *const shown[] = {"/data/output", "/data/input", "/tmp"};
    const char *wanted = spec->working_directory ? spec->working_directory : shown[0];
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
        if (strcmp(wanted, shown[i]) == 0) {
            *ret = shown[i];
            return 0;
        }
    return error_spec(err, "cwd",
                      "cwd: '%.128s' cannot be entered in the engine wasm; there are: /data/output, "
                      "/data/input, /tmp",
                      wanted);
}

int wasm_order_send(const struct box *box, const struct program *program, uint32_t kind, const int *fds,
                    size_t fd_count, struct error *err)
{
    scope_buffer order = {0};
    scope_fd file = -1;
    int given[ORDER_FDS_MAX];
    struct order_call call = {.kind = kind};
    size_t length = sizeof call;
    const char *directory = NULL;
    int status = find_directory(box->spec, &directory, err);
    if (status < 0)
        return status;
    status = fill_order(box, program, directory, &order);
    if (status < 0 || fd_count >= ORDER_FDS_MAX)
        return error_host(err, status, "cannot pack the order for Wasmtime");
    if (fd_count)
        memcpy(given, fds, fd_count * sizeof *fds);
    struct slice body = {order.data + sizeof call, order.length - sizeof call};
    if (body.length <= ORDER_SHORT_MAX && fd_count > 0) { /* a call without descriptors is the last one */
        call.short_length = (uint32_t)body.length;
        length = order.length;
    } else {
        file = launch_pack_file("order", body, err);
        if (file < 0)
            return file;
        given[fd_count++] = file;
    }
    memcpy(order.data, &call, sizeof call);
    status = process_send_many(box->channel_fd, order.data, (uint32_t)length, given, fd_count);
    return status < 0 ? error_host(err, status, "cannot give Wasmtime an order") : 0;
}

/* What comes after its head; the length, or a negative errno. */
static int read_report(int fd, char *into, size_t size)
{
    struct report_head head;
    ssize_t length = fd < 0 ? -1 : recv(fd, &head, sizeof head, MSG_DONTWAIT | MSG_WAITALL);
    if (length != (ssize_t)sizeof head || head.length > size)
        return -EPROTO;
    length = head.length ? recv(fd, into, head.length, MSG_DONTWAIT | MSG_WAITALL) : 0;
    return length == (ssize_t)head.length && (length == 0 || into[length - 1] == '\0') ? (int)length
                                                                                       : -EPROTO;
}

/* The last line of what Wasmtime says is the reason. */
static void take_message(const char *message, struct result *result)
{
    size_t length = strlen(message);
    while (length && message[length - 1] == '\n')
        length--;
    const char *line = message + length;
    while (line > message && line[-1] != '\n')
        line--;
    line += strspn(line, " ");
    snprintf(result->detail, sizeof result->detail, "%.*s", (int)(message + length - line), line);
}

static void take_limit(const char *limit, const struct box *box, struct result *result)
{
    static const struct {
        const char *name;
        enum cause cause;
    } rows[] = {{FIELD_MEMORY, CAUSE_memory},
                {FIELD_CPU, CAUSE_cpu_time},
                {FIELD_FUEL, CAUSE_cpu_time},
                {FIELD_WALL, CAUSE_wall_time}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(limit, rows[i].name) == 0)
            result->cause = rows[i].cause;
    supervise_explain(&box->spec->limits, result);
    if (strcmp(limit, FIELD_FUEL) == 0)
        snprintf(result->detail, sizeof result->detail, "all its fuel is used up: fuel is %lld",
                 (long long)box->spec->fuel);
    result->timed_out = result->cause == CAUSE_wall_time || result->cause == CAUSE_cpu_time;
    result->exit_code = -1;
    result->signal = SIGKILL; /* as any limit looks that ends a run */
}

static int take_field(const struct box *box, const char *name, const char *value, struct result *result,
                      struct error *err)
{
    if (strcmp(name, REPORT_REFUSED) == 0)
        return error_spec(err, "code", "wasm: %.800s", value);
    if (strcmp(name, REPORT_RETURNED) == 0 && result->returned.count < 32)
        string_list_add(&result->returned, value);
    else if (strcmp(name, REPORT_FUEL) == 0)
        result->fuel_used = strtoll(value, NULL, 10) & INT64_MAX;
    else if (strcmp(name, REPORT_MEMORY) == 0) {
        int64_t bytes = strtoll(value, NULL, 10);
        if (bytes > result->usage.peak_memory_bytes && bytes <= box->limits->value[LIMIT_memory])
            result->usage.peak_memory_bytes = bytes;
    } else if (strcmp(name, REPORT_TRAP) == 0 && result->cause == CAUSE_exit) {
        result->cause = CAUSE_trap;
        result->exit_code = -1;
        snprintf(result->trap, sizeof result->trap, "%s", value);
    } else if (strcmp(name, REPORT_MESSAGE) == 0 && result->cause == CAUSE_trap) {
        take_message(value, result);
    } else if (strcmp(name, REPORT_LIMIT) == 0 &&
               (result->cause == CAUSE_exit || result->cause == CAUSE_trap || result->timed_out)) {
        take_limit(value, box, result); /* both sides may have seen that its time is over */
    }
    return 0;
}

int wasm_report_take(const struct box *box, struct result *result, struct error *err)
{
    char report[REPORT_MAX];
    int length = read_report(box->channel_fd, report, sizeof report), status = 0;
    if (length < 0)
        return 0; /* it was ended before it could say anything: how is known */
    for (const char *at = report, *end = report + length; at < end && status == 0;) {
        const char *value = at + strlen(at) + 1;
        if (value >= end)
            break;
        status = take_field(box, at, value, result, err);
        at = value + strlen(value) + 1;
    }
    return status;
}

bool wasm_crash_take(int signal, struct result *result)
{
    static const int faults[] = {SIGABRT, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP};
    bool is_fault = false;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        is_fault |= signal == faults[i];
    if (!is_fault)
        return false;
    result->cause = CAUSE_trap;
    result->exit_code = -1;
    result->signal = 0;
    snprintf(result->trap, sizeof result->trap, "crash");
    snprintf(result->detail, sizeof result->detail,
             "Wasmtime itself was ended by signal %d (%s) while it ran the code", signal, strsignal(signal));
    return true;
}
