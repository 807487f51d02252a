/* Theory of operation. The archive comes from strangers. Its members are first put aside under names of ours
 * (spool), then its descriptions are read (oci), then its layers are applied in order to a tree (layer,
 * tree). All of this happens in a directory that becomes the image only when everything went well (store); on
 * any failure it is removed, and a maker that is killed leaves it to the next sweep. */
#include "image/image.h"
#include "image/layer.h"
#include "image/oci.h"
#include "image/spool.h"
#include "image/store.h"
#include "image/tree.h"
#include "base/file.h"
#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

static const struct image_import_limits import_default_limits = {
    .unpacked_bytes = (int64_t)20 << 30,
    .entries = 1000000,
    .layers = 128,
};

static int import_open_archive(const char *path, int *ret_fd, struct error *err)
{
    scope_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0) {
        if (errno == ENOENT)
            return error_spec(err, "archive", "there is no file %s", path);
        return error_host(err, -errno, "cannot open %s", path);
    }
    if (S_ISDIR(status.st_mode))
        return error_spec(err, "archive",
                          "%s is a directory; for an OCI layout, give its archive: tar -C %s -cf image.tar .",
                          path, path);
    *ret_fd = take_fd(&fd);
    return 0;
}

/* One reading of one layer. */
static int import_read_layer(struct tree *tree, int fd, bool whiteouts, struct error *err)
{
    if (lseek(fd, 0, SEEK_SET) < 0)
        return error_host(err, -errno, "cannot read the layer");
    scope_tar_stream *stream = NULL;
    int status = tar_stream_open(fd, layer_stream_limit(&tree->limits), &stream, err);
    if (status < 0)
        return status;
    return whiteouts ? layer_apply_whiteouts(tree, stream, err)
                     : layer_apply_entries(tree, stream, LAYER_DEVICES_REFUSED, err);
}

static int import_apply_layers(struct tree *tree, const struct spool *spool, const struct oci_image *oci,
                               const struct image_progress *progress, struct error *err)
{
    double total = 1, done = 0;
    for (size_t i = 0; i < oci->layer_count; i++)
        total += (double)oci->layers[i]->size_bytes;
    for (size_t i = 0; i < oci->layer_count; i++) {
        char what[64];
        snprintf(what, sizeof what, "unpacking layer %zu of %zu", i + 1, oci->layer_count);
        if (progress && progress->report)
            progress->report(progress->data, what, done / total);
        scope_fd fd = -1;
        int status = spool_open(spool, oci->layers[i], &fd, err);
        if (status == 0 && i > 0)
            status = import_read_layer(tree, fd, true, err);
        if (status == 0)
            status = import_read_layer(tree, fd, false, err);
        if (status < 0)
            return error_context(err, "layer %zu of %zu (%s)", i + 1, oci->layer_count, oci->layers[i]->name);
        done += (double)oci->layers[i]->size_bytes;
    }
    return 0;
}

/* Fills the incoming directory: rootfs and image.json. */
static int import_fill(struct incoming *incoming, int archive_fd, const struct image_import_limits *limits,
                       const struct image_progress *progress, struct error *err)
{
    scope_spool spool = {.dir_fd = -1};
    scope_oci_image oci = {0};
    scope_tree tree = {.root_fd = -1, .parent_fd = -1};
    int status = spool_fill(&spool, incoming->fd, "spool", archive_fd, limits, progress, err);
    if (status == 0)
        status = oci_image_read(&spool, limits->layers, &oci, err);
    if (status == 0)
        status = tree_make(&tree, incoming->fd, "rootfs", limits, err);
    if (status == 0)
        status = import_apply_layers(&tree, &spool, &oci, progress, err);
    if (status < 0)
        return status;
    oci.metadata.size_bytes = tree.bytes;
    oci.metadata.created_s = time(NULL);
    status = file_remove_tree(incoming->fd, "spool");
    if (status < 0)
        return error_host(err, status, "cannot remove the archive's members");
    return image_metadata_write(incoming->fd, &oci.metadata, err);
}

int image_import(const char *store, const char *name, const char *archive_path,
                 const struct image_import_limits *limits, const struct image_progress *progress,
                 struct error *err)
{
    scope_incoming incoming = {.store = {.fd = -1}, .fd = -1};
    scope_fd archive_fd = -1;
    int status = import_open_archive(archive_path, &archive_fd, err);
    if (status == 0)
        status = incoming_begin(&incoming, store, name, err);
    if (status < 0)
        return status;
    status = import_fill(&incoming, archive_fd, limits ? limits : &import_default_limits, progress, err);
    if (status < 0)
        return error_context(err, "import of %s", archive_path);
    if (progress && progress->report)
        progress->report(progress->data, "writing to the disk", -1);
    return incoming_commit(&incoming, err);
}
