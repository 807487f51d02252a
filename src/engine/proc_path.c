#include "engine/proc_path.h"

#include "base/file.h"
#include "base/scope.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void proc_path(pid_t pid, const char *file, char *into, size_t size)
{
    char path[64], text[512];
    snprintf(into, size, "/proc/%d/%s", (int)pid, file);
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    const char *rest = file_read_attribute(AT_FDCWD, path, text, sizeof text) > 0 ? strrchr(text, ')') : NULL;
    if (!rest || rest[1] != ' ' || rest[2] != 'Z')
        return;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    scope_dir *threads = opendir(path);
    struct dirent *entry;
    while (threads && (entry = readdir(threads)))
        if (entry->d_name[0] != '.' && strtol(entry->d_name, NULL, 10) != pid)
            snprintf(into, size, "/proc/%d/task/%.20s/%s", (int)pid, entry->d_name, file);
}
