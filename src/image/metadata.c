#include "image/metadata.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { METADATA_BYTES_MAX = 4 * 1024 * 1024 };

static json_t *metadata_list_to_json(const struct string_list *list)
{
    json_t *array = json_array();
    for (size_t i = 0; array && i < list->count; i++) {
        if (json_array_append_new(array, json_string(list->items[i])) < 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static int metadata_list_from_json(struct string_list *list, const json_t *array)
{
    size_t index;
    json_t *item;
    json_array_foreach(array, index, item)
    {
        if (json_is_string(item) && string_list_add(list, json_string_value(item)) < 0)
            return -ENOMEM;
    }
    return 0;
}

int image_metadata_write(int dir_fd, const struct image_metadata *metadata, struct error *err)
{
    json_auto_t *root = json_pack(
        "{s:s, s:I, s:I, s:o, s:o, s:s*}", "source", metadata->source ? metadata->source : "unknown",
        "size_bytes", (json_int_t)metadata->size_bytes, "created_s", (json_int_t)metadata->created_s,
        "environment", metadata_list_to_json(&metadata->environment), "entry_point",
        metadata_list_to_json(&metadata->entry_point), "working_directory", metadata->working_directory);
    scope_free char *text = root ? json_text(root, JSON_INDENT(2)) : NULL;
    if (!text)
        return error_host(err, -ENOMEM, "cannot write image.json");
    scope_fd fd = openat(dir_fd, "image.json", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_host(err, -errno, "cannot make image.json");
    int status = file_write_all(fd, text, strlen(text));
    if (status == 0)
        status = file_write_all(fd, "\n", 1);
    return status < 0 ? error_host(err, status, "cannot write image.json") : 0;
}

static int metadata_copy_text(char **into, const json_t *value)
{
    if (!json_is_string(value))
        return 0;
    *into = strdup(json_string_value(value));
    return *into ? 0 : -ENOMEM;
}

int image_metadata_read(int dir_fd, struct image_metadata *ret, struct error *err)
{
    *ret = (struct image_metadata){0};
    scope_buffer text = {0};
    int status = file_read_whole(dir_fd, "image.json", METADATA_BYTES_MAX, &text);
    if (status == -ENOENT)
        return 0;
    if (status < 0)
        return error_host(err, status, "cannot read image.json");
    json_error_t problem;
    json_auto_t *root = json_loadb(text.data, text.length, 0, &problem);
    if (!root)
        return error_host(err, -EINVAL, "image.json is damaged (line %d: %s)", problem.line, problem.text);
    struct image_metadata metadata = {
        .size_bytes = json_integer_value(json_object_get(root, "size_bytes")),
        .created_s = json_integer_value(json_object_get(root, "created_s")),
    };
    if (metadata_copy_text(&metadata.source, json_object_get(root, "source")) < 0 ||
        metadata_copy_text(&metadata.working_directory, json_object_get(root, "working_directory")) < 0 ||
        metadata_list_from_json(&metadata.environment, json_object_get(root, "environment")) < 0 ||
        metadata_list_from_json(&metadata.entry_point, json_object_get(root, "entry_point")) < 0) {
        image_metadata_free(&metadata);
        return error_host(err, -ENOMEM, "cannot read image.json");
    }
    *ret = metadata;
    return 0;
}

void image_metadata_free(struct image_metadata *metadata)
{
    free(metadata->source);
    free(metadata->working_directory);
    string_list_free(&metadata->environment);
    string_list_free(&metadata->entry_point);
    *metadata = (struct image_metadata){0};
}
