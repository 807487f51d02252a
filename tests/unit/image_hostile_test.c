/* What hostile archives give: a refusal that names the entry, nothing in the store, and nothing changed
 * outside. */
#include "image_archive.h"

#include <zstd.h>

/* ---- hostile entries in a layer: one table row each ---- */

struct hostile_entry {
    void (*add)(struct buffer *layer);
    const char *words[3]; /* what the refusal says */
};

static char *repeated(const char *text, size_t count)
{
    struct buffer result = {0};
    for (size_t i = 0; i < count; i++)
        assert_int_equal(buffer_append_text(&result, text), 0);
    return result.data;
}

static void parent_in_name(struct buffer *layer)
{
    tar_file(layer, "../canary", 0644, "hostile");
}

static void parent_amid_name(struct buffer *layer)
{
    tar_file(layer, "usr/../../../../canary", 0644, "hostile");
}

static void parent_at_end(struct buffer *layer)
{
    tar_directory(layer, "usr/..", 0755);
}

static void absolute_name(struct buffer *layer)
{
    tar_file(layer, "/tmp/cloche-hostile", 0644, "hostile");
}

static void long_part(struct buffer *layer)
{
    scope_free char *name = repeated("a", 256);
    tar_file(layer, name, 0644, "");
}

static void long_name(struct buffer *layer)
{
    scope_free char *name =
        repeated("0123456789012345678901234567890123456789012345678901234567890123456789/", 60);
    tar_file(layer, name, 0644, "");
}

static void deep_name(struct buffer *layer)
{
    scope_free char *name = repeated("d/", 257);
    tar_directory(layer, name, 0755);
}

static void escape_sequence_in_name(struct buffer *layer)
{
    tar_file(layer, "../\033[2J\xc2\x9b\n", 0644, "");
}

static void character_device(struct buffer *layer)
{
    tar_device(layer, '3', "dev/mem", 1, 1);
}

static void block_device(struct buffer *layer)
{
    tar_device(layer, '4', "dev/sda", 8, 0);
}

static void fifo(struct buffer *layer)
{
    tar_device(layer, '6', "run/fifo", 0, 0);
}

static void file_as_parent(struct buffer *layer)
{
    tar_file(layer, "file", 0644, "");
    tar_file(layer, "file/below", 0644, "");
}

static void link_to_file_as_parent(struct buffer *layer)
{
    tar_file(layer, "file", 0644, "");
    tar_symlink(layer, "link", "file");
    tar_file(layer, "link/below", 0644, "");
}

static void link_loop_as_parent(struct buffer *layer)
{
    tar_symlink(layer, "one", "two");
    tar_symlink(layer, "two", "one");
    tar_file(layer, "one/below", 0644, "");
}

static void link_to_nowhere_as_parent(struct buffer *layer)
{
    tar_symlink(layer, "link", "/not/there");
    tar_file(layer, "link/below", 0644, "");
}

static void link_to_proc_as_parent(struct buffer *layer)
{
    tar_symlink(layer, "link", "/proc/self/root/tmp");
    tar_file(layer, "link/below", 0644, "");
}

static void empty_link(struct buffer *layer)
{
    tar_symlink(layer, "link", "");
}

static void long_link(struct buffer *layer)
{
    scope_free char *target = repeated("a/", 2048);
    tar_symlink(layer, "link", target);
}

static void hard_link_out_of_the_tree(struct buffer *layer)
{
    tar_hardlink(layer, "link", "../../../canary");
}

static void hard_link_to_absolute_name(struct buffer *layer)
{
    tar_hardlink(layer, "link", "/etc/passwd");
}

static void hard_link_to_nothing(struct buffer *layer)
{
    tar_hardlink(layer, "link", "not/there");
}

static void hard_link_to_directory(struct buffer *layer)
{
    tar_directory(layer, "dir", 0755);
    tar_hardlink(layer, "link", "dir");
}

static void hard_link_to_the_top(struct buffer *layer)
{
    tar_hardlink(layer, "link", "./");
}

static void hard_link_to_symbolic_link(struct buffer *layer)
{
    tar_symlink(layer, "symbolic", "/etc/passwd");
    tar_hardlink(layer, "link", "symbolic");
}

static void hard_link_through_symbolic_link(struct buffer *layer)
{
    tar_symlink(layer, "symbolic", "/etc");
    tar_hardlink(layer, "link", "symbolic/passwd");
}

static void hard_link_with_data(struct buffer *layer)
{
    tar_file(layer, "file", 0644, "");
    tar_entry_put(layer, 'x', "pax", 0644, "", "10 size=9\n", 10); /* makes the reader believe in the size */
    tar_entry_put(layer, '1', "link", 0644, "file", "some data", 9);
}

static void file_as_top(struct buffer *layer)
{
    tar_file(layer, ".", 0644, "hostile");
}

static void link_as_top(struct buffer *layer)
{
    tar_symlink(layer, ".", "/");
}

static void truncated(struct buffer *layer)
{
    tar_file(layer, "whole", 0644, "text");
    tar_file(layer, "cut", 0644, "a file whose data is not there");
    layer->length -= 512;
}

static const struct hostile_entry hostile_entries[] = {
    {parent_in_name, {"\"../canary\"", "\"..\""}},
    {parent_amid_name, {"\"usr/../../../../canary\"", "\"..\""}},
    {parent_at_end, {"\"usr/..\""}},
    {absolute_name, {"\"/tmp/cloche-hostile\"", "absolute"}},
    {long_part, {"\"aaaaaaaa", "255"}},
    {long_name, {"\"0123456789", "4095"}},
    {deep_name, {"\"d/d/d/d", "256"}},
    {escape_sequence_in_name, {"\"../\\x1b[2J\\xc2\\x9b\\x0a\""}},
    {character_device, {"\"dev/mem\"", "character device"}},
    {block_device, {"\"dev/sda\"", "block device"}},
    {fifo, {"\"run/fifo\"", "FIFO"}},
    {file_as_parent, {"\"file/below\"", "not a directory"}},
    {link_to_file_as_parent, {"\"link/below\"", "not a directory"}},
    {link_loop_as_parent, {"\"one/below\"", "loop"}},
    {link_to_nowhere_as_parent, {"\"link/below\"", "nowhere"}},
    {link_to_proc_as_parent, {"\"link/below\"", "nowhere"}},
    {empty_link, {"\"link\"", "target"}},
    {long_link, {"\"link\"", "4095"}},
    {hard_link_out_of_the_tree, {"\"link\"", "\"../../../canary\""}},
    {hard_link_to_absolute_name, {"\"link\"", "\"/etc/passwd\""}},
    {hard_link_to_nothing, {"\"link\"", "\"not/there\""}},
    {hard_link_to_directory, {"\"link\"", "\"dir\""}},
    {hard_link_to_the_top, {"\"link\""}},
    {hard_link_to_symbolic_link, {"\"link\"", "\"symbolic\""}},
    {hard_link_through_symbolic_link, {"\"link\"", "\"symbolic/passwd\""}},
    {hard_link_with_data, {"\"link\"", "data"}},
    {file_as_top, {"top", "file"}},
    {link_as_top, {"top", "link"}},
    {truncated, {"layer 1 of 1", "sound"}},
};

static void hostile_entries_are_refused(void **state)
{
    for (size_t i = 0; i < sizeof hostile_entries / sizeof *hostile_entries; i++) {
        scope_buffer layer = {0}, archive = {0};
        hostile_entries[i].add(&layer);
        tar_end(&layer);
        if (hostile_entries[i].add == truncated)
            layer.length -= 1024;
        docker_archive(&archive, &layer, 1);
        place_import_refused(*state, &archive, NULL, hostile_entries[i].words);
    }
}

/* The same in an upper layer, which is read for its whiteouts first. */
static void hostile_entries_in_an_upper_layer_are_refused(void **state)
{
    for (size_t i = 0; i + 1 < sizeof hostile_entries / sizeof *hostile_entries; i++) {
        scope_layer_pair layers = {0};
        scope_buffer archive = {0};
        tar_directory(&layers.at[0], "etc", 0755);
        tar_end(&layers.at[0]);
        hostile_entries[i].add(&layers.at[1]);
        tar_end(&layers.at[1]);
        docker_archive(&archive, layers.at, 2);
        place_import_refused(*state, &archive, NULL, hostile_entries[i].words);
    }
}

static void whiteout_of_the_directory_itself_is_refused(void **state)
{
    static const char *const names[] = {"dir/.wh..", "dir/.wh...", ".wh."};
    for (size_t i = 0; i < 3; i++) {
        scope_layer_pair layers = {0};
        scope_buffer archive = {0};
        tar_directory(&layers.at[0], "dir", 0755);
        tar_end(&layers.at[0]);
        tar_file(&layers.at[1], names[i], 0644, "");
        tar_end(&layers.at[1]);
        docker_archive(&archive, layers.at, 2);
        place_import_refused(*state, &archive, NULL, (const char *const[]){names[i], "whiteout", NULL});
    }
}

/* Whiteouts through a link that names a directory outside remove nothing there. */
static void whiteouts_do_not_reach_out_of_the_tree(void **state)
{
    struct place *place = *state;
    scope_layer_pair layers = {0};
    scope_buffer archive = {0};
    tar_symlink(&layers.at[0], "out", place->directory);
    tar_symlink(&layers.at[0], "up", "../../..");
    tar_end(&layers.at[0]);
    tar_file(&layers.at[1], "out/.wh.canary", 0644, "");
    tar_file(&layers.at[1], "out/.wh..wh..opq", 0644, "");
    tar_file(&layers.at[1], "up/.wh.canary", 0644, "");
    tar_end(&layers.at[1]);
    docker_archive(&archive, layers.at, 2);
    place_import_well(place, &archive); /* looks at the canary */
}

/* A pax name with a NUL in it ends there, for the check and for the use alike. */
static void nul_in_a_name_hides_nothing(void **state)
{
    static const char record[] = "31 path=inside\0/../../../canar\n";
    scope_buffer layer = {0}, archive = {0};
    tar_entry_put(&layer, 'x', "pax", 0644, "", record, sizeof record - 1);
    tar_file(&layer, "ignored", 0644, "text");
    tar_end(&layer);
    docker_archive(&archive, &layer, 1);
    struct error err;
    struct place *place = *state;
    if (place_import(place, &archive, NULL, &err) == 0)
        tree_check_text(place, "inside", "text");
    else
        assert_int_equal(place_count(place->store), 0);
}

/* ---- bombs ---- */

static const struct image_import_limits small_limits = {
    .unpacked_bytes = 1 << 20, .entries = 100, .layers = 3};

static void refuse_layer(void **state, const struct buffer *layer, const char *name, const char *word)
{
    scope_buffer archive = {0};
    docker_archive(&archive, layer, 1);
    place_import_refused(*state, &archive, &small_limits, (const char *const[]){word, name, NULL});
}

static void put_zeros(struct buffer *layer, const char *name, size_t length)
{
    scope_free char *zeros = calloc(1, length);
    assert_non_null(zeros);
    tar_entry_put(layer, '0', name, 0644, "", zeros, length);
}

static void compression_bombs_are_refused(void **state)
{
    int (*const filters[])(struct archive *) = {archive_write_add_filter_gzip, archive_write_add_filter_zstd};
    for (size_t i = 0; i < 2; i++) {
        scope_buffer layer = {0};
        put_zeros(&layer, "bomb", 64 << 20);
        tar_end(&layer);
        compress_with(&layer, filters[i]);
        assert_true(layer.length < 1 << 20);
        refuse_layer(state, &layer, "\"bomb\"", "1 MiB");
    }
}

static void many_files_that_are_too_much_together_are_refused(void **state)
{
    scope_buffer layer = {0};
    for (int i = 0; i < 5; i++) {
        char name[16];
        snprintf(name, sizeof name, "part%d", i);
        put_zeros(&layer, name, 256 << 10);
    }
    tar_end(&layer);
    compress_with(&layer, archive_write_add_filter_gzip);
    refuse_layer(state, &layer, "\"part4\"", "1 MiB");
}

/* Whiteouts are not written, but unpacking their data would keep the machine busy. */
static void data_that_is_never_written_counts_too(void **state)
{
    scope_buffer layer = {0};
    put_zeros(&layer, ".wh.bomb", 64 << 20);
    tar_end(&layer);
    compress_with(&layer, archive_write_add_filter_gzip);
    refuse_layer(state, &layer, "layer 1 of 1", "headers included");
}

static void archive_that_unpacks_without_end_is_refused(void **state)
{
    scope_buffer archive = {0};
    put_zeros(&archive, "member", 64 << 20);
    tar_end(&archive);
    compress_with(&archive, archive_write_add_filter_zstd);
    place_import_refused(*state, &archive, &small_limits, (const char *const[]){"allowed", NULL});
}

static void holes_count_as_data(void **state)
{
    scope_buffer layer = {0};
    struct tar_header header = tar_header_of('S', "holes", 0644, 0);
    memcpy(header.magic, "ustar  ", 8);
    /* GNU's old form: an empty map, and the real size (1 TiB) behind it. */
    char *sparse = (char *)&header + 386;
    memset(sparse, 0, 126);
    snprintf(sparse + 97, 12, "%011llo", 1ULL << 32);
    tar_put(&layer, &header, "", 0);
    tar_end(&layer);
    refuse_layer(state, &layer, "\"holes\"", "1 MiB");
}

static void too_many_entries_are_refused(void **state)
{
    scope_buffer layer = {0};
    for (int i = 0; i < 101; i++) {
        char name[16];
        snprintf(name, sizeof name, "file%d", i);
        tar_file(&layer, name, 0644, "");
    }
    tar_end(&layer);
    refuse_layer(state, &layer, "layer 1 of 1", "100 entries");
}

static void parents_that_no_entry_names_count_as_entries(void **state)
{
    scope_buffer layer = {0};
    scope_free char *deep = repeated("d/", 120);
    tar_file(&layer, deep, 0644, "");
    tar_end(&layer);
    refuse_layer(state, &layer, "layer 1 of 1", "100 entries");
}

static void too_many_layers_are_refused(void **state)
{
    struct buffer layers[4] = {0};
    scope_buffer archive = {0};
    for (int i = 0; i < 4; i++)
        tar_end(&layers[i]);
    docker_archive(&archive, layers, 4);
    for (int i = 0; i < 4; i++)
        buffer_free(&layers[i]);
    place_import_refused(*state, &archive, &small_limits, (const char *const[]){"4 layers", "3", NULL});
}

static void compression_in_compression_is_refused(void **state)
{
    scope_buffer layer = {0};
    tar_file(&layer, "file", 0644, "");
    tar_end(&layer);
    compress_with(&layer, archive_write_add_filter_gzip);
    compress_with(&layer, archive_write_add_filter_zstd);
    refuse_layer(state, &layer, "layer 1 of 1", "more than once");
}

/* A frame that asks its reader for 2 GiB of memory. */
static void zstd_with_a_huge_window_is_refused(void **state)
{
    scope_buffer layer = {0}, packed = {0};
    put_zeros(&layer, "file", 1000);
    tar_end(&layer);
    ZSTD_CCtx *context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, 31);
    ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
    char into[65536];
    ZSTD_inBuffer in = {.src = layer.data, .size = 512};
    ZSTD_outBuffer out = {.dst = into, .size = sizeof into};
    assert_false(ZSTD_isError(ZSTD_compressStream2(context, &out, &in, ZSTD_e_flush)));
    in.size = layer.length;
    assert_false(ZSTD_isError(ZSTD_compressStream2(context, &out, &in, ZSTD_e_end)));
    ZSTD_freeCCtx(context);
    assert_int_equal(buffer_append(&packed, into, out.pos), 0);
    refuse_layer(state, &packed, "layer 1 of 1", "memory");
}

/* ---- hostile archives around the layers ---- */

static void refuse_members(void **state, struct buffer *archive, const char *one, const char *other)
{
    tar_end(archive);
    place_import_refused(*state, archive, NULL, (const char *const[]){one, other, NULL});
}

static void hostile_members_are_refused(void **state)
{
    scope_buffer parent = {0}, absolute = {0}, device = {0}, twice = {0}, link = {0}, climbing = {0},
                 strange = {0};
    put_member(&parent, "../canary", "hostile", 7);
    refuse_members(state, &parent, "\"../canary\"", "\"..\"");
    put_member(&absolute, "/tmp/cloche-hostile", "hostile", 7);
    refuse_members(state, &absolute, "\"/tmp/cloche-hostile\"", "absolute");
    tar_device(&device, '3', "null", 1, 3);
    refuse_members(state, &device, "\"null\"", "character device");
    put_member(&twice, "manifest.json", "[]", 2);
    put_member(&twice, "./manifest.json", "[]", 2);
    refuse_members(state, &twice, "\"manifest.json\"", "twice");
    tar_symlink(&link, "layer.tar", "/etc/passwd");
    refuse_members(state, &link, "\"layer.tar\"", "out of the archive");
    tar_symlink(&climbing, "one/layer.tar", "../../two/layer.tar");
    refuse_members(state, &climbing, "\"one/layer.tar\"", "out of the archive");
    put_member(&strange, "a\033b", "", 0);
    refuse_members(state, &strange, "\"a\\x1bb\"", "ASCII");
}

/* `docker save` archives whose description is hostile. */
static void refuse_manifest(void **state, const char *manifest, const char *one, const char *other)
{
    static const char other_machine[] = "{\"os\":\"linux\",\"architecture\":\"pdp11\"}";
    scope_buffer archive = {0};
    put_member(&archive, "manifest.json", manifest, strlen(manifest));
    put_member(&archive, "config.json", "{}", 2);
    put_member(&archive, "other.json", other_machine, strlen(other_machine));
    tar_symlink(&archive, "loop", "loop");
    put_member(&archive, "blobs/sha256/0000000000000000000000000000000000000000000000000000000000000000", "x",
               1);
    refuse_members(state, &archive, one, other);
}

static void hostile_descriptions_are_refused(void **state)
{
    refuse_manifest(state, "[", "\"manifest.json\"", "not valid JSON");
    refuse_manifest(state, "{}", "manifest.json", "exactly one");
    refuse_manifest(state, "[]", "0 images", "exactly one");
    refuse_manifest(state, "[{},{}]", "2 images", "exactly one");
    refuse_manifest(state, "[{}]", "manifest.json", "\"Layers\"");
    refuse_manifest(state, "[{\"Config\":\"a\",\"Config\":\"b\",\"Layers\":[]}]", "\"manifest.json\"",
                    "duplicate");
    refuse_manifest(state, "[{\"Config\":\"config.json\",\"Layers\":[]}]", "no layers", "one");
    refuse_manifest(state, "[{\"Config\":\"config.json\",\"Layers\":[1]}]", "layer 1", "not a name");
    refuse_manifest(state, "[{\"Config\":\"config.json\",\"Layers\":[\"absent\"]}]", "layer 1", "\"absent\"");
    refuse_manifest(state, "[{\"Config\":\"config.json\",\"Layers\":[\"loop\"]}]", "layer 1", "\"loop\"");
    refuse_manifest(state, "[{\"Config\":\"config.json\",\"Layers\":[\"../../canary\"]}]", "\"../../canary\"",
                    "..");
    refuse_manifest(state, "[{\"Config\":\"config.json\",\"Layers\":[\"/etc/passwd\"]}]", "\"/etc/passwd\"",
                    "absolute");
    refuse_manifest(state, "[{\"Config\":\"absent\",\"Layers\":[\"config.json\"]}]", "\"absent\"",
                    "not in the archive");
    refuse_manifest(state, "[{\"Config\":\"other.json\",\"Layers\":[\"config.json\"]}]", "linux/pdp11",
                    TEST_MACHINE);
    refuse_manifest(state, "[{\"Config\":\"config.json\",\"Layers\":[\"config.json\"]}]", "layer 1 of 1",
                    "sound");
    refuse_manifest(state,
                    "[{\"Config\":\"config.json\",\"Layers\":[\"blobs/sha256/"
                    "0000000000000000000000000000000000000000000000000000000000000000\"]}]",
                    "\"blobs/sha256/0000", "damaged");
}

static void description_past_four_megabytes_is_refused(void **state)
{
    scope_buffer archive = {0};
    scope_free char *spaces = malloc(5 << 20);
    memset(spaces, ' ', 5 << 20);
    put_member(&archive, "manifest.json", spaces, 5 << 20);
    refuse_members(state, &archive, "\"manifest.json\"", "4 MiB");
}

static void nesting_in_a_description_is_bounded(void **state)
{
    scope_buffer archive = {0};
    scope_free char *open = repeated("[", 1 << 20);
    put_member(&archive, "manifest.json", open, 1 << 20);
    refuse_members(state, &archive, "\"manifest.json\"", "depth");
}

/* OCI layouts whose index is the given text. */
static void refuse_index(void **state, struct buffer *archive, const char *index, const char *one,
                         const char *other)
{
    put_member(archive, "index.json", index, strlen(index));
    refuse_members(state, archive, one, other);
}

static void hostile_indexes_are_refused(void **state)
{
    static const char *const rows[][3] = {
        {"[]", "\"index.json\"", "object"},
        {"{}", "index", "manifests"},
        {"{\"manifests\":[]}", "no image", "linux/" TEST_MACHINE},
        {"{\"manifests\":[1]}", "digest", "descriptor"},
        {"{\"manifests\":[{\"digest\":\"sha512:00\"}]}", "\"sha512:00\"", "sha256"},
        {"{\"manifests\":[{\"digest\":\"sha256:../../../../canary\"}]}", "\"sha256:../../../../canary\"",
         "sha256"},
        {"{\"manifests\":[{\"digest\":\"md5:00\",\"platform\":{\"os\":\"linux\",\"architecture\":\"pdp11\"}}]"
         "}",
         "no image", "1 for other machines"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        scope_buffer archive = {0};
        refuse_index(state, &archive, rows[i][0], rows[i][1], rows[i][2]);
    }
}

static void damaged_blob_is_refused_by_name(void **state)
{
    scope_buffer layer = {0}, archive = {0};
    tar_file(&layer, "file", 0644, "find me in the archive");
    tar_end(&layer);
    char sum[65];
    sha256_text(layer.data, layer.length, sum);
    oci_archive(&archive, &layer, 1);
    char *text = memmem(archive.data, archive.length, "find me", 7);
    assert_non_null(text);
    *text = 'F';
    place_import_refused(*state, &archive, NULL, (const char *const[]){sum, "damaged", "layer 1", NULL});
}

static void blob_of_another_size_is_refused(void **state)
{
    scope_buffer layer = {0}, archive = {0}, index = {0}, descriptor = {0};
    tar_end(&layer);
    oci_manifest(&archive, &layer, 1, &descriptor);
    char *size = strstr(descriptor.data, "\"size\":");
    *size = '\0';
    buffer_print(&index, "{\"manifests\":[%s\"size\":1}]}", descriptor.data);
    refuse_index(state, &archive, index.data, "its descriptor says 1", "blobs/sha256/");
}

static void two_images_in_an_index_are_refused(void **state)
{
    scope_layer_pair layers = {0};
    scope_buffer archive = {0}, index = {0};
    tar_file(&layers.at[0], "one", 0644, "");
    tar_end(&layers.at[0]);
    tar_file(&layers.at[1], "two", 0644, "");
    tar_end(&layers.at[1]);
    buffer_append_text(&index, "{\"manifests\":[");
    oci_manifest(&archive, &layers.at[0], 1, &index);
    buffer_append_text(&index, "},");
    /* The config is in the archive already; as a member that comes twice it would be refused for that. */
    scope_buffer manifest = {0};
    buffer_append_text(&manifest, "{\"layers\":[");
    put_blob(&archive, layers.at[1].data, layers.at[1].length, &manifest);
    buffer_append_text(&manifest, "}]}");
    put_blob(&archive, manifest.data, manifest.length, &index);
    buffer_append_text(&index, "}]}");
    refuse_index(state, &archive, index.data, "several images", "exactly one");
}

static void deep_indexes_are_refused(void **state)
{
    scope_buffer archive = {0}, index = {0};
    buffer_append_text(&index, "{\"manifests\":[]}");
    for (int i = 0; i < 6; i++) {
        scope_buffer outer = {0};
        buffer_append_text(&outer, "{\"manifests\":[");
        put_blob(&archive, index.data, index.length, &outer);
        buffer_append_text(&outer, "}]}");
        buffer_free(&index);
        index = outer;
        outer = (struct buffer){0};
    }
    refuse_index(state, &archive, index.data, "nested deeper", "4");
}

static void what_is_no_image_archive_is_refused(void **state)
{
    scope_buffer empty = {0}, garbage = {0}, tree = {0}, cut = {0};
    buffer_append(&empty, "", 0);
    place_import_refused(*state, &empty, NULL, (const char *const[]){"tar archive", NULL});
    for (unsigned i = 0; i < 10000; i++)
        buffer_append(&garbage, &(char){(char)(i * i * 31 + i)}, 1);
    place_import_refused(*state, &garbage, NULL, (const char *const[]){"gzip or zstd", NULL});
    tar_file(&tree, "bin/sh", 0755, "a shell");
    refuse_members(state, &tree, "docker save", "index.json");
    put_zeros(&cut, "manifest.json", 100000);
    cut.length = 5000;
    place_import_refused(*state, &cut, NULL, (const char *const[]){"sound", NULL});
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, place_setup, place_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(hostile_entries_are_refused),
        TEST(hostile_entries_in_an_upper_layer_are_refused),
        TEST(whiteout_of_the_directory_itself_is_refused),
        TEST(whiteouts_do_not_reach_out_of_the_tree),
        TEST(nul_in_a_name_hides_nothing),
        TEST(compression_bombs_are_refused),
        TEST(many_files_that_are_too_much_together_are_refused),
        TEST(data_that_is_never_written_counts_too),
        TEST(archive_that_unpacks_without_end_is_refused),
        TEST(holes_count_as_data),
        TEST(too_many_entries_are_refused),
        TEST(parents_that_no_entry_names_count_as_entries),
        TEST(too_many_layers_are_refused),
        TEST(compression_in_compression_is_refused),
        TEST(zstd_with_a_huge_window_is_refused),
        TEST(hostile_members_are_refused),
        TEST(hostile_descriptions_are_refused),
        TEST(description_past_four_megabytes_is_refused),
        TEST(nesting_in_a_description_is_bounded),
        TEST(hostile_indexes_are_refused),
        TEST(damaged_blob_is_refused_by_name),
        TEST(blob_of_another_size_is_refused),
        TEST(two_images_in_an_index_are_refused),
        TEST(deep_indexes_are_refused),
        TEST(what_is_no_image_archive_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
