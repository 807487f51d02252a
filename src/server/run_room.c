#include "base/identifier.h"
#include "server/run_room.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/scope.h"
#include "server/server.h"
#include "server/tenant.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

enum { SWEEP_US = 60000000 };

static int open_directory(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int make_directory(int dir_fd, const char *name)
{
    return mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST ? -errno : open_directory(dir_fd, name);
}

int run_room_open(struct server *server, const char *place, const char *id, struct run_room *ret,
                  struct error *err)
{
    *ret = (struct run_room){.server = server, .place = place, .fd = -1};
    snprintf(ret->id, sizeof ret->id, "%s", id);
    scope_fd runs = make_directory(server->data_fd, place);
    if (runs >= 0)
        ret->fd = make_directory(runs, id);
    int status = runs < 0 ? runs : ret->fd < 0 ? ret->fd : 0;
    run_rooms_sweep(server, false);
    return status < 0 ? error_host(err, status, "cannot make a directory for the run's files") : 0;
}

int run_room_open_inputs(const struct run_room *room)
{
    return make_directory(room->fd, "input");
}

int run_room_open_file(const struct run_room *room, const char *path)
{
    scope_fd files = open_directory(room->fd, "files");
    if (files < 0)
        return files;
    struct open_how how = {.flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    scope_fd fd = (int)syscall(SYS_openat2, files, path, &how, sizeof how);
    struct stat what;
    if (fd < 0 || fstat(fd, &what) < 0)
        return -errno;
    return S_ISREG(what.st_mode) ? take_fd(&fd) : -ENOENT;
}

static int write_note(int fd, const char *name, const char *text)
{
    scope_fd note = openat(fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    return note < 0 ? -errno : file_write_all(note, text, strlen(text));
}

int run_room_keep(const struct run_room *room, const struct tenant *tenant, int64_t bytes, struct error *err)
{
    char number[24];
    file_remove_tree(room->fd,
                     "input"); /* its box is gone; and uploads would stay with it, counted by nobody */
    snprintf(number, sizeof number, "%lld", (long long)bytes);
    int status = write_note(room->fd, "bytes", number);
    if (status == 0)
        status = write_note(room->fd, "tenant", tenant->name); /* last: from here on it is kept */
    if (status < 0)
        return error_host(err, status, "cannot keep the files of the run");
    tenant_adjust(tenant, QUOTA_kept, bytes);
    return 0;
}

static bool is_expired(int fd)
{
    struct stat what;
    return fstatat(fd, "tenant", &what, AT_SYMLINK_NOFOLLOW) == 0 && what.st_mtime + RUN_KEPT_S < time(NULL);
}

int run_room_find(struct server *server, const char *id, const struct tenant *tenant, struct run_room *ret)
{
    char owner[sizeof tenant->name + 1];
    if (!identifier_has_form(id, "run_"))
        return -ENOENT;
    scope_fd runs = open_directory(server->data_fd, RUN_ROOMS);
    scope_fd fd = runs < 0 ? -1 : open_directory(runs, id);
    if (fd < 0 || file_read_attribute(fd, "tenant", owner, sizeof owner) < 0 ||
        strcmp(owner, tenant->name) != 0 || is_expired(fd))
        return -ENOENT;
    *ret = (struct run_room){.server = server, .place = RUN_ROOMS, .fd = take_fd(&fd)};
    snprintf(ret->id, sizeof ret->id, "%s", id);
    return 0;
}

void run_room_close(struct run_room *room, bool is_kept)
{
    if (room->fd < 0)
        return;
    scope_close_fd(&room->fd);
    scope_fd runs = is_kept ? -1 : open_directory(room->server->data_fd, room->place);
    if (runs >= 0)
        file_remove_tree(runs, room->id);
}

/* Whose a kept room is, and what it holds; NULL: nobody's. */
static const struct tenant *read_notes(struct server *server, int fd, int64_t *ret_bytes)
{
    char owner[TENANT_NAME_SIZE + 1], number[24];
    if (file_read_attribute(fd, "tenant", owner, sizeof owner) < 0 ||
        file_read_attribute(fd, "bytes", number, sizeof number) < 0)
        return NULL;
    *ret_bytes = strtoll(number, NULL, 10);
    return tenants_name(server->tenants, owner);
}

/* What is there from a server before us is counted once, then as our own. */
static void sweep_room(struct server *server, int runs, const char *name, bool is_start)
{
    scope_fd fd = open_directory(runs, name);
    if (fd < 0)
        return;
    int64_t bytes = 0;
    bool is_kept = faccessat(fd, "tenant", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    const struct tenant *tenant = is_start || is_expired(fd) ? read_notes(server, fd, &bytes) : NULL;
    if (tenant && is_start)
        tenant_adjust(tenant, QUOTA_kept, bytes);
    if (!is_expired(fd) && (is_kept || !is_start))
        return;
    if (file_remove_tree(runs, name) == 0 && tenant)
        tenant_adjust(tenant, QUOTA_kept, -bytes);
}

void run_rooms_sweep(struct server *server, bool is_start)
{
    static _Atomic int64_t next_us;
    int64_t now_us = clock_monotonic_us(), due_us = atomic_load(&next_us);
    if (now_us < due_us || !atomic_compare_exchange_strong(&next_us, &due_us, now_us + SWEEP_US))
        return;
    scope_fd runs = open_directory(server->data_fd, RUN_ROOMS);
    int copy = runs < 0 ? -1 : openat(runs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scope_dir *dir = copy < 0 ? NULL : fdopendir(copy);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (identifier_has_form(entry->d_name, "run_"))
            sweep_room(server, runs, entry->d_name, is_start);
}
