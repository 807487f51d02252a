#include "cli/begin.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* A descriptor 0, 1 or 2 that is closed would be taken by the next thing we open. */
static void fill_standard_descriptors(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= 2);
    if (fd > 2)
        close(fd);
}

void begin_process(void)
{
    fill_standard_descriptors();
    signal(SIGCHLD, SIG_DFL); /* a caller may ignore it; we wait for our children */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file limit of the caller's is an error, not our end */
}
