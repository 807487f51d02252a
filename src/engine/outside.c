#include "engine/outside.h"

#include "base/file.h"
#include "base/scope.h"
#include "engine/look.h"
#include "os/hardening.h"
#include "plan.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int outside_check_identity(const struct box *box, const char *status_text, struct error *err)
{
    char line[128];
    int status = look_at_uid(box, status_text, err);
    if (status < 0)
        return status;
    static const char *const sets[] = {"\nCapEff:", "\nCapPrm:", "\nCapInh:", "\nCapAmb:"};
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++)
        if (hardening_verified(capabilities) &&
            (!look_status_line(status_text, sets[i], line, sizeof line) || strtoull(line, NULL, 16) != 0))
            return error_layer(err, "capabilities", 0, "the box still has capabilities (%s%s)", sets[i] + 1,
                               line);
    return 0;
}

int outside_check_worn(const char *status_text, bool no_bounding, struct error *err)
{
    static const struct {
        const char *key, *value, *layer;
    } rows[] = {{"\nNoNewPrivs:", "1", "no_new_privs"},
                {"\nSeccomp:", "2", "seccomp"},
                {"\nCapBnd:", "0000000000000000", "bounding_set"}};
    char line[128];
    for (size_t i = 0; i < sizeof rows / sizeof *rows - !no_bounding; i++)
        if (!look_status_line(status_text, rows[i].key, line, sizeof line) ||
            strcmp(line + strspn(line, "\t "), rows[i].value) != 0)
            return error_layer(err, rows[i].layer, 0, "a forked process has %s%s", rows[i].key + 1, line);
    return 0;
}

int outside_check_descriptors(int process_fd, struct error *err)
{
    int list = openat(process_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scope_dir *dir = list < 0 ? NULL : fdopendir(list);
    if (!dir)
        return error_layer(err, "close_descriptors", -errno, "cannot look at a forked process");
    struct dirent *entry;
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.' && atoi(entry->d_name) > 2 && atoi(entry->d_name) != INIT_CHANNEL_FD)
            return error_layer(err, "close_descriptors", 0, "descriptor %s came along", entry->d_name);
    return 0;
}

bool outside_is_single(pid_t pid, int process_fd, const char *status_text, const char *children)
{
    char path[64], text[4096], line[32];
    if (!look_status_line(status_text, "\nThreads:", line, sizeof line) || atoi(line) != 1)
        return false;
    snprintf(path, sizeof path, "task/%d/children", (int)pid);
    int length = file_read_attribute(process_fd, path, text, sizeof text);
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\n'))
        text[--length] = '\0';
    return length >= 0 && strcmp(length ? text : "", children) == 0;
}
