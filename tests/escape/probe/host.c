/* What a probe knows of the world around it: what the runner told it, and where it may write. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

const char *host_value(const char *name)
{
    char variable[64];
    snprintf(variable, sizeof variable, "CLOCHE_PROBE_%s", name);
    const char *value = getenv(variable);
    return value && *value ? value : NULL;
}

const char *host_canary(void)
{
    return host_value("CANARY");
}

pid_t host_pid(void)
{
    const char *value = host_value("PID");
    int pid = value ? atoi(value) : 0;
    return pid > 1 ? pid : 0; /* 0, 1 and negative numbers mean something else to most calls */
}

static const char *directory_of(const char *path, char *buffer, size_t size)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    if (!slash || (size_t)(slash - path) >= size)
        return NULL;
    memcpy(buffer, path, (size_t)(slash - path));
    buffer[slash - path] = '\0';
    return buffer;
}

const char *host_directory(void)
{
    static char buffer[4096];
    return directory_of(host_canary(), buffer, sizeof buffer);
}

const char *own_program(void)
{
    /* The kernel says it without /proc, which a box may not have. */
    const char *path = (const char *)getauxval(AT_EXECFN);
    return path && *path ? path : "/proc/self/exe";
}

void scratch_path(char *buffer, size_t size, const char *name)
{
    const char *directory = getenv("TMPDIR");
    snprintf(buffer, size, "%s/%s.%d", directory && *directory ? directory : "/tmp", name, (int)getpid());
}

static const char *placeholder_value(const char *name, size_t length)
{
    static char program_directory[4096];
    if (length == 3 && memcmp(name, "pid", length) == 0)
        return host_pid() ? host_value("PID") : NULL;
    if (length == 6 && memcmp(name, "parent", length) == 0) {
        static char parent[16];
        snprintf(parent, sizeof parent, "%d", (int)getppid());
        return parent;
    }
    if (length == 6 && memcmp(name, "canary", length) == 0)
        return host_canary();
    if (length == 9 && memcmp(name, "directory", length) == 0)
        return host_directory();
    if (length == 5 && memcmp(name, "input", length) == 0)
        return getenv("CLOCHE_INPUT");
    if (length == 7 && memcmp(name, "scratch", length) == 0)
        return getenv("TMPDIR");
    if (length == 17 && memcmp(name, "program_directory", length) == 0)
        return directory_of(own_program(), program_directory, sizeof program_directory);
    return NULL;
}

bool path_expand(const char *path, char *buffer, size_t size)
{
    size_t used = 0;
    while (*path) {
        const char *piece = path;
        size_t length = strcspn(path, "{");
        path += length;
        if (length == 0) {
            size_t name_length = strcspn(path, "}");
            piece = placeholder_value(path + 1, name_length - 1);
            if (!piece || !path[name_length])
                return false;
            length = strlen(piece);
            path += name_length + 1;
        }
        if (used + length >= size)
            return false;
        memcpy(buffer + used, piece, length);
        used += length;
    }
    buffer[used] = '\0';
    return true;
}

ssize_t file_read(const char *path, char *buffer, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -1;
    size_t used = 0;
    ssize_t got = 0;
    while (used + 1 < size && (got = read(fd, buffer + used, size - 1 - used)) > 0)
        used += (size_t)got;
    int error = errno;
    close(fd);
    buffer[used] = '\0';
    errno = error;
    return used == 0 && got < 0 ? -1 : (ssize_t)used;
}
