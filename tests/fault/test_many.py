"""Many runs: at the same time, and one after the other. All right, nothing shared, nothing that grows."""
import concurrent.futures
import json
import shutil
import threading
import time

import pytest

import box
from faults import ORDINARY
from private_world import build_tool

TOGETHER = 8


def test_hundred_runs_in_parallel(world, engine):
    """All right, and no two that live together have the same uid on the host."""
    clashes, seen, stop = [], set(), threading.Event()

    def watch():
        """Owners of processes from outside: a box's uid must belong to one tree at a time."""
        while not stop.is_set():
            owners = {}
            for pid in world.pids():
                try:
                    status = (world.root / "proc" / str(pid) / "status").read_text()
                except OSError:
                    continue
                fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
                uid = int(fields["Uid"].split()[0])
                if uid >= 0x7d000000 and fields["Name"].startswith(("init", "memfd:init", "cloche-init")):
                    owners.setdefault(uid, []).append(pid)
                    seen.add(uid)
            clashes.extend((uid, pids) for uid, pids in owners.items() if len(pids) > 1 and not related(world, pids))
            time.sleep(0.003)

    watcher = threading.Thread(target=watch)
    watcher.start()

    def one(number):
        code = f"echo {number}; echo {number} > file; sleep 0.05; cat file"
        return world.cloche("run", "--json", "--isolation", engine, "--", "/bin/sh", "-c", code, timeout=60)

    try:
        with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
            outcomes = list(pool.map(one, range(100)))
    finally:
        stop.set()
        watcher.join()
    for number, done in enumerate(outcomes):
        assert done.returncode == 0, done
        result = json.loads(done.stdout)
        assert (result["cause"], result["stdout"]) == ("exit", f"{number}\n{number}\n")
    assert not clashes, f"uids of several boxes at once: {clashes}"
    assert len(seen) > 20, "the watcher saw too few boxes to say anything"
    assert world.leftovers() == {}


def related(world, pids):
    """Is one the ancestor of the others (the process engine's init before its own fork's exec)?"""
    for pid in pids:
        try:
            status = (world.root / "proc" / str(pid) / "status").read_text()
        except OSError:
            return True
        if any(f"PPid:\t{other}\n" in status for other in pids):
            return True
    return False


def test_runs_on_taken_numbers_go_elsewhere(world, engine):
    """Two launchers whose pids lead to the same record: the second takes the next one."""
    first = world.start("/tmp/cloche", "run", "--isolation", engine, "--", "/bin/sleep", "1")
    deadline = time.monotonic() + 5
    while not world.census()["records"] and time.monotonic() < deadline:
        time.sleep(0.01)
    number = int(world.census()["records"][0].removeprefix("box-"))
    pid = next(pid for pid in range(300, 70000) if pid * 7919 % 65536 == number)
    done = world.shell(f"echo {pid - 1} > /proc/sys/kernel/ns_last_pid && exec /tmp/cloche run --isolation {engine} "
                       "-- /bin/echo ok")
    first.communicate(timeout=20)
    if b"ns_last_pid" in done.stderr:
        pytest.skip("the kernel does not let a pid be chosen")
    assert (done.returncode, done.stdout) == (0, b"ok\n"), done
    assert first.returncode == 0
    assert world.leftovers() == {}


def test_three_hundred_runs_in_a_row(world, engine):
    """Records, groups, directories, processes, mounts stay flat. (Descriptors: see the caller of the library below.)"""
    for number in range(300):
        done = world.cloche("run", "--isolation", engine, "--", "/bin/true")
        assert (done.returncode, done.stderr) == (0, b""), f"run {number}: {done}"
        if number % 50 == 0:
            assert world.leftovers() == {}, f"after run {number}"
    assert world.leftovers() == {}


@pytest.mark.parametrize("who", ["root", "user"])
def test_caller_of_the_library_keeps_nothing(world, engine, who, tmp_path):
    """A process that makes a hundred runs itself: its descriptors, memory, children and signals are as before."""
    prefix = ORDINARY if who == "user" else []
    library = box.BUILD / "libcloche.so"
    if not library.exists():
        pytest.skip(f"no {library}")
    program = build_tool("many", tmp_path, f"-I{box.ROOT / 'include'}", str(library), "-pthread")
    shutil.copy(program, world.outside("/tmp/many"))
    shutil.copy(library.resolve(), world.outside("/tmp/libcloche.so.0"))
    world.run(*prefix, "/tmp/cloche", "run", "--isolation", engine, "--", "/bin/true")
    world.baseline = world.census()
    done = world.run(*prefix, "env", "LD_LIBRARY_PATH=/tmp", "/tmp/many", engine, timeout=60)
    assert done.returncode == 0, f"{done.stdout.decode()}{done.stderr.decode()}"
    left = world.leftovers()
    world.shell("rm -f /tmp/many /tmp/libcloche.so.0")
    assert left == {}


def test_boxes_of_a_killed_caller_with_threads_end_with_it(world, engine, tmp_path):
    """A child that is being made must not hold the sockets and locks of its caller's other boxes, which would live on."""
    library = box.BUILD / "libcloche.so"
    if not library.exists():
        pytest.skip(f"no {library}")
    program = build_tool("many_killed", tmp_path, f"-I{box.ROOT / 'include'}", str(library), "-pthread")
    shutil.copy(program, world.outside("/tmp/many_killed"))
    shutil.copy(library.resolve(), world.outside("/tmp/libcloche.so.0"))
    world.baseline = world.census()
    for milliseconds in range(2, 20, 3):
        world.run("env", "LD_LIBRARY_PATH=/tmp", "/tmp/many_killed", engine, str(milliseconds), timeout=60)
    world.leftovers(3.0)  # they end by themselves; the rest is the reaper's
    world.cloche("reap")
    left = world.leftovers()
    world.shell("rm -f /tmp/many_killed /tmp/libcloche.so.0")
    assert left == {}
