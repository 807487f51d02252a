"""Runs that find no spare: their boxes were made ahead, without a program, and get a copy of the interpreter when somebody comes."""
import os
import signal
import subprocess

import pytest

import box
import keeper
from leftovers import leftovers

PLACES = 2  # src/keeper/shelf.c


@pytest.fixture(scope="module")
def kept():
    with keeper.Keeper("--spares", 0, "--spares-max", 0, "--preload", "json", minimum=0) as made:
        yield made


def await_places(kept):
    kept.await_state(lambda state: state["kinds"][0]["places"] == PLACES, 20)


def in_a_place(kept, code, *arguments):
    await_places(kept)
    before = kept.kind("python")
    result = box.python(code, "--warm", *arguments)
    after = kept.kind("python")
    assert (after["misses"], after["hits"]) == (before["misses"] + 1, 0)
    return result


def first_processes(kept):
    """Of the places: they are children of the zygote, whose name they have until they are init."""
    parents, names = keeper.processes()
    zygote = kept.state()["zygote_pid"]
    runners = {pid for pid in names if parents[pid] == zygote}
    return [pid for pid in names if parents[pid] in runners and names[pid] == "python3"]


@pytest.mark.parametrize("code, options", [
    ("print(1)", ()),
    ("import os; os.kill(os.getpid(), 9)", ()),
    ("while True: pass", ("--wall", "0.5s")),
    ("x = bytearray(300 << 20)", ("--memory", "128M")),
    ("import os, time\nwhile True:\n  try: os.fork()\n  except OSError: pass", ("--pids", "10", "--wall", "5s")),
    ("open('/tmp/f', 'wb').write(bytes(50 << 20))", ("--disk", "10M")),
    ("import ctypes; ctypes.CDLL(None).mount(0, 0, 0, 0, 0)", ()),
    ("import os; print(os.getuid(), os.getgid(), os.getgroups(), os.uname().nodename, os.getsid(0) == os.getpid())", ()),
    ("import os; print(os.listdir('/proc/self/fd'), sorted(os.sched_getaffinity(0)))", ()),
    ("import threading; threading.Thread(target=lambda: print('late')).start()", ()),
    ("import subprocess; print(subprocess.run(['echo', 'hi'], capture_output=True).stdout)", ()),
], ids=("print", "signal", "wall", "memory", "pids", "disk", "filter", "who", "what", "threads", "children"))
def test_a_box_from_a_place_is_as_a_cold_one(kept, code, options):
    assert keeper.comparable(in_a_place(kept, code, *options)) == keeper.comparable(box.python(code, *options))


def test_a_place_is_used_once(kept):
    assert in_a_place(kept, "open('/tmp/left', 'w').write('x'); import json; json.left = 1").cause == "exit"
    for _ in range(PLACES + 1):
        told = in_a_place(kept, "import json, os; print(os.path.exists('/tmp/left'), hasattr(json, 'left'))")
        assert told.stdout == "False False\n"


def test_randomness_differs_between_copies(kept):
    code = "import random, os; print(random.random(), os.urandom(8))"
    assert len({in_a_place(kept, code).stdout for _ in range(4)}) == 4


def test_without_a_place_a_box_is_made_on_demand(kept):
    await_places(kept)
    command = [box.CLOCHE, "run", "--warm", "--quiet", "-e", "import time; time.sleep(0.5); print(7)"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(PLACES + 2)]
    assert [each.communicate(timeout=20)[0] for each in running] == [b"7\n"] * len(running)


def test_a_killed_place_is_in_nobodys_way(kept):
    await_places(kept)
    killed = first_processes(kept)
    assert len(killed) == PLACES
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    assert box.python("print(1)", "--warm").stdout == "1\n"
    assert in_a_place(kept, "print(2)").stdout == "2\n"


def test_a_zygote_that_dies_takes_its_places_along(kept):
    await_places(kept)
    zygote = kept.state()["zygote_pid"]
    os.kill(zygote, signal.SIGKILL)
    kept.await_state(lambda state: state["zygote_pid"] not in (zygote, -1), 20)
    assert in_a_place(kept, "print(1)").stdout == "1\n"


def test_places_of_an_old_zygote_go_with_it(kept):
    kept.close()
    with keeper.Keeper("--spares", 0, "--spares-max", 0, "--rotate", 5, "--preload", "json", minimum=0) as made:
        made.await_state(lambda state: state["kinds"][0]["places"] == PLACES, 20)
        for _ in range(12):
            assert box.python("print(1)", "--warm").stdout == "1\n"
        state = made.await_state(lambda state: state["rotations"] >= 1 and state["zygotes"] == 1, 20)
        assert state["failures"] == 0
        made.await_state(lambda state: state["kinds"][0]["places"] == PLACES, 20)


@pytest.mark.parametrize("is_killed", [False, True], ids=("ended", "killed"))
def test_nothing_is_left_of_places(kept, is_killed):
    kept.close()
    box.raw("reap")
    before = box.census()
    made = keeper.Keeper("--spares", 0, "--spares-max", 0, "--preload", "json", minimum=0)
    made.await_state(lambda state: state["kinds"][0]["places"] == PLACES, 20)
    if is_killed:
        made.kill()
        alone = {"processes": before["processes"]}  # they end by themselves; the rest is the reaper's
        assert not {item for item in leftovers({**before, **alone}, 5) if item[0] == "processes"}
        box.raw("reap")
    else:
        made.close()
    assert not leftovers(before)
