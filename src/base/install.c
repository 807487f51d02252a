#include "base/install.h"

#include "base/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

/* From bin, where cloche is, and from libexec/cloche, where the others are. */
static const char *const program_places[] = {"", "../libexec/cloche/"};
static const char *const file_places[] = {"", "../share/cloche/", "../../share/cloche/"};

/* The folder of this program comes back in `self`. */
static int open_beside(const char *const *places, size_t count, const char *name, int flags,
                       char self[PATH_MAX])
{
    char path[PATH_MAX + 64];
    ssize_t length = readlink("/proc/self/exe", self, PATH_MAX - 1);
    if (length <= 0)
        return errno == ENOENT ? -ENOSYS : -errno; /* no /proc: not the same as that nothing is there */
    self[length] = '\0';
    *strrchr(self, '/') = '\0';
    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof path, "%s/%s%s", self, places[i], name);
        int fd = open(path, flags | O_CLOEXEC);
        if (fd >= 0)
            return fd;
    }
    return -ENOENT;
}

/* In a directory for all anybody can put a program beside a copy of us. */
static bool is_trusted(int fd)
{
    struct stat program, own;
    return fstat(fd, &program) == 0 && stat("/proc/self/exe", &own) == 0 &&
           (program.st_uid == 0 || program.st_uid == geteuid() || program.st_uid == own.st_uid) &&
           !(program.st_mode & S_IWOTH);
}

int install_find_program(const char *name, struct error *err)
{
    char self[PATH_MAX] = "";
    if (getauxval(AT_SECURE)) /* who calls us with more rights than his own chooses where we are, too */
        return error_host(err, -EPERM, "cloche is not made to be set-uid, or to have capabilities");
    int fd =
        open_beside(program_places, sizeof program_places / sizeof *program_places, name, O_RDONLY, self);
    if (fd == -ENOENT)
        return error_host(err, fd, "%s is neither in %s nor in %s/../libexec/cloche", name, self, self);
    if (fd >= 0 && !is_trusted(fd)) {
        close(fd);
        return error_host(err, -EPERM, "%s beside %s belongs to another user, or can be written to by all",
                          name, self);
    }
    return fd < 0 ? error_host(err, fd, "cannot find this program") : fd;
}

int install_find_directory(const char *name)
{
    char self[PATH_MAX];
    int fd = open_beside(file_places, sizeof file_places / sizeof *file_places, name, O_RDONLY | O_DIRECTORY,
                         self);
    return fd < 0 ? -1 : fd;
}

int install_become(const char *program, char *const argv[], struct error *err)
{
    scope_fd fd = install_find_program(program, err);
    if (fd < 0)
        return fd;
    fexecve(fd, argv, environ);
    return error_host(err, -errno, "cannot start %s", program);
}
