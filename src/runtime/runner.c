#include "runtime/runner.h"

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
