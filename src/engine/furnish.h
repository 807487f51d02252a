/* What goes into the root of a box, whoever builds it: in a child that has a mount namespace of its own and
 * the power to mount, with the new root, a mount, as its working directory and 0 as its umask.
 *
 * The host's tree is still around us then, so no path is walked through anything that an image or a guest
 * could have put a link into: names are single components below descriptors that we made. */
#pragma once

#include "engine/engine.h"

#include <sys/stat.h>
#include <sys/types.h>

/* Before anything else: nothing that is mounted here is seen outside. */
int furnish_make_private(struct error *err);

int furnish_directory(const char *name, mode_t mode);
int furnish_file(const char *name, const void *data, size_t length, mode_t mode);

/* The image's top-level directories, read-only. One call for the flags of all mounts so far; the root itself
 * gets its own when it is complete. */
int furnish_image(const struct image *image);

/* Files of /etc that name the box's own user and host. Needs a directory "code". */
int furnish_identity(const struct image *image);

int furnish_code(const struct program *program, const char *directory);

/* One tmpfs behind all writable places, limited in size and number of files. */
struct scratch_place {
    const char *name;
    mode_t mode;
};
enum { SCRATCH_PLACES = 5 };
extern const struct scratch_place scratch_places[SCRATCH_PLACES];
int furnish_scratch(const struct box *box, const char *path, uid_t owner_uid, gid_t owner_gid);

/* Where things are in such a root, see engine.path_of. */
const char *furnish_path_of(const struct box *box, const char *which, char *into, size_t size);
