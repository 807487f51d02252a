/* Terminals: what is typed into one, or read from it, is done in the name of whoever sits there. */
#include "probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Held by an outsider, a session or group is that of the supervisor: its terminal's signals reach the box,
 * and kill(0) in the box reaches the supervisor. From inside a pid namespace an outsider's number reads as 0.
 */
static enum verdict judge_leader(const char *what, pid_t own, pid_t of_runner)
{
    if (own == 0)
        return broke("the leader of our %s is outside of the box", what);
    if (own == of_runner)
        return broke("our %s %d is the runner's", what, (int)own);
    return held("our %s is %d", what, (int)own);
}

static enum verdict session_is_own(const void *unused)
{
    (void)unused;
    return judge_leader("session", getsid(0), host_pid() ? getsid(host_pid()) : -1);
}

static enum verdict process_group_is_own(const void *unused)
{
    (void)unused;
    return judge_leader("process group", getpgid(0), host_pid() ? getpgid(host_pid()) : -1);
}

/* A terminal of our own needs no permission to push into (as long as dev.tty.legacy_tiocsti is on), so that
 * this tells of the filter and not of the terminal. */
static int push_into_own_terminal(const void *unused)
{
    (void)unused;
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || grantpt(master) < 0 || unlockpt(master) < 0)
        return EACCES;
    setsid();
    int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0 || ioctl(slave, TIOCSCTTY, 0) < 0)
        return EACCES;
    char letter = 'x';
    return ioctl(slave, TIOCSTI, &letter) < 0 ? errno : 0;
}

static enum verdict own_terminal_takes_no_input(const void *unused)
{
    return judge_in_child("TIOCSTI on a terminal of our own", push_into_own_terminal, unused);
}

/* The kernel looks at the low 32 bits of the command; a filter that compares 64 misses the same command with
 * a bit set above them (snapd, CVE-2019-7303). */
#define HIGH_BIT (1L << 32)

#define IOCTL(name, command, description)                                                                    \
    {                                                                                                        \
        name, ON_BOTH, RETURNS, "seccomp", call_is_refused,                                                  \
            CALL(#command, SYS_ioctl, 0, command, BAD_ADDRESS), description                                  \
    }

static const struct probe rows[] = {
    IOCTL("tiocsti_is_denied", TIOCSTI, "No input can be faked on a terminal."),
    IOCTL("tiocsti_with_a_high_bit_is_denied", TIOCSTI | HIGH_BIT,
          "No input can be faked by a command that only looks different."),
    IOCTL("tioclinux_is_denied", TIOCLINUX, "Nothing can be pasted into a console."),
    IOCTL("tioclinux_with_a_high_bit_is_denied", TIOCLINUX | HIGH_BIT,
          "Nothing can be pasted by a command that only looks different."),
    IOCTL("tiocsetd_is_denied", TIOCSETD, "No line discipline, a source of kernel bugs, can be loaded."),
    IOCTL("tioccons_is_denied", TIOCCONS, "The console's output cannot be taken over."),
    {"terminal_of_its_own_takes_no_faked_input", ON_BOTH, RETURNS, "seccomp,landlock,minimal_dev",
     own_terminal_takes_no_input, NULL, "Not even a terminal that the box opened itself takes faked input."},
    /* The control needs a launcher that has a controlling terminal. */
    {"no_controlling_terminal", ON_BOTH, RETURNS, "new_session,landlock", file_cannot_be_opened, "/dev/tty",
     "The box has no controlling terminal."},
    {"session_is_its_own", ON_BOTH, RETURNS, "new_session", session_is_own, NULL,
     "The box is in a session of its own."},
    {"process_group_is_its_own", ON_BOTH, RETURNS, "new_session", process_group_is_own, NULL,
     "A signal to the own process group does not reach the supervisor."},
};

PROBE_GROUP(terminals, rows);
