#include "remote/upload.h"

#include "base/scope.h"
#include "base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

enum { HASH_CHUNK = 1 << 20 };

static int open_source(const char *path, struct http_source *ret, struct error *err)
{
    struct stat what;
    bool is_stdin = strcmp(path, "-") == 0;
    ret->fd = is_stdin ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC);
    if (ret->fd < 0 || fstat(ret->fd, &what) < 0)
        return error_spec(err, "file", "file: '%.256s': %s", path, strerror(errno));
    if (S_ISDIR(what.st_mode))
        return error_spec(err, "file", "file: '%.256s' is a directory", path);
    ret->size_bytes = S_ISREG(what.st_mode) ? what.st_size - lseek(ret->fd, 0, SEEK_CUR) : -1;
    return 0;
}

/* How much of it the server has; 0: nothing, or we cannot tell. */
static int64_t offset_there(struct http *http, const char *target, int64_t size_bytes)
{
    struct error ignored;
    struct http_call call = {.method = "HEAD", .path = target, .wanted_header = "Upload-Offset: "};
    bool is_unfinished = http_perform(http, &call, &ignored) == 0 && call.status == 202;
    int64_t offset = is_unfinished ? strtoll(call.header, NULL, 10) : 0;
    buffer_free(&call.answer);
    return offset > 0 && offset < size_bytes ? offset : 0;
}

static int hash_of(int fd, char *ret)
{
    struct sha256 *hash = sha256_new();
    scope_free char *chunk = malloc(HASH_CHUNK);
    if (!hash || !chunk) {
        if (hash)
            sha256_finish(hash, ret);
        return -ENOMEM;
    }
    ssize_t got;
    off_t at = 0;
    for (; (got = pread(fd, chunk, HASH_CHUNK, at)) > 0; at += got)
        sha256_add(hash, chunk, (size_t)got);
    sha256_finish(hash, ret);
    return got < 0 ? -errno : 0;
}

/* The rest of it. Its hash goes along: another file with the same name is found out. */
static int put_rest(struct http *http, struct http_call *call, struct http_source *source, int64_t offset,
                    struct error *err)
{
    char range[96], check[96] = "X-Content-SHA256: ";
    int64_t total = source->size_bytes;
    int status = hash_of(source->fd, check + strlen(check));
    if (status < 0 || lseek(source->fd, offset, SEEK_SET) < 0)
        return error_host(err, status < 0 ? status : -errno, "file");
    snprintf(range, sizeof range, "Content-Range: bytes %lld-%lld/%lld", (long long)offset,
             (long long)total - 1, (long long)total);
    source->size_bytes = total - offset;
    call->headers[0] = range;
    call->headers[1] = check;
    status = http_perform(http, call, err);
    call->headers[0] = call->headers[1] = NULL;
    source->size_bytes = total;
    return status;
}

int upload_file(struct http *http, const char *path, const char *target, bool resumes, json_t **ret,
                struct error *err)
{
    struct http_source source = {.fd = -1};
    struct http_call call = {.method = "PUT", .path = target, .source = &source};
    int status = open_source(path, &source, err);
    int64_t offset =
        status == 0 && resumes && source.size_bytes > 0 ? offset_there(http, target, source.size_bytes) : 0;
    if (status == 0 && offset > 0)
        status = put_rest(http, &call, &source, offset, err);
    bool is_other = offset > 0 && status < 0 && err->kind == ERROR_SPEC; /* then all of it is sent */
    if (is_other && lseek(source.fd, 0, SEEK_SET) == 0) {
        *err = (struct error){0};
        buffer_free(&call.answer);
        status = 0;
        offset = 0;
    }
    if (status == 0 && offset == 0)
        status = http_perform(http, &call, err);
    if (status == 0)
        *ret = json_loadb(call.answer.data ? call.answer.data : "", call.answer.length, 0, NULL);
    buffer_free(&call.answer);
    scope_close_fd(&source.fd);
    return status;
}

int upload_temporary(struct http *http, const struct http_source *source, const char *kind,
                     struct string_list *temporary, struct error *err)
{
    uint64_t serial;
    char target[96];
    int status = getrandom(&serial, sizeof serial, 0) == sizeof serial ? 0 : -EIO;
    if (status == 0)
        status = string_list_print(temporary, "%s-%016llx", kind, (unsigned long long)serial);
    if (status < 0)
        return error_host(err, status, "%s", kind);
    snprintf(target, sizeof target, "/v1/files/%s", temporary->items[temporary->count - 1]);
    struct http_call call = {.method = "PUT", .path = target, .source = source};
    status = http_perform(http, &call, err);
    buffer_free(&call.answer);
    return status < 0 ? error_context(err, "%s", kind) : 0;
}

void upload_remove(struct http *http, const struct string_list *names)
{
    for (size_t i = 0; i < names->count; i++) {
        char path[96];
        struct error ignored;
        snprintf(path, sizeof path, "/v1/files/%.64s", names->items[i]);
        http_ask(http, "DELETE", path, NULL, NULL, &ignored);
    }
}
