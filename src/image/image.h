/* An image is the file tree that a sandbox sees, read-only.
 *
 * `host` is a view of the host's own programs (see host_view.h); every other image is a directory tree in the
 * store: STORE/NAME/rootfs, with STORE/NAME/image.json beside it (where it came from, environment, entry
 * point). The store is /var/lib/cloche/images for root, $XDG_DATA_HOME/cloche/images for others, or what
 * `image_store = …` in the config says. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

struct image {
    char *name;
    bool is_host;
    char *root; /* absolute path of the tree; "/" for the host view */
    struct string_list
        environment; /* NAME=value that the image asks for (from an OCI config); may be empty */
    struct string_list own_command; /* what it runs when nothing else is asked for; may be empty … */
    char *own_directory;            /* … and where; NULL: it does not say */
};

/* Opens an image by name. An unknown name is an ERROR_SPEC that lists what there is and how to get more.
 * `store` NULL means the default one. The caller frees. */
int image_open(const char *store, const char *name, struct image **ret, struct error *err);
void image_free(struct image *image);

#define scope_image __attribute__((cleanup(image_free_pointer))) struct image
static inline void image_free_pointer(struct image **image)
{
    image_free(*image);
}

/* Which tree a name stands for at this moment: another one after an image was removed and made anew. What an
 * operator changes inside a tree is not seen. */
struct image_identity {
    uint64_t device, inode;
    int64_t changed_s, changed_ns; /* the name was given to it; inodes are used again */
};

/* Where the store has an image of this name, to be freed; the host view, which is always the same, has no
 * place: NULL. -errno, with err untouched: the name is none, or there is no store to look in. */
int image_locate(const char *store, const char *name, char **ret_place);

/* One call of the kernel. False: there is no image at this place. A NULL place is always there. */
bool image_identify(const char *place, struct image_identity *ret);
bool image_is_same(const struct image_identity *one, const struct image_identity *other);

/* Is there an executable regular file at this absolute path, as a process inside the image would see it
 * (links are followed inside the image, never out of it)? */
bool image_has_program(const struct image *image, const char *path);

/* Long work reports what it does; fraction is 0..1, or negative when it is not known. */
struct image_progress {
    void (*report)(void *data, const char *what, double fraction);
    void *data;
};

struct image_summary {
    char *name;
    char *source; /* "mmdebstrap bookworm", "docker archive alpine:3.19", … */
    int64_t size_bytes;
    int64_t created_s; /* seconds since 1970 */
};

/* The images in the store, `host` not among them. The caller frees with image_summaries_free. */
int image_list(const char *store, struct image_summary **ret, size_t *ret_count, struct error *err);
void image_summaries_free(struct image_summary *summaries, size_t count);

/* Removes an image. */
int image_remove(const char *store, const char *name, struct error *err);

/* Makes an image from Debian's packages with mmdebstrap. packages NULL: the default set; suite NULL:
 * bookworm. */
int image_build(const char *store, const char *name, const char *suite, const struct string_list *packages,
                const struct image_progress *progress, struct error *err);

/* Takes a `docker save` archive or an OCI layout tar (plain, gzip or zstd). Hostile archives are refused:
 * ERROR_SPEC on "archive", and nothing is left in the store. limits NULL: 20 GiB, 1,000,000 entries, 128
 * layers. The archive's parser is libarchive, which ends the process when memory is short: call it from a
 * process that may die. */
struct image_import_limits {
    int64_t unpacked_bytes; /* of all layers together */
    int64_t entries;
    int64_t layers;
};
int image_import(const char *store, const char *name, const char *archive_path,
                 const struct image_import_limits *limits, const struct image_progress *progress,
                 struct error *err);
