/* Any bytes as a spec in JSON. What is taken is within all limits; what is refused says why. */
#include "fuzz.h"

#include "base/text.h"
#include "spec/spec.h"

#include <limits.h>
#include <string.h>

static const struct policy *the_policy(void)
{
    static struct policy policy;
    static bool loaded;
    struct error err;
    if (!loaded) {
        check(policy_load("/dev/null", &policy, &err) == 0, "an empty configuration is one");
        policy.ceilings.value[LIMIT_memory] = 1 << 30;
        loaded = true;
    }
    return &policy;
}

static void check_refusal(const struct error *err)
{
    check(err->kind == ERROR_SPEC, "a refusal is about the spec");
    check(err->code < 0, "a refusal has a code");
    check(err->text[0] && memchr(err->text, '\0', sizeof err->text), "a refusal has a sentence");
    check(memchr(err->subject, '\0', sizeof err->subject), "and a subject that ends");
}

static void check_list(const struct string_list *list)
{
    check(list->count <= SPEC_ARGUMENTS_MAX, "lists have an end");
    check(!list->items || !list->items[list->count], "lists are terminated");
}

static void check_read(const struct spec *spec)
{
    check_list(&spec->command);
    check_list(&spec->arguments);
    check_list(&spec->environment);
    check_list(&spec->accepted);
    check(spec->grant_count <= SPEC_GRANTS_MAX, "grants have an end");
    for (size_t i = 0; i < spec->environment.count; i++)
        check(text_is_environment_name(spec->environment.items[i], strcspn(spec->environment.items[i], "=")),
              "variables have names");
    for (size_t i = 0; i < spec->accepted.count; i++) {
        bool known = false;
        for (int j = 0; j < SPEC_ACCEPTABLE; j++)
            known |= strcmp(spec->accepted.items[i], spec_acceptable[j]) == 0;
        check(known, "only what can be done without is accepted");
    }
}

static void check_validated(const struct spec *spec, const struct policy *policy)
{
    for (int i = 0; i < LIMIT_FIELDS; i++) {
        const int64_t values[] = {spec->limits.value[i], spec->compile_limits.value[i]};
        for (size_t j = 0; j < 2; j++)
            check(values[j] >= limit_rows[i].least && values[j] <= policy->ceilings.value[i],
                  "every limit is between its floor and its ceiling");
    }
    check(spec->image != NULL, "there is an image");
    bool has_command = spec->command.count > 0;
    check(!(spec->has_code && has_command), "there is one thing to run");
    check(spec->has_code || has_command || (strcmp(spec->image, "host") != 0 && spec->arguments.count == 0),
          "or none, when an image may say what");
    check(spec->code.length <= SPEC_CODE_MAX, "code has an end");
    for (size_t i = 0; i < spec->grant_count; i++) {
        const struct grant *grant = &spec->grants[i];
        check(grant->host_path[0] == '/', "granted paths are absolute");
        check(grant->kind == GRANT_INPUT ||
                  (strcmp(grant->host_path, "/") != 0 && strncmp(grant->host_path, "/proc", 5) != 0 &&
                   strncmp(grant->host_path, "/sys/", 5) != 0 && strncmp(grant->host_path, "/dev/", 5) != 0),
              "no grant undoes the box");
        check(grant->kind != GRANT_INPUT ||
                  (grant->name[0] && !strchr(grant->name, '/') && strcmp(grant->name, "..") != 0 &&
                   strlen(grant->name) <= NAME_MAX),
              "inputs have names that are names");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct policy *policy = the_policy();
    struct error err = {0};
    scope_spec *spec = spec_new();
    check(spec != NULL, "there is memory");
    if (spec_read_json(spec, (const char *)data, size, &err) < 0) {
        check_refusal(&err);
        return 0;
    }
    check_read(spec);
    /* Files of the kernel may wait for ever, and are not what is looked for here. */
    if (spec->code_file && (strstr(spec->code_file, "proc") || strstr(spec->code_file, "sys")))
        return 0;
    if (spec_validate(spec, policy, &err) < 0)
        check_refusal(&err);
    else
        check_validated(spec, policy);
    return 0;
}
