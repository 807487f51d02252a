#include "image/oci.h"
#include "image/entry_name.h"

int oci_docker_read(const struct spool *spool, int64_t layer_limit, struct oci_image *image,
                    struct error *err)
{
    const struct spool_member *member;
    json_auto_t *root = NULL;
    int status = spool_find(spool, "manifest.json", &member, err);
    if (status == 0)
        status = spool_read_json(spool, member, &root, err);
    if (status < 0)
        return status;
    if (!json_is_array(root) || json_array_size(root) != 1)
        return error_spec(err, "archive", "manifest.json describes %zu images; save exactly one",
                          json_array_size(root));
    const json_t *manifest = json_array_get(root, 0);
    const char *config = json_string_value(json_object_get(manifest, "Config"));
    const json_t *layers = json_object_get(manifest, "Layers");
    if (!config || !json_is_array(layers))
        return error_spec(err, "archive", "manifest.json lacks \"Config\" (a name) or \"Layers\" (a list)");
    status = oci_image_reserve_layers(image, json_array_size(layers), layer_limit, err);
    if (status < 0)
        return status;
    size_t index;
    json_t *item;
    json_array_foreach(layers, index, item)
    {
        if (!json_is_string(item))
            return error_spec(err, "archive", "layer %zu in manifest.json is not a name", index + 1);
        status = spool_find(spool, json_string_value(item), &image->layers[index], err);
        if (status < 0)
            return error_context(err, "layer %zu", index + 1);
        image->layer_count++;
    }
    const json_t *tag = json_array_get(json_object_get(manifest, "RepoTags"), 0);
    status = oci_image_name_source(image, "docker archive", json_string_value(tag), err);
    if (status == 0)
        status = spool_find(spool, config, &member, err);
    if (status == 0)
        status = oci_config_read(spool, member, &image->metadata, err);
    return status;
}
