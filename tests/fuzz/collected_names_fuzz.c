/* Any tree that a guest can leave, with names of any bytes, saved into a directory of the caller's in which
 * anything may stand already: only regular files come out, nothing outside is touched, the limits hold.
 *
 * The input is a list of steps: one byte says what to make, a text names it (zero-terminated; a slash becomes
 * an underscore, since no file system has one in a name). */
#include "fuzz.h"

#include "base/file.h"
#include "base/scope.h"
#include "keeper/collect.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEPS_MAX = 48, DEPTH_MAX = 8, BYTES_MAX = 4096, FILES_MAX = 12 };

static const char canary_text[] = "nobody touches me";
static char top[64];
static int top_fd = -1;

static void clean_up(void)
{
    file_remove_tree(AT_FDCWD, top);
}

static void prepare(void)
{
    snprintf(top, sizeof top, "%s/cloche-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    check(mkdtemp(top) != NULL, "a directory can be made");
    atexit(clean_up);
    top_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    check(mkdirat(top_fd, "outside", 0755) == 0, "a directory can be made");
    scope_fd fd = openat(top_fd, "outside/canary", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    check(fd >= 0 && file_write_all(fd, canary_text, strlen(canary_text)) == 0, "a canary can be written");
}

static int open_new(const char *name)
{
    check(mkdirat(top_fd, name, 0755) == 0, "a directory can be made");
    int fd = openat(top_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    check(fd >= 0, "a directory can be opened");
    return fd;
}

static void put_file(int dir_fd, const char *name, size_t length, bool sparse, unsigned mode)
{
    static const char bytes[256];
    scope_fd fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd >= 0 && sparse)
        (void)!ftruncate(fd, (off_t)length << 24);
    else if (fd >= 0)
        (void)!write(fd, bytes, length % sizeof bytes);
}

/* One step; returns the directory that the next one is made in. Whatever the kernel refuses is not there. */
static int make(struct fuzz_input *input, int at, int *depth)
{
    uint8_t what = fuzz_byte(input);
    scope_free char *name = fuzz_text(input);
    for (char *slash = name; (slash = strchr(slash, '/'));)
        *slash = '_';
    static const char *const targets[] = {"../outside/canary", "/", "..", "../outside", "nowhere", "file"};
    switch (what % 8) {
    case 0:
        put_file(at, name, what, false, what & 0x80 ? 06755 : 0644);
        break;
    case 1:
        put_file(at, name, what, true, 0644);
        break;
    case 2:
        (void)!symlinkat(targets[what / 8 % 6], at, name);
        break;
    case 3:
        (void)!mkfifoat(at, name, 0644);
        break;
    case 4:
        (void)!linkat(at, "file", at, name, 0);
        break;
    case 5:
    case 6:
        if (mkdirat(at, name, 0755) == 0 && *depth < DEPTH_MAX) {
            int below = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            if (below >= 0) {
                (*depth)++;
                close(at);
                return below;
            }
        }
        break;
    default:
        if (*depth > 0) {
            int above = openat(at, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            check(above >= 0, "there is a directory above");
            (*depth)--;
            close(at);
            return above;
        }
    }
    return at;
}

static void make_tree(struct fuzz_input *input, int dir_fd, int steps)
{
    int at = fcntl(dir_fd, F_DUPFD_CLOEXEC, 0), depth = 0;
    put_file(at, "file", 7, false, 0644);
    for (int i = 0; i < steps && input->left; i++)
        at = make(input, at, &depth);
    close(at);
}

/* What the collection says it saved is there, and is what it says. */
static void check_saved(const struct result *result, int into)
{
    int64_t bytes = 0;
    check(result->file_count <= FILES_MAX, "no more files than allowed");
    for (size_t i = 0; i < result->file_count; i++) {
        const struct result_file *file = &result->files[i];
        struct stat status;
        bytes += file->size;
        check(file->path[0] && file->path[0] != '/' && !strstr(file->path, "/../") &&
                  strncmp(file->path, "../", 3) != 0,
              "paths stay below");
        for (const char *at = file->path; *at; at++)
            check((unsigned char)*at >= 0x20 && *at != 0x7f, "no control character is in a saved name");
        check(strlen(file->sha256) == 64, "every file has a hash");
        check(fstatat(into, file->path, &status, AT_SYMLINK_NOFOLLOW) == 0, "a saved file is there");
        check(S_ISREG(status.st_mode) && (status.st_mode & 07000) == 0, "it is a plain file");
        check(status.st_size == file->size && status.st_nlink == 1, "it is as large as was said");
    }
    check(bytes <= BYTES_MAX, "no more bytes than allowed");
}

static void check_outside(void)
{
    struct stat status;
    scope_buffer text = {0};
    check(fstatat(top_fd, "outside/canary", &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode) &&
              status.st_nlink == 1 && (status.st_mode & 07777) == 0644,
          "the canary is as it was");
    check(file_read_whole(top_fd, "outside/canary", 100, &text) == 0 && strcmp(text.data, canary_text) == 0,
          "the canary says what it said");
    scope_dir *dir = fdopendir(openat(top_fd, "outside", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    int entries = 0;
    while (dir && readdir(dir))
        entries++;
    check(entries == 3, "nothing is beside the canary");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (top_fd < 0)
        prepare();
    struct fuzz_input input = {data, size};
    struct limits limits = {.value = {[LIMIT_collect] = BYTES_MAX, [LIMIT_collect_files] = FILES_MAX}};
    char into_path[96];
    snprintf(into_path, sizeof into_path, "%s/into", top);
    scope_fd box = open_new("box"), into = open_new("into");
    int before = fuzz_byte(&input) % 8;
    make_tree(&input, into, before); /* what stands there already */
    make_tree(&input, box, STEPS_MAX);
    struct result *result = result_new();
    struct error err = {0};
    check(result != NULL, "there is memory");
    scope_fd target = file_open_target(into_path, &err);
    int status = target < 0 ? target : collect_files(box, target, &limits, result, &err);
    if (status < 0)
        fprintf(stderr, "%s\n", err.text);
    check(status == 0, "nothing that a guest leaves is a failure of the host");
    check_saved(result, into);
    check_outside();
    result_free(result);
    check(file_remove_tree(top_fd, "box") == 0 && file_remove_tree(top_fd, "into") == 0,
          "any tree can be removed");
    check_outside();
    return 0;
}
