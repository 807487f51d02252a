#include "image/oci.h"
#include "image/entry_name.h"

#include <errno.h>
#include <stdlib.h>
#include <stdio.h>

const char *oci_machine(void)
{
#if defined __x86_64__
    return "amd64";
#elif defined __aarch64__
    return "arm64";
#else
#error "name this machine as OCI manifests do"
#endif
}

int oci_image_reserve_layers(struct oci_image *image, size_t count, int64_t layer_limit, struct error *err)
{
    if (count == 0)
        return error_spec(err, "archive", "the image has no layers; at least one is needed");
    if (layer_limit < 0 || count > (size_t)layer_limit)
        return error_spec(err, "archive", "the image has %zu layers; at most %lld are allowed", count,
                          (long long)layer_limit);
    image->layers = calloc(count, sizeof *image->layers);
    return image->layers ? 0 : error_host(err, -ENOMEM, "cannot list the layers");
}

int oci_image_name_source(struct oci_image *image, const char *kind, const char *name, struct error *err)
{
    char quoted[ENTRY_QUOTED_MAX];
    entry_name_quote(name ? name : "", quoted);
    if (asprintf(&image->metadata.source, "%s%s%s", kind, *quoted ? " " : "", quoted) >= 0)
        return 0;
    image->metadata.source = NULL;
    return error_host(err, -ENOMEM, "cannot name the image's source");
}

int oci_image_read(const struct spool *spool, int64_t layer_limit, struct oci_image *ret, struct error *err)
{
    *ret = (struct oci_image){0};
    if (spool_has(spool, "index.json"))
        return oci_layout_read(spool, layer_limit, ret, err);
    if (spool_has(spool, "manifest.json"))
        return oci_docker_read(spool, layer_limit, ret, err);
    return error_spec(
        err, "archive",
        "neither index.json (an OCI layout) nor manifest.json (`docker save`) is in the archive; a bare "
        "tree, as `docker export` writes it, is not an image");
}

void oci_image_free(struct oci_image *image)
{
    free(image->layers);
    image_metadata_free(&image->metadata);
    *image = (struct oci_image){0};
}
