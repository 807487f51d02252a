#include "image/image.h"
#include "image/host_view.h"
#include "image/in_root.h"
#include "image/metadata.h"
#include "image/store.h"
#include "base/scope.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

static int image_unknown(const char *store_path, const char *name, struct error *err)
{
    struct image_summary *summaries = NULL;
    size_t count = 0;
    struct error ignored;
    image_list(store_path, &summaries, &count, &ignored);
    scope_buffer names = {0};
    int status = buffer_append_text(&names, "host");
    for (size_t i = 0; status == 0 && i < count && names.length < 400; i++)
        status = buffer_print(&names, ", %s", summaries[i].name);
    if (status == 0 && names.length >= 400)
        status = buffer_append_text(&names, ", ...");
    image_summaries_free(summaries, count);
    if (status < 0)
        return error_host(err, status, "cannot list the images");
    return error_spec(
        err, "image",
        "there is no image \"%s\"; there are: %s. `cloche image build` makes one from Debian's packages, "
        "`cloche image import` takes one from `docker save` or an OCI archive",
        name, names.data);
}

static int image_open_host(struct image *image)
{
    image->is_host = true;
    image->name = strdup("host");
    image->root = strdup("/");
    return image->name && image->root ? 0 : -ENOMEM;
}

static int image_open_stored(struct image *image, const char *store_path, const char *name, struct error *err)
{
    scope_store store = {.fd = -1};
    int status = store_open(&store, store_path, false, err);
    if (status == -ENOENT)
        return image_unknown(store_path, name, err);
    if (status < 0)
        return status;
    struct stat root;
    scope_fd fd = openat(store.fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if ((fd < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)) ||
        (fd >= 0 && (fstatat(fd, "rootfs", &root, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISDIR(root.st_mode))))
        return image_unknown(store_path, name, err);
    if (fd < 0)
        return error_host(err, -errno, "cannot open image \"%s\" in %s", name, store.path);
    scope_image_metadata metadata = {0};
    status = image_metadata_read(fd, &metadata, err);
    if (status < 0)
        return error_context(err, "image \"%s\" in %s", name, store.path);
    image->name = strdup(name);
    if (asprintf(&image->root, "%s/%s/rootfs", store.path, name) < 0)
        image->root = NULL;
    if (!image->name || !image->root)
        return error_host(err, -ENOMEM, "cannot open image \"%s\"", name);
    image->environment = metadata.environment;
    metadata.environment = (struct string_list){0};
    image->own_command = metadata.entry_point;
    metadata.entry_point = (struct string_list){0};
    image->own_directory = take_pointer(metadata.working_directory);
    return 0;
}

/* All that is shown of an image is opened by this call; without it everything would seem to be missing. */
static int check_opening(const struct image *image, struct error *err)
{
    scope_fd root_fd = open(image->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    scope_fd fd = root_fd < 0 ? -1 : in_root_open(root_fd, ".", O_PATH);
    if (fd == -ENOSYS || fd == -EPERM)
        return error_layer(
            err, "openat2", fd,
            "the call openat2 is refused here; it takes Linux 5.6, and an outer container whose filter "
            "lets it pass");
    return 0;
}

int image_open(const char *store, const char *name, struct image **ret, struct error *err)
{
    if (!name || !text_is_plain_name(name))
        return error_spec(err, "image",
                          "not the name of an image: up to 64 letters, digits, \"-\", \"_\" and \".\" are "
                          "allowed, a letter or digit first");
    scope_image *image = calloc(1, sizeof *image);
    if (!image)
        return error_host(err, -ENOMEM, "cannot open image \"%s\"", name);
    int status;
    if (strcmp(name, "host") == 0) {
        status = image_open_host(image);
        if (status < 0)
            error_host(err, status, "cannot open image \"host\"");
    } else {
        status = image_open_stored(image, store, name, err);
    }
    if (status == 0)
        status = check_opening(image, err);
    if (status < 0)
        return status;
    *ret = take_pointer(image);
    return 0;
}

int image_locate(const char *store, const char *name, char **ret_place)
{
    *ret_place = NULL;
    if (!name || !text_is_plain_name(name))
        return -EINVAL;
    if (strcmp(name, "host") == 0)
        return 0;
    scope_free char *path = NULL;
    struct error ignored;
    int status = store_name(store, &path, &ignored);
    if (status < 0)
        return status;
    if (asprintf(ret_place, "%s/%s", path, name) < 0) {
        *ret_place = NULL;
        return -ENOMEM;
    }
    return 0;
}

bool image_identify(const char *place, struct image_identity *ret)
{
    struct stat found;
    *ret = (struct image_identity){0};
    if (!place)
        return true;
    if (lstat(place, &found) < 0 || !S_ISDIR(found.st_mode))
        return false;
    *ret = (struct image_identity){.device = found.st_dev,
                                   .inode = found.st_ino,
                                   .changed_s = found.st_ctim.tv_sec,
                                   .changed_ns = found.st_ctim.tv_nsec};
    return true;
}

bool image_is_same(const struct image_identity *one, const struct image_identity *other)
{
    return one->device == other->device && one->inode == other->inode && one->changed_s == other->changed_s &&
           one->changed_ns == other->changed_ns;
}

void image_free(struct image *image)
{
    if (!image)
        return;
    free(image->name);
    free(image->root);
    string_list_free(&image->environment);
    string_list_free(&image->own_command);
    free(image->own_directory);
    free(image);
}

/* A box shows a part of the host: both the name and the file that its links lead to must be in that part. */
static bool image_is_shown_of_host(const char *path, int fd)
{
    char link[64], target[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, target, sizeof target - 1);
    if (length < 0)
        return false;
    target[length] = '\0';
    return host_view_shows(path) && host_view_shows(target);
}

bool image_has_program(const struct image *image, const char *path)
{
    if (*path != '/')
        return false;
    scope_fd root_fd = open(image->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        return false;
    /* The host's /usr may be a mount of its own; an image's tree is one directory tree. */
    scope_fd fd = image->is_host ? in_root_open_across_mounts(root_fd, path, O_PATH)
                                 : in_root_open(root_fd, path, O_PATH);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || !(status.st_mode & 0111))
        return false;
    return !image->is_host || image_is_shown_of_host(path, fd);
}
