#include "image/oci.h"
#include "image/entry_name.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>

/* What a process can be started with is limited by the kernel too; an image asks for far less. */
enum { CONFIG_STRINGS_MAX = 1024, CONFIG_BYTES_MAX = 256 * 1024 };

static int config_check_machine(const json_t *config, struct error *err)
{
    const char *system = json_string_value(json_object_get(config, "os"));
    const char *machine = json_string_value(json_object_get(config, "architecture"));
    if ((!system || strcmp(system, "linux") == 0) && (!machine || strcmp(machine, oci_machine()) == 0))
        return 0;
    char quoted_system[ENTRY_QUOTED_MAX], quoted_machine[ENTRY_QUOTED_MAX];
    return error_spec(err, "archive", "the image is for %s/%s; this machine runs linux/%s",
                      entry_name_quote(system ? system : "linux", quoted_system),
                      entry_name_quote(machine ? machine : oci_machine(), quoted_machine), oci_machine());
}

static int config_add_strings(struct string_list *list, const json_t *array, const char *what,
                              size_t *bytes_left, struct error *err)
{
    size_t index;
    json_t *item;
    json_array_foreach(array, index, item)
    {
        const char *text = json_string_value(item);
        if (!text)
            continue;
        size_t length = strlen(text);
        if (list->count >= CONFIG_STRINGS_MAX || length > *bytes_left)
            return error_spec(err, "archive",
                              "the %s in the image's config is too large: %d strings and %d KiB are "
                              "allowed",
                              what, CONFIG_STRINGS_MAX, CONFIG_BYTES_MAX / 1024);
        *bytes_left -= length;
        if (string_list_add(list, text) < 0)
            return error_host(err, -ENOMEM, "cannot copy the %s of the image's config", what);
    }
    return 0;
}

static int config_add_environment(struct string_list *list, const json_t *array, size_t *bytes_left,
                                  struct error *err)
{
    scope_string_list all = {0};
    int status = config_add_strings(&all, array, "environment", bytes_left, err);
    if (status < 0)
        return status;
    for (size_t i = 0; i < all.count; i++) {
        const char *equals = strchr(all.items[i], '=');
        /* Docker passes other forms on too, but no program can look them up. */
        if (!equals || !text_is_environment_name(all.items[i], (size_t)(equals - all.items[i])))
            continue;
        if (string_list_add(list, all.items[i]) < 0)
            return error_host(err, -ENOMEM, "cannot copy the environment of the image's config");
    }
    return 0;
}

int oci_config_read(const struct spool *spool, const struct spool_member *member,
                    struct image_metadata *metadata, struct error *err)
{
    json_auto_t *root = NULL;
    int status = spool_read_json(spool, member, &root, err);
    if (status < 0)
        return status;
    if (!json_is_object(root))
        return error_spec(err, "archive", "the image's config \"%s\" is not a JSON object", member->name);
    status = config_check_machine(root, err);
    if (status < 0)
        return status;
    const json_t *config = json_object_get(root, "config");
    size_t bytes_left = CONFIG_BYTES_MAX;
    status = config_add_environment(&metadata->environment, json_object_get(config, "Env"), &bytes_left, err);
    if (status == 0)
        status = config_add_strings(&metadata->entry_point, json_object_get(config, "Entrypoint"),
                                    "entry point", &bytes_left, err);
    if (status == 0)
        status = config_add_strings(&metadata->entry_point, json_object_get(config, "Cmd"), "entry point",
                                    &bytes_left, err);
    const char *directory = json_string_value(json_object_get(config, "WorkingDir"));
    if (status < 0 || !directory || *directory != '/' || strlen(directory) >= PATH_MAX)
        return status;
    metadata->working_directory = strdup(directory);
    return metadata->working_directory ? 0 : error_host(err, -ENOMEM, "cannot copy the image's config");
}
