#include "remote/inputs.h"

#include "base/base64.h"
#include "base/scope.h"
#include "remote/upload.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

enum { INLINE_MAX = 256 << 10, INLINE_SUM_MAX = 24 << 20 };

struct sending {
    struct http *http;
    struct string_list *temporary;
    size_t inline_left; /* bytes that still fit into the request */
    size_t entries_left;
    const char *top; /* of the directory that is sent, for messages */
    json_t *entries;
    struct error *err;
};

/* NAME, or NAME_base64 where it is not text. */
static int set_bytes(json_t *object, const char *name, const char *bytes)
{
    char encoded_name[32];
    json_t *text = json_string(bytes);
    if (text)
        return json_object_set_new(object, name, text);
    scope_free char *encoded = base64_encode((struct slice){bytes, strlen(bytes)});
    snprintf(encoded_name, sizeof encoded_name, "%s_base64", name);
    return json_object_set_new(object, encoded_name, encoded ? json_string(encoded) : NULL);
}

/* ---- what is in a file ---- */

/* What is not one of these the kernel does not run, whatever its mode says. */
static bool is_program(int fd)
{
    char begin[4] = "";
    ssize_t length = pread(fd, begin, sizeof begin, 0);
    return length >= 2 && (memcmp(begin, "#!", 2) == 0 || (length == 4 && memcmp(begin, "\177ELF", 4) == 0));
}

/* 1: it has more bytes than were expected, so that it is uploaded. */
static int read_small(int fd, size_t most, struct buffer *into)
{
    char chunk[65536];
    ssize_t got;
    while ((got = read(fd, chunk, sizeof chunk)) != 0) {
        if (got < 0 && errno != EINTR)
            return -errno;
        int status = got < 0 ? 0 : buffer_append(into, chunk, (size_t)got);
        if (status < 0 || into->length > most)
            return status < 0 ? status : 1;
    }
    return 0;
}

static int set_content(struct sending *sending, int fd, const struct stat *what, json_t *object)
{
    scope_buffer content = {0};
    size_t most = sending->inline_left < INLINE_MAX ? sending->inline_left : INLINE_MAX;
    bool is_executable = what->st_mode & 0111;
    int status = (size_t)what->st_size <= most ? read_small(fd, most, &content) : 1;
    if (status < 0)
        return status;
    if (status == 0) {
        scope_free char *text =
            base64_encode((struct slice){content.data ? content.data : "", content.length});
        json_object_set_new(object, "content_base64", text ? json_string(text) : NULL);
        sending->inline_left -= content.length;
    } else {
        const struct http_source source = {.fd = fd, .size_bytes = what->st_size};
        struct string_list *names = sending->temporary;
        if (lseek(fd, 0, SEEK_SET) < 0)
            return -errno;
        status = upload_temporary(sending->http, &source, "input", names, sending->err);
        if (status < 0)
            return status;
        json_object_set_new(object, "upload", json_string(names->items[names->count - 1]));
        is_executable &= is_program(fd);
    }
    if (is_executable)
        json_object_set_new(object, "executable", json_true());
    return 0;
}

/* ---- directories ---- */

static int fail(const struct sending *sending, const char *path, const char *message)
{
    return error_spec(sending->err, "input", "input: '%.200s/%.200s' %s", sending->top, path, message);
}

static int fail_by(const struct sending *sending, const char *path, int number)
{
    return error_spec(sending->err, "input", "input: '%.200s/%.200s': %s", sending->top, path,
                      strerror(number));
}

/* Into the list, which takes it. */
static int add_entry(struct sending *sending, const char *path, json_t *takes)
{
    int status = set_bytes(takes, "path", path);
    if (json_array_append_new(sending->entries, takes) < 0 || status < 0)
        return error_host(sending->err, -ENOMEM, "input");
    return 0;
}

static int add_link(struct sending *sending, int dir_fd, const char *name, const char *path)
{
    char target[PATH_MAX];
    ssize_t length = readlinkat(dir_fd, name, target, sizeof target - 1);
    if (length < 0)
        return fail_by(sending, path, errno);
    target[length] = '\0';
    json_t *entry = json_object();
    set_bytes(entry, "link", target);
    return add_entry(sending, path, entry);
}

static int add_file(struct sending *sending, int dir_fd, const char *name, const char *path)
{
    /* Not blocking: it could be a pipe by now. */
    scope_fd fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat what;
    if (fd < 0 || fstat(fd, &what) < 0)
        return fail_by(sending, path, errno);
    if (!S_ISREG(what.st_mode))
        return fail(sending, path, "changes while it is read");
    json_t *entry = json_object();
    int status = set_content(sending, fd, &what, entry);
    if (status == 0)
        return add_entry(sending, path, entry);
    json_decref(entry);
    return sending->err->kind ? status : fail_by(sending, path, -status);
}

static int walk(struct sending *sending, int dir_fd, const char *path, int depth);

static int add_directory(struct sending *sending, int dir_fd, const char *name, const char *path, int depth)
{
    scope_fd fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return fail_by(sending, path, errno);
    int status = add_entry(sending, path, json_pack("{s:b}", "directory", 1));
    return status < 0 ? status : walk(sending, fd, path, depth + 1);
}

static int add_named(struct sending *sending, int dir_fd, const char *name, const char *path, int depth)
{
    struct stat what;
    char message[120];
    if (fstatat(dir_fd, name, &what, AT_SYMLINK_NOFOLLOW) < 0)
        return fail_by(sending, path, errno);
    snprintf(message, sizeof message,
             "is one too many: a server takes %d files, links and directories; give an archive instead",
             SPEC_TREE_MAX);
    if (sending->entries_left-- == 0)
        return fail(sending, path, message);
    snprintf(message, sizeof message, "lies deeper than the %d directories that a server takes",
             SPEC_TREE_DEPTH_MAX);
    if (depth > SPEC_TREE_DEPTH_MAX || strlen(path) > SPEC_TREE_PATH_MAX)
        return fail(sending, path,
                    depth > SPEC_TREE_DEPTH_MAX ? message : "has a longer path than a server takes");
    switch (what.st_mode & S_IFMT) {
    case S_IFREG:
        return add_file(sending, dir_fd, name, path);
    case S_IFDIR:
        return add_directory(sending, dir_fd, name, path, depth);
    case S_IFLNK:
        return add_link(sending, dir_fd, name, path);
    default:
        return fail(sending, path, "is neither a file nor a directory nor a link, and cannot be sent");
    }
}

static int walk(struct sending *sending, int dir_fd, const char *path, int depth)
{
    int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scope_dir *dir = copy < 0 ? NULL : fdopendir(copy);
    int status = dir ? 0 : fail_by(sending, path, errno);
    for (struct dirent *entry; status == 0 && (entry = readdir(dir));) {
        scope_buffer below = {0};
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        status = buffer_print(&below, "%s%s%s", path, path[0] ? "/" : "", entry->d_name);
        status = status < 0 ? error_host(sending->err, status, "input")
                            : add_named(sending, dir_fd, entry->d_name, below.data, depth);
    }
    return status;
}

/* ---- inputs ---- */

static int add_input(struct sending *sending, const struct grant *grant, json_t *files)
{
    scope_fd fd = open(grant->host_path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat what;
    if (fd < 0 || fstat(fd, &what) < 0)
        return error_spec(sending->err, "input", "input: '%.256s': %s", grant->host_path, strerror(errno));
    json_t *file = json_pack("{s:s}", "name", grant->name);
    if (!file)
        return error_spec(sending->err, "input", "input: '%.64s' is not a name in UTF-8", grant->name);
    json_array_append_new(files, file);
    int status = 0;
    if (S_ISDIR(what.st_mode)) {
        sending->top = grant->host_path;
        sending->entries = json_array();
        json_object_set_new(file, "tree", sending->entries);
        status = walk(sending, fd, "", 1);
    } else {
        status = set_content(sending, fd, &what, file);
    }
    if (status == 0 || sending->err->kind)
        return status;
    return error_spec(sending->err, "input", "input: '%.256s': %s", grant->host_path, strerror(-status));
}

int inputs_send(struct http *http, const struct spec *spec, json_t *body, struct string_list *temporary,
                struct error *err)
{
    struct sending sending = {.http = http,
                              .temporary = temporary,
                              .inline_left = INLINE_SUM_MAX,
                              .entries_left = SPEC_TREE_MAX,
                              .err = err};
    json_t *files = json_array();
    int status = json_object_set_new(body, "files", files);
    for (size_t i = 0; i < spec->grant_count && status == 0; i++)
        status = add_input(&sending, &spec->grants[i], files);
    return status;
}
