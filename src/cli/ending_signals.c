#include "cli/ending_signals.h"

#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
enum { ENDING_COUNT = sizeof ending / sizeof *ending };

int ending_signals_watch(void)
{
    sigset_t watched;
    sigemptyset(&watched);
    for (int i = 0; i < ENDING_COUNT; i++)
        sigaddset(&watched, ending[i]);
    sigprocmask(SIG_BLOCK, &watched, NULL);
    return signalfd(-1, &watched, SFD_CLOEXEC);
}

static int taken; /* the last that was taken; 0: none */

bool ending_signals_take(int fd)
{
    struct signalfd_siginfo what;
    if (read(fd, &what, sizeof what) != sizeof what)
        return false;
    taken = (int)what.ssi_signo;
    return true;
}

/* What was not taken is still pending. */
void ending_signals_pass_on(void)
{
    sigset_t pending, one;
    if (taken)
        raise(taken);
    if (sigpending(&pending) < 0)
        return;
    for (int i = 0; i < ENDING_COUNT; i++)
        if (sigismember(&pending, ending[i]) == 1) {
            sigemptyset(&one);
            sigaddset(&one, ending[i]);
            signal(ending[i], SIG_DFL);
            sigprocmask(SIG_UNBLOCK, &one, NULL);
        }
}
