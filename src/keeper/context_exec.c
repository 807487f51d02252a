#include "base/clock.h"
#include "engine/beside.h"
#include "keeper/context_inside.h"
#include "runtime/program.h"

#include <errno.h>

static int check(const struct context *context, struct error *err)
{
    if (!context->box || context->is_over || context->is_ending || context->control_fd < 0)
        return error_spec(err, "context", "the interpreter is gone, and its box with it");
    if (context->box->engine->isolation != ISOLATION_CONTAINER)
        return error_spec(err, "isolation",
                          "a box of the engine '%s' has room for one program only: its layers are put on by "
                          "that; use container",
                          context->box->engine->name);
    return 0;
}

int context_exec(struct context *context, const struct context_command *command, int *ret_socket,
                 struct error *err)
{
    if (command->words.count == 0)
        return error_spec(err, "command", "command: there is none");
    pthread_mutex_lock(&context->lock);
    struct program program = {0};
    int status = check(context, err);
    if (status == 0)
        status = program_beside(context->box, &command->words, &command->environment, command->directory,
                                &program, err);
    if (status == 0)
        status = beside_start(context->control_fd, &program, command->has_terminal, command->fds, err);
    if (status >= 0) {
        context->commands++;
        *ret_socket = status;
        status = 0;
    }
    pthread_mutex_unlock(&context->lock);
    program_free(&program);
    return status;
}

void context_exec_over(struct context *context)
{
    pthread_mutex_lock(&context->lock);
    context->commands--;
    context->idle_since_us = clock_monotonic_us();
    pthread_mutex_unlock(&context->lock);
}
