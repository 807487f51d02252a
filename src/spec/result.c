#include "spec/result.h"

#include "base/signal_name.h"
#include "spec/vet.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const cause_names[CAUSE_COUNT] = {
#define X(name, meaning) #name,
    CAUSE_ROWS(X)
#undef X
};

const char *const cause_meanings[CAUSE_COUNT] = {
#define X(name, meaning) meaning,
    CAUSE_ROWS(X)
#undef X
};

struct result *result_new(void)
{
    struct result *result = calloc(1, sizeof *result);
    if (result) {
        result->exit_code = -1;
        result->fuel_used = -1;
    }
    return result;
}

void result_free(struct result *result)
{
    if (!result)
        return;
    buffer_free(&result->output.kept);
    buffer_free(&result->errors.kept);
    for (size_t i = 0; i < result->file_count; i++)
        free(result->files[i].path);
    free(result->files);
    for (size_t i = 0; i < result->omission_count; i++)
        free(result->omissions[i].path);
    free(result->omissions);
    for (size_t i = 0; i < result->layer_count; i++) {
        free(result->layers[i].name);
        free(result->layers[i].detail);
    }
    string_list_free(&result->returned);
    result_free(result->compile);
    json_decref(result->vet);
    json_decref(result->shown);
    json_decref(result->fetched);
    free(result);
}

int result_add_file(struct result *result, const char *path, int64_t size, const char *sha256)
{
    struct result_file *files = realloc(result->files, (result->file_count + 1) * sizeof *files);
    if (!files)
        return -ENOMEM;
    result->files = files;
    struct result_file *file = &files[result->file_count];
    *file = (struct result_file){.path = strdup(path), .size = size};
    if (!file->path)
        return -ENOMEM;
    snprintf(file->sha256, sizeof file->sha256, "%s", sha256);
    result->file_count++;
    return 0;
}

int result_add_omission(struct result *result, const char *path, const char *reason)
{
    enum { LISTED = 100 };
    if (result->omission_count >= LISTED) {
        result->omissions_uncounted++;
        return 0;
    }
    struct result_omission *omissions =
        realloc(result->omissions, (result->omission_count + 1) * sizeof *omissions);
    if (!omissions)
        return -ENOMEM;
    result->omissions = omissions;
    omissions[result->omission_count] = (struct result_omission){.path = strdup(path), .reason = reason};
    if (!omissions[result->omission_count].path)
        return -ENOMEM;
    result->omission_count++;
    return 0;
}

int result_add_omission_first(struct result *result, const char *path, const char *reason)
{
    struct result_omission *omissions =
        realloc(result->omissions, (result->omission_count + 1) * sizeof *omissions);
    char *copy = strdup(path);
    if (omissions)
        result->omissions = omissions;
    if (!omissions || !copy) {
        free(copy);
        return -ENOMEM;
    }
    memmove(omissions + 1, omissions, result->omission_count * sizeof *omissions);
    omissions[0] = (struct result_omission){.path = copy, .reason = reason};
    result->omission_count++;
    return 0;
}

int result_add_layer(struct result *result, const char *name, bool active, const char *format, ...)
{
    if (result->layer_count == RESULT_LAYERS_MAX)
        return -ENOSPC;
    va_list arguments;
    va_start(arguments, format);
    char *detail = NULL;
    int length = vasprintf(&detail, format, arguments);
    va_end(arguments);
    char *copy = strdup(name);
    if (length < 0 || !copy) {
        free(copy);
        result->is_incomplete = true;
        return -ENOMEM;
    }
    result->layers[result->layer_count++] =
        (struct result_layer){.name = copy, .detail = detail, .active = active};
    return 0;
}

void result_take_vet(struct result *result, json_t *report)
{
    json_decref(result->vet);
    result->vet = report;
}

const char *result_format_end(const struct result *result, char *into, size_t size)
{
    const char *name = result->signal ? signal_name(result->signal) : NULL;
    if (result->cause == CAUSE_exit)
        snprintf(into, size, "exit %d", result->exit_code);
    else if (result->cause == CAUSE_signal)
        snprintf(into, size, name ? "signal %d (SIG%s)" : "signal %d", result->signal, name);
    else
        snprintf(into, size, "%s, %s", cause_names[result->cause],
                 result->detail[0] ? result->detail : cause_meanings[result->cause]);
    return into;
}

int result_exit_status(const struct result *result)
{
    if (result->cause == CAUSE_vetted)
        return vet_report_mode(result->vet) != VET_only ? EXIT_STATUS_VETTED
               : vet_report_count(result->vet) > 0      ? 1
                                                        : 0;
    if (result->cause == CAUSE_host_failure)
        return EXIT_STATUS_HOST_FAILURE;
    if (result->signal)
        return 128 + result->signal;
    if (result->cause == CAUSE_trap)
        return EXIT_STATUS_TRAP;
    bool stopped = result->cause != CAUSE_exit && result->cause != CAUSE_signal;
    if (stopped && result->exit_code <= 0)
        return 128 + 9; /* it ended by itself in the last moment, but past a limit: no success */
    if (result->exit_code >= EXIT_STATUS_PROGRAM_RESERVED && result->exit_code <= EXIT_STATUS_LAST)
        return EXIT_STATUS_PROGRAM_RESERVED;
    return result->exit_code;
}
