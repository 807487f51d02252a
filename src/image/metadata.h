/* image.json, which stands beside the tree of an image: where the image came from and what it asks for. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"

#include <stdint.h>

struct image_metadata {
    char *source;
    int64_t size_bytes;
    int64_t created_s;
    struct string_list environment; /* NAME=value */
    struct string_list entry_point; /* the command that the image would start by itself; may be empty */
    char *working_directory;        /* NULL when the image names none */
};

/* Writes image.json into the directory. */
int image_metadata_write(int dir_fd, const struct image_metadata *metadata, struct error *err);

/* Reads image.json of the directory; a missing file gives empty metadata. The caller frees. */
int image_metadata_read(int dir_fd, struct image_metadata *ret, struct error *err);

void image_metadata_free(struct image_metadata *metadata);

#define scope_image_metadata __attribute__((cleanup(image_metadata_free))) struct image_metadata
