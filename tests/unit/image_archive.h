/* Image archives made in memory, byte by byte where no decent tool would write them so; and a place to import
 * them into that notices every write outside the store. */
#pragma once

#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/scope.h"
#include "image/image.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <openssl/evp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define unused __attribute__((unused))

enum { TEST_MODIFIED_S = 1234567890 };

/* ---- tar ---- */

struct tar_header {
    char name[100], mode[8], user[8], group[8], size[12], modified[12], sum[8], type, target[100], magic[8];
    char user_name[32], group_name[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct tar_header) == 512, "a tar header is one block");

static struct tar_header tar_header_of(char type, const char *name, unsigned mode, size_t size)
{
    struct tar_header header = {.type = type, .magic = "ustar"};
    memcpy(header.magic + 6, "00", 2);
    strncpy(header.name, name, sizeof header.name - 1);
    snprintf(header.mode, sizeof header.mode, "%07o", mode);
    snprintf(header.user, sizeof header.user, "%07o", 4242);
    snprintf(header.group, sizeof header.group, "%07o", 4242);
    snprintf(header.size, sizeof header.size, "%011zo", size);
    snprintf(header.modified, sizeof header.modified, "%011o", TEST_MODIFIED_S);
    return header;
}

static void tar_put(struct buffer *tar, struct tar_header *header, const void *data, size_t length)
{
    static const char zeros[512];
    memset(header->sum, ' ', sizeof header->sum);
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof *header; i++)
        sum += ((unsigned char *)header)[i];
    snprintf(header->sum, sizeof header->sum, "%06o", sum);
    assert_int_equal(buffer_append(tar, header, sizeof *header), 0);
    assert_int_equal(buffer_append(tar, data, length), 0);
    assert_int_equal(buffer_append(tar, zeros, (512 - length % 512) % 512), 0);
}

/* GNU's way of names that do not fit: an entry of type L or K before the real one. */
static void tar_put_long(struct buffer *tar, char type, const char *text)
{
    if (strlen(text) < 100)
        return;
    struct tar_header header = tar_header_of(type, "././@LongLink", 0, strlen(text) + 1);
    tar_put(tar, &header, text, strlen(text) + 1);
}

static void tar_entry_put(struct buffer *tar, char type, const char *name, unsigned mode, const char *target,
                          const void *data, size_t length)
{
    tar_put_long(tar, 'L', name);
    tar_put_long(tar, 'K', target);
    struct tar_header header = tar_header_of(type, name, mode, length);
    strncpy(header.target, target, sizeof header.target - 1);
    tar_put(tar, &header, data, length);
}

static unused void tar_file(struct buffer *tar, const char *name, unsigned mode, const char *text)
{
    tar_entry_put(tar, '0', name, mode, "", text, strlen(text));
}

static unused void tar_directory(struct buffer *tar, const char *name, unsigned mode)
{
    tar_entry_put(tar, '5', name, mode, "", "", 0);
}

static unused void tar_symlink(struct buffer *tar, const char *name, const char *target)
{
    tar_entry_put(tar, '2', name, 0777, target, "", 0);
}

static unused void tar_hardlink(struct buffer *tar, const char *name, const char *target)
{
    tar_entry_put(tar, '1', name, 0644, target, "", 0);
}

static unused void tar_device(struct buffer *tar, char type, const char *name, unsigned major, unsigned minor)
{
    struct tar_header header = tar_header_of(type, name, 0666, 0);
    snprintf(header.major, sizeof header.major, "%07o", major);
    snprintf(header.minor, sizeof header.minor, "%07o", minor);
    tar_put(tar, &header, "", 0);
}

static unused void tar_end(struct buffer *tar)
{
    static const char zeros[1024];
    assert_int_equal(buffer_append(tar, zeros, sizeof zeros), 0);
}

/* ---- compression and digests ---- */

static unused void compress_with(struct buffer *bytes, int (*add_filter)(struct archive *))
{
    size_t size = bytes->length + bytes->length / 2 + 65536, used = 0;
    scope_free char *into = malloc(size);
    struct archive *archive = archive_write_new();
    struct archive_entry *entry = archive_entry_new();
    assert_non_null(into);
    assert_int_equal(archive_write_set_format_raw(archive), ARCHIVE_OK);
    assert_int_equal(add_filter(archive), ARCHIVE_OK);
    assert_int_equal(archive_write_open_memory(archive, into, size, &used), ARCHIVE_OK);
    archive_entry_set_filetype(entry, AE_IFREG);
    assert_int_equal(archive_write_header(archive, entry), ARCHIVE_OK);
    assert_int_equal(archive_write_data(archive, bytes->data, bytes->length), (la_ssize_t)bytes->length);
    archive_entry_free(entry);
    assert_int_equal(archive_write_close(archive), ARCHIVE_OK);
    archive_write_free(archive);
    buffer_free(bytes);
    assert_int_equal(buffer_append(bytes, into, used), 0);
}

static unused void sha256_text(const void *data, size_t length, char into[65])
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    assert_int_equal(EVP_Digest(data, length, sum, NULL, EVP_sha256(), NULL), 1);
    for (int i = 0; i < 32; i++)
        snprintf(into + 2 * i, 3, "%02x", sum[i]);
}

/* ---- image archives ---- */

/* A lower and an upper layer. */
struct layer_pair {
    struct buffer at[2];
};

static unused void layer_pair_free(struct layer_pair *pair)
{
    buffer_free(&pair->at[0]);
    buffer_free(&pair->at[1]);
}

#define scope_layer_pair __attribute__((cleanup(layer_pair_free))) struct layer_pair

#define TEST_CONFIG                                                                                          \
    "{\"os\":\"linux\",\"architecture\":\"" TEST_MACHINE "\",\"config\":{"                                   \
    "\"Env\":[\"PATH=/bin\",\"GREETING=a b\",\"no equals sign\"],\"Cmd\":[\"/bin/sh\"]}}"
#ifdef __aarch64__
#define TEST_MACHINE "arm64"
#else
#define TEST_MACHINE "amd64"
#endif

static unused void put_member(struct buffer *outer, const char *name, const void *data, size_t length)
{
    tar_entry_put(outer, '0', name, 0644, "", data, length);
}

/* `docker save` of the days before OCI; the description comes before the layers, and the layers last one
 * first. */
static unused void docker_archive(struct buffer *outer, const struct buffer *layers, size_t count)
{
    scope_buffer manifest = {0};
    buffer_append_text(&manifest, "[{\"Config\":\"config.json\",\"RepoTags\":[\"test:1\"],\"Layers\":[");
    for (size_t i = 0; i < count; i++)
        buffer_print(&manifest, "%s\"%zu/layer.tar\"", i ? "," : "", i);
    buffer_append_text(&manifest, "]}]");
    put_member(outer, "manifest.json", manifest.data, manifest.length);
    put_member(outer, "config.json", TEST_CONFIG, strlen(TEST_CONFIG));
    for (size_t i = count; i-- > 0;) {
        char name[32];
        snprintf(name, sizeof name, "%zu/layer.tar", i);
        put_member(outer, name, layers[i].data, layers[i].length);
    }
    tar_end(outer);
}

/* Puts the bytes in as a blob and prints a descriptor of it. */
static unused void put_blob(struct buffer *outer, const void *data, size_t length, struct buffer *descriptor)
{
    char sum[65], name[128];
    sha256_text(data, length, sum);
    snprintf(name, sizeof name, "blobs/sha256/%s", sum);
    put_member(outer, name, data, length);
    buffer_print(descriptor, "{\"digest\":\"sha256:%s\",\"size\":%zu", sum, length);
}

/* A manifest and all that it names; prints a descriptor of it, not closed with a brace. */
static unused void oci_manifest(struct buffer *outer, const struct buffer *layers, size_t count,
                                struct buffer *descriptor)
{
    scope_buffer manifest = {0};
    buffer_append_text(&manifest, "{\"schemaVersion\":2,\"config\":");
    put_blob(outer, TEST_CONFIG, strlen(TEST_CONFIG), &manifest);
    buffer_append_text(&manifest, "},\"layers\":[");
    for (size_t i = 0; i < count; i++) {
        buffer_append_text(&manifest, i ? "," : "");
        put_blob(outer, layers[i].data, layers[i].length, &manifest);
        buffer_append_text(&manifest, "}");
    }
    buffer_append_text(&manifest, "]}");
    put_blob(outer, manifest.data, manifest.length, descriptor);
}

static unused void oci_archive(struct buffer *outer, const struct buffer *layers, size_t count)
{
    scope_buffer index = {0};
    buffer_append_text(&index, "{\"schemaVersion\":2,\"manifests\":[");
    oci_manifest(outer, layers, count, &index);
    buffer_append_text(&index, ",\"annotations\":{\"org.opencontainers.image.ref.name\":\"test:2\"}}]}");
    put_member(outer, "oci-layout", "{}", 2);
    put_member(outer, "index.json", index.data, index.length);
    tar_end(outer);
}

/* ---- a place to import into ---- */

struct place {
    char directory[64];
    char store[80], archive[80], canary[80];
};

static const char place_canary_text[] = "nobody touches me";

static int place_setup(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    assert_non_null(place);
    strcpy(place->directory, "/tmp/cloche-image-XXXXXX");
    assert_non_null(mkdtemp(place->directory));
    snprintf(place->store, sizeof place->store, "%s/store", place->directory);
    snprintf(place->archive, sizeof place->archive, "%s/archive", place->directory);
    snprintf(place->canary, sizeof place->canary, "%s/canary", place->directory);
    int fd = open(place->canary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    assert_int_equal(file_write_all(fd, place_canary_text, strlen(place_canary_text)), 0);
    close(fd);
    *state = place;
    return 0;
}

static int place_teardown(void **state)
{
    struct place *place = *state;
    int status = file_remove_tree(AT_FDCWD, place->directory);
    free(place);
    return status;
}

static unused size_t place_count(const char *path)
{
    scope_dir *dir = opendir(path);
    size_t count = 0;
    struct dirent *entry;
    while (dir && (entry = readdir(dir)))
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    return count;
}

static unused void place_check_canary(const struct place *place)
{
    scope_buffer text = {0};
    struct stat status;
    assert_int_equal(file_read_whole(AT_FDCWD, place->canary, 1000, &text), 0);
    assert_string_equal(text.data, place_canary_text);
    assert_int_equal(stat(place->canary, &status), 0);
    assert_int_equal(status.st_nlink, 1);
    assert_int_equal(status.st_mode & 07777, 0644);
    assert_int_equal(place_count(place->directory), 3); /* canary, archive, store */
}

static unused void place_write_archive(const struct place *place, const struct buffer *bytes)
{
    scope_fd fd = open(place->archive, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(file_write_all(fd, bytes->data, bytes->length), 0);
}

static unused int place_import(const struct place *place, const struct buffer *bytes,
                               const struct image_import_limits *limits, struct error *err)
{
    place_write_archive(place, bytes);
    *err = (struct error){0};
    int status = image_import(place->store, "test", place->archive, limits, NULL, err);
    place_check_canary(place);
    return status;
}

static unused void place_import_well(const struct place *place, const struct buffer *bytes)
{
    struct error err;
    int status = place_import(place, bytes, NULL, &err);
    if (status < 0)
        fail_msg("refused: %s", err.text);
    assert_int_equal(place_count(place->store), 1);
}

/* Refused, with an error that has all the words in it (up to a NULL), and nothing is left behind. */
static unused void place_import_refused(const struct place *place, const struct buffer *bytes,
                                        const struct image_import_limits *limits, const char *const *words)
{
    struct error err;
    int status = place_import(place, bytes, limits, &err);
    if (status >= 0)
        fail_msg("not refused; expected: %s", words[0]);
    assert_int_equal(err.kind, ERROR_SPEC);
    assert_string_equal(err.subject, "archive");
    for (; *words; words++)
        if (!strstr(err.text, *words))
            fail_msg("\"%s\" is not in: %s", *words, err.text);
    assert_int_equal(place_count(place->store), 0);
}

/* ---- looking at the result ---- */

static unused void tree_path(const struct place *place, const char *name, char into[PATH_MAX])
{
    snprintf(into, PATH_MAX, "%s/test/rootfs/%s", place->store, name);
}

static unused bool tree_has(const struct place *place, const char *name)
{
    char path[PATH_MAX];
    struct stat status;
    tree_path(place, name, path);
    return lstat(path, &status) == 0;
}

static unused struct stat tree_stat(const struct place *place, const char *name)
{
    char path[PATH_MAX];
    struct stat status;
    tree_path(place, name, path);
    if (lstat(path, &status) < 0)
        fail_msg("%s is not in the tree", name);
    return status;
}

static unused void tree_check_text(const struct place *place, const char *name, const char *text)
{
    char path[PATH_MAX];
    scope_buffer found = {0};
    tree_path(place, name, path);
    if (file_read_whole(AT_FDCWD, path, 1 << 20, &found) < 0)
        fail_msg("%s cannot be read", name);
    assert_string_equal(found.data, text);
}
