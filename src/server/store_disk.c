/* The store's small files. All are written aside and renamed, so that there is always an old or a new one. */
#include "server/store_inside.h"

#include "base/file.h"
#include "base/json_text.h"
#include "base/scope.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { NOTE_MAX = 4096 };

static int open_below(int dir_fd, const char *name)
{
    if (mkdirat(dir_fd, name, 0700) == 0)
        fsync(dir_fd);
    else if (errno != EEXIST)
        return -errno;
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int disk_open_directory(int data_fd, const char *top, const char *below)
{
    scope_fd fd = open_below(data_fd, top);
    if (fd < 0 || !below)
        return take_fd(&fd);
    return open_below(fd, below);
}

int disk_write_whole(int dir_fd, const char *name, const char *text)
{
    char aside[STORE_NAME_MAX + 16];
    snprintf(aside, sizeof aside, "..%s", name);
    scope_fd fd = openat(dir_fd, aside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int status = file_write_all(fd, text, strlen(text));
    if (status == 0 && fsync(fd) < 0)
        status = -errno;
    if (status == 0 && renameat(dir_fd, aside, dir_fd, name) < 0)
        status = -errno;
    if (status < 0)
        unlinkat(dir_fd, aside, 0);
    else
        fsync(dir_fd);
    return status;
}

static int write_object(int data_fd, const char *top, const char *tenant, const char *name, json_t *object)
{
    char *text = object ? json_text(object, JSON_COMPACT) : NULL;
    json_decref(object);
    scope_fd dir = text ? disk_open_directory(data_fd, top, tenant) : -1;
    int status = !text ? -ENOMEM : dir < 0 ? dir : disk_write_whole(dir, name, text);
    free(text);
    return status;
}

static json_t *read_object(int dir_fd, const char *name)
{
    scope_buffer text = {0};
    if (file_read_whole(dir_fd, name, NOTE_MAX, &text) < 0)
        return NULL;
    return json_loadb(text.data, text.length, 0, NULL);
}

static int64_t number_of(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

int disk_write_entry(int data_fd, const struct entry *entry)
{
    const struct stored *file = &entry->file;
    return write_object(data_fd, "files", entry->tenant, file->name,
                        json_pack("{s:s, s:I, s:I, s:I}", "sha256", file->sha256, "size",
                                  (json_int_t)file->size_bytes, "created", (json_int_t)file->created_s,
                                  "expires", (json_int_t)file->expires_s));
}

int disk_read_entry(int dir_fd, const char *name, struct stored *ret)
{
    json_t *object = read_object(dir_fd, name);
    const char *sha256 = json_string_value(json_object_get(object, "sha256"));
    *ret = (struct stored){.size_bytes = number_of(object, "size"),
                           .created_s = number_of(object, "created"),
                           .expires_s = number_of(object, "expires")};
    bool is_right = sha256 && strlen(sha256) == STORE_HASH_LENGTH &&
                    strspn(sha256, "0123456789abcdef") == STORE_HASH_LENGTH && ret->size_bytes >= 0;
    snprintf(ret->name, sizeof ret->name, "%s", name);
    snprintf(ret->sha256, sizeof ret->sha256, "%s", is_right ? sha256 : "");
    json_decref(object);
    return is_right ? 0 : -EINVAL;
}

int disk_write_note(int data_fd, const char *tenant, const char *name, const struct part_note *note)
{
    char hidden[STORE_NAME_MAX + 2];
    snprintf(hidden, sizeof hidden, ".%s", name);
    return write_object(data_fd, "partial", tenant, hidden,
                        json_pack("{s:I, s:I, s:s}", "total", (json_int_t)note->total_bytes, "synced",
                                  (json_int_t)note->synced_bytes, "boot", note->boot));
}

int disk_read_note(int dir_fd, const char *name, struct part_note *ret)
{
    char hidden[STORE_NAME_MAX + 2];
    snprintf(hidden, sizeof hidden, ".%s", name);
    json_t *object = read_object(dir_fd, hidden);
    const char *boot = json_string_value(json_object_get(object, "boot"));
    *ret = (struct part_note){.total_bytes = number_of(object, "total"),
                              .synced_bytes = number_of(object, "synced")};
    snprintf(ret->boot, sizeof ret->boot, "%s", boot ? boot : "");
    json_decref(object);
    return boot ? 0 : -ENOENT;
}

void disk_remove_part(int data_fd, const char *tenant, const char *name)
{
    char hidden[STORE_NAME_MAX + 2];
    snprintf(hidden, sizeof hidden, ".%s", name);
    scope_fd dir = disk_open_directory(data_fd, "partial", tenant);
    if (dir < 0)
        return;
    unlinkat(dir, name, 0);
    unlinkat(dir, hidden, 0);
}

int disk_each(int dir_fd, int (*each)(void *data, int dir_fd, const char *name), void *data)
{
    int again = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scope_dir *dir = again < 0 ? NULL : fdopendir(again);
    if (!dir) {
        int status = -errno;
        scope_close_fd(&again);
        return status;
    }
    struct dirent *found;
    int status = 0;
    while (status >= 0 && (found = readdir(dir)))
        if (found->d_name[0] != '.')
            status = each(data, dir_fd, found->d_name);
    return status < 0 ? status : 0;
}
