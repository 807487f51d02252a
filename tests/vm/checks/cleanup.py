"""After every end, and after kill -9 of the launcher, nothing is left."""
import os
import pathlib
import signal
import subprocess
import time

import box
from checks import test


def listing(path):
    try:
        return sorted(os.listdir(path))
    except OSError:
        return []


def taken(path):
    """The numbers of boxes that are in use: a byte for each (src/keeper/record.h)."""
    try:
        return [number for number, byte in enumerate(pathlib.Path(path).read_bytes()) if byte]
    except OSError:
        return []


def census():
    """Groups, processes, records and directories of boxes, of whoever runs this."""
    if os.geteuid() == 0:
        state, boxes, groups = "/run/cloche", "/var/lib/cloche/box", "/sys/fs/cgroup/cloche"
    else:
        state, boxes = os.environ["XDG_RUNTIME_DIR"] + "/cloche", f"/tmp/cloche-{os.geteuid()}-box"
        groups = "/sys/fs/cgroup/user.slice/user-1000.slice/user@1000.service/app.slice/cloche"
    return {"groups": [f"{groups}/{name}" for name in listing(groups) if name.startswith("box-")], "processes": processes(),
            "records": taken(f"{state}/boxes"), "directories": listing(boxes),
            "mounts": pathlib.Path("/proc/self/mountinfo").read_text().count("\n")}


def processes():
    """Inits of boxes, and the daemons that start() leaves in one."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            command = pathlib.Path("/proc", pid, "cmdline").read_bytes()
        except OSError:
            continue
        if command.startswith((b"init\0", b"sleep\x00777")):
            found.append((pid, command))
    return found


def wait_for(condition, what, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def start(engine):
    """A box with a daemon that left the session; returns the launcher once both run."""
    command = "setsid sleep 777 & (setsid sleep 777 & exit); echo up; wait"
    launcher = subprocess.Popen([box.CLOCHE, "run", "--isolation", engine, "--wall", "60s", "--", "bash", "-c", command],
                                stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert launcher.stdout.readline() == b"up\n"
    wait_for(lambda: len(processes()) >= 3, "the box did not start")
    return launcher


@test("root", "user")
def nothing_is_left_of_a_run(engine):
    before = census()
    box.run("--", "bash", "-c", 'setsid sleep 777 & echo x >"$TMPDIR/x"', engine=engine)
    assert census() == before


@test("root", "user")
def nothing_is_left_of_a_cancelled_run(engine):
    before = census()
    launcher = start(engine)
    launcher.send_signal(signal.SIGTERM)
    launcher.wait()
    launcher.stdout.close()
    assert census() == before


@test("root", "user")
def reap_removes_what_a_killed_launcher_left(engine):
    before = census()
    launcher = start(engine)
    launcher.kill()
    launcher.wait()
    launcher.stdout.close()
    wait_for(lambda: not processes(), "processes outlive their launcher")
    done = box.raw("reap")
    assert done.returncode == 0 and done.stdout.startswith(b"reaped 1 box"), done
    assert census() == before, (before, census())


@test("root", engines=("container",))
def reap_kills_a_box_whose_init_hangs(engine):
    """Stopped with its box, init sees nothing of the launcher's death: the group is what reap finds it by."""
    before = census()
    launcher = start(engine)
    group = pathlib.Path((set(census()["groups"]) - set(before["groups"])).pop())
    for pid in (group / "cgroup.procs").read_text().split():
        os.kill(int(pid), signal.SIGSTOP)
    launcher.kill()
    launcher.wait()
    launcher.stdout.close()
    assert len(processes()) >= 3
    done = box.raw("reap")
    assert done.returncode == 0, done
    wait_for(lambda: census() == before, (before, census()))


@test("root", "user")
def next_run_works_after_a_kill(engine):
    launcher = start(engine)
    launcher.kill()
    launcher.wait()
    launcher.stdout.close()
    assert box.run("--", "true", engine=engine).exit_code == 0
    box.raw("reap")
    left = census()
    assert not (left["groups"] or left["processes"] or left["records"] or left["directories"]), left
