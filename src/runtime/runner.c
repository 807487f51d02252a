#include "runtime/runner.h"

#include "engine/engine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runner_archives.h" /* runner_python, …: made by pack_runner.py */

static const struct runner runners[] = {
    {"python", {(const char *)runner_python, sizeof runner_python}},
    {"javascript", {(const char *)runner_javascript, sizeof runner_javascript}},
    {"bash", {(const char *)runner_bash, sizeof runner_bash}},
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
    char channel[16];
    snprintf(channel, sizeof channel, "%d", BOX_CHANNEL_FD);
    int status = spec->language ? 0 : spec_set(spec, "language", runner->language, err);
    if (status == 0 && buffer_append(&spec->code, runner->code.data, runner->code.length) < 0)
        status = error_host(err, -ENOMEM, "cannot load the runner");
    if (status == 0 && string_list_add(&spec->arguments, channel) < 0)
        status = error_host(err, -ENOMEM, "cannot load the runner");
    spec->has_code = true;
    spec->stdin_kind = STDIN_NONE;
    return status;
}
