/* cloche-profile FILE: prints what a file of data holds. It is given hostile bytes, inside a box. */
#include "profile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(const char *what)
{
    fprintf(stderr, "cloche-profile: %s: %s\n", what, strerror(errno));
    return 1;
}

int main(int count, char **arguments)
{
    if (count != 2) {
        fprintf(stderr, "usage: cloche-profile FILE\n");
        return 2;
    }
    int fd = open(arguments[1], O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0)
        return fail(arguments[1]);
    if (!S_ISREG(status.st_mode)) {
        fprintf(stderr, "cloche-profile: %s is not a file\n", arguments[1]);
        return 1;
    }
    size_t length = (size_t)status.st_size;
    const char *data = "";
    if (length) {
        void *mapped = mmap(NULL, length, PROT_READ, MAP_PRIVATE, fd, 0);
        if (mapped == MAP_FAILED)
            return fail("mmap");
        madvise(mapped, length, MADV_SEQUENTIAL);
        data = mapped;
    }
    struct output output = {0};
    if (profile_file(data, length, &output) < 0) {
        fprintf(stderr, "cloche-profile: no memory\n");
        return 1;
    }
    for (size_t at = 0; at < output.length;) {
        ssize_t written = write(STDOUT_FILENO, output.data + at, output.length - at);
        if (written < 0 && errno != EINTR)
            return fail("write");
        at += written > 0 ? (size_t)written : 0;
    }
    free(output.data);
    return 0;
}
