#include "runtime/runner.h"

#include "engine/engine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runner_archive.h" /* packed by pack_runner.py */

/* The archive is the code; python executes it whatever its name. */
int runner_prepare_spec(struct spec *spec, struct error *err)
{
    if (spec->command.count || spec->code.length)
        return error_spec(err, "code", "code: a context takes its code run by run");
    if (spec->language && strcmp(spec->language, "python") != 0)
        return error_spec(err, "language", "language: there are contexts for python only, not for '%.64s'",
                          spec->language);
    char channel[16];
    snprintf(channel, sizeof channel, "%d", BOX_CHANNEL_FD);
    int status = spec_set(spec, "language", "python", err);
    if (status == 0 && buffer_append(&spec->code, runner_archive, sizeof runner_archive) < 0)
        status = error_host(err, -ENOMEM, "cannot load the runner");
    if (status == 0 && string_list_add(&spec->arguments, channel) < 0)
        status = error_host(err, -ENOMEM, "cannot load the runner");
    spec->has_code = true;
    spec->stdin_kind = STDIN_NONE;
    return status;
}
