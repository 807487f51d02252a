#include "cli/pause_signal.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

int pause_signal_watch(void)
{
    struct sigaction now;
    sigset_t watched;
    if (sigaction(SIGTSTP, NULL, &now) < 0 || now.sa_handler == SIG_IGN)
        return -1;
    sigemptyset(&watched);
    sigaddset(&watched, SIGTSTP);
    sigprocmask(SIG_BLOCK, &watched, NULL);
    return signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
}

void pause_signal_hold(int fd)
{
    struct signalfd_siginfo what;
    if (read(fd, &what, sizeof what) == sizeof what)
        raise(SIGSTOP); /* the other cannot be had: it is blocked, and an orphan would not be stopped by it */
}
