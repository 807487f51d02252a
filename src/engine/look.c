#include "engine/look.h"

#include "base/file.h"
#include "base/scope.h"
#include "os/hardening.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

int look_open_process(pid_t pid)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

const char *const look_namespace_names[LOOK_NAMESPACES] = {"user", "pid", "mnt",    "net",
                                                           "ipc",  "uts", "cgroup", "time_for_children"};

int look_at_namespaces(int process_fd, struct look_namespaces *ret, struct error *err)
{
    for (int i = 0; i < LOOK_NAMESPACES; i++) {
        char path[48];
        struct stat status;
        snprintf(path, sizeof path, "ns/%s", look_namespace_names[i]);
        int got = fstatat(process_fd, path, &status, 0);
        if (got < 0 && (errno != ENOENT || i != LOOK_TIME_FOR_CHILDREN))
            return error_layer(err, "namespaces", -errno, "cannot inspect the %s namespace of a box",
                               look_namespace_names[i]);
        ret->of[i].device = got < 0 ? 0 : status.st_dev;
        ret->of[i].number = got < 0 ? 0 : status.st_ino;
    }
    return 0;
}

bool look_namespace_differs(const struct look_namespaces *one, const struct look_namespaces *other,
                            enum look_namespace kind)
{
    return one->of[kind].number != other->of[kind].number || one->of[kind].device != other->of[kind].device;
}

int look_read_status(int process_fd, char text[LOOK_STATUS_SIZE], struct error *err)
{
    int length = file_read_attribute(process_fd, "status", text, LOOK_STATUS_SIZE);
    return length > 0 ? 0 : error_layer(err, "box_uid", length, "cannot see who the box is");
}

bool look_status_line(const char *text, const char *key, char *into, size_t size)
{
    const char *line = strstr(text, key);
    if (!line)
        return false;
    line += strlen(key);
    size_t length = strcspn(line, "\n");
    snprintf(into, size, "%.*s", (int)length, line);
    return true;
}

int look_at_scratch(const struct box *box, struct error *err)
{
    /* The scratch was made by our own child and came to us over its socket; what it is can be asked again. */
    struct stat status;
    struct statfs space;
    if (box->scratch_fd < 0 || fstat(box->scratch_fd, &status) < 0 || !S_ISDIR(status.st_mode) ||
        fstatfs(box->scratch_fd, &space) < 0)
        return error_layer(err, "root", 0, "the scratch space is not there");
    int64_t block = space.f_bsize, size = (int64_t)space.f_blocks * block,
            wanted = box->limits->value[LIMIT_disk];
    if (hardening_verified(scratch_size) && (size == 0 || size > wanted + block))
        return error_layer(err, "scratch_size", 0, "the scratch space holds %lld bytes instead of %lld",
                           (long long)size, (long long)wanted);
    if (hardening_verified(scratch_inodes) &&
        (space.f_files == 0 || (int64_t)space.f_files > box->limits->value[LIMIT_inodes]))
        return error_layer(err, "scratch_inodes", 0, "the scratch space holds %lld files",
                           (long long)space.f_files);
    return 0;
}

int look_at_uid(const struct box *box, const char *status_text, struct error *err)
{
    char line[128];
    if (!look_status_line(status_text, "\nUid:", line, sizeof line))
        return error_layer(err, "box_uid", 0, "cannot see who the box is");
    unsigned uids[4] = {0};
    uid_t wanted = box->identity->has_uid ? box->identity->uid : geteuid();
    if (hardening_verified(box_uid) &&
        (sscanf(line, "%u %u %u %u", &uids[0], &uids[1], &uids[2], &uids[3]) != 4 || uids[0] != wanted ||
         uids[1] != wanted || uids[2] != wanted || uids[3] != wanted ||
         (box->identity->has_uid && wanted == 0)))
        return error_layer(err, "box_uid", 0, "the box runs as uid %u, not as %u", uids[1], wanted);
    return 0;
}
