/* An image from Debian's packages. mmdebstrap writes the finished tree as a tar, which goes through the same
 * code as the layer of an imported image. That is one way for root and for others alike: when mmdebstrap has
 * to work in a user namespace, its files would belong to users that we cannot remove files of; so they are
 * all made anew, and belong to who builds. */
#include "image/image.h"
#include "image/layer.h"
#include "image/metadata.h"
#include "image/mmdebstrap.h"
#include "image/store.h"
#include "image/tree.h"
#include "base/file.h"
#include "base/scope.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static const char *const build_default_packages[] = {
    /* what a shell script expects */
    "bash",
    "coreutils",
    "findutils",
    "grep",
    "sed",
    "gawk",
    "tar",
    "gzip",
    "bzip2",
    "xz-utils",
    "unzip",
    "file",
    "jq",
    "make",
    "git",
    "ca-certificates",
    /* Python and what data analysis needs */
    "python3",
    "python3-numpy",
    "python3-pandas",
    "python3-matplotlib",
    "python3-sklearn",
    "python3-scipy",
    "python3-pil",
    "python3-openpyxl",
    /* the other languages */
    "nodejs",
    "node-typescript",
    "golang-go",
    "gcc",
    "libc6-dev",
};

/* What mmdebstrap copies from this machine into the tree must not be seen in sandboxes. */
static const struct {
    const char *name, *text;
} build_own_files[] = {
    {"etc/hostname", "cloche\n"},
    {"etc/hosts", "127.0.0.1\tlocalhost cloche\n::1\tlocalhost cloche\n"},
    {"etc/resolv.conf", ""},
};

static const struct image_import_limits build_limits = {
    .unpacked_bytes = (int64_t)100 << 30,
    .entries = 10000000,
    .layers = 1,
};

/* May it stand in a list of packages, or as a suite, on mmdebstrap's command line? */
static bool build_is_plain_word(const char *word)
{
    if (!isalnum((unsigned char)*word) || strlen(word) > 128)
        return false;
    for (; *word; word++)
        if (!isalnum((unsigned char)*word) && !strchr("+-.:=~_/", *word))
            return false;
    return true;
}

static int build_choose_packages(const struct string_list *wanted, struct string_list *ret, struct error *err)
{
    int status = 0;
    for (size_t i = 0; wanted && status == 0 && i < wanted->count; i++) {
        if (!build_is_plain_word(wanted->items[i]))
            return error_spec(err, "packages", "entry %zu is not the name of a Debian package", i + 1);
        status = string_list_add(ret, wanted->items[i]);
    }
    size_t count = sizeof build_default_packages / sizeof *build_default_packages;
    for (size_t i = 0; !wanted && status == 0 && i < count; i++)
        status = string_list_add(ret, build_default_packages[i]);
    return status < 0 ? error_host(err, status, "cannot list the packages") : 0;
}

static int build_unpack(struct tree *tree, struct mmdebstrap *child, struct error *err)
{
    scope_tar_stream *stream = NULL;
    int status =
        tar_stream_open_source(mmdebstrap_read, child, layer_stream_limit(&tree->limits), &stream, err);
    return status < 0 ? status : layer_apply_entries(tree, stream, LAYER_DEVICES_SKIPPED, err);
}

static int build_run(struct tree *tree, const struct mmdebstrap_request *request, struct error *err)
{
    scope_mmdebstrap child = {.tar_fd = -1, .message_fd = -1};
    int status = mmdebstrap_start(&child, request, err);
    if (status < 0)
        return status;
    status = build_unpack(tree, &child, err);
    /* A host failure of ours (a full disk) is the cause to tell; but a tar that breaks off is only the sign
     * of an mmdebstrap that failed, and that one knows why. */
    if (status == 0 || !err || err->kind == ERROR_SPEC) {
        int finished = mmdebstrap_finish(&child, err);
        if (finished < 0)
            status = finished;
    }
    return status;
}

static int build_fill_tree(struct tree *tree, const struct incoming *incoming,
                           struct mmdebstrap_request *request, struct error *err)
{
    scope_free char *work = NULL;
    if (geteuid() == 0) {
        if (asprintf(&work, "%s/%s/work", incoming->store.path, incoming->directory) < 0) {
            work = NULL;
            return error_host(err, -ENOMEM, "cannot name a directory to build in");
        }
        /* apt downloads as a user of its own, who must get there. */
        if (mkdirat(incoming->fd, "work", 0755) < 0 || fchmodat(incoming->fd, "work", 01777, 0) < 0)
            return error_host(err, -errno, "cannot make %s", work);
        request->work_directory = work;
    }
    /* Others work in a user namespace, whose users have to reach the directory, which in a home they do not;
     * and what these leave there is not ours to remove. */
    int status = build_run(tree, request, err);
    request->work_directory = NULL;
    for (size_t i = 0; status == 0 && i < sizeof build_own_files / sizeof *build_own_files; i++)
        status = tree_put_file(tree, build_own_files[i].name, build_own_files[i].text, err);
    if (status < 0)
        return status;
    status = file_remove_tree(incoming->fd, "work");
    return status < 0 ? error_host(err, status, "cannot remove the directory of the build") : 0;
}

static int build_describe(struct incoming *incoming, const struct tree *tree, const char *suite,
                          struct error *err)
{
    scope_image_metadata metadata = {.size_bytes = tree->bytes, .created_s = time(NULL)};
    if (asprintf(&metadata.source, "mmdebstrap %s", suite) < 0) {
        metadata.source = NULL;
        return error_host(err, -ENOMEM, "cannot name the image's source");
    }
    return image_metadata_write(incoming->fd, &metadata, err);
}

int image_build(const char *store, const char *name, const char *suite, const struct string_list *packages,
                const struct image_progress *progress, struct error *err)
{
    scope_string_list chosen = {0};
    scope_incoming incoming = {.store = {.fd = -1}, .fd = -1};
    scope_tree tree = {.root_fd = -1, .parent_fd = -1};
    if (!suite)
        suite = "bookworm";
    if (!build_is_plain_word(suite))
        return error_spec(err, "suite", "not the name of a Debian suite, such as bookworm");
    int status = build_choose_packages(packages, &chosen, err);
    if (status == 0)
        status = incoming_begin(&incoming, store, name, err);
    if (status == 0)
        status = tree_make(&tree, incoming.fd, "rootfs", &build_limits, err);
    struct mmdebstrap_request request = {
        .suite = suite, .packages = &chosen, .kept_fd = incoming.fd, .progress = progress};
    if (status == 0)
        status = build_fill_tree(&tree, &incoming, &request, err);
    if (status == 0)
        status = build_describe(&incoming, &tree, suite, err);
    if (status < 0)
        return status;
    if (progress && progress->report)
        progress->report(progress->data, "writing to the disk", -1);
    return incoming_commit(&incoming, err);
}
