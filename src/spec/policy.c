#include "spec/policy.h"

#include "base/file.h"
#include "base/scope.h"
#include "base/text.h"
#include "spec/spec.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define SANDBOX_RUNS       100000
#define UPLOAD_QUOTA       (INT64_C(16) << 30)
#define UPLOAD_LIFETIME_MS (INT64_C(7) * 24 * 3600 * 1000)

const char *const isolation_names[ISOLATION_COUNT] = {"process", "wasm", "container", "gvisor"};

int isolation_find(const char *name, struct error *err)
{
    for (int i = 0; i < ISOLATION_COUNT; i++)
        if (strcmp(name, isolation_names[i]) == 0)
            return i;
    scope_buffer names = {0};
    for (int i = ISOLATION_COUNT - 1; i >= 0; i--)
        buffer_print(&names, "%s%s", names.length ? ", " : "", isolation_names[i]);
    return error_spec(err, "isolation", "isolation: '%.64s' is not an engine of this build; there are: %s",
                      name, names.data ? names.data : "");
}

static int policy_set_text(char **into, const char *value)
{
    free(*into);
    *into = strdup(value);
    return *into ? 0 : -ENOMEM;
}

static int policy_set_limit(struct policy *policy, const char *key, const char *value, struct error *err)
{
    char name[64];
    const char *dot = strstr(key, ".max");
    size_t length = dot && !dot[4] ? (size_t)(dot - key) : strlen(key);
    if (length >= sizeof name)
        length = sizeof name - 1;
    memcpy(name, key, length);
    name[length] = '\0';
    int field = limit_find(name);
    if (field < 0)
        return error_spec(err, key, "'%.64s' is not a setting", key);
    int64_t number;
    int status = limit_parse((enum limit_field)field, value, &number, err);
    if (status < 0)
        return status;
    if (dot)
        policy->ceilings.value[field] = number;
    else {
        policy->defaults.value[field] = number;
        policy->default_set[field] = true;
    }
    return 0;
}

/* 1: the key is one of them. */
static int policy_set_server(struct policy *policy, const char *key, const char *value, struct error *err)
{
    const struct {
        const char *key;
        bool (*parse)(const char *text, int64_t *ret);
        int64_t *into;
        const char *example;
    } rows[] = {
        {"server.memory", text_parse_size, &policy->server.memory_bytes, "a size such as 8G"},
        {"server.cpus", text_parse_cpus, &policy->server.millicpus, "a number of CPUs such as 4"},
        {"server.queue", text_parse_count, &policy->server.queue_depth, "a whole number such as 256"},
        {"server.queue_wait", text_parse_duration, &policy->server.queue_wait_ms, "a time such as 30s"},
        {"server.sandbox_runs", text_parse_count, &policy->server.sandbox_runs,
         "a whole number such as 100000"},
        {"upload_quota", text_parse_size, &policy->upload_quota_bytes, "a size such as 16G"},
        {"upload_lifetime", text_parse_duration, &policy->upload_lifetime_ms, "a time such as 168h"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(key, rows[i].key) != 0)
            continue;
        return rows[i].parse(value, rows[i].into)
                   ? 1
                   : error_spec(err, key, "%s: '%.64s' is not a valid value; give %s", key, value,
                                rows[i].example);
    }
    return 0;
}

/* One name, or several with commas. */
static int policy_accept(struct policy *policy, const char *value, struct error *err)
{
    scope_free char *names = strdup(value);
    int status = names ? 0 : -ENOMEM;
    for (char *rest = names, *name; status == 0 && (name = strsep(&rest, ", \t"));)
        if (*name || !rest)
            status =
                spec_check_acceptable(name, err) < 0 ? err->code : string_list_add(&policy->accepted, name);
    return status;
}

/* Letters, digits, dots and hyphens: what can be compared with a Host header, letter by letter. */
static int policy_set_names(struct policy *policy, const char *value, struct error *err)
{
    int status = 0;
    while (status == 0 && *value) {
        size_t length = strcspn(value, ", ");
        char name[254];
        if (length >= sizeof name ||
            (length && strspn(value, "abcdefghijklmnopqrstuvwxyz"
                                     "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-") < length))
            return error_spec(err, "server.names",
                              "server.names: '%.64s' is not a list of host names such as box.example", value);
        snprintf(name, sizeof name, "%.*s", (int)length, value);
        status = length ? string_list_add(&policy->server.names, name) : 0;
        value += length + strspn(value + length, ", ");
    }
    return status;
}

static int policy_set_isolation(struct policy *policy, bool is_least, const char *value, struct error *err)
{
    bool is_auto = !is_least && strcmp(value, "auto") == 0;
    int found = is_auto ? ISOLATION_CONTAINER : isolation_find(value, err);
    if (found < 0)
        return found;
    *(is_least ? &policy->isolation_min : &policy->isolation) = (enum isolation)found;
    if (!is_least) {
        policy->is_auto = is_auto;
        policy->isolation_set = !is_auto;
    }
    return 0;
}

static int policy_set(struct policy *policy, const char *key, const char *value, struct error *err)
{
    if (strcmp(key, "isolation") == 0 || strcmp(key, "isolation.min") == 0)
        return policy_set_isolation(policy, key[9] != '\0', value, err);
    if (strcmp(key, "vet") == 0 || strcmp(key, "vet.min") == 0) {
        int found = vet_mode_find(value, err);
        if (found < 0)
            return found;
        *(key[3] ? &policy->vet_min : &policy->vet) = (enum vet_mode)found;
        policy->vet_set |= !key[3];
        return 0;
    }
    if (strcmp(key, "image") == 0)
        return policy_set_text(&policy->image, value);
    if (strcmp(key, "image_store") == 0)
        return policy_set_text(&policy->image_store, value);
    if (strcmp(key, "oci_runtime") == 0)
        return policy_set_text(&policy->oci_runtime, value);
    if (strcmp(key, "oci_platform") == 0)
        return policy_set_text(&policy->oci_platform, value);
    if (strcmp(key, "accept") == 0)
        return policy_accept(policy, value, err);
    if (strcmp(key, "server.names") == 0)
        return policy_set_names(policy, value, err);
    if (strcmp(key, "languages") == 0)
        return string_list_add(&policy->languages, value);
    int taken = policy_set_server(policy, key, value, err);
    if (taken == 0)
        taken = vet_policy_set(&policy->vetting, key, value, err);
    if (taken == 0)
        taken = fetch_policy_set(&policy->fetch, key, value, err);
    if (taken == 0)
        taken = warm_policy_set(&policy->warm, key, value, err);
    if (taken != 0)
        return taken < 0 ? taken : 0;
    return policy_set_limit(policy, key, value, err);
}

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    return text;
}

static int policy_read_lines(struct policy *policy, const char *path, char *text, struct error *err)
{
    int number = 0;
    for (char *line = text, *next; line; line = next) {
        number++;
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        line = trim(line);
        if (!*line || *line == '#')
            continue;
        char *equals = strchr(line, '=');
        if (!equals)
            return error_spec(err, line, "%s:%d: '%.64s' has no '='; write `name = value`", path, number,
                              line);
        *equals = '\0';
        int status = policy_set(policy, trim(line), trim(equals + 1), err);
        if (status < 0)
            return error_context(err, "%s:%d", path, number);
    }
    return 0;
}

/* A built-in default follows a lowered ceiling down, and a raised minimum up; one that the operator set must
 * be below it, and an engine not below its minimum, which is told to who asks for none. */
static int policy_check_itself(struct policy *policy, struct error *err)
{
    if (!policy->isolation_set && policy->isolation < policy->isolation_min)
        policy->isolation = policy->isolation_min;
    for (int i = 0; i < LIMIT_FIELDS; i++) {
        if (policy->defaults.value[i] <= policy->ceilings.value[i])
            continue;
        if (policy->default_set[i])
            return error_spec(err, limit_rows[i].name, "%s: the default of %s is above its ceiling (%s.max)",
                              policy->source, limit_rows[i].name, limit_rows[i].name);
        policy->defaults.value[i] = policy->ceilings.value[i];
    }
    return warm_policy_check(&policy->warm, err) < 0 ? error_context(err, "%s", policy->source) : 0;
}

int policy_load(const char *path, struct policy *ret, struct error *err)
{
    *ret =
        (struct policy){.isolation = ISOLATION_CONTAINER,
                        .isolation_min = ISOLATION_PROCESS,
                        .vet = VET_warn,
                        .server = {.queue_depth = 256, .queue_wait_ms = 30000, .sandbox_runs = SANDBOX_RUNS},
                        .upload_quota_bytes = UPLOAD_QUOTA,
                        .upload_lifetime_ms = UPLOAD_LIFETIME_MS,
                        .source = "built-in"};
    fetch_policy_init(&ret->fetch);
    for (int i = 0; i < LIMIT_FIELDS; i++) {
        ret->defaults.value[i] = limit_rows[i].normal;
        ret->ceilings.value[i] = limit_rows[i].most;
    }
    int status = policy_set_text(&ret->image, "host");
    if (status == 0)
        status = warm_policy_init(&ret->warm);
    if (status < 0) {
        policy_free(ret);
        return error_host(err, status, "cannot load the configuration");
    }
    const char *file = path ? path : "/etc/cloche.conf";
    scope_buffer text = {0};
    status = file_read_whole(AT_FDCWD, file, 1 << 20, &text);
    if (status == -ENOENT && !path)
        return 0;
    if (status < 0) {
        policy_free(ret);
        return error_spec(err, "config", "cannot read the configuration %s: %s", file, strerror(-status));
    }
    snprintf(ret->source, sizeof ret->source, "%s", file);
    status = strlen(text.data) == text.length ? policy_read_lines(ret, file, text.data, err)
                                              : error_spec(err, "config", "%s: holds a NUL character", file);
    if (status == 0)
        status = policy_check_itself(ret, err);
    if (status < 0)
        policy_free(ret);
    return status;
}

void policy_trust_caller(struct policy *policy)
{
    policy->fetch.is_callers = strcmp(policy->source, "built-in") == 0;
}

void policy_free(struct policy *policy)
{
    free(policy->image);
    free(policy->image_store);
    vet_policy_free(&policy->vetting);
    fetch_policy_free(&policy->fetch);
    warm_policy_free(&policy->warm);
    free(policy->oci_runtime);
    free(policy->oci_platform);
    string_list_free(&policy->accepted);
    string_list_free(&policy->languages);
    string_list_free(&policy->server.names);
    policy->image = policy->image_store = policy->oci_runtime = policy->oci_platform = NULL;
}

int policy_check_limit(const struct policy *policy, enum limit_field field, int64_t value, struct error *err)
{
    int64_t least = limit_rows[field].least, most = policy->ceilings.value[field];
    if (value >= least && value <= most)
        return 0;
    char given[32], low[32], high[32];
    return error_spec(err, limit_rows[field].name, "%s: %s is out of range; allowed are %s to %s (%s)",
                      limit_rows[field].name, limit_format(field, value, given, sizeof given),
                      limit_format(field, least, low, sizeof low),
                      limit_format(field, most, high, sizeof high), policy->source);
}
