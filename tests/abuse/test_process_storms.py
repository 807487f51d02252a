"""Processes that multiply, hide, refuse to die, or shoot around."""
import os
import pathlib
import signal
import subprocess
import time

import attack
import box
import pytest

PIDS = ("--pids", "24", "--wall", "3s", "--cpu", "60s")

SPAWN = r"""
/* spawn KIND COUNT: tries to have COUNT processes, threads or zombies at once; prints how many it got. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void *idle(void *unused) { pause(); return unused; }
int main(int argc, char **argv)
{
    int got = 0, count = atoi(argv[2]);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    for (; got < count; got++) {
        pthread_t thread;
        if (strcmp(argv[1], "threads") == 0) {
            if (pthread_create(&thread, &small, idle, NULL) != 0)
                break;
            continue;
        }
        pid_t pid = fork();
        if (pid < 0)
            break;
        if (pid == 0 && strcmp(argv[1], "zombies") == 0)
            _exit(0);
        if (pid == 0)
            for (;;)
                pause();
    }
    printf("%d\n", got);
    fflush(stdout);
    _exit(0);
}
"""


@pytest.mark.parametrize("kind", ["processes", "threads", "zombies"])
def test_storm_stops_at_the_limit(engine, kind):
    program = attack.program("spawn", SPAWN)
    result = attack.run(program, kind, "200", limits=PIDS, engine=engine)
    if engine == "container":
        assert (result.cause, result.stdout) == ("exit", "23\n"), result  # the 24th is the program itself
    else:  # the watchdog may have ended it meanwhile
        assert result.cause == "pids" or int(result.stdout or 0) <= 2 * 24 + 64, result
    assert result.usage["peak_pids"] <= 24 + (0 if engine == "container" else 128)


@pytest.mark.parametrize("kind", ["processes", "threads", "zombies"])
def test_storm_of_the_same_size_passes_a_higher_limit(engine, kind):
    result = attack.run(attack.program("spawn", SPAWN), kind, "100", limits=("--pids", "300", "--wall", "5s"), engine=engine)
    assert result.stdout == "100\n", result


@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_storm_passes_a_box_without_the_protecting_step(engine, kind):
    """The control: the limit is the group's (or the watchdog's) doing."""
    steps = {"container": "cgroup_pids,rlimits", "process": "watchdog,rlimits"}[engine]
    result = attack.run(attack.program("spawn", SPAWN), kind, "100", limits=PIDS, engine=engine, weaken=steps)
    assert result.stdout == "100\n", result


def bomb_ended_well(result, seconds, causes=("pids", "wall_time", "cpu_time")):
    assert result.cause in causes, result
    assert seconds < 3 + 1 + attack.DEADLINE_GRACE_S, seconds


def test_fork_bomb_of_bash(engine):
    result, seconds = attack.timed(box.bash, "bomb_of_bash() { bomb_of_bash | bomb_of_bash & }; bomb_of_bash; while :; do sleep 1; done", *PIDS,
                                   engine=engine)
    bomb_ended_well(result, seconds)
    assert attack.gone("bomb_of_bash") is True


FORK_BOMB = r"""
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(void)
{
    for (int i = 1; i < 65; i++)
        signal(i, SIG_IGN);
    prctl(PR_SET_NAME, "abuse-bomb");
    for (;;) {
        fork();
        setsid();
    }
}
"""


def test_fork_bomb_of_c(engine):
    result, seconds = attack.timed(attack.run, attack.program("abuse-bomb", FORK_BOMB), limits=PIDS, engine=engine)
    bomb_ended_well(result, seconds)
    assert attack.gone("abuse-bomb") is True


def test_fork_bomb_is_named_as_pids(engine):
    result = attack.run(attack.program("abuse-bomb", FORK_BOMB), limits=("--pids", "24", "--wall", "20s", "--cpu", "60s"), engine=engine)
    assert result.cause == "pids", result


THREAD_BOMB = r"""
#include <pthread.h>
#include <unistd.h>
static void *more(void *unused)
{
    pthread_t thread;
    for (;;)
        if (pthread_create(&thread, NULL, more, NULL) != 0)
            usleep(1);
    return unused;
}
int main(void) { more(NULL); }
"""


def test_thread_bomb(engine):
    result, seconds = attack.timed(attack.run, attack.program("abuse-threads", THREAD_BOMB), limits=PIDS, engine=engine)
    bomb_ended_well(result, seconds)
    assert attack.gone("abuse-threads") is True


VFORK_STORM = r"""
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    for (;;) {
        pid_t pid = vfork();
        if (pid == 0) {
            if (argc > 1)
                for (;;)
                    pause(); /* the parent is stuck in the kernel until we are gone */
            _exit(0);
        }
        if (pid > 0)
            waitpid(pid, NULL, 0);
    }
}
"""


@pytest.mark.parametrize("stuck", [(), ("stuck",)], ids=["quick", "stuck"])
def test_vfork_storm(engine, stuck):
    result, seconds = attack.timed(attack.run, attack.program("abuse-vfork", VFORK_STORM), *stuck,
                                   limits=("--pids", "24", "--wall", "1s", "--cpu", "60s"), engine=engine)
    bomb_ended_well(result, seconds)
    assert attack.gone("abuse-vfork") is True


SHORT_LIVES = r"""
/* A chain of processes: each forks its successor and dies, so that no list of pids is ever true. */
#include <signal.h>
#include <unistd.h>
int main(void)
{
    for (int chain = 0; chain < 8; chain++)
        if (fork() == 0) {
            setsid();
            for (;;)
                if (fork() > 0)
                    _exit(0);
        }
    for (;;)
        pause();
}
"""


def test_chains_of_short_lives_are_gone_by_the_deadline(engine):
    result, seconds = attack.timed(attack.run, attack.program("abuse-chain", SHORT_LIVES),
                                   limits=("--wall", "1s", "--cpu", "60s"), engine=engine)
    assert result.cause in ("wall_time", "pids", "cpu_time") and seconds < 2.5, (seconds, result)
    assert attack.gone("abuse-chain") is True


def test_chains_of_short_lives_die_with_the_program(engine):
    source = SHORT_LIVES.replace("for (;;)\n        pause();", "usleep(200000);\n    return 0;")
    result, seconds = attack.timed(attack.run, attack.program("abuse-chain2", source),
                                   limits=("--wall", "10s", "--cpu", "60s", "--pids", "2000"), engine=engine)
    assert (result.cause, result.exit_code) == ("exit", 0) and seconds < 2, (seconds, result)
    assert attack.gone("abuse-chain2") is True


BETWEEN_TICKS = """
import time
period, asleep, phase = 4_000_000, 1_000_000, %d
while time.process_time() < 0.4:
    at = (time.monotonic_ns() - phase) %% period
    if at > period - asleep:
        time.sleep((period - at) / 1e9)
print(time.process_time())
"""


def test_cpu_of_a_program_that_sleeps_whenever_the_clock_ticks_is_counted():
    """The kernel tells a v1 group's user and system time by who runs at a tick; one of these is never seen by it."""
    for phase in range(0, 4_000_000, 500_000):
        result = box.python(BETWEEN_TICKS % phase, engine="container")
        counted = (result.usage["cpu_user_ms"] + result.usage["cpu_system_ms"]) / 1000
        assert counted >= float(result.stdout) * 0.98, (phase, result)


def test_cpu_of_chains_of_short_lives_is_counted(engine):
    """Nobody waits for them, so their time is in no parent's sum."""
    result = attack.run(attack.program("abuse-chain", SHORT_LIVES), limits=("--wall", "8s", "--cpu", "700ms", "--pids", "200"), engine=engine)
    assert result.cause in ("cpu_time", "pids"), result


DAEMONS = r"""
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    for (int i = 0; i < 10; i++) {
        if (fork() != 0)
            continue;
        setsid();
        if (fork() != 0)
            _exit(0);
        for (int number = 1; number < 65; number++)
            signal(number, SIG_IGN);
        prctl(PR_SET_NAME, "abuse-daemon");
        prctl(PR_SET_PDEATHSIG, 0);
        for (int fd = 0; fd < 64; fd++)
            if (argc < 3)
                close(fd);
        for (;;)
            pause();
    }
    usleep(300000);
    if (strcmp(argv[1], "stay") == 0)
        for (;;)
            pause();
    return 0;
}
"""


@pytest.mark.parametrize("arguments", [("leave",), ("leave", "keep-descriptors"), ("stay",), ("stay", "keep-descriptors")], ids="-".join)
def test_daemons_that_ignore_every_signal_are_gone(engine, arguments):
    result, seconds = attack.timed(attack.run, attack.program("abuse-daemon", DAEMONS), *arguments, limits=("--wall", "1s"), engine=engine)
    assert result.cause == ("exit" if arguments[0] == "leave" else "wall_time"), result
    assert seconds < 1 + attack.DEADLINE_GRACE_S + 0.5
    assert attack.gone("abuse-daemon") is True


def test_daemons_of_a_cancelled_run_are_gone(engine):
    program = attack.program("abuse-daemon", DAEMONS)
    process = subprocess.Popen([box.CLOCHE, "run", "-q", "--isolation", engine, "--read", attack.directory(), "--", program, "stay"])
    time.sleep(0.6)
    assert attack.host_processes("abuse-daemon")
    process.terminate()
    process.wait(3)
    assert attack.gone("abuse-daemon") is True


def test_daemons_of_a_killed_launcher_are_gone(engine):
    """kill -9: the box ends by itself, and the next run sweeps up."""
    program = attack.program("abuse-daemon", DAEMONS)
    process = subprocess.Popen([box.CLOCHE, "run", "-q", "--isolation", engine, "--read", attack.directory(), "--", program, "stay"])
    time.sleep(0.6)
    assert attack.host_processes("abuse-daemon")
    process.kill()
    process.wait()
    assert attack.gone("abuse-daemon") is True
    assert box.raw("reap").returncode == 0


STOPPED = r"""
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    for (int i = 0; i < 10; i++)
        if (fork() == 0) {
            raise(SIGSTOP);
            for (;;)
                pause();
        }
    usleep(200000);
    if (strcmp(argv[1], "all") == 0)
        raise(SIGSTOP);
    return strcmp(argv[1], "leave") != 0;
}
"""


@pytest.mark.parametrize("which, cause", [("leave", "exit"), ("all", "wall_time")])
def test_stopped_processes_are_gone(engine, which, cause):
    result, seconds = attack.timed(attack.run, attack.program("abuse-stopped", STOPPED), which, limits=("--wall", "1200ms"), engine=engine)
    assert result.cause == cause and seconds < 1.2 + attack.DEADLINE_GRACE_S + 0.5, result
    assert attack.gone("abuse-stopped") is True


ZOMBIES = r"""
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
    for (;;)
        if (fork() == 0)
            _exit(0);
}
"""


def test_zombie_hoard(engine):
    result, seconds = attack.timed(attack.run, attack.program("abuse-zombie", ZOMBIES), limits=PIDS, engine=engine)
    bomb_ended_well(result, seconds)
    assert attack.gone("abuse-zombie") is True


def test_orphaned_zombies_are_reaped_inside(engine):
    """Four hundred double forks, one after the other: init reaps, so the limit is never reached."""
    code = ("import os\nfor i in range(400):\n  if os.fork() == 0:\n    if os.fork() == 0: os._exit(0)\n    os._exit(0)\n  os.wait()\nprint('all')")
    result = box.python(code, "--pids", "16", "--wall", "15s", engine=engine)
    assert (result.cause, result.stdout) == ("exit", "all\n"), result


# signals

SHOOT = r"""
/* Shoots at everything that has a number: all, 1, the parent, the group, and a list of pids of the host. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    signal(SIGTERM, SIG_IGN);
    setvbuf(stdout, NULL, _IONBF, 0);
    for (int i = 1; i < argc; i++) {
        int pid = atoi(argv[i]);
        kill(pid, SIGKILL);
        kill(-pid, SIGKILL);
        syscall(SYS_tkill, pid, SIGKILL);
        syscall(SYS_tgkill, pid, pid, SIGKILL);
        int fd = (int)syscall(SYS_pidfd_open, pid, 0);
        if (fd >= 0 && syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0 && pid != getpid())
            puts("HIT");
    }
    kill(getppid(), SIGKILL);
    kill(getppid(), SIGSTOP);
    kill(1, SIGKILL);
    kill(1, SIGSTOP);
    kill(-1, SIGTERM);
    if (fork() == 0) {
        kill(-1, SIGKILL);
        _exit(0);
    }
    sleep(1);
    puts("survived");
    return 6;
}
"""


def test_shots_do_not_leave_the_box(engine):
    canaries = [subprocess.Popen(["sleep", "30"]), subprocess.Popen(["sleep", "30"], user=65534, group=65534, extra_groups=[])]
    neighbour = subprocess.Popen([box.CLOCHE, "run", "-q", "--isolation", engine, "-e", "import time; time.sleep(2.5); print('fine')"],
                                 stdout=subprocess.PIPE)
    try:
        time.sleep(0.4)
        targets = [canary.pid for canary in canaries] + [neighbour.pid, os.getpid(), os.getppid()]
        result = attack.run(attack.program("abuse-shoot", SHOOT), *targets, limits=("--wall", "5s"), engine=engine)
        assert "HIT" not in result.stdout
        # kill(-1) of the child may end the program itself, never its keeper: the run ends in a proper result.
        assert result.cause in ("exit", "signal"), result
        assert result.exit_code == 6 or result.signal == signal.SIGKILL
        assert [canary.poll() for canary in canaries] == [None, None]
        assert neighbour.communicate(timeout=6)[0] == b"fine\n" and neighbour.returncode == 0
    finally:
        for process in (*canaries, neighbour):
            process.kill()
            process.wait()


def test_shots_at_the_supervisor_in_a_loop_change_nothing(engine):
    code = ("import os, signal, time\nend = time.monotonic() + 0.7\nwhile time.monotonic() < end:\n  for p in (os.getppid(), 1):\n"
            "    for s in (signal.SIGSTOP, signal.SIGKILL, signal.SIGTERM, signal.SIGCHLD, signal.SIGSEGV):\n      try: os.kill(p, s)\n"
            "      except OSError: pass\nprint('done')")
    result = box.python(code, "--wall", "5s", engine=engine)
    assert (result.cause, result.exit_code, result.stdout) == ("exit", 0, "done\n"), result


def test_storm_of_signals_to_itself_does_not_disturb_the_count(engine):
    code = ("import os, signal\nsignal.signal(signal.SIGUSR1, lambda *a: None)\nfor i in range(20000): os.kill(os.getpid(), signal.SIGUSR1)\n"
            "print('done')")
    assert box.python(code, "--wall", "10s", engine=engine).stdout == "done\n"


# core dumps

CRASHES = r"""
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    struct rlimit limit;
    getrlimit(RLIMIT_CORE, &limit);
    printf("%d\n", (int)limit.rlim_max);
    fflush(stdout);
    for (int i = 0; i < 50; i++) {
        if (fork() == 0) {
            volatile int *nowhere = NULL;
            *nowhere = 1;
        }
        wait(NULL);
    }
    raise(SIGABRT);
}
"""


def core_is_a_file():
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text().strip()
    return not pattern.startswith(("|", "/"))


def test_storm_of_crashes_writes_no_core(engine):
    result, seconds = attack.timed(attack.run, attack.program("abuse-crash", CRASHES), limits=("--wall", "10s"), engine=engine)
    assert (result.cause, result.signal) == ("signal", signal.SIGABRT), result
    assert result.stdout in ("0\n", "1\n")  # a limit of 1 also keeps a pattern that is a pipe from being run
    assert result.files == [] and seconds < 5


def test_crash_writes_a_core_without_the_protecting_step(engine):
    """The control, where the host's pattern is a plain file name: the limit of the caller's is taken over then."""
    result = box.python("import os; os.abort()", "--wall", "10s", engine=engine, weaken="rlimits", prefix=("prlimit", "--core=unlimited"))
    assert result.signal == signal.SIGABRT, result
    if core_is_a_file():
        assert [file["path"] for file in result.files if file["path"].startswith("core")], result


# time

def test_busy_box_ends_at_its_deadline(engine):
    """As many busy processes as are allowed, at the lowest niceness: the supervisor still gets its turn."""
    code = ("import os\nfor i in range(5):\n  os.fork()\ntry: os.nice(-20)\nexcept OSError: pass\nwhile True: pass")
    result, seconds = attack.timed(box.python, code, "--wall", "1500ms", "--cpu", "60s", "--cpus", "2", engine=engine)
    assert result.cause == "wall_time" and seconds < 1.5 + attack.DEADLINE_GRACE_S + 0.5, (seconds, result)


def test_realtime_priority_is_not_to_be_had(engine):
    code = ("import os\nfor policy in (os.SCHED_FIFO, os.SCHED_RR):\n  try: os.sched_setscheduler(0, policy, os.sched_param(50)); print('WORKED')\n"
            "  except OSError: print('no')\ntry: os.setpriority(os.PRIO_PROCESS, 0, -10); print('WORKED')\nexcept OSError: print('no')")
    assert box.python(code, engine=engine).stdout == "no\nno\nno\n"
