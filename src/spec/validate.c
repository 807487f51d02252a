/* From what was asked to what will be done: defaults filled, ceilings checked, paths made absolute. */
#include "spec/spec.h"

#include "base/file.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fill_limits(struct spec *spec, const struct policy *policy, struct error *err)
{
    for (int i = 0; i < LIMIT_FIELDS; i++) {
        if (!spec->limit_set[i])
            spec->limits.value[i] = policy->defaults.value[i];
        if (!spec->compile_limit_set[i]) {
            int64_t value = limit_rows[i].compile;
            spec->compile_limits.value[i] =
                value < policy->ceilings.value[i] ? value : policy->ceilings.value[i];
        }
        int status = policy_check_limit(policy, (enum limit_field)i, spec->limits.value[i], err);
        if (status < 0)
            return status;
        status = policy_check_limit(policy, (enum limit_field)i, spec->compile_limits.value[i], err);
        if (status < 0)
            return error_context(err, "compile");
    }
    return 0;
}

/* There is one engine for modules. */
static bool is_module(const struct spec *spec)
{
    const char *file = spec->code_file ? spec->code_file : spec->code_name;
    const char *dot = file ? strrchr(file, '.') : NULL;
    return spec->language ? strcmp(spec->language, "wasm") == 0
                          : dot && (strcmp(dot, ".wasm") == 0 || strcmp(dot, ".wat") == 0);
}

/* What only that engine has, and what it has not. */
static int check_wasm(const struct spec *spec, struct error *err)
{
    const char *field = spec->call          ? "call"
                        : spec->fetch.count ? "fetch"
                        : spec->host.count  ? "host"
                        : spec->fuel >= 0   ? "fuel"
                                            : NULL;
    if (spec->isolation != ISOLATION_WASM && (field || is_module(spec)))
        return error_spec(err, field ? field : "isolation",
                          "%s: only the engine wasm has it; use --isolation wasm, not %s",
                          field ? field : "a WebAssembly module", isolation_names[spec->isolation]);
    if (spec->isolation != ISOLATION_WASM)
        return 0;
    if (field && !is_module(spec))
        return error_spec(err, field,
                          "%s: it is for modules of one's own (language wasm, or a file NAME.wasm)", field);
    if (spec->command.count)
        return error_spec(err, "command", "command: the engine wasm runs code, and no programs of an image");
    for (size_t i = 0; i < spec->grant_count; i++)
        if (spec->grants[i].kind != GRANT_INPUT)
            return error_spec(
                err, "isolation",
                "isolation: wasm shows /data/input and /data/output only; '%.128s' cannot be granted",
                spec->grants[i].host_path);
    return 0;
}

void spec_take_usual_isolation(struct spec *spec, const struct policy *policy)
{
    if (spec->has_isolation)
        return;
    spec->is_auto |= policy->is_auto && !spec->is_ours;
    spec->isolation = is_module(spec)                           ? ISOLATION_WASM
                      : policy->isolation < spec->isolation_min ? spec->isolation_min
                                                                : policy->isolation;
}

/* The caller has no say in which program isolates. */
static int take_runtime(struct spec *spec, const struct policy *policy, struct error *err)
{
    const struct {
        char **into;
        const char *value;
    } rows[] = {{&spec->oci_runtime, policy->oci_runtime ? policy->oci_runtime : "runsc"},
                {&spec->oci_platform, policy->oci_platform ? policy->oci_platform : "systrap"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        free(*rows[i].into);
        if (!(*rows[i].into = strdup(rows[i].value)))
            return error_host(err, -ENOMEM, "oci_runtime");
    }
    return 0;
}

static int check_isolation(struct spec *spec, const struct policy *policy, struct error *err)
{
    if (spec->isolation < policy->isolation_min)
        return error_spec(err, "isolation", "isolation: '%s' is below the operator's minimum '%s' (%s)",
                          isolation_names[spec->isolation], isolation_names[policy->isolation_min],
                          policy->source);
    if (spec->isolation < spec->isolation_min)
        return error_spec(err, "isolation_min",
                          "isolation_min: '%s' is stronger than the engine that is asked for, '%s'",
                          isolation_names[spec->isolation_min], isolation_names[spec->isolation]);
    int status = check_wasm(spec, err);
    return status == 0 && spec->isolation == ISOLATION_GVISOR ? take_runtime(spec, policy, err) : status;
}

int spec_take_isolation(struct spec *spec, const struct policy *policy, enum isolation isolation,
                        struct error *err)
{
    spec->isolation = isolation;
    return check_isolation(spec, policy, err);
}

/* What can be looked at is code; a command is nobody's to read. */
static int check_vet(struct spec *spec, const struct policy *policy, struct error *err)
{
    if (spec->is_ours) {
        spec->vet = VET_off;
        return 0;
    }
    if (!spec->has_vet)
        spec->vet = policy->vet > policy->vet_min ? policy->vet : policy->vet_min;
    if (spec->vet < policy->vet_min)
        return error_spec(err, "vet", "vet: '%s' is less than the operator's minimum '%s' (%s)",
                          vet_mode_names[spec->vet], vet_mode_names[policy->vet_min], policy->source);
    spec->vet_thorough =
        spec->vet != VET_off && (spec->has_vet || policy->vet_set || spec->vet == policy->vet_min);
    if (spec->vet_thorough && spec->vet > VET_warn && !spec->has_code)
        return error_spec(err, "vet", "vet: '%s' is for code; a command cannot be read before it runs%s",
                          vet_mode_names[spec->vet], spec->has_vet ? "" : " (the operator asks for it)");
    return 0;
}

/* Places whose grant would undo the box itself. */
static bool is_forbidden_grant(const char *path)
{
    static const char *const trees[] = {"/proc", "/sys", "/dev", "/data"};
    if (strcmp(path, "/") == 0 || strcmp(path, "/run") == 0 || strcmp(path, "/code") == 0)
        return true;
    for (size_t i = 0; i < sizeof trees / sizeof *trees; i++) {
        size_t length = strlen(trees[i]);
        if (strncmp(path, trees[i], length) == 0 && (!path[length] || path[length] == '/'))
            return true;
    }
    return false;
}

static const char *grant_field(enum grant_kind kind)
{
    return kind == GRANT_INPUT ? "input" : kind == GRANT_READ ? "read" : "write";
}

static int check_input_name(struct grant *grant, struct error *err)
{
    if (!grant->name) {
        const char *slash = strrchr(grant->host_path, '/');
        grant->name = strdup(slash ? slash + 1 : grant->host_path);
        if (!grant->name)
            return error_host(err, -ENOMEM, "input");
    }
    if (!grant->name[0] || strchr(grant->name, '/') || strcmp(grant->name, ".") == 0 ||
        strcmp(grant->name, "..") == 0 || strlen(grant->name) > NAME_MAX)
        return error_spec(err, "input", "input: '%.64s' cannot be a file name in /data/input", grant->name);
    return 0;
}

static int resolve_grant(struct grant *grant, struct error *err)
{
    const char *field = grant_field(grant->kind);
    char *absolute = realpath(grant->host_path, NULL);
    if (!absolute)
        return error_spec(err, field, "%s: '%.256s': %s%s", field, grant->host_path, strerror(errno),
                          grant->kind == GRANT_INPUT && strchr(grant->host_path, ':')
                              ? " (if it was meant as PATH:NAME: a name has no slash)"
                              : "");
    if (grant->kind == GRANT_INPUT && !grant->name) { /* the name as given, not that of a link's target */
        const char *slash = strrchr(grant->host_path, '/');
        const char *last = slash ? slash + 1 : grant->host_path;
        if (*last && strcmp(last, ".") != 0 && strcmp(last, "..") != 0)
            grant->name = strdup(last);
    }
    free(grant->host_path);
    grant->host_path = absolute;
    struct stat status;
    if (stat(absolute, &status) < 0)
        return error_spec(err, field, "%s: '%.256s': %s", field, absolute, strerror(errno));
    if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode))
        return error_spec(err, field, "%s: '%.256s' is neither a file nor a directory", field, absolute);
    if (access(absolute, grant->kind == GRANT_WRITE ? R_OK | W_OK : R_OK) < 0)
        return error_spec(err, field, "%s: '%.256s': %s", field, absolute, strerror(errno));
    if (grant->kind != GRANT_INPUT && is_forbidden_grant(absolute))
        return error_spec(err, field, "%s: '%s' cannot be granted: it would replace a part of the box itself",
                          field, absolute);
    return grant->kind == GRANT_INPUT ? check_input_name(grant, err) : 0;
}

int spec_resolve_grants(struct spec *spec, struct error *err)
{
    for (size_t i = 0; i < spec->grant_count; i++) {
        int status = resolve_grant(&spec->grants[i], err);
        if (status < 0)
            return status;
        for (size_t j = 0; j < i; j++)
            if (spec->grants[i].kind == GRANT_INPUT && spec->grants[j].kind == GRANT_INPUT &&
                strcmp(spec->grants[i].name, spec->grants[j].name) == 0)
                return error_spec(err, "input",
                                  "input: two inputs are called '%.64s'; give one another name with "
                                  "PATH:NAME",
                                  spec->grants[i].name);
    }
    return 0;
}

static int read_code_file(struct spec *spec, struct error *err)
{
    if (spec->has_code)
        return error_spec(err, "file", "file: give a file or code, not both");
    struct stat status;
    if (stat(spec->code_file, &status) < 0)
        return error_spec(err, "file", "file: '%.256s': %s", spec->code_file, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return error_spec(err, "file", "file: '%.256s' is not a regular file", spec->code_file);
    int result = file_read_whole(AT_FDCWD, spec->code_file, SPEC_CODE_MAX, &spec->code);
    if (result < 0)
        return error_spec(err, "file", "file: '%.256s': %s", spec->code_file,
                          result == -EFBIG ? "larger than 16 MiB" : strerror(-result));
    spec->has_code = true;
    const char *slash = strrchr(spec->code_file, '/');
    spec->code_name = strdup(slash ? slash + 1 : spec->code_file);
    return spec->code_name ? 0 : error_host(err, -ENOMEM, "file");
}

/* An image that was imported may say what it runs when nothing is asked for. */
static bool may_have_own_command(const struct spec *spec)
{
    return spec->image && strcmp(spec->image, "host") != 0 && spec->isolation != ISOLATION_WASM;
}

static int check_program(struct spec *spec, struct error *err)
{
    if (spec->code_file) {
        int status = read_code_file(spec, err);
        if (status < 0)
            return status;
    }
    if (spec->code_name && !text_is_file_name(spec->code_name, strlen(spec->code_name)))
        return error_spec(err, "name", "name: '%.64s' is not the name of a file, without a slash",
                          spec->code_name);
    if (spec->has_code && spec->command.count)
        return error_spec(err, "command", "command: give code or a command, not both");
    if (!spec->has_code && !spec->command.count && (!may_have_own_command(spec) || spec->arguments.count))
        return error_spec(err, "code", "nothing to run: give a FILE, -e CODE, or -- COMMAND");
    if (spec->code.length > SPEC_CODE_MAX)
        return error_spec(err, "code", "code: larger than 16 MiB");
    if (spec->command.count && !spec->command.items[0][0])
        return error_spec(err, "command", "command: an empty name");
    return 0;
}

static bool approves(const struct spec *spec, const char *group)
{
    for (size_t i = 0; i < spec->host.count; i++)
        if (strcmp(spec->host.items[i], group) == 0)
            return true;
    return false;
}

/* Who names a host has approved the functions that reach it; who names none has nothing that they could
 * reach, and should know it before the run. */
static int check_fetch(struct spec *spec, const struct policy *policy, struct error *err)
{
    const bool is_approved = approves(spec, "fetch");
    if (!spec->fetch.count)
        return is_approved
                   ? error_spec(err, "fetch",
                                "fetch: the group 'fetch' is approved, but no host that may be reached "
                                "is named; give HOST or HOST:PORT (--fetch HOST)")
                   : 0;
    int status = fetch_rules_validate(&spec->fetch, &policy->fetch, policy->source, err);
    if (status < 0)
        return status;
    if (!spec->host.count)
        status = string_list_add(&spec->host, "wasi");
    if (status == 0 && !is_approved)
        status = string_list_add(&spec->host, "fetch");
    spec->fetch_limits = policy->fetch.limits;
    free(spec->fetch_ca);
    spec->fetch_ca = policy->fetch.ca ? strdup(policy->fetch.ca) : NULL;
    return status < 0 || (policy->fetch.ca && !spec->fetch_ca) ? error_host(err, -ENOMEM, "fetch") : 0;
}

static int add_accepted(struct spec *spec, const struct policy *policy, struct error *err)
{
    for (size_t i = 0; i < policy->accepted.count; i++)
        if (!spec_accepts(spec, policy->accepted.items[i]) &&
            string_list_add(&spec->accepted, policy->accepted.items[i]) < 0)
            return error_host(err, -ENOMEM, "accept");
    return 0;
}

int spec_validate(struct spec *spec, const struct policy *policy, struct error *err)
{
    spec_take_usual_isolation(spec, policy);
    int status = check_isolation(spec, policy, err);
    if (status == 0)
        status = add_accepted(spec, policy, err);
    if (status == 0)
        status = fill_limits(spec, policy, err);
    if (status == 0)
        status = check_program(spec, err);
    if (status == 0)
        status = check_fetch(spec, policy, err);
    if (status == 0)
        status = check_vet(spec, policy, err);
    if (status == 0)
        status = spec_resolve_grants(spec, err);
    if (status == 0 && spec->preload && !warm_policy_modules(&policy->warm, spec->preload, err))
        status = -EINVAL;
    if (status == 0 && !spec->image && !(spec->image = strdup(policy->image)))
        status = error_host(err, -ENOMEM, "image");
    return status;
}
