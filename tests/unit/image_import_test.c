/* What good archives give. Hostile ones are in image_hostile_test.c. */
#include "image_archive.h"

#include <locale.h>

static void small_layer(struct buffer *layer)
{
    tar_directory(layer, "./", 0755);
    tar_directory(layer, "./bin/", 0755);
    tar_file(layer, "./bin/sh", 0755, "a shell");
    tar_file(layer, "etc/passwd", 0644, "root");
    tar_end(layer);
}

static void check_small_image(struct place *place, const char *source)
{
    tree_check_text(place, "bin/sh", "a shell");
    tree_check_text(place, "etc/passwd", "root");
    struct image *image;
    struct image_summary *summaries;
    size_t count;
    struct error err;
    assert_int_equal(image_open(place->store, "test", &image, &err), 0);
    assert_int_equal(image->environment.count, 2);
    assert_string_equal(image->environment.items[0], "PATH=/bin");
    assert_string_equal(image->environment.items[1], "GREETING=a b");
    assert_true(image_has_program(image, "/bin/sh"));
    assert_false(image_has_program(image, "/etc/passwd"));
    image_free(image);
    assert_int_equal(image_list(place->store, &summaries, &count, &err), 0);
    assert_int_equal(count, 1);
    assert_string_equal(summaries[0].source, source);
    assert_int_equal(summaries[0].size_bytes, strlen("a shell") + strlen("root"));
    image_summaries_free(summaries, count);
}

static void docker_save_becomes_an_image(void **state)
{
    scope_buffer layer = {0}, archive = {0};
    small_layer(&layer);
    docker_archive(&archive, &layer, 1);
    place_import_well(*state, &archive);
    check_small_image(*state, "docker archive test:1");
}

static void oci_layout_becomes_an_image(void **state)
{
    scope_buffer layer = {0}, archive = {0};
    small_layer(&layer);
    oci_archive(&archive, &layer, 1);
    place_import_well(*state, &archive);
    check_small_image(*state, "OCI archive test:2");
}

static void gzip_layers_in_a_gzip_archive_are_unpacked(void **state)
{
    scope_buffer layer = {0}, archive = {0};
    small_layer(&layer);
    compress_with(&layer, archive_write_add_filter_gzip);
    oci_archive(&archive, &layer, 1);
    compress_with(&archive, archive_write_add_filter_gzip);
    place_import_well(*state, &archive);
    check_small_image(*state, "OCI archive test:2");
}

static void zstd_layers_in_a_zstd_archive_are_unpacked(void **state)
{
    scope_buffer layer = {0}, archive = {0};
    small_layer(&layer);
    compress_with(&layer, archive_write_add_filter_zstd);
    oci_archive(&archive, &layer, 1);
    compress_with(&archive, archive_write_add_filter_zstd);
    place_import_well(*state, &archive);
    check_small_image(*state, "OCI archive test:2");
}

/* As docker 25 and later write it: an OCI layout with a manifest.json besides, which names the blobs. */
static void docker_save_that_is_also_an_oci_layout_becomes_an_image(void **state)
{
    scope_buffer layer = {0}, archive = {0}, manifest = {0};
    char config_sum[65], layer_sum[65];
    small_layer(&layer);
    sha256_text(TEST_CONFIG, strlen(TEST_CONFIG), config_sum);
    sha256_text(layer.data, layer.length, layer_sum);
    buffer_print(
        &manifest,
        "[{\"Config\":\"blobs/sha256/%s\",\"RepoTags\":[\"test:1\"],\"Layers\":[\"blobs/sha256/%s\"]}]",
        config_sum, layer_sum);
    put_member(&archive, "manifest.json", manifest.data, manifest.length);
    oci_archive(&archive, &layer, 1);
    place_import_well(*state, &archive);
    check_small_image(*state, "OCI archive test:2");
}

/* An index in the index, with images for other machines, an attestation, and one image under two tags. */
static void nested_index_gives_the_image_for_this_machine(void **state)
{
    scope_buffer layer = {0}, archive = {0}, inner = {0}, outer = {0}, ours = {0}, link = {0};
    small_layer(&layer);
    oci_manifest(&archive, &layer, 1, &ours);
    char absent[65];
    sha256_text("absent", 6, absent);
    buffer_print(&inner,
                 "{\"manifests\":["
                 "{\"digest\":\"sha256:%s\",\"platform\":{\"os\":\"linux\",\"architecture\":\"s390x\"}},"
                 "{\"digest\":\"sha256:%s\",\"platform\":{\"os\":\"unknown\",\"architecture\":\"unknown\"}},"
                 "{\"digest\":\"sha256:%s\",\"platform\":{\"os\":\"windows\",\"architecture\":\"" TEST_MACHINE
                 "\"}},"
                 "%s,\"platform\":{\"os\":\"linux\",\"architecture\":\"" TEST_MACHINE "\"}}]}",
                 absent, absent, absent, ours.data);
    put_blob(&archive, inner.data, inner.length, &link);
    buffer_print(&outer,
                 "{\"manifests\":[%s,\"annotations\":{\"io.containerd.image.name\":\"one\"}},"
                 "%s,\"annotations\":{\"io.containerd.image.name\":\"two\"}}]}",
                 link.data, link.data);
    put_member(&archive, "index.json", outer.data, outer.length);
    tar_end(&archive);
    place_import_well(*state, &archive);
    check_small_image(*state, "OCI archive one");
}

/* docker 1.10 to 24 write equal layers once and links to them. */
static void layers_may_be_links_to_other_members(void **state)
{
    scope_buffer layer = {0}, archive = {0};
    small_layer(&layer);
    static const char manifest[] = "[{\"Config\":\"c.json\",\"Layers\":[\"one/layer.tar\",\"two/layer.tar\","
                                   "\"three/layer.tar\"]}]";
    tar_symlink(&archive, "one/layer.tar", "../two/./layer.tar");
    tar_directory(&archive, "two/", 0755);
    put_member(&archive, "./two/layer.tar", layer.data, layer.length);
    tar_hardlink(&archive, "three/layer.tar", "./two/layer.tar");
    put_member(&archive, "manifest.json", manifest, strlen(manifest));
    put_member(&archive, "c.json", "{}", 2);
    tar_end(&archive);
    place_import_well(*state, &archive);
    tree_check_text(*state, "bin/sh", "a shell");
}

static void later_layers_replace_what_is_there(void **state)
{
    scope_layer_pair layers = {0};
    scope_buffer archive = {0};
    tar_file(&layers.at[0], "file", 0644, "old");
    tar_file(&layers.at[0], "becomes_directory", 0644, "old");
    tar_file(&layers.at[0], "becomes_file/deep/down", 0644, "old");
    tar_symlink(&layers.at[0], "link_becomes_directory", "kept");
    tar_symlink(&layers.at[0], "link_becomes_file", "kept/file");
    tar_file(&layers.at[0], "kept/file", 0644, "kept");
    tar_directory(&layers.at[0], "merged", 0700);
    tar_file(&layers.at[0], "merged/old", 0644, "old");
    tar_end(&layers.at[0]);
    tar_file(&layers.at[1], "file", 0600, "new");
    tar_directory(&layers.at[1], "becomes_directory", 0755);
    tar_file(&layers.at[1], "becomes_file", 0644, "new");
    tar_directory(&layers.at[1], "link_becomes_directory", 0755);
    tar_file(&layers.at[1], "link_becomes_file", 0644, "new");
    tar_directory(&layers.at[1], "merged", 0755);
    tar_file(&layers.at[1], "merged/new", 0644, "new");
    tar_end(&layers.at[1]);
    docker_archive(&archive, layers.at, 2);
    struct place *place = *state;
    place_import_well(place, &archive);
    tree_check_text(place, "file", "new");
    assert_int_equal(tree_stat(place, "file").st_mode, S_IFREG | 0600);
    assert_int_equal(tree_stat(place, "becomes_directory").st_mode, S_IFDIR | 0755);
    tree_check_text(place, "becomes_file", "new");
    assert_int_equal(tree_stat(place, "link_becomes_directory").st_mode, S_IFDIR | 0755);
    assert_int_equal(tree_stat(place, "link_becomes_file").st_mode, S_IFREG | 0644);
    tree_check_text(place, "kept/file", "kept");
    tree_check_text(place, "merged/old", "old");
    tree_check_text(place, "merged/new", "new");
    assert_int_equal(tree_stat(place, "merged").st_mode, S_IFDIR | 0755);
}

static void whiteouts_remove_what_is_below_and_only_that(void **state)
{
    scope_layer_pair layers = {0};
    scope_buffer archive = {0};
    tar_file(&layers.at[0], "gone", 0644, "old");
    tar_file(&layers.at[0], "tree/with/much", 0644, "old");
    tar_file(&layers.at[0], "again", 0644, "old");
    tar_file(&layers.at[0], "by_device", 0644, "old");
    tar_symlink(&layers.at[0], "link", "target");
    tar_file(&layers.at[0], "target/kept", 0644, "kept");
    tar_file(&layers.at[0], "target/gone", 0644, "old");
    tar_file(&layers.at[0], ".wh.stray", 0644, "");
    tar_end(&layers.at[0]);
    tar_file(&layers.at[1], ".wh.gone", 0644, "");
    tar_file(&layers.at[1], ".wh.tree", 0644, "");
    tar_file(&layers.at[1], "again", 0644, "new");
    tar_file(&layers.at[1], ".wh.again", 0644, "");
    tar_device(&layers.at[1], '3', "by_device", 0, 0);
    tar_file(&layers.at[1], "link/.wh.gone", 0644, "");
    tar_file(&layers.at[1], ".wh.link", 0644, "");
    tar_file(&layers.at[1], "nowhere/.wh.nothing", 0644, "");
    tar_file(&layers.at[1], "again/.wh.nothing", 0644, "");
    tar_file(&layers.at[1], ".wh..wh.plnk/1.2", 0644, "AUFS");
    tar_file(&layers.at[1], ".wh..wh.aufs", 0644, "AUFS");
    tar_end(&layers.at[1]);
    docker_archive(&archive, layers.at, 2);
    struct place *place = *state;
    place_import_well(place, &archive);
    assert_false(tree_has(place, "gone"));
    assert_false(tree_has(place, "tree"));
    assert_false(tree_has(place, "by_device"));
    assert_false(tree_has(place, "target/gone"));
    assert_false(tree_has(place, "link"));
    tree_check_text(place, "again", "new");
    tree_check_text(place, "target/kept", "kept");
    char path[PATH_MAX];
    tree_path(place, "", path);
    assert_int_equal(place_count(path), 2); /* again and target: no .wh. file, no "nowhere" */
}

static void opaque_directory_shows_its_own_layer_only(void **state)
{
    scope_layer_pair layers = {0};
    scope_buffer archive = {0};
    tar_file(&layers.at[0], "dir/old", 0644, "old");
    tar_file(&layers.at[0], "dir/sub/old", 0644, "old");
    tar_file(&layers.at[0], "outside", 0644, "kept");
    tar_symlink(&layers.at[0], "dir/link", "../outside");
    tar_end(&layers.at[0]);
    tar_file(&layers.at[1], "dir/before", 0644, "new");
    tar_file(&layers.at[1], "dir/.wh..wh..opq", 0644, "");
    tar_file(&layers.at[1], "dir/sub/after", 0644, "new");
    tar_end(&layers.at[1]);
    docker_archive(&archive, layers.at, 2);
    struct place *place = *state;
    place_import_well(place, &archive);
    tree_check_text(place, "dir/before", "new");
    tree_check_text(place, "dir/sub/after", "new");
    tree_check_text(place, "outside", "kept");
    assert_false(tree_has(place, "dir/old"));
    assert_false(tree_has(place, "dir/sub/old"));
    assert_false(tree_has(place, "dir/link"));
    assert_false(tree_has(place, "dir/.wh..wh..opq"));
}

static void hard_links_share_one_file_across_layers(void **state)
{
    scope_layer_pair layers = {0};
    scope_buffer archive = {0};
    tar_file(&layers.at[0], "usr/bin/one", 0755, "text");
    tar_hardlink(&layers.at[0], "usr/bin/two", "./usr/bin/one");
    tar_hardlink(&layers.at[0], "usr/bin/one", "usr/bin/one");
    tar_end(&layers.at[0]);
    tar_hardlink(&layers.at[1], "three", "usr/bin/one");
    tar_file(&layers.at[1], "usr/bin/two", 0755, "other");
    tar_end(&layers.at[1]);
    docker_archive(&archive, layers.at, 2);
    struct place *place = *state;
    place_import_well(place, &archive);
    assert_int_equal(tree_stat(place, "usr/bin/one").st_ino, tree_stat(place, "three").st_ino);
    assert_int_equal(tree_stat(place, "three").st_nlink, 2);
    tree_check_text(place, "three", "text"); /* and not what was written to its former name */
    tree_check_text(place, "usr/bin/two", "other");
}

static void linked_parents_lead_to_places_inside_the_image(void **state)
{
    struct place *place = *state;
    scope_layer_pair layers = {0};
    scope_buffer archive = {0};
    char inside[PATH_MAX];
    tar_directory(&layers.at[0], "usr/bin/", 0755);
    tar_symlink(&layers.at[0], "bin", "usr/bin");
    tar_symlink(&layers.at[0], "absolute", place->directory);
    tar_symlink(&layers.at[0], "climbing", "../../../../../../../../../../../../../../usr");
    snprintf(inside, sizeof inside, "%s/", place->directory + 1);
    tar_directory(&layers.at[0], inside, 0755);
    tar_end(&layers.at[0]);
    tar_file(&layers.at[1], "bin/tool", 0755, "tool");
    tar_file(&layers.at[1], "absolute/canary", 0644, "hostile");
    tar_file(&layers.at[1], "absolute/new", 0644, "hostile");
    tar_file(&layers.at[1], "climbing/made/here", 0644, "inside");
    tar_end(&layers.at[1]);
    docker_archive(&archive, layers.at, 2);
    place_import_well(place, &archive); /* looks at the canary */
    tree_check_text(place, "usr/bin/tool", "tool");
    assert_true(S_ISLNK(tree_stat(place, "bin").st_mode));
    snprintf(inside, sizeof inside, "%s/canary", place->directory + 1);
    tree_check_text(place, inside, "hostile");
    tree_check_text(place, "usr/made/here", "inside");
}

static void modes_are_kept_but_for_the_dangerous_bits(void **state)
{
    scope_buffer layer = {0}, archive = {0};
    mode_t before = umask(0077); /* which must not matter */
    tar_file(&layer, "setuid", 06755, "");
    tar_file(&layer, "sticky_file", 01644, "");
    tar_file(&layer, "closed", 0000, "");
    tar_file(&layer, "shadow", 0640, "");
    tar_directory(&layer, "tmp", 01777);
    tar_directory(&layer, "setgid", 02775);
    tar_directory(&layer, "closed_directory", 0000);
    tar_file(&layer, "closed_directory/file", 0644, "");
    tar_file(&layer, "implied/file", 0644, "");
    tar_end(&layer);
    docker_archive(&archive, &layer, 1);
    struct place *place = *state;
    place_import_well(place, &archive);
    umask(before);
    assert_int_equal(tree_stat(place, "..").st_mode, S_IFDIR | 0755); /* the image's directory in the store */
    assert_int_equal(tree_stat(place, ".").st_mode, S_IFDIR | 0755);
    assert_int_equal(tree_stat(place, "setuid").st_mode, S_IFREG | 0755);
    assert_int_equal(tree_stat(place, "sticky_file").st_mode, S_IFREG | 0644);
    assert_int_equal(tree_stat(place, "closed").st_mode, S_IFREG | 0400);
    assert_int_equal(tree_stat(place, "shadow").st_mode, S_IFREG | 0640);
    assert_int_equal(tree_stat(place, "tmp").st_mode, S_IFDIR | 01777);
    assert_int_equal(tree_stat(place, "setgid").st_mode, S_IFDIR | 0775);
    assert_int_equal(tree_stat(place, "closed_directory").st_mode, S_IFDIR | 0700);
    assert_int_equal(tree_stat(place, "implied").st_mode, S_IFDIR | 0755);
    assert_int_equal(tree_stat(place, "implied/file").st_mode, S_IFREG | 0644);
    assert_int_equal(tree_stat(place, "setuid").st_uid, geteuid());
}

static void times_of_files_and_directories_are_kept(void **state)
{
    scope_buffer layer = {0}, archive = {0};
    tar_directory(&layer, "directory", 0755);
    tar_file(&layer, "directory/module.py", 0644, "pass");
    tar_end(&layer);
    docker_archive(&archive, &layer, 1);
    place_import_well(*state, &archive);
    assert_int_equal(tree_stat(*state, "directory/module.py").st_mtime, TEST_MODIFIED_S);
    assert_int_equal(tree_stat(*state, "directory").st_mtime, TEST_MODIFIED_S);
}

/* Composed and decomposed letters, and bytes that are no text at all, by plain headers and by pax ones. */
static void names_are_bytes(void **state)
{
    static const char *const names[] = {"gr\xc3\xbc\xc3\x9f", "e\xcc\x81", "bad\xff\xfe", "new\nline"};
    scope_buffer layer = {0}, archive = {0};
    for (size_t i = 0; i < 4; i++) {
        char name[64], record[64];
        snprintf(name, sizeof name, "plain/%s", names[i]);
        tar_file(&layer, name, 0644, "");
        snprintf(name, sizeof name, "path=pax/%s\n", names[i]);
        int length = snprintf(record, sizeof record, "%zu %s", strlen(name) + 3, name);
        tar_entry_put(&layer, 'x', "pax", 0644, "", record, (size_t)length);
        tar_file(&layer, "ignored", 0644, "");
    }
    tar_end(&layer);
    docker_archive(&archive, &layer, 1);
    struct place *place = *state;
    setlocale(LC_ALL, "C.UTF-8"); /* in which libarchive would compose what is decomposed */
    place_import_well(place, &archive);
    setlocale(LC_ALL, "C");
    for (size_t i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "plain/%s", names[i]);
        assert_true(tree_has(place, name));
        snprintf(name, sizeof name, "pax/%s", names[i]);
        assert_true(tree_has(place, name));
    }
    assert_false(tree_has(place, "ignored"));
}

static void progress_tells_of_each_step(void *data, const char *what, double fraction)
{
    assert_true(fraction <= 1);
    *(int *)data |= strstr(what, "reading the archive") ? 1 : strstr(what, "layer 1 of 1") ? 2 : 4;
}

static void progress_is_reported(void **state)
{
    struct place *place = *state;
    scope_buffer layer = {0}, archive = {0};
    small_layer(&layer);
    docker_archive(&archive, &layer, 1);
    place_write_archive(place, &archive);
    int seen = 0;
    struct image_progress progress = {.report = progress_tells_of_each_step, .data = &seen};
    struct error err;
    assert_int_equal(image_import(place->store, "test", place->archive, NULL, &progress, &err), 0);
    assert_int_equal(seen, 7);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, place_setup, place_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(docker_save_becomes_an_image),
        TEST(oci_layout_becomes_an_image),
        TEST(gzip_layers_in_a_gzip_archive_are_unpacked),
        TEST(zstd_layers_in_a_zstd_archive_are_unpacked),
        TEST(docker_save_that_is_also_an_oci_layout_becomes_an_image),
        TEST(nested_index_gives_the_image_for_this_machine),
        TEST(layers_may_be_links_to_other_members),
        TEST(later_layers_replace_what_is_there),
        TEST(whiteouts_remove_what_is_below_and_only_that),
        TEST(opaque_directory_shows_its_own_layer_only),
        TEST(hard_links_share_one_file_across_layers),
        TEST(linked_parents_lead_to_places_inside_the_image),
        TEST(modes_are_kept_but_for_the_dangerous_bits),
        TEST(times_of_files_and_directories_are_kept),
        TEST(names_are_bytes),
        TEST(progress_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
