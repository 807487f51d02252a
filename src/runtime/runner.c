#include "runtime/runner.h"

#include "engine/engine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runner_archives.h" /* runner_python, …: made by pack_runner.py */

#define PACKED(bytes)                                                                                        \
    {                                                                                                        \
        (const char *)(bytes), sizeof(bytes)                                                                 \
    }

static const struct runner runners[] = {
    {"python", PACKED(runner_python), PACKED(runner_python_vet), PACKED(runner_python)},
    {"javascript", PACKED(runner_javascript), PACKED(runner_javascript_vet), PACKED(runner_javascript_spare)},
    {"bash", PACKED(runner_bash), {0}, PACKED(runner_bash)},
};

const struct runner *runner_find(const char *language)
{
    for (size_t i = 0; i < sizeof runners / sizeof *runners; i++)
        if (strcmp(runners[i].language, language) == 0)
            return &runners[i];
    return NULL;
}

int runner_names(struct buffer *into)
{
    int status = 0;
    for (size_t i = 0; status == 0 && i < sizeof runners / sizeof *runners; i++)
        status = buffer_print(into, "%s%s", i ? ", " : "", runners[i].language);
    return status;
}

struct slice runner_vetter(const char *language)
{
    const struct runner *runner = runner_find(language);
    return runner ? runner->vetter : (struct slice){0};
}

struct slice runner_restricted(void)
{
    return (struct slice){(const char *)runner_python_restricted, sizeof runner_python_restricted};
}

/* The code is the runner's, which is told where its channel is. */
static int give_code(struct spec *spec, struct slice code, struct error *err)
{
    char channel[16];
    snprintf(channel, sizeof channel, "%d", BOX_CHANNEL_FD);
    if (buffer_append(&spec->code, code.data, code.length) < 0 ||
        string_list_add(&spec->arguments, channel) < 0)
        return error_host(err, -ENOMEM, "cannot load the runner");
    spec->has_code = spec->is_ours = true;
    spec->stdin_kind = STDIN_NONE;
    return 0;
}

int runner_prepare_spare(struct spec *spec, struct error *err)
{
    const struct runner *runner = runner_find(spec->language);
    return runner ? give_code(spec, runner->spare, err)
                  : error_spec(err, "language", "language: there are no spares of '%.64s'", spec->language);
}

int runner_prepare_spec(struct spec *spec, struct error *err)
{
    if (spec->command.count || spec->code.length)
        return error_spec(err, "code", "code: a context takes its code run by run");
    const struct runner *runner = runner_find(spec->language ? spec->language : "python");
    if (!runner) {
        scope_buffer names = {0};
        runner_names(&names);
        return error_spec(err, "language", "language: there are contexts in %s, not in '%.64s'",
                          names.data ? names.data : "", spec->language);
    }
    int status = spec->language ? 0 : spec_set(spec, "language", runner->language, err);
    return status < 0 ? status : give_code(spec, runner->code, err);
}

struct slice runner_files_tool(void)
{
    return (struct slice){(const char *)runner_files, sizeof runner_files};
}
