#include "remote/saved_files.h"

#include "base/file.h"
#include "base/scope.h"
#include "base/sha256.h"
#include "base/base64.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

/* A file under a name that nobody has; half a file is never seen under its own. */
struct draft {
    int dir_fd, fd;
    const char *name;
    char temporary[32];
    struct sha256 *hash;
};

static void draft_abandon(struct draft *draft)
{
    char ignored[65];
    if (draft->fd >= 0 && draft->temporary[0])
        unlinkat(draft->dir_fd, draft->temporary, 0);
    if (draft->hash)
        sha256_finish(draft->hash, ignored);
    draft->hash = NULL;
    scope_close_fd(&draft->fd);
    scope_close_fd(&draft->dir_fd);
}

#define scope_draft __attribute__((cleanup(draft_abandon))) struct draft

static int draft_begin(struct draft *draft, int dir_fd, const char *path)
{
    uint64_t serial;
    /* Names were made by the code that ran. */
    if ((draft->dir_fd = file_open_parent(dir_fd, path, 0777, &draft->name)) < 0)
        return draft->dir_fd;
    if (getrandom(&serial, sizeof serial, 0) != sizeof serial || !(draft->hash = sha256_new()))
        return -ENOMEM;
    snprintf(draft->temporary, sizeof draft->temporary, ".cloche-%016llx", (unsigned long long)serial);
    draft->fd =
        openat(draft->dir_fd, draft->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    return draft->fd < 0 ? -errno : 0;
}

static int draft_add(void *data, struct slice bytes)
{
    struct draft *draft = data;
    if (draft->hash)
        sha256_add(draft->hash, bytes.data, bytes.length);
    return file_write_all(draft->fd, bytes.data, bytes.length);
}

static int draft_finish(struct draft *draft, const char *sha256)
{
    char hash[65];
    sha256_finish(draft->hash, hash);
    draft->hash = NULL;
    if (sha256 && strcmp(sha256, hash) != 0)
        return -EBADMSG;
    if (renameat(draft->dir_fd, draft->temporary, draft->dir_fd, draft->name) < 0)
        return -errno;
    draft->temporary[0] = '\0';
    return 0;
}

/* ---- of a result ---- */

static int save_one(struct http *http, int into_fd, const json_t *file, const char *path, struct error *err)
{
    const char *content = json_string_value(json_object_get(file, "content_base64"));
    const char *url = json_string_value(json_object_get(file, "url"));
    const char *sha256 = json_string_value(json_object_get(file, "sha256"));
    scope_draft draft = {.dir_fd = -1, .fd = -1};
    if (!content && !url)
        return 0;
    int status = draft_begin(&draft, into_fd, path);
    if (status == 0 && content) {
        scope_buffer bytes = {0};
        status = base64_decode((struct slice){content, strlen(content)}, &bytes);
        if (status == 0)
            status = draft_add(&draft, (struct slice){bytes.data ? bytes.data : "", bytes.length});
    } else if (status == 0) {
        struct http_call call = {.method = "GET", .path = url, .take = draft_add, .data = &draft};
        status = http_perform(http, &call, err);
        buffer_free(&call.answer);
    }
    return status < 0 ? status : draft_finish(&draft, sha256);
}

static bool is_taken(int status)
{
    return status == -ELOOP || status == -ENOTDIR || status == -EISDIR || status == -EINVAL;
}

int saved_files_take(struct http *http, int into_fd, json_t *result, struct error *err)
{
    json_t *files = json_object_get(result, "files"), *left_out = json_object_get(result, "not_collected");
    for (size_t i = 0; i < json_array_size(files);) {
        json_t *file = json_array_get(files, i);
        const char *path = json_string_value(json_object_get(file, "path"));
        const char *encoded = json_string_value(json_object_get(file, "path_base64"));
        scope_buffer exact = {0};
        if (encoded && base64_decode((struct slice){encoded, strlen(encoded)}, &exact) == 0 && exact.data)
            path = exact.data;
        int status = path ? save_one(http, into_fd, file, path, err) : -EPROTO;
        if (status < 0 && !is_taken(status))
            return err->kind
                       ? status
                       : error_host(err, status, "cannot save the collected file '%.200s'", path ? path : "");
        json_object_del(file, "content_base64");
        json_object_del(file, "url");
        if (status < 0) {
            json_object_del(file, "size");
            json_object_del(file, "sha256");
            json_object_set_new(file, "reason",
                                json_string("something else is at its place in the output directory"));
            json_array_append(left_out, file);
            json_array_remove(files, i);
        } else {
            i++;
        }
    }
    return 0;
}

/* ---- single ---- */

int saved_files_fetch(struct http *http, const char *from, int dir_fd, const char *path, struct error *err)
{
    scope_draft draft = {.dir_fd = -1, .fd = -1};
    bool is_stdout = strcmp(path, "-") == 0;
    const char *slash = strrchr(path, '/');
    scope_free char *parent = slash ? strndup(path, (size_t)(slash - path) + 1) : NULL;
    scope_fd parent_fd = -1;
    int status = 0;
    if (is_stdout)
        draft.fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    else if (slash && (parent_fd = openat(dir_fd, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        status = -errno;
    else
        status = draft_begin(&draft, slash ? parent_fd : dir_fd, slash ? slash + 1 : path);
    if (status < 0)
        return error_host(err, status, "cannot write '%.256s'", path);
    struct http_call call = {.method = "GET", .path = from, .take = draft_add, .data = &draft};
    status = http_perform(http, &call, err);
    buffer_free(&call.answer);
    if (status == 0 && !is_stdout && (status = draft_finish(&draft, NULL)) < 0)
        error_host(err, status, "cannot write '%.256s'", path);
    return status;
}
