"""Limits on cgroup v2 and by the watchdog: each holds, and the cause of the end names it."""
import contextlib
import pathlib
import signal
import subprocess
import time

import box
from checks import role, test
from checks.cleanup import census

LIMITED = ("root", "user")  # where a group enforces
MEMORY = ("--memory", "64M", "--wall", "25s")
GRAB = "x = []\nwhile True: x.append(bytearray(b'x') * (1 << 20))"
# The share of one CPU that two seconds of work got.
SHARE = ("import time\ns, c = time.monotonic(), time.process_time()\nwhile time.monotonic() - s < 2: pass\n"
         "print((time.process_time() - c) / (time.monotonic() - s))")


def assert_killed(result, cause):
    assert result.cause == cause, result
    assert result.signal == signal.SIGKILL and result.returncode == 128 + signal.SIGKILL, result
    assert result.timed_out == (cause in ("wall_time", "cpu_time")), result


def spent_ms(result):
    return result.usage["cpu_user_ms"] + result.usage["cpu_system_ms"]


@test(*LIMITED, "session")
def plain_programs_work(engine):
    accepted = ("--accept", "memory", "--accept", "cpus") if role() == "session" else ()
    result = box.run(*accepted, "--language", "bash", "-e", "echo out; echo err >&2; seq 3 | sort -r | head -1; exit 3", engine=engine)
    assert (result.stdout, result.stderr, result.cause, result.exit_code) == ("out\n3\n", "err\n", "exit", 3), result
    code = ("import subprocess, threading\nt = threading.Thread(target=lambda: print('thread')); t.start(); t.join()\n"
            "print(subprocess.run(['uname', '-s'], capture_output=True, text=True).stdout, end='')")
    result = box.run(*accepted, "-e", code, engine=engine)
    assert (result.stdout, result.exit_code) == ("thread\nLinux\n", 0), result


@test(*LIMITED)
def causes_are_told_apart(engine):
    result = box.run("--", "sh", "-c", "kill -SEGV $$", engine=engine)
    assert (result.cause, result.exit_code, result.signal) == ("signal", None, signal.SIGSEGV), result
    result = box.python("import ctypes; ctypes.CDLL(None).umount2(b'/tmp', 0)", engine=engine)
    assert (result.cause, result.denied_syscall) == ("denied_syscall", "umount2"), result


@test(*LIMITED)
def memory_bomb_dies_as_memory(engine):
    result = box.python(GRAB, *MEMORY, engine=engine)
    assert_killed(result, "memory")
    assert result.usage["peak_memory_bytes"] > 48 << 20, result.usage
    if engine == "container":
        assert result.usage["peak_memory_bytes"] <= 64 << 20, result.usage


@test(*LIMITED)
def memory_of_a_child_whose_parent_lives_on_is_memory(engine):
    result = box.run(*MEMORY, "--", "bash", "-c", f'python3 -c "{GRAB}"; exit 0', engine=engine)
    assert result.cause == "memory", result


@test(*LIMITED, engines=("container",))
def files_in_shared_memory_are_memory(engine):
    result = box.run("--memory", "32M", "--disk", "200M", "--", "dd", "if=/dev/zero", "of=/dev/shm/f", "bs=1M", "count=64", engine=engine)
    assert result.cause == "memory", result


@test(*LIMITED)
def memory_that_fits_is_measured(engine):
    result = box.python("import time\nx = bytearray(b'x') * (40 << 20)\ntime.sleep(0.3)", *MEMORY, engine=engine)
    assert (result.cause, result.exit_code) == ("exit", 0), result
    assert 40 << 20 <= result.usage["peak_memory_bytes"] <= 64 << 20, result.usage


@test(*LIMITED)
def processes_are_counted(engine):
    result = box.run("--pids", "16", "--", "bash", "-c", "for i in 1 2 3 4 5; do sleep 0.4 & done; wait", engine=engine)
    assert (result.cause, result.exit_code, result.usage["peak_pids"]) == ("exit", 0, 6), result


@test(*LIMITED, engines=("container",))
def share_of_the_cpus_slows_down(engine):
    quarter = box.python(SHARE, "--cpus", "0.25", engine=engine)
    whole = box.python(SHARE, "--cpus", "1", engine=engine)
    assert 0.15 < float(quarter.stdout) < 0.36, quarter
    assert float(whole.stdout) > 0.6, whole


@test(*LIMITED)
def cpu_time_ends_a_loop(engine):
    result = box.python("while True: pass", "--cpu", "800ms", "--wall", "20s", engine=engine)
    assert_killed(result, "cpu_time")
    assert 780 <= spent_ms(result) < 2500, result.usage


@test(*LIMITED)
def cpu_time_is_summed_over_processes(engine):
    loops = "for i in 1 2 3 4; do while :; do :; done & done; wait"
    result = box.run("--cpu", "1200ms", "--wall", "20s", "--cpus", "2", "--", "bash", "-c", loops, engine=engine)
    assert_killed(result, "cpu_time")
    assert 1150 <= spent_ms(result) < 3500, result.usage


@test(*LIMITED)
def wall_time_ends_a_sleeper(engine):
    result = box.run("--wall", "3s", "--", "bash", "-c", "trap '' TERM INT; echo before; sleep 20", engine=engine)
    assert_killed(result, "wall_time")
    assert result.stdout == "before\n" and 3000 <= result.usage["wall_ms"] < 5000, result


@test(*LIMITED)
def full_disk_is_disk(engine):
    result = box.run("--disk", "8M", "--", "bash", "-c", 'head -c 20M /dev/zero >"$TMPDIR/f" || exit 1; sleep 5', engine=engine)
    assert result.cause == "disk", result
    result = box.run("--disk", "8M", "--", "bash", "-c", 'head -c 4M /dev/zero >"$TMPDIR/f"', engine=engine)
    assert (result.cause, result.exit_code) == ("exit", 0) and 4 << 20 <= result.usage["disk_bytes"] <= 5 << 20, result


@test(*LIMITED)
def flood_of_output_is_output(engine):
    result = box.run("--output-limit", "4K", "--", "yes", engine=engine)
    assert result.cause == "output" and len(result.stdout) == 4096 and result.truncated["stdout"] > 0, result


def programs_in(group):
    """While a box starts there are others for a moment, which build it."""
    found = []
    for pid in (group / "cgroup.procs").read_text().split():
        with contextlib.suppress(OSError):
            found.append(pathlib.Path("/proc", pid, "comm").read_text().strip())
    return found


@test(*LIMITED, engines=None)
def group_of_a_container_has_the_limits():
    before = set(census()["groups"])
    process = subprocess.Popen([box.CLOCHE, "run", "--memory", "100M", "--pids", "20", "--cpus", "0.5", "--", "sleep", "60"])
    try:
        deadline = time.monotonic() + 10
        while not (made := set(census()["groups"]) - before) and time.monotonic() < deadline:
            time.sleep(0.05)
        group = pathlib.Path(made.pop())
        while "sleep" not in programs_in(group) and time.monotonic() < deadline:
            time.sleep(0.05)
        wanted = {"memory.max": str(100 << 20), "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "21", "cpu.max": "50000 100000"}
        seen = {name: (group / name).read_text().strip() for name in wanted if (group / name).exists()}
        wanted = {name: value for name, value in wanted.items() if name in seen or name != "memory.swap.max"}  # a kernel without swap
        assert seen == wanted, seen
        assert "sleep" in programs_in(group), programs_in(group)
        # Delegated or not: the box has no way to its own group. (In a namespace of its own, without a mount.)
        assert not made, made
    finally:
        process.terminate()
        process.wait()
    assert set(census()["groups"]) == before
