/* The wasm engine: WebAssembly modules, and languages as such modules, under Wasmtime, which runs in a box of
 * the process engine: a module has no system calls, only the functions that were linked for it; and who finds
 * a fault in Wasmtime is still in a box.
 *
 * What the runtime calls the program is the user's. The box's own is cloche-wasm (guest/wasm), which is given
 * the user's as an order over its channel, and reports on the same how it ended. */
#include "base/scope.h"
#include "engine/engine.h"
#include "engine/launch.h"
#include "engine/layers.h"
#include "engine/wasm/gateway.h"
#include "engine/wasm/order.h"
#include "os/process.h"
#include "wasm/order.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const char wasm_blob_start[], wasm_blob_end[];

/* What Wasmtime itself takes, with what it has mapped: not the run's. */
enum { OWN_BYTES = 192 << 20 };

static size_t blob_length(void)
{
    return (size_t)((uintptr_t)wasm_blob_end - (uintptr_t)wasm_blob_start);
}

/* Names as a module sees them. */
static const char *wasm_path_of(const struct box *box, const char *which, char *into, size_t size)
{
    (void)box;
    static const struct {
        const char *which, *path;
    } places[] = {{"code", "/code"},
                  {"input", "/data/input"},
                  {"output", "/data/output"},
                  {"home", "/"},
                  {"tmp", "/tmp"}};
    snprintf(into, size, "/");
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (strcmp(which, places[i].which) == 0)
            snprintf(into, size, "%s", places[i].path);
    return into;
}

static int make_host_program(struct box *box, struct error *err)
{
    struct program *host = calloc(1, sizeof *host);
    const char *directory = box->identity->directory;
    char path[sizeof box->identity->directory + 32], channel[16];
    box->host_program = host;
    if (!host)
        return error_host(err, -ENOMEM, "cannot start a box");
    snprintf(path, sizeof path, "%s/code/cloche-wasm", directory);
    snprintf(channel, sizeof channel, "%d", BOX_CHANNEL_FD);
    int status = string_list_add(&host->arguments, path);
    if (status == 0)
        status = string_list_add(&host->arguments, channel);
    snprintf(path, sizeof path, "%s/tmp", directory);
    host->working_directory = strdup(path);
    host->code_name = strdup("cloche-wasm");
    host->code = (struct slice){wasm_blob_start, blob_length()};
    host->code_executable = true;
    return status < 0 || !host->working_directory || !host->code_name
               ? error_host(err, -ENOMEM, "cannot start a box")
               : 0;
}

static int wasm_start(struct box *box, struct result *result, struct error *err)
{
    if (blob_length() == 0)
        return error_layer(err, "wasm", 0,
                           "this build is without Wasmtime: run setup/install-wasm library, and build again");
    const struct program *program = box->program;
    int status = make_host_program(box, err);
    if (status < 0)
        return status;
    box->program = box->host_program;
    box->wants_channel = true;
    box->debt.memory_bytes = OWN_BYTES;
    result_add_layer(result, layer_names[LAYER_wasm], true, "Wasmtime in a process box");
    scope_fd requests = -1; /* to the gateway, where there is one: both are started at once */
    if (gateway_is_wanted(box->spec))
        status = gateway_start(box, &requests, err);
    if (status == 0)
        status = engine_process.start(box, result, err);
    if (status == 0 && requests >= 0)
        status = gateway_await(box, err);
    if (status == 0 && requests >= 0)
        result_add_layer(result, layer_names[LAYER_gateway], true, "%s",
                         gateway_layer_detail(box->landlock_abi));
    if (status < 0 || box->is_spare)
        return status;
    return wasm_order_send(box, program, ORDER_ONCE, &requests, requests >= 0 ? 1 : 0, err);
}

/* A module has no processes to count: the threads of Wasmtime are not its own. */
static void wasm_measure(struct box *box, struct measurement *now)
{
    gateway_listen(box);
    engine_process.measure(box, now);
    now->pids = now->peak_pids = 0;
}

static int wasm_show_inputs(struct box *box, struct error *err)
{
    return engine_process.show_inputs(box, err);
}

static bool wasm_answer(struct box *box, const char **ret_call)
{
    return engine_process.answer(box, ret_call);
}

static int wasm_explain(struct box *box, struct result *result, struct error *err)
{
    int status = wasm_report_take(box, result, err);
    if (status == 0 && result->cause == CAUSE_signal)
        wasm_crash_take(result->signal, result);
    gateway_explain(box, result);
    return status;
}

static void wasm_stop(struct box *box)
{
    engine_process.stop(box);
}

static int wasm_destroy(struct box *box)
{
    gateway_end(box);
    int status = engine_process.destroy(box);
    if (box->host_program) {
        box->host_program->code = (struct slice){0};
        program_free(box->host_program);
        free(box->host_program);
        box->host_program = NULL;
    }
    return status;
}

const struct engine engine_wasm = {
    .isolation = ISOLATION_WASM,
    .name = "wasm",
    .in_directory = true,
    .path_of = wasm_path_of,
    .start = wasm_start,
    .show_inputs = wasm_show_inputs,
    .measure = wasm_measure,
    .answer = wasm_answer,
    .explain = wasm_explain,
    .stop = wasm_stop,
    .destroy = wasm_destroy,
};
