#include "keeper/kind.h"

#include <string.h>
#include <sys/stat.h>

const struct kind kinds[KIND_COUNT] = {
    {.name = "python",
     .language = "python",
     .isolation = ISOLATION_CONTAINER,
     .is_forked = true,
     .preloads = true,
     .is_ready = true,
     .lowers = true},
    {.name = "python/process",
     .language = "python",
     .isolation = ISOLATION_PROCESS,
     .is_forked = true,
     .preloads = true,
     .is_ready = true,
     .lowers = true},
    {.name = "javascript", .language = "javascript", .isolation = ISOLATION_CONTAINER, .is_ready = true},
    {.name = "javascript/process",
     .language = "javascript",
     .isolation = ISOLATION_PROCESS,
     .is_ready = true},
    {.name = "bash", .language = "bash", .isolation = ISOLATION_CONTAINER, .lowers = true},
    {.name = "bash/process", .language = "bash", .isolation = ISOLATION_PROCESS, .lowers = true},
    {.name = "python/gvisor",
     .language = "python",
     .isolation = ISOLATION_GVISOR,
     .preloads = true,
     .is_ready = true,
     .lowers = true},
    {.name = "javascript/gvisor", .language = "javascript", .isolation = ISOLATION_GVISOR, .is_ready = true},
    {.name = "bash/gvisor", .language = "bash", .isolation = ISOLATION_GVISOR, .lowers = true},
};

int kind_by_name(const char *name)
{
    for (int i = 0; i < KIND_COUNT; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return i;
    return -1;
}

/* Files below /data/input: other places cannot be made in a root that stands, and with directories the filter
 * is another. */
static bool grants_fit(const struct spec *spec)
{
    struct stat status;
    if (spec->isolation == ISOLATION_GVISOR) /* its runtime has its own view of mounts by then */
        return spec->grant_count == 0;
    for (size_t i = 0; i < spec->grant_count; i++)
        if (spec->grants[i].kind != GRANT_INPUT || strchr(spec->grants[i].name, '/') ||
            lstat(spec->grants[i].host_path, &status) < 0 || !S_ISREG(status.st_mode))
            return false;
    return true;
}

/* An interpreter that is there already has read these when it started, or what it has imported did. */
static bool environment_fits(const struct spec *spec)
{
    static const char *const read_at_start[] = {
        "LD_",      "LC_",  "LANG",  "MALLOC_", "GLIBC_", "PYTHON",   "OPENBLAS_", "OMP_",
        "GOTO_",    "MKL_", "NPY_",  "MPL",     "XDG_",   "NUMEXPR_", "TMP",       "TEMP",
        "OPENSSL_", "SSL_", "NODE_", "UV_",     "ICU_",   "TZ"};
    for (size_t i = 0; i < spec->environment.count; i++)
        for (size_t j = 0; j < sizeof read_at_start / sizeof *read_at_start; j++)
            if (strncmp(spec->environment.items[i], read_at_start[j], strlen(read_at_start[j])) == 0)
                return false;
    return true;
}

/* Groups and scratch space can be given any size from outside. What the kernel counts for each process can
 * only be lowered, and by the process itself; and the threads of a library were counted when it was loaded.
 */
static bool limits_fit(const struct kind *kind, const struct limits *wanted, const struct kind_terms *terms)
{
    static const enum limit_field of_processes[] = {LIMIT_open_files, LIMIT_disk, LIMIT_cpu, LIMIT_pids};
    for (size_t i = 0; i < sizeof of_processes / sizeof *of_processes; i++) {
        enum limit_field field = of_processes[i];
        if (kind->is_forked && field == LIMIT_pids)
            continue; /* those of a zygote's have none: see spare.c */
        if (kind->lowers ? wanted->value[field] > terms->highest->value[field]
                         : wanted->value[field] != terms->usual->value[field])
            return false;
    }
    bool has_group = kind->isolation == ISOLATION_CONTAINER && kind->is_forked;
    return !kind->preloads || has_group || wanted->value[LIMIT_cpus] == terms->usual->value[LIMIT_cpus];
}

int kind_of_spec(const struct spec *spec, const struct kind_terms *terms)
{
    const char *language = language_of_spec(terms->languages, spec);
    if (spec->vet == VET_restricted) /* it is run by something else than code is */
        return -1;
    if (!language || !spec->has_code || spec->command.count || spec->working_directory || !grants_fit(spec))
        return -1;
    if (spec->isolation == ISOLATION_PROCESS &&
        strcmp(spec->image, "host") != 0) /* it has no root of its own */
        return -1;
    for (int i = 0; i < KIND_COUNT; i++)
        if (strcmp(kinds[i].language, language) == 0 && kinds[i].isolation == spec->isolation)
            return (!kinds[i].is_ready || environment_fits(spec)) &&
                           limits_fit(&kinds[i], &spec->limits, terms)
                       ? i
                       : -1;
    return -1;
}
