/* Any bytes at all as an image archive. Whatever they are, the import ends within its limits, changes nothing
 * outside the store, leaves nothing but a whole image in it, and that image has only what images may have. */
#include "fuzz.h"

#include "base/file.h"
#include "base/scope.h"
#include "image/image.h"

#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct image_import_limits limits = {.unpacked_bytes = 1 << 20, .entries = 256, .layers = 8};
static const char canary_text[] = "nobody touches me";
static char directory[64], store[80], canary[80];
static int64_t entries_seen;

static void clean_up(void)
{
    file_remove_tree(AT_FDCWD, directory);
}

static void prepare(void)
{
    snprintf(directory, sizeof directory, "%s/cloche-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    check(mkdtemp(directory) != NULL, "a directory can be made");
    atexit(clean_up);
    snprintf(store, sizeof store, "%s/store", directory);
    snprintf(canary, sizeof canary, "%s/canary", directory);
    scope_fd fd = open(canary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    check(fd >= 0 && file_write_all(fd, canary_text, strlen(canary_text)) == 0, "a canary can be written");
}

static size_t count_entries(const char *path)
{
    scope_dir *dir = opendir(path);
    size_t count = 0;
    while (dir && readdir(dir))
        count++;
    return count > 2 ? count - 2 : 0;
}

static void check_outside(void)
{
    struct stat status;
    scope_buffer text = {0};
    check(lstat(canary, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1 &&
              (status.st_mode & 07777) == 0644,
          "the canary is as it was");
    check(file_read_whole(AT_FDCWD, canary, 100, &text) == 0 && strcmp(text.data, canary_text) == 0,
          "the canary says what it said");
    check(count_entries(directory) <= 2, "there is nothing new beside the store");
}

static int check_entry(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)type;
    (void)where;
    bool is_directory = S_ISDIR(status->st_mode);
    check(is_directory || S_ISREG(status->st_mode) || S_ISLNK(status->st_mode), path);
    check((status->st_mode & 06000) == 0, "no set-user-id or set-group-id bits");
    check(is_directory || (status->st_mode & 01000) == 0, "no sticky bit but on directories");
    check(!is_directory || (status->st_mode & 0700) == 0700, "the owner can use the directory");
    check(status->st_size <= limits.unpacked_bytes || is_directory, "no file past the limit");
    check(status->st_uid == geteuid(), "all of it is the importer's");
    entries_seen++;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!*directory)
        prepare();
    scope_fd archive = memfd_create("archive", MFD_CLOEXEC);
    check(archive >= 0 && file_write_all(archive, data, size) == 0, "the input can be put into a file");
    char path[64], root[128];
    snprintf(path, sizeof path, "/proc/self/fd/%d", archive);
    struct error err = {0};
    int status = image_import(store, "fuzz", path, &limits, NULL, &err);
    check_outside();
    if (status < 0) {
        check(err.kind != ERROR_NONE && err.text[0], "a refusal has a reason");
        for (const char *at = err.text; *at; at++)
            check((unsigned char)*at >= 0x20 && (unsigned char)*at < 0x7f, "a reason is plain text");
        check(count_entries(store) == 0, "a refused archive leaves nothing");
        return 0;
    }
    snprintf(root, sizeof root, "%s/fuzz/rootfs", store);
    entries_seen = 0;
    nftw(root, check_entry, 64, FTW_PHYS);
    check(entries_seen <= limits.entries + 1, "no more entries than allowed");
    struct image *image = NULL;
    check(image_open(store, "fuzz", &image, &err) == 0, "what was imported can be opened");
    image_has_program(image, "/bin/sh");
    image_free(image);
    check(image_remove(store, "fuzz", &err) == 0, "what was imported can be removed");
    check(count_entries(store) == 0, "what was removed is gone");
    check_outside();
    return 0;
}

#ifndef FUZZ_REPLAY
/* The sum in a tar header would stop nearly every mutation at the door. It is put right again in all that
 * looks like a header, in the layers too, since they start at whole blocks of the outer archive. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t size_max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned seed)
{
    size = LLVMFuzzerMutate(data, size, size_max);
    for (size_t block = 0; seed % 16 && block + 512 <= size; block += 512) {
        if (memcmp(data + block + 257, "ustar", 5) != 0)
            continue;
        unsigned sum = 8 * ' ';
        for (size_t i = 0; i < 512; i++)
            sum += i >= 148 && i < 156 ? 0 : data[block + i];
        snprintf((char *)data + block + 148, 7, "%06o", sum & 0777777);
        data[block + 155] = ' ';
    }
    return size;
}
#endif
