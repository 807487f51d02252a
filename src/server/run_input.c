#include "server/run_input.h"

#include "base/file.h"
#include "base/scope.h"
#include "server/run_job.h"
#include "server/server.h"
#include "server/store.h"
#include "server/tenant.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

struct making {
    const struct run_job *job;
    const char *name; /* in /data/input */
    int64_t programs_bytes;
};

/* Modes are for all who get there, which nobody does: where owners cannot be mapped, a box reads it as a
 * stranger. */
static int make_file(int dir_fd, const char *name, bool is_executable)
{
    scope_fd fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 || fchmod(fd, is_executable ? 0555 : 0444) < 0 ? -errno : take_fd(&fd);
}

static int make_directory(int dir_fd, const char *name)
{
    if (mkdirat(dir_fd, name, 0755) == 0)
        return 0;
    struct stat what; /* made already, on the way to what is in it */
    bool is_there = errno == EEXIST && fstatat(dir_fd, name, &what, AT_SYMLINK_NOFOLLOW) == 0;
    return is_there && S_ISDIR(what.st_mode) ? 0 : -EEXIST;
}

static int copy_program(int from_fd, int dir_fd, const char *name)
{
    scope_fd into = make_file(dir_fd, name, true);
    ssize_t moved = 1;
    while (into >= 0 && moved > 0) {
        moved = copy_file_range(from_fd, NULL, into, NULL, 1 << 30, 0);
        if (moved < 0 && errno == EINTR)
            moved = 1;
    }
    return into < 0 ? into : moved < 0 ? -errno : 0;
}

/* The caller holds the content. */
static int show_content(struct making *making, const struct stored *stored, bool is_executable, int dir_fd,
                        const char *name, struct error *err)
{
    const struct server *server = making->job->server;
    char path[STORE_PATH_MAX];
    store_content_path(stored->sha256, path);
    if (!is_executable)
        return linkat(server->data_fd, path, dir_fd, name, 0) < 0 ? -errno : 0;
    making->programs_bytes += stored->size_bytes;
    if (making->programs_bytes > SPEC_PROGRAMS_MAX)
        return error_spec(err, "files", "files: '%.64s' has more than %d MiB of uploads that are executable",
                          making->name, SPEC_PROGRAMS_MAX >> 20);
    scope_fd from = store_open_content(server->store, stored->sha256);
    return from < 0 ? from : copy_program(from, dir_fd, name);
}

static int place_upload(struct making *making, const struct run_content *content, int dir_fd,
                        const char *name, struct error *err)
{
    struct store *store = making->job->server->store;
    struct stored stored;
    if (store_hold(store, exchange_tenant(making->job->exchange)->name, content->upload, &stored) < 0)
        return error_spec(err, "files", "files: there is no upload '%.64s'", content->upload);
    int status = show_content(making, &stored, content->is_executable, dir_fd, name, err);
    store_release(store, stored.sha256);
    return status;
}

static int place_content(struct making *making, const struct run_content *content, int dir_fd,
                         const char *name, struct error *err)
{
    if (content->upload)
        return place_upload(making, content, dir_fd, name, err);
    scope_fd fd = make_file(dir_fd, name, content->is_executable);
    return fd < 0 ? fd : file_write_all(fd, content->bytes.data, content->bytes.length);
}

static int place_entry(struct making *making, const struct run_entry *entry, int top_fd, struct error *err)
{
    const char *name;
    scope_fd parent = file_open_parent(top_fd, entry->path.data, 0755, &name);
    int status = parent < 0 ? parent : 0;
    if (status == 0 && entry->is_directory)
        status = make_directory(parent, name);
    else if (status == 0 && entry->link.data)
        status = symlinkat(entry->link.data, parent, name) < 0 ? -errno : 0;
    else if (status == 0)
        status = place_content(making, &entry->content, parent, name, err);
    if (status == 0 || err->kind)
        return status;
    if (status == -EEXIST || status == -ENOTDIR || status == -ELOOP)
        return error_spec(err, "files", "files: in '%.64s', '%.256s' is at the place of another entry",
                          making->name, entry->path.data);
    return error_host(err, status, "cannot write '%.256s' of '%.64s'", entry->path.data, making->name);
}

static int make_tree(struct making *making, const struct run_file *file, int dir_fd, const char *name,
                     struct error *err)
{
    int status = make_directory(dir_fd, name);
    scope_fd top =
        status < 0 ? status : openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (top < 0)
        return status < 0 ? status : -errno;
    for (size_t i = 0; status == 0 && i < file->entry_count; i++)
        status = place_entry(making, &file->entries[i], top, err);
    return status;
}

int run_input_make(const struct run_job *job, size_t index, const struct run_file *file, struct error *err)
{
    struct making making = {.job = job, .name = file->name};
    char name[32];
    snprintf(name, sizeof name, "%zu", index); /* none that a client chose */
    scope_fd inputs = run_room_open_inputs(&job->room);
    int status = inputs < 0      ? inputs
                 : file->is_tree ? make_tree(&making, file, inputs, name, err)
                                 : place_content(&making, &file->content, inputs, name, err);
    int fd = status < 0 ? status : openat(inputs, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 || err->kind)
        return fd;
    return error_host(err, status < 0 ? status : -errno, "cannot write '%.64s' of the run", file->name);
}
