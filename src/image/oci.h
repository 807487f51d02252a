/* What an image archive says about itself: which layers in which order, and what the image asks for.
 *
 * Two descriptions are known. An OCI layout has index.json, which leads by digests to a manifest and from
 * there to the config and the layers, all of them blobs/sha256/HEX. A `docker save` has manifest.json with
 * the names of the config and the layers; newer ones are both at once, and are then read as OCI layouts. */
#pragma once

#include "base/error.h"
#include "image/metadata.h"
#include "image/spool.h"

#include <jansson.h>
#include <stddef.h>

struct oci_image {
    const struct spool_member **layers; /* lowest first; the members are the spool's */
    size_t layer_count;
    struct image_metadata metadata; /* size and time are left to the importer */
};

/* Finds the one image for this machine in the archive. The caller frees, also after a failure. */
int oci_image_read(const struct spool *spool, int64_t layer_limit, struct oci_image *ret, struct error *err);
void oci_image_free(struct oci_image *image);

#define scope_oci_image __attribute__((cleanup(oci_image_free))) struct oci_image

/* The parts of it, one file each. */

/* oci_layout.c: an archive with index.json. */
int oci_layout_read(const struct spool *spool, int64_t layer_limit, struct oci_image *image,
                    struct error *err);
/* oci_docker.c: an archive with manifest.json. */
int oci_docker_read(const struct spool *spool, int64_t layer_limit, struct oci_image *image,
                    struct error *err);
/* oci_config.c: the environment and entry point, and whether the image is for this machine. */
int oci_config_read(const struct spool *spool, const struct spool_member *config,
                    struct image_metadata *metadata, struct error *err);

/* What this machine is called in manifests: "amd64", "arm64". */
const char *oci_machine(void);

/* Room for that many layers, after a check against the limit. */
int oci_image_reserve_layers(struct oci_image *image, size_t count, int64_t layer_limit, struct error *err);

/* "KIND NAME" as the image's source; the name is untrusted and may be NULL. */
int oci_image_name_source(struct oci_image *image, const char *kind, const char *name, struct error *err);
