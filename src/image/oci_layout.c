#include "image/oci.h"
#include "image/entry_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An index may list indexes; an archive has one or two of them. */
enum { INDEX_DEPTH_MAX = 4, INDEX_DOCUMENTS_MAX = 32 };

static const char digest_prefix[] = "sha256:";

/* The search through the indexes for the one manifest that is for this machine. */
struct layout_search {
    const struct spool *spool;
    int documents;
    const struct spool_member *manifest; /* found so far; the spool's */
    char *name;                          /* what the index calls it; may stay NULL */
    size_t others;                       /* manifests for other machines */
};

/* Is it "sha256:" and 64 hexadecimal digits in lower case? */
static bool layout_is_digest(const char *digest)
{
    if (strncmp(digest, digest_prefix, strlen(digest_prefix)) != 0)
        return false;
    const char *digits = digest + strlen(digest_prefix);
    return strlen(digits) == 64 && strspn(digits, "0123456789abcdef") == 64;
}

/* The blob that a descriptor points to, its digest and size checked. */
static int layout_find_blob(const struct spool *spool, const json_t *descriptor,
                            const struct spool_member **ret, struct error *err)
{
    char quoted[ENTRY_QUOTED_MAX], name[128];
    const char *digest = json_string_value(json_object_get(descriptor, "digest"));
    if (!digest)
        return error_spec(err, "archive", "a descriptor has no digest");
    if (!layout_is_digest(digest))
        return error_spec(err, "archive", "blob \"%s\": only digests of the form sha256:HEX are allowed",
                          entry_name_quote(digest, quoted));
    snprintf(name, sizeof name, "blobs/sha256/%s", digest + strlen(digest_prefix));
    int status = spool_find(spool, name, ret, err);
    if (status < 0)
        return status;
    const json_t *size = json_object_get(descriptor, "size");
    if (json_is_integer(size) && json_integer_value(size) != (*ret)->size_bytes)
        return error_spec(err, "archive", "blob \"%s\" has %lld bytes, its descriptor says %lld", name,
                          (long long)(*ret)->size_bytes, (long long)json_integer_value(size));
    return 0;
}

static int layout_read_json(struct layout_search *search, const struct spool_member *member, json_t **ret,
                            struct error *err)
{
    if (++search->documents > INDEX_DOCUMENTS_MAX)
        return error_spec(err, "archive", "more than the allowed %d indexes and manifests",
                          INDEX_DOCUMENTS_MAX);
    int status = spool_read_json(search->spool, member, ret, err);
    if (status == 0 && !json_is_object(*ret))
        return error_spec(err, "archive", "\"%s\" is not a JSON object", member->name);
    return status;
}

/* Does the descriptor say that it is for another machine, or for none (an attestation)? */
static bool layout_is_for_others(const json_t *descriptor)
{
    const json_t *platform = json_object_get(descriptor, "platform");
    const char *system = json_string_value(json_object_get(platform, "os"));
    const char *machine = json_string_value(json_object_get(platform, "architecture"));
    return (system && strcmp(system, "linux") != 0) || (machine && strcmp(machine, oci_machine()) != 0);
}

static const char *layout_annotated_name(const json_t *descriptor)
{
    const json_t *annotations = json_object_get(descriptor, "annotations");
    const char *name = json_string_value(json_object_get(annotations, "io.containerd.image.name"));
    return name ? name : json_string_value(json_object_get(annotations, "org.opencontainers.image.ref.name"));
}

static int layout_search_index(struct layout_search *search, const json_t *index, const char *name, int depth,
                               struct error *err);

static int layout_search_blob(struct layout_search *search, const json_t *descriptor, const char *name,
                              int depth, struct error *err)
{
    const struct spool_member *member;
    json_auto_t *document = NULL;
    int status = layout_find_blob(search->spool, descriptor, &member, err);
    if (status < 0)
        return status;
    if (member == search->manifest)
        return 0; /* the same image under a second tag */
    status = layout_read_json(search, member, &document, err);
    if (status < 0)
        return status;
    if (json_object_get(document, "manifests"))
        return layout_search_index(search, document, name, depth + 1, err);
    if (search->manifest)
        return error_spec(err, "archive", "the archive holds several images for linux/%s; save exactly one",
                          oci_machine());
    search->manifest = member;
    search->name = name ? strdup(name) : NULL;
    return 0;
}

static int layout_search_index(struct layout_search *search, const json_t *index, const char *name, int depth,
                               struct error *err)
{
    if (depth > INDEX_DEPTH_MAX)
        return error_spec(err, "archive", "indexes are nested deeper than the allowed %d", INDEX_DEPTH_MAX);
    const json_t *manifests = json_object_get(index, "manifests");
    if (!json_is_array(manifests))
        return error_spec(err, "archive", "an index has no list \"manifests\"");
    size_t number;
    json_t *descriptor;
    json_array_foreach(manifests, number, descriptor)
    {
        if (layout_is_for_others(descriptor)) {
            search->others++;
            continue;
        }
        const char *own_name = layout_annotated_name(descriptor);
        int status = layout_search_blob(search, descriptor, own_name ? own_name : name, depth, err);
        if (status < 0)
            return status;
    }
    return 0;
}

static int layout_read_manifest(const struct layout_search *search, int64_t layer_limit,
                                struct oci_image *image, struct error *err)
{
    json_auto_t *manifest = NULL;
    int status = spool_read_json(search->spool, search->manifest, &manifest, err);
    if (status < 0)
        return status;
    const json_t *config = json_object_get(manifest, "config");
    const json_t *layers = json_object_get(manifest, "layers");
    if (!json_is_object(config) || !json_is_array(layers))
        return error_spec(err, "archive", "manifest \"%s\" lacks \"config\" or \"layers\"",
                          search->manifest->name);
    status = oci_image_reserve_layers(image, json_array_size(layers), layer_limit, err);
    if (status < 0)
        return status;
    size_t index;
    json_t *descriptor;
    json_array_foreach(layers, index, descriptor)
    {
        status = layout_find_blob(search->spool, descriptor, &image->layers[index], err);
        if (status < 0)
            return error_context(err, "layer %zu", index + 1);
        image->layer_count++;
    }
    const struct spool_member *member;
    status = layout_find_blob(search->spool, config, &member, err);
    if (status == 0)
        status = oci_config_read(search->spool, member, &image->metadata, err);
    if (status < 0)
        return error_context(err, "config");
    return oci_image_name_source(image, "OCI archive", search->name, err);
}

int oci_layout_read(const struct spool *spool, int64_t layer_limit, struct oci_image *image,
                    struct error *err)
{
    struct layout_search search = {.spool = spool};
    const struct spool_member *member;
    json_auto_t *index = NULL;
    int status = spool_find(spool, "index.json", &member, err);
    if (status == 0)
        status = layout_read_json(&search, member, &index, err);
    if (status == 0)
        status = layout_search_index(&search, index, NULL, 1, err);
    if (status == 0 && !search.manifest)
        status = error_spec(err, "archive",
                            "no image for linux/%s in the archive; there are %zu for other machines",
                            oci_machine(), search.others);
    if (status == 0)
        status = layout_read_manifest(&search, layer_limit, image, err);
    free(search.name);
    return status;
}
