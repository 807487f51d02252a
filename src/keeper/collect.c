#include "keeper/collect.h"

#include "base/file.h"
#include "base/scope.h"
#include "base/sha256.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 64, VISITS_PER_FILE = 20, VISITS_LEAST = 10000 };

struct collection {
    struct result *result;
    const struct limits *limits;
    int64_t bytes_left;
    int64_t files_left;
    int64_t visits_left; /* entries looked at, collected or not: a million of them must not take forever */
    bool stopped;
    int into_fd; /* -1: only hash */
    struct error *err;
};

/* Opens without following and without waiting (a pipe would wait for a writer), then asks what it really is.
 */
static int open_regular(int dir_fd, const char *name, struct stat *ret_status)
{
    scope_fd fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, ret_status) < 0)
        return -errno;
    return S_ISREG(ret_status->st_mode) ? take_fd(&fd) : -EINVAL;
}

/* A name that can be written to the caller's disk as it is: no control characters that would play tricks on a
 * terminal or a script that lists it. */
static bool is_harmless_name(const char *name)
{
    for (const unsigned char *at = (const unsigned char *)name; *at; at++)
        if (*at < 0x20 || *at == 0x7f || (at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0))
            return false;
    return true;
}

static int copy_and_hash(struct collection *self, int from_fd, int into_fd, int64_t *ret_size, char *ret_hash)
{
    struct sha256 *hash = sha256_new();
    if (!hash)
        return -ENOMEM;
    char chunk[65536];
    int64_t size = 0;
    int status = 0;
    for (;;) {
        ssize_t length = read(from_fd, chunk, sizeof chunk);
        if (length < 0 && errno == EINTR)
            continue;
        if (length <= 0) {
            status = length < 0 ? -errno : 0;
            break;
        }
        size += length;
        if (size > self->bytes_left) {
            status = -EFBIG;
            break;
        }
        sha256_add(hash, chunk, (size_t)length);
        if (into_fd >= 0 && (status = file_write_all(into_fd, chunk, (size_t)length)) < 0)
            break;
    }
    sha256_finish(hash, ret_hash);
    *ret_size = size;
    return status;
}

/* Writes under a temporary name and renames: the caller never sees half a file, and an existing link of that
 * name is replaced, not written through. */
static int save_file(struct collection *self, int from_fd, const struct stat *what, const char *path,
                     int64_t *ret_size, char *ret_hash)
{
    const char *name = NULL;
    /* In the caller's tree, too, a link that was there before could lead anywhere. */
    scope_fd parent = file_open_parent(self->into_fd, path, 0777, &name);
    if (parent < 0)
        return parent;
    char temporary[64];
    uint64_t serial; /* a name that neither the guest nor an earlier run can have taken */
    if (getrandom(&serial, sizeof serial, 0) != sizeof serial)
        return -EIO;
    snprintf(temporary, sizeof temporary, ".cloche-%016llx", (unsigned long long)serial);
    mode_t mode = what->st_mode & 0111 ? 0777 : 0666;
    scope_fd into = openat(parent, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (into < 0)
        return -errno;
    int status = copy_and_hash(self, from_fd, into, ret_size, ret_hash);
    if (status == 0 && renameat(parent, temporary, parent, name) < 0)
        status = -errno;
    if (status < 0)
        unlinkat(parent, temporary, 0);
    return status;
}

static int take_file(struct collection *self, int dir_fd, const char *name, const char *path)
{
    struct stat what;
    scope_fd fd = open_regular(dir_fd, name, &what);
    if (fd < 0)
        return result_add_omission(self->result, path,
                                   fd == -EINVAL || fd == -ELOOP || fd == -ENXIO ? "not a regular file"
                                   : fd == -EACCES                               ? "not readable"
                                                                                 : "cannot be opened");
    if (self->into_fd >= 0 && !is_harmless_name(path))
        return result_add_omission(self->result, path, "control characters in its name");
    if (self->files_left <= 0)
        return result_add_omission(self->result, path, "more files than collect_files allows");
    if (what.st_size > self->bytes_left)
        return result_add_omission(self->result, path, "more bytes than collect allows");
    int64_t size;
    char hash[65];
    int status = self->into_fd >= 0 ? save_file(self, fd, &what, path, &size, hash)
                                    : copy_and_hash(self, fd, -1, &size, hash);
    if (status == -EFBIG)
        return result_add_omission(self->result, path, "more bytes than collect allows");
    if (status == -ELOOP || status == -ENOTDIR || status == -EISDIR)
        return result_add_omission(self->result, path,
                                   "something else is at its place in the output directory");
    if (status < 0)
        return error_host(self->err, status, "cannot save the collected file '%.200s'", path);
    self->bytes_left -= size;
    self->files_left--;
    return result_add_file(self->result, path, size, hash);
}

static int take_directory(struct collection *self, int dir_fd, const char *path, int depth);

static int take_entry(struct collection *self, int dir_fd, const char *parent, const char *name, int depth)
{
    char path[PATH_MAX];
    int length = *parent ? snprintf(path, sizeof path, "%s/%s", parent, name)
                         : snprintf(path, sizeof path, "%s", name);
    if (length >= (int)sizeof path)
        return result_add_omission(self->result, name, "its path is too long");
    struct stat what;
    if (fstatat(dir_fd, name, &what, AT_SYMLINK_NOFOLLOW) < 0)
        return result_add_omission(self->result, path, "cannot be looked at");
    if (!S_ISDIR(what.st_mode))
        return take_file(self, dir_fd, name, path);
    if (depth == DEPTH_MAX)
        return result_add_omission(self->result, path, "nested too deep");
    scope_fd below = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (below < 0)
        return result_add_omission(self->result, path, "not readable");
    return take_directory(self, below, path, depth + 1);
}

static int take_directory(struct collection *self, int dir_fd, const char *path, int depth)
{
    int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scope_dir *dir = copy < 0 ? NULL : fdopendir(copy);
    if (!dir)
        return result_add_omission(self->result, path, "not readable");
    struct dirent *entry;
    int status = 0;
    while (status >= 0 && !self->stopped && (errno = 0, entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (self->visits_left-- <= 0) {
            self->stopped = true;
            return result_add_omission_first(self->result, *path ? path : ".",
                                             "too many entries; the rest was not looked at");
        }
        status = take_entry(self, dir_fd, path, entry->d_name, depth);
        errno = 0;
    }
    if (status >= 0 && !self->stopped && errno)
        return result_add_omission(self->result, *path ? path : ".", "cannot be listed to its end");
    return status;
}

int collect_open_target_of(const struct spec *spec, struct error *err)
{
    if (spec->output_fd < 0)
        return spec->output_directory ? file_open_target(spec->output_directory, err) : -1;
    int fd = fcntl(spec->output_fd, F_DUPFD_CLOEXEC, 3);
    return fd >= 0 ? fd : error_host(err, -errno, "cannot open the output directory");
}

static int compare_paths(const void *one, const void *other)
{
    return strcmp(((const struct result_file *)one)->path, ((const struct result_file *)other)->path);
}

int collect_files(int output_fd, int into_fd, const struct limits *limits, struct result *result,
                  struct error *err)
{
    int64_t files = limits->value[LIMIT_collect_files];
    struct collection self = {
        .result = result,
        .limits = limits,
        .bytes_left = limits->value[LIMIT_collect],
        .files_left = files,
        .visits_left = files * VISITS_PER_FILE > VISITS_LEAST ? files * VISITS_PER_FILE : VISITS_LEAST,
        .into_fd = into_fd,
        .err = err,
    };
    int status = take_directory(&self, output_fd, "", 0);
    if (status == -ENOMEM)
        return error_host(err, status, "cannot collect the files");
    /* File systems list them in an order of their own. */
    if (result->file_count > 1)
        qsort(result->files, result->file_count, sizeof *result->files, compare_paths);
    return status < 0 ? status : 0;
}

int collect_one(int dir_fd, const char *name, size_t limit_bytes, struct buffer *ret, struct error *err)
{
    struct stat what;
    scope_fd fd = open_regular(dir_fd, name, &what);
    if (fd < 0)
        return error_spec(err, "code", "the compiler left no program");
    char chunk[65536];
    ssize_t length;
    while ((length = read(fd, chunk, sizeof chunk)) > 0) {
        if (ret->length + (size_t)length > limit_bytes)
            return error_spec(err, "code", "the compiled program is larger than %zu bytes", limit_bytes);
        if (buffer_append(ret, chunk, (size_t)length) < 0)
            return error_host(err, -ENOMEM, "cannot take the compiled program");
    }
    return length < 0 ? error_host(err, -errno, "cannot read the compiled program") : 0;
}
