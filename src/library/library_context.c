/* The public API: contexts. */
#include "library/library_inside.h"

#include "base/scope.h"
#include "base/file.h"
#include "keeper/context.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What a context shares with its forks, which need it as long as their parent, whichever is closed first. */
struct family {
    struct policy policy;
    struct cloche_context_options options;
    pthread_mutex_t lock;
    int references;
};

struct cloche_context {
    struct context *context;
    struct family *family;
};

static struct family *family_share(struct family *family)
{
    pthread_mutex_lock(&family->lock);
    family->references++;
    pthread_mutex_unlock(&family->lock);
    return family;
}

static void family_release(struct family *family)
{
    if (!family)
        return;
    pthread_mutex_lock(&family->lock);
    bool is_last = --family->references == 0;
    pthread_mutex_unlock(&family->lock);
    if (!is_last)
        return;
    policy_free(&family->policy);
    pthread_mutex_destroy(&family->lock);
    free(family);
}

static struct family *family_new(const struct cloche_context_options *options, struct error *err)
{
    struct family *family = calloc(1, sizeof *family);
    if (!family) {
        error_host(err, -ENOMEM, "no memory for a context");
        return NULL;
    }
    pthread_mutex_init(&family->lock, NULL);
    family->references = 1;
    if (options)
        family->options = *options;
    if (policy_load(family->options.config_path, &family->policy, err) == 0)
        return family;
    family_release(family);
    return NULL;
}

static void bridge_output(void *data, enum supervise_stream stream, struct slice bytes, bool is_runs)
{
    const struct cloche_context_options *options = data;
    (void)is_runs;
    options->output(options->data, stream == STREAM_STDOUT ? 1 : 2, bytes.data, bytes.length);
}

static void bridge_usage(void *data, const struct context_usage *usage)
{
    const struct cloche_context_options *options = data;
    const struct cloche_usage told = {.run = usage->run,
                                      .elapsed_us = usage->elapsed_us,
                                      .wall_limit_us = usage->wall_limit_us,
                                      .cpu_us = usage->cpu_us,
                                      .cpu_limit_us = usage->cpu_limit_us,
                                      .silent_us = usage->silent_us,
                                      .fraction = usage->fraction,
                                      .text = usage->text,
                                      .memory_bytes = usage->memory_bytes,
                                      .peak_memory_bytes = usage->peak_memory_bytes,
                                      .pids = usage->pids,
                                      .disk_bytes = usage->disk_bytes,
                                      .runs = usage->runs,
                                      .runs_max = usage->runs_max,
                                      .age_us = usage->age_us,
                                      .lifetime_us = usage->lifetime_us};
    options->watch(options->data, &told);
}

static struct context_options inner_options(struct family *family)
{
    const struct cloche_context_options *options = &family->options;
    return (struct context_options){.lifetime_ms = options->lifetime_ms,
                                    .idle_ms = options->idle_ms,
                                    .runs_max = options->runs_max,
                                    .output = options->output ? bridge_output : NULL,
                                    .watch = options->watch ? bridge_usage : NULL,
                                    .data = &family->options};
}

static int finish(int status, const struct error *error, struct cloche_error *err)
{
    if (status < 0)
        library_give_error(error, err);
    return status;
}

API int cloche_context_open(struct cloche_spec *spec, const struct cloche_context_options *options,
                            struct cloche_context **ret, struct cloche_error *err)
{
    struct error error = {0};
    struct cloche_context *made = calloc(1, sizeof *made);
    if (made)
        made->family = family_new(options, &error);
    if (!made || !made->family) {
        spec_free((struct spec *)spec);
        free(made);
        return finish(error.code < 0 ? error.code : error_host(&error, -ENOMEM, "no memory for a context"),
                      &error, err);
    }
    const struct context_options inner = inner_options(made->family);
    int status = context_open((struct spec *)spec, &made->family->policy, &inner, &made->context, &error);
    if (status < 0) {
        family_release(made->family);
        free(made);
        return finish(status, &error, err);
    }
    *ret = made;
    return 0;
}

/* Who wants to hear of a run, and which branch it is. */
struct hearing {
    cloche_event_function event;
    void (*branch_event)(void *data, size_t branch, const struct cloche_event *event);
    int (*ended)(void *data, size_t branch);
    void *data;
};

static void hand_on(const struct hearing *hearing, size_t branch, const struct runner_event *event)
{
    const char *types[RUNNER_MEDIA_MAX], *bytes[RUNNER_MEDIA_MAX];
    size_t lengths[RUNNER_MEDIA_MAX];
    for (size_t i = 0; i < event->media_count; i++) {
        types[i] = event->media[i].type;
        bytes[i] = event->media[i].content.data;
        lengths[i] = event->media[i].content.length;
    }
    const struct cloche_event told = {
        .type = runner_event_names[event->kind],
        .bytes = event->body.data,
        .length = event->body.length,
        .is_value = event->is_value,
        .media_count = event->media_count,
        .media_types = types,
        .media_bytes = bytes,
        .media_lengths = lengths,
        .fraction = event->fraction,
        .text = event->text,
        .status = event->kind == RUNNER_end ? runner_status_names[event->status] : NULL,
        .error_name = event->error_name,
        .error_value = event->error_value,
        .traceback = event->traceback,
    };
    if (hearing->event)
        hearing->event(hearing->data, &told);
    if (hearing->branch_event)
        hearing->branch_event(hearing->data, branch, &told);
}

static void hear(void *data, const struct runner_event *event)
{
    hand_on(data, 0, event);
}

static void hear_branch(void *data, size_t branch, const struct runner_event *event)
{
    hand_on(data, branch, event);
}

static bool hear_end(void *data, size_t branch)
{
    const struct hearing *hearing = data;
    return hearing->ended && hearing->ended(hearing->data, branch) != 0;
}

static void give_outcome(const struct context_outcome *from, struct cloche_outcome *into)
{
    *into = (struct cloche_outcome){.status = runner_status_names[from->status],
                                    .cause = cause_names[from->cause],
                                    .exit_code = from->exit_code,
                                    .died = from->died,
                                    .duration_us = from->duration_us,
                                    .truncated_bytes = from->truncated_bytes};
}

API int cloche_context_run(struct cloche_context *context, const char *code, size_t length,
                           const char *stdin_text, cloche_event_function event, void *data,
                           struct cloche_outcome *ret, struct cloche_error *err)
{
    struct error error = {0};
    struct context_outcome outcome;
    struct hearing hearing = {.event = event, .data = data};
    const struct slice given = {stdin_text ? stdin_text : "", stdin_text ? strlen(stdin_text) : 0};
    const struct runner_order order = {.code = {code, length}, .stdin_text = stdin_text ? &given : NULL};
    int status = context_run(context->context, &order, hear, &hearing, &outcome, &error);
    if (status == 0 && ret)
        give_outcome(&outcome, ret);
    return finish(status, &error, err);
}

API int cloche_context_interrupt(struct cloche_context *context)
{
    int status = context_interrupt(context->context);
    return status < 0 ? status : 0;
}

API int cloche_context_extend(struct cloche_context *context, int64_t extra_ms, struct cloche_error *err)
{
    struct error error = {0};
    return finish(context_extend(context->context, extra_ms, &error), &error, err);
}

API int cloche_context_restart(struct cloche_context *context, struct cloche_error *err)
{
    struct error error = {0};
    return finish(context_restart(context->context, &error), &error, err);
}

/* A fork speaks to whom its parent speaks to. */
static struct cloche_context *wrap_fork(const struct cloche_context *parent)
{
    struct cloche_context *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->family = family_share(parent->family);
    return made;
}

API int cloche_context_fork(struct cloche_context *context, struct cloche_context **ret,
                            struct cloche_error *err)
{
    struct error error = {0};
    struct cloche_context *made = wrap_fork(context);
    if (!made)
        return finish(error_host(&error, -ENOMEM, "no memory for a fork"), &error, err);
    const struct context_options inner = inner_options(made->family);
    int status = context_fork(context->context, &inner, &made->context, &error);
    if (status < 0) {
        family_release(made->family);
        free(made);
        return finish(status, &error, err);
    }
    *ret = made;
    return 0;
}

API int
cloche_context_run_branches(struct cloche_context *context, struct cloche_branch *branches, size_t count,
                            void (*event)(void *data, size_t branch, const struct cloche_event *event),
                            int (*ended)(void *data, size_t branch), void *data,
                            struct cloche_context **ret_winner, struct cloche_error *err)
{
    struct error error = {0};
    struct hearing hearing = {.branch_event = event, .ended = ended, .data = data};
    struct context_branch *items = calloc(count ? count : 1, sizeof *items);
    struct cloche_context *made = ret_winner ? wrap_fork(context) : NULL;
    if (!items || (ret_winner && !made)) {
        free(items);
        return finish(error_host(&error, -ENOMEM, "no memory for branches"), &error, err);
    }
    for (size_t i = 0; i < count; i++)
        items[i].order.code = (struct slice){branches[i].code, branches[i].length};
    struct context_branches inner = {
        .items = items, .count = count, .event = hear_branch, .ended = hear_end, .data = &hearing};
    int status = context_run_branches(context->context, &inner, made ? &made->context : NULL, &error);
    for (size_t i = 0; i < count; i++) {
        branches[i].status = items[i].status;
        library_give_error(&items[i].error, &branches[i].error);
        give_outcome(&items[i].outcome, &branches[i].outcome);
    }
    free(items);
    if (made && !made->context) {
        family_release(made->family);
        free(made);
        made = NULL;
    }
    if (ret_winner)
        *ret_winner = made;
    return finish(status, &error, err);
}

API const struct cloche_result *cloche_context_result(struct cloche_context *context)
{
    return (const struct cloche_result *)context_result(context->context);
}

API int cloche_context_finish(struct cloche_context *context, const char *output_directory,
                              struct cloche_error *err)
{
    struct error error = {0};
    scope_fd directory = output_directory ? file_open_target(output_directory, &error) : -1;
    int status = output_directory && directory < 0 ? directory : 0;
    if (status == 0 && output_directory)
        status = context_collect_into(context->context, directory, &error);
    if (status == 0)
        status = context_finish(context->context, "it was finished", &error);
    if (status == 0 && output_directory)
        status = context_collect_into(context->context, -1, &error); /* not what comes after a restart */
    return finish(status, &error, err);
}

API void cloche_context_close(struct cloche_context *context)
{
    if (!context)
        return;
    context_close(context->context);
    family_release(context->family);
    free(context);
}
