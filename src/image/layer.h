/* One layer of an image, put into the tree.
 *
 * A whiteout (".wh.NAME", or a character device 0:0 as overlayfs writes it) removes NAME of the layers below,
 * and
 * ".wh..wh..opq" all that is below in its directory. Whiteouts never touch what their own layer brings,
 * wherever in the layer they stand; so a layer is read twice: first its whiteouts, then its entries. The
 * lowest layer has nothing below and needs the second reading only. */
#pragma once

#include "image/tar_stream.h"
#include "image/tree.h"

/* Reads the whole stream and applies the whiteouts in it. */
int layer_apply_whiteouts(struct tree *tree, struct tar_stream *stream, struct error *err);

enum layer_devices {
    LAYER_DEVICES_REFUSED,
    LAYER_DEVICES_SKIPPED, /* for a tar that we had made ourselves: sandboxes get their own /dev anyway */
};

/* Reads the whole stream and puts its entries into the tree, whiteouts left out. */
int layer_apply_entries(struct tree *tree, struct tar_stream *stream, enum layer_devices devices,
                        struct error *err);

/* How long a layer's unpacked tar may be when its tree is within the limits: data, headers, padding. */
int64_t layer_stream_limit(const struct image_import_limits *limits);
