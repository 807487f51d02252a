#include "remote/upload.h"

#include "base/file.h"
#include "base/scope.h"
#include "base/sha256.h"
#include "base/base64.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

enum { INLINE_MAX = 256 << 10, HASH_CHUNK = 1 << 20 };

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

static int add_inline(const char *path, const char *name, json_t *files, struct error *err)
{
    scope_buffer content = {0};
    int status = file_read_whole(AT_FDCWD, path, INLINE_MAX, &content);
    if (status < 0)
        return error_spec(err, "input", "input: '%.256s': %s", path, strerror(-status));
    scope_free char *encoded =
        base64_encode((struct slice){content.data ? content.data : "", content.length});
    json_t *file = encoded ? json_pack("{s:s, s:s}", "name", name, "content_base64", encoded) : NULL;
    if (!file)
        return error_spec(err, "input", "input: '%.64s' is not a name in UTF-8", name);
    json_array_append_new(files, file);
    return 0;
}

static int add_upload(struct http *http, const char *path, const char *name, json_t *files,
                      struct string_list *temporary, struct error *err)
{
    uint64_t serial;
    char upload[48];
    if (getrandom(&serial, sizeof serial, 0) != sizeof serial)
        return error_host(err, -EIO, "input");
    snprintf(upload, sizeof upload, "input-%016llx", (unsigned long long)serial);
    scope_buffer target = {0};
    if (buffer_print(&target, "/v1/files/%s", upload) < 0 || string_list_add(temporary, upload) < 0)
        return error_host(err, -ENOMEM, "input");
    json_t *answer = NULL;
    int status = upload_file(http, path, target.data, false, &answer, err);
    json_decref(answer);
    if (status < 0)
        return error_context(err, "input");
    json_t *file = json_pack("{s:s, s:s}", "name", name, "upload", upload);
    if (!file)
        return error_spec(err, "input", "input: '%.64s' is not a name in UTF-8", name);
    json_array_append_new(files, file);
    return 0;
}

static int add_input(struct http *http, const struct grant *grant, json_t *files,
                     struct string_list *temporary, struct error *err)
{
    struct stat what;
    const char *path = grant->host_path, *slash = strrchr(path, '/');
    const char *name = grant->name ? grant->name : slash ? slash + 1 : path;
    if (stat(path, &what) < 0)
        return error_spec(err, "input", "input: '%.256s': %s", path, strerror(errno));
    if (S_ISDIR(what.st_mode))
        return error_spec(err, "input",
                          "input: '%.256s' is a directory, and a server takes files only; give them one by "
                          "one, or as an archive",
                          path);
    if (!S_ISREG(what.st_mode))
        return error_spec(err, "input", "input: '%.256s' is neither a file nor a directory", path);
    return what.st_size <= INLINE_MAX ? add_inline(path, name, files, err)
                                      : add_upload(http, path, name, files, temporary, err);
}

int upload_inputs(struct http *http, const struct spec *spec, json_t **ret_files,
                  struct string_list *temporary, struct error *err)
{
    json_t *files = json_array();
    int status = 0;
    for (size_t i = 0; i < spec->grant_count && status == 0; i++)
        status = add_input(http, &spec->grants[i], files, temporary, err);
    if (status == 0)
        *ret_files = files;
    else
        json_decref(files);
    return status;
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
