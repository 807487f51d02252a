#include "base/clock.h"
#include "base/scope.h"
#include "engine/beside.h"
#include "engine/box_terminal.h"
#include "keeper/context_inside.h"
#include "runtime/program.h"
#include "runtime/runner.h"

#include <errno.h>

static int check(const struct context *context, const struct context_command *command, struct error *err)
{
    if (!context->box || context->is_over || context->is_ending || context->control_fd < 0)
        return error_spec(err, "context", "the interpreter is gone, and its box with it");
    if (context->box->engine->in_directory)
        return error_spec(err, "isolation",
                          "a box of the engine '%s' has room for one program only: its layers are put on by "
                          "that; use container",
                          context->box->engine->name);
    if (command->window && context->box->engine == &engine_oci)
        return error_spec(err, "isolation",
                          "a box of the engine '%s' has no terminals: its kernel takes none from outside; "
                          "start the command without one, or use container",
                          context->box->engine->name);
    return 0;
}

/* The tool is not in the image, so its name is not looked for. */
static int prepare(const struct context *context, const struct context_command *command, struct program *into,
                   struct error *err)
{
    scope_string_list words = {0};
    if (!command->is_about_files)
        return program_beside(context->box, &command->words, &command->environment, command->directory, into,
                              err);
    if (string_list_add(&words, "/cloche-files") < 0 || string_list_copy(&words, &command->words) < 0)
        return error_host(err, -ENOMEM, "cannot prepare the command");
    return program_beside(context->box, &words, &command->environment, command->directory, into, err);
}

static int start(struct context *context, const struct context_command *command, struct error *err)
{
    struct program program = {0};
    scope_fd master = -1, slave = -1;
    int status = check(context, command, err);
    if (status == 0)
        status = prepare(context, command, &program, err);
    if (status == 0 && command->window)
        status = box_terminal_open(context->box, command->window, &master, &slave, err);
    struct beside_order order = {.program = &program,
                                 .file = command->is_about_files ? runner_files_tool() : (struct slice){0},
                                 .has_terminal = command->window != NULL};
    for (int i = 0; i < 3; i++)
        order.fds[i] = command->window ? slave : command->fds[i];
    if (status == 0)
        status = beside_start(context->control_fd, &order, err);
    if (status >= 0 && command->window)
        *command->ret_master = take_fd(&master);
    program_free(&program);
    return status;
}

int context_exec(struct context *context, const struct context_command *command, int *ret_socket,
                 struct error *err)
{
    if (command->words.count == 0)
        return error_spec(err, "command", "command: there is none");
    pthread_mutex_lock(&context->lock);
    int status = start(context, command, err);
    if (status >= 0) {
        context->idle_since_us = clock_monotonic_us();
        *ret_socket = status;
        status = 0;
    }
    pthread_mutex_unlock(&context->lock);
    return status;
}
