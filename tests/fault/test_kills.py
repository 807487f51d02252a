"""kill -9 of the launcher before each of its system calls, and of the box's processes; and at random under load.

After the kill of a launcher: within two seconds no process of the box lives; the next run works; a reap brings the
census back to the baseline. After the kill of anything else the launcher ends with a result, and needs no reap.
"""
import contextlib
import json
import os
import random
import signal
import subprocess
import time

import pytest

import box
from faults import FACTS, Breaker, Shape, in_parallel, report_complaints, thin_out

END_SECONDS = 2.0


def kill_launcher(world, shape, index, check_next):
    """Kills the launcher at one call; a sentence when something is not sound."""
    done, report = Breaker(world, shape).run("--call", str(index), "--kill")
    if report.hit is None:
        return None
    what = f"{report.hit}, killed there: "
    if report.signal != signal.SIGKILL:
        return f"{what}the tool says {report}"
    complaints = []
    left = world.leftovers(END_SECONDS)
    if "processes" in left:
        complaints.append(f"after {END_SECONDS:.0f} s {left['processes']} live")
    if check_next:
        after = world.cloche("run", "--isolation", "process", "--", "/bin/echo", "ok")
        if (after.returncode, after.stdout) != (0, b"ok\n"):
            complaints.append(f"the next run fails: {after}")
    if left:
        reap = world.reap()
        if reap.returncode != 0:
            complaints.append(f"the reap says {reap.stdout + reap.stderr}")
        left = world.leftovers(END_SECONDS)
        if left:
            complaints.append(f"a reap leaves {left}")
            world.kill_all()
            world.reap()
    return what + "; ".join(complaints) if complaints else None


def test_launcher_is_killed_before_any_call(worlds, engine):
    shape = Shape(*FACTS, engine=engine)
    shape.learn(worlds[0])
    report = Breaker(worlds[0], shape).survey()
    last = max(call.index for call in report.calls if call.process == 0)
    report_complaints(in_parallel(worlds, range(1, last + 1),
                                  lambda world, index: kill_launcher(world, shape, index, index % 4 == 0)))


def test_next_run_sweeps_what_the_killed_one_left_at_its_number(world, engine):
    """No reap is needed for a record that is taken again: fill the records so that it must be."""
    shape = Shape("--", "/bin/sleep", "30", engine=engine)
    process = world.start("/tmp/cloche", *shape.arguments)
    deadline = time.monotonic() + 10
    while not world.census()["records"] and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.1)
    launcher = next(pid for pid in world.pids() if "cloche" in (world.describe(pid) or ""))
    world.kill(launcher)
    process.communicate()
    left = world.leftovers(END_SECONDS)
    assert "processes" not in left
    # Each run starts looking at a number made from its pid; a run whose pid gives the same number takes that record.
    number = int(left["records"][0].removeprefix("box-"))
    pid = next(pid for pid in range(300, 70000) if pid * 7919 % 65536 == number)
    again = world.shell(f"echo {pid - 1} > /proc/sys/kernel/ns_last_pid; exec /tmp/cloche run --isolation {engine} "
                        "-- /bin/echo ok")
    if again.returncode != 0 and b"ns_last_pid" in again.stderr:
        pytest.skip("the kernel does not let a pid be chosen")
    assert (again.returncode, again.stdout) == (0, b"ok\n"), again
    world.reap()
    assert world.leftovers() == {}


@pytest.fixture
def load():
    """A machine that has something else to do: a busy process on each core."""
    busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count() or 1)]
    yield
    for process in busy:
        process.kill()
        process.wait()


def test_launcher_is_killed_at_random_times_under_load(worlds, engine, load):
    """Fifty runs, two at a time, killed somewhere in their life."""
    generator = random.Random(2)
    shape = Shape("--", "/bin/sh", "-c", "echo out; /bin/sleep 0.02; echo more", engine=engine)

    def one(world, delay):
        process = world.start("/tmp/cloche", *shape.arguments)
        with contextlib.suppress(ProcessLookupError):
            launcher = world.child_of(process)
            time.sleep(delay)
            os.kill(launcher, signal.SIGKILL)
        process.communicate(timeout=20)
        left = world.leftovers(END_SECONDS)
        if "processes" in left:
            return f"killed after {delay * 1000:.1f} ms: {left['processes']} live"
        if left:
            world.reap()
            left = world.leftovers(END_SECONDS)
        return f"killed after {delay * 1000:.1f} ms: a reap leaves {left}" if left else None

    report_complaints(in_parallel(worlds, [generator.uniform(0, 0.08) for _ in range(50)], one))
    for world in worlds:
        assert world.cloche("run", "--isolation", engine, "--", "/bin/echo", "ok").stdout == b"ok\n"


def test_init_is_killed_before_any_call(worlds, engine):
    """A box that dies while it is made is a host failure with a word, or its end was reported before."""
    shape = Shape(*FACTS, engine=engine)
    shape.learn(worlds[0])
    report = Breaker(worlds[0], shape).survey()
    process = report.init()
    calls = thin_out([call for call in report.calls if call.process == process], longest=8)

    def one(world, call):
        try:
            done, seen = Breaker(world, shape).run("--process", str(process), "--call", str(call.index), "--kill")
        except subprocess.TimeoutExpired:
            world.reap()
            return f"{call}, killed there: the launcher hangs"
        if seen.hit is None:
            return None
        what = f"{seen.hit}, killed there: "
        left = world.leftovers(END_SECONDS)
        if left:
            world.kill_all()
            world.reap()
            return f"{what}leaves {left}"
        if shape.essence(done, world) == shape.right:
            return None
        text = done.stdout + done.stderr
        sound = done.returncode in (box.HOST_FAILURE, box.LAYER_MISSING) and text.strip()
        return None if sound else f"{what}exit status {done.returncode}: {text[:300]!r}"

    report_complaints(in_parallel(worlds, calls[::2], one))


def start_box(world, engine, *options, code="echo up; while :; do :; done"):
    """A running box, as (process, pid of the launcher, pid of init, pid of the program)."""
    process = world.start("/tmp/cloche", "run", "--json", "--isolation", engine, "--wall", "3s", *options, "--",
                          "/bin/sh", "-c", code)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        names = {}
        for pid in world.pids():
            words = (world.describe(pid) or "").split(" ")
            names[words[1] if len(words) > 1 else ""] = pid
        init = next((pid for name, pid in names.items() if "init" in name), None)
        if init and "sh" in names and "cloche" in names:
            return process, names["cloche"], init, names["sh"]
        time.sleep(0.01)
    raise AssertionError(f"the box did not come up: {world.census()}")


def finish(world, process, seconds):
    """The result of a box that something was done to; it must end in time and leave nothing."""
    try:
        stdout, stderr = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        world.kill_all()
        process.communicate()
        raise AssertionError(f"the run did not end within {seconds} s") from None
    assert world.leftovers(END_SECONDS) == {}
    return process.returncode, json.loads(stdout), stderr


def test_init_is_killed_while_the_program_runs(world, engine):
    process, _, init, _ = start_box(world, engine)
    world.kill(init)
    status, result, _ = finish(world, process, 3)
    assert status == box.HOST_FAILURE
    assert result["cause"] == "host_failure"
    assert result["detail"]


def test_program_is_killed_from_outside(world, engine):
    process, _, _, program = start_box(world, engine)
    world.kill(program)
    status, result, _ = finish(world, process, 3)
    assert (status, result["cause"], result["signal"]) == (137, "signal", 9)


def test_stopped_init_does_not_outlast_the_wall_limit(world, engine):
    process, _, init, _ = start_box(world, engine, "--wall", "1500ms")
    world.kill(init, signal.SIGSTOP)
    _, result, _ = finish(world, process, 8)
    assert result["cause"] == "wall_time"


def test_stopped_program_does_not_outlast_the_wall_limit(world, engine):
    process, _, _, program = start_box(world, engine, "--wall", "1500ms")
    world.kill(program, signal.SIGSTOP)
    status, result, _ = finish(world, process, 8)
    assert (status, result["cause"], result["timed_out"]) == (137, "wall_time", True)


def test_stopped_launcher_goes_on_where_it_was(world, engine):
    process, launcher, _, _ = start_box(world, engine, code="echo up; sleep 0.3; echo down")
    world.kill(launcher, signal.SIGSTOP)
    time.sleep(0.5)
    world.kill(launcher, signal.SIGCONT)
    process.send_signal(signal.SIGCONT)  # nsenter stops with its child
    status, result, _ = finish(world, process, 8)
    assert (status, result["stdout"]) == (0, "up\ndown\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_ending_signal_to_the_launcher_cancels(world, engine, number):
    process, launcher, _, _ = start_box(world, engine)
    world.kill(launcher, number)
    status, result, _ = finish(world, process, 3)
    assert result["cause"] == "cancelled"
    assert status != 0


def test_group_is_removed_under_our_feet(world):
    """Somebody moves the processes out and removes the box's groups: no limit holds any more."""
    process, _, _, _ = start_box(world, "container")
    groups = world.census()["groups"]
    script = "\n".join([
        *(f"for pid in $(cat {group}/cgroup.procs); do echo $pid > {group}/../../cgroup.procs; done; rmdir {group}"
          for group in groups)])
    done = world.shell(script)
    assert world.census()["groups"] == [], done
    status, result, _ = finish(world, process, 8)
    assert result["cause"] in ("wall_time", "host_failure")
    assert status != 0


def test_group_is_removed_while_the_box_is_made(world):
    """Somebody removes empty groups all the time: a run works, or is refused; none goes without its limits."""
    racer = world.start("sh", "-c", "while :; do rmdir /sys/fs/cgroup/pids/cloche/box-* 2>/dev/null; done")
    try:
        for _ in range(20):
            done = world.cloche("run", "--json", "--isolation", "container", "--", "/bin/true")
            assert done.returncode in (0, box.LAYER_MISSING, box.HOST_FAILURE), done
            if done.returncode == 0:
                layers = {layer["name"]: layer for layer in json.loads(done.stdout)["layers"]}
                assert layers["cgroup"]["active"] and "pids" in layers["cgroup"]["detail"]
    finally:
        os.kill(world.child_of(racer), signal.SIGKILL)
        racer.communicate()
    assert world.leftovers() == {}


def test_private_directory_is_removed_under_our_feet(world):
    process, _, _, _ = start_box(world, "process", "--wall", "1500ms", code="echo up; while :; do :; done")
    name = world.census()["directories"][0]
    world.shell(f"rm -rf /var/lib/cloche/box/{name} /dev/shm/cloche-0-box/{name}")
    status, result, _ = finish(world, process, 8)
    assert status != 0
    assert (result.get("cause") or result["error"]["code"]) in ("wall_time", "host_failure"), result


def test_record_is_removed_under_our_feet(world, engine):
    """A second run may then take the same number only if the first one's things are not in its way."""
    process, _, _, _ = start_box(world, engine, code="echo up; sleep 0.5")
    world.shell("rm -f /run/cloche/boxes")
    status, result, _ = finish(world, process, 8)
    assert (status, result["stdout"]) == (0, "up\n")
