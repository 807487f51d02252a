#include "spec/warm.h"

#include "base/scope.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES_MAX = 4, IMAGES_MOST = 64, IDLE_MS = 10 * 60 * 1000, KEPT_MOST = 64 };

static const char *const usual_modules[] = {"numpy", "pandas", "matplotlib.pyplot"};

int warm_policy_init(struct warm_policy *policy)
{
    *policy = (struct warm_policy){.images_max = IMAGES_MAX, .idle_ms = IDLE_MS};
    int status = 0;
    for (size_t i = 0; status == 0 && i < sizeof usual_modules / sizeof *usual_modules; i++)
        status = string_list_add(&policy->modules, usual_modules[i]);
    return status;
}

void warm_policy_free(struct warm_policy *policy)
{
    for (size_t i = 0; i < policy->set_count; i++) {
        free(policy->sets[i].name);
        string_list_free(&policy->sets[i].modules);
    }
    for (size_t i = 0; i < policy->kept_count; i++) {
        free(policy->kept[i].image);
        free(policy->kept[i].set);
    }
    free(policy->sets);
    free(policy->kept);
    string_list_free(&policy->modules);
    *policy = (struct warm_policy){0};
}

/* Names with dots in between; none at all is a set in which nothing is imported. */
static int add_modules(struct string_list *into, const char *key, const char *value, struct error *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    scope_free char *names = strdup(value);
    int status = names ? 0 : -ENOMEM;
    for (char *rest = names, *name; status == 0 && (name = strsep(&rest, ", \t"));) {
        if (strspn(name, allowed) != strlen(name) || strlen(name) > 127)
            return error_spec(err, key,
                              "%s: '%.64s' is not the name of a module; give names with commas, such as "
                              "numpy, pandas",
                              key, name);
        status = *name ? string_list_add(into, name) : 0;
    }
    return status;
}

static struct warm_set *find_set(const struct warm_policy *policy, const char *name)
{
    for (size_t i = 0; i < policy->set_count; i++)
        if (strcmp(policy->sets[i].name, name) == 0)
            return &policy->sets[i];
    return NULL;
}

static int set_modules(struct warm_policy *policy, const char *value, struct error *err)
{
    string_list_free(&policy->modules);
    policy->modules = (struct string_list){0};
    policy->modules_set = true;
    return add_modules(&policy->modules, "preload", value, err);
}

static int add_set(struct warm_policy *policy, const char *key, const char *value, struct error *err)
{
    const char *name = key + strlen("preload.");
    if (!text_is_plain_name(name) || strcmp(name, WARM_SET_DEFAULT) == 0)
        return error_spec(err, key,
                          "%s: '%.64s' cannot be the name of a set; give up to 64 letters, digits, \"-\", "
                          "\"_\" and \".\", a letter or digit first; the default set is `preload = …`",
                          key, name);
    if (find_set(policy, name))
        return error_spec(err, key, "%s: '%.64s' is there already; write all its modules in one line", key,
                          name);
    struct warm_set *grown = reallocarray(policy->sets, policy->set_count + 1, sizeof *grown);
    if (!grown)
        return -ENOMEM;
    policy->sets = grown;
    struct warm_set *set = &grown[policy->set_count];
    *set = (struct warm_set){.name = strdup(name)};
    if (!set->name)
        return -ENOMEM;
    policy->set_count++;
    return add_modules(&set->modules, key, value, err);
}

static int refuse_kept(const char *value, struct error *err)
{
    return error_spec(err, "warm",
                      "warm: '%.64s' is not an image, or an image and a set; write for example `warm = data` "
                      "or `warm = data ml`",
                      value);
}

static int add_kept(struct warm_policy *policy, const char *value, struct error *err)
{
    scope_free char *image = strdup(value);
    if (!image)
        return -ENOMEM;
    size_t length = strcspn(image, " \t");
    const char *set = image + length + strspn(image + length, " \t");
    set = *set ? set : WARM_SET_DEFAULT;
    image[length] = '\0';
    if (!text_is_plain_name(image) || !text_is_plain_name(set))
        return refuse_kept(value, err);
    if (policy->kept_count == KEPT_MOST)
        return error_spec(err, "warm", "warm: '%.64s' is one too many; at most %d can be kept", value,
                          KEPT_MOST);
    struct warm_kept *grown = reallocarray(policy->kept, policy->kept_count + 1, sizeof *grown);
    if (!grown)
        return -ENOMEM;
    policy->kept = grown;
    struct warm_kept *kept = &grown[policy->kept_count];
    *kept = (struct warm_kept){strdup(image), strdup(set)};
    policy->kept_count++;
    return kept->image && kept->set ? 0 : -ENOMEM;
}

static int set_images_max(struct warm_policy *policy, const char *value, struct error *err)
{
    int64_t number;
    if (!text_parse_count(value, &number) || number > IMAGES_MOST)
        return error_spec(err, "warm.images", "warm.images: '%.64s' is not a number from 0 to %d", value,
                          IMAGES_MOST);
    policy->images_max = number;
    return 0;
}

int warm_policy_set(struct warm_policy *policy, const char *key, const char *value, struct error *err)
{
    int status;
    if (strcmp(key, "warm") == 0)
        status = add_kept(policy, value, err);
    else if (strcmp(key, "warm.images") == 0)
        status = set_images_max(policy, value, err);
    else if (strcmp(key, "warm.idle") == 0)
        status = text_parse_duration(value, &policy->idle_ms)
                     ? 0
                     : error_spec(err, key,
                                  "warm.idle: '%.64s' is not a valid value; give a time such as 10m", value);
    else if (strcmp(key, "preload") == 0)
        status = set_modules(policy, value, err);
    else if (strncmp(key, "preload.", strlen("preload.")) == 0)
        status = add_set(policy, key, value, err);
    else
        return 0;
    return status < 0 ? status : 1;
}

const struct string_list *warm_policy_modules(const struct warm_policy *policy, const char *set,
                                              struct error *err)
{
    if (strcmp(set, WARM_SET_DEFAULT) == 0)
        return &policy->modules;
    const struct warm_set *found = find_set(policy, set);
    if (found)
        return &found->modules;
    scope_buffer names = {0};
    buffer_append_text(&names, WARM_SET_DEFAULT);
    for (size_t i = 0; i < policy->set_count && names.length < 400; i++)
        buffer_print(&names, ", %s", policy->sets[i].name);
    error_spec(
        err, "preload",
        "preload: there is no set of modules '%.64s'; there are: %s (the operator's configuration names "
        "them: preload.NAME = …)",
        set, names.data ? names.data : "");
    return NULL;
}

int warm_policy_check(const struct warm_policy *policy, struct error *err)
{
    for (size_t i = 0; i < policy->kept_count; i++)
        if (!warm_policy_modules(policy, policy->kept[i].set, err))
            return error_context(err, "warm = %s %s", policy->kept[i].image, policy->kept[i].set);
    return 0;
}

const char *warm_policy_choose(const struct warm_policy *policy, const char *image, const char *asked)
{
    if (asked)
        return asked;
    for (size_t i = 0; i < policy->kept_count; i++)
        if (strcmp(policy->kept[i].image, image) == 0)
            return policy->kept[i].set;
    return WARM_SET_DEFAULT;
}
