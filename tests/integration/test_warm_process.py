"""Boxes without namespaces that are forked from a zygote: as confined as those that are started, for root and for an
ordinary user; and out of each other's reach, and of the zygote's."""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

import box
import keeper
from leftovers import leftovers
from test_warm import SAME

KIND = "python/process"
USER = 54322
PROCESS = ("--isolation", "process")


class Person:
    """Whoever runs a keeper: root, whose boxes have users of their own, or somebody whose boxes are of the same user."""

    def __init__(self, user):
        self.user = user
        self.directory = tempfile.mkdtemp(prefix="cloche-person-", dir="/tmp")
        self.env = {"CLOCHE_KEEPER": f"{self.directory}/socket"}
        if user:
            os.chown(self.directory, user, user)
            self.env |= {"HOME": self.directory, "TMPDIR": self.directory, "XDG_RUNTIME_DIR": self.directory}
        self.whose = {"user": user, "env": self.env}

    def keep(self, *arguments, preload="json,numpy", spares=3):
        made = keeper.Keeper("--spares", spares, "--preload", preload, "--language", KIND, warm=False, **self.whose)
        try:
            made.await_state(lambda state: self.kind_of(state)["zygote_pid"] > 0 and self.kind_of(state)["spares"] >= spares)
        except BaseException:
            made.close()
            raise
        return made

    def kind_of(self, state):
        return next(kind for kind in state["kinds"] if kind["kind"] == KIND)

    def cold(self, code, *arguments, **options):
        return box.run(*PROCESS, *arguments, "-e", code, **self.whose, **options)

    def warm(self, kept, code, *arguments, **options):
        before = kept.kind(KIND)
        result = box.run("--warm", *PROCESS, *arguments, "-e", code, **self.whose, **options)
        after = kept.kind(KIND)
        assert after["hits"] + after["misses"] > before["hits"] + before["misses"], (before, after, result)
        return result

    def close(self):
        shutil.rmtree(self.directory, ignore_errors=True)


@pytest.fixture(scope="module", params=[None, USER], ids=["root", "ordinary"])
def person(request):
    made = Person(request.param)
    yield made
    made.close()


@pytest.fixture(scope="module")
def kept(person):
    made = person.keep()
    yield made
    made.close()


@pytest.fixture
def no_keeper(kept):
    """There is one socket for a user: the module's keeper goes before a test has one of its own."""
    kept.close()


@pytest.mark.parametrize("code, options", SAME, ids=range(len(SAME)))
def test_is_the_same_as_cold(kept, person, code, options):
    if person.user:  # there its value depends on how many processes the user has at the moment
        code = code.replace("resource.RLIMIT_NPROC, ", "")
    cold = person.cold(code, *options, input=b"given\n")
    assert keeper.comparable(person.warm(kept, code, *options, input=b"given\n")) == keeper.comparable(cold)


def test_it_is_a_fork(kept, person):
    result = person.warm(kept, "import sys; print('numpy' in sys.modules, 'cloche.forking' in sys.modules)")
    assert result.stdout == "True True\n"


REACH = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, call):
    try:
        value = call()
    except OSError as error:
        return
    if value is None or value >= 0:
        print(name, pid)
def raw(number, *arguments):
    return libc.syscall(number, *arguments)
for pid in {*map(int, sys.argv[1:])} - {os.getpid()}:
    for name, call in {
        "kill": lambda: os.kill(pid, 0), "group": lambda: os.killpg(pid, 0), "pidfd": lambda: raw(424, os.pidfd_open(pid), 0, 0, 0),
        "queue": lambda: raw(129, pid, 10, ctypes.create_string_buffer(128)), "thread": lambda: raw(200, pid, 0),
        "trace": lambda: raw(101, 16, pid, 0, 0), "read": lambda: raw(310, pid, 0, 0, 0, 0, 0),
        "memory": lambda: os.open(f"/proc/{pid}/mem", os.O_RDONLY), "maps": lambda: os.open(f"/proc/{pid}/maps", os.O_RDONLY),
        "descriptors": lambda: len(os.listdir(f"/proc/{pid}/fd")) and 0,
        "limits": lambda: raw(302, pid, 7, 0, ctypes.create_string_buffer(16)),
        "affinity": lambda: os.sched_setaffinity(pid, {0}),
    }.items():
        if pid != os.getppid() or name not in ("limits", "affinity"):  # init has the box's user: as in a box that is started
            attempt(name, call)
print("over")
"""


def test_neither_the_zygote_nor_other_forks_nor_the_keeper_can_be_reached(kept, person):
    sleeper = subprocess.Popen([box.CLOCHE, "run", "--warm", "--quiet", *PROCESS, "-e", "import time; time.sleep(60)"],
                               user=person.user, group=person.user, extra_groups=[] if person.user else None,
                               env={**os.environ, **person.env})
    try:
        kept.await_state(lambda state: state["running"] == 1, 10)
        parents, _ = keeper.processes()
        zygotes_init = kept.kind(KIND)["zygote_pid"]
        inside = [pid for pid in parents if pid != kept.process.pid and is_below(parents, kept.process.pid, pid)]
        assert zygotes_init in inside and len(inside) >= 6, inside
        # What it is itself is among them, if it is a spare by now, and its own init.
        result = box.run("--warm", *PROCESS, "-e", REACH, kept.process.pid, *inside, **person.whose)
        assert result.stdout == "over\n", result
    finally:
        sleeper.terminate()
        sleeper.wait()


def is_below(parents, above, pid):
    while pid in parents and pid != above:
        pid = parents[pid]
    return pid == above


def test_randomness_differs_between_forks(kept, person):
    code = """
import random, uuid, secrets, tempfile, os, ssl, numpy
print(random.random(), numpy.random.rand(), numpy.random.default_rng().random(), uuid.uuid4(), secrets.token_hex(8),
      os.urandom(4).hex(), ssl.RAND_bytes(4).hex(), next(tempfile._get_candidate_names()), tempfile.gettempdir(), os.getpid(), sep="|")
"""
    seen = [person.warm(kept, code).stdout.strip().split("|") for _ in range(40)]
    assert all(len(row) == 10 for row in seen), seen
    for column in list(zip(*seen))[:8]:
        assert len(set(column)) == len(seen), column


def test_no_residue_of_one_run_in_the_next(kept, person):
    leave = """
import builtins, os, sys, tempfile, pathlib, numpy
builtins.residue = numpy.residue = 1
sys.modules["residue"] = sys
os.environ["RESIDUE"] = "1"
for place in ("TMPDIR", "HOME", "CLOCHE_OUTPUT"):
    pathlib.Path(os.environ[place], "residue").write_text("secret")
print(tempfile.mkdtemp())
"""
    look = """
import builtins, os, sys, numpy
places = [os.environ[name] for name in ("TMPDIR", "HOME", "CLOCHE_OUTPUT")]
found = [hasattr(builtins, "residue"), "residue" in sys.modules, "RESIDUE" in os.environ, hasattr(numpy, "residue")]
found += [os.listdir(place) for place in places] + [os.path.exists(place) for place in sys.argv[1:]]
print(any(found), found)
"""
    for _ in range(5):
        left = person.warm(kept, leave)
        assert left.cause == "exit" and left.exit_code == 0, left
        result = box.run("--warm", *PROCESS, "-e", look, *left.stdout.split(), **person.whose)
        assert result.stdout.startswith("False"), result


def test_nothing_of_the_zygotes_directory_can_be_touched(kept, person):
    """A fork's rules name its own directory; the zygote's let it write below all of them."""
    code = """
import os
root = os.path.dirname(os.path.dirname(os.getcwd()))
for path in [root, *(f"{root}/{name}" for name in NAMES)]:
    for name, call in {"list": os.listdir, "make": lambda p: os.mkdir(p + "/made"), "write": lambda p: open(p + "/output/made", "w")}.items():
        try: call(path)
        except OSError: continue
        if not os.getcwd().startswith(path + "/") or path == root: print(name, path)
print("over")
"""
    root = pathlib.Path(person.directory, f"cloche-{USER}-box") if person.user else pathlib.Path("/var/lib/cloche/box")
    names = sorted(entry.name for entry in root.iterdir())
    assert len(names) >= 3, names
    assert person.warm(kept, code.replace("NAMES", repr(names))).stdout == "over\n"


def test_what_is_imported_beforehand_is_not_the_runs(kept, person):
    result = person.warm(kept, "import time; time.sleep(0.1)", "--memory", "32M")
    assert result.cause == "exit", result
    usage, cold = result.usage, person.cold("import time; time.sleep(0.1)").usage
    assert usage["peak_memory_bytes"] < cold["peak_memory_bytes"] + (16 << 20), (usage, cold)
    assert usage["cpu_user_ms"] + usage["cpu_system_ms"] < 60, usage


def test_limits_hold_for_what_a_fork_adds(kept, person):
    assert person.warm(kept, "x = bytearray(60 << 20); import time; time.sleep(1)", "--memory", "40M").cause == "memory"
    result = person.warm(kept, "x = bytearray(20 << 20); import time; time.sleep(0.1)", "--memory", "40M")
    assert result.cause == "exit", result


def test_a_fork_that_crashes_changes_nothing_for_others(kept, person):
    zygote = kept.kind(KIND)["zygote_pid"]
    for code, cause in (("import ctypes; ctypes.string_at(0)", "signal"), ("import os; os.kill(os.getpid(), 9)", "signal"),
                        ("import os\nwhile True: os.write(1, b'x' * 65536)", "output"),
                        ("import os\nos.fork() and os.kill(0, 9)\nimport time; time.sleep(60)", "signal")):
        assert person.warm(kept, code).cause == cause
    assert person.warm(kept, "print(1)").stdout == "1\n"
    assert kept.kind(KIND)["zygote_pid"] == zygote


def test_twice_forked_daemons_end_with_their_run(kept, person, tmp_path):
    code = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.close(1); os.close(2)
        time.sleep(1000)
    os._exit(0)
os.wait()
time.sleep(0.1)
print("over")
"""
    before = {pid for pid, name in keeper.processes()[1].items() if name.startswith("python")}
    assert person.warm(kept, code).stdout == "over\n"
    time.sleep(0.3)
    parents, names = keeper.processes()
    strays = [pid for pid in names if names[pid].startswith("python") and pid not in before and not is_below(parents, kept.process.pid, pid)
              and pathlib.Path("/proc", str(pid)).exists() and owner(pid) in (person.user, *range(0x7d000000, 0x7d010000))]
    assert not [pid for pid in strays if parents[pid] == 1], strays


def owner(pid):
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return -1


def test_a_killed_zygote_is_replaced(kept, person):
    parents, _ = keeper.processes()
    init = kept.kind(KIND)["zygote_pid"]
    program = next(pid for pid in parents if parents[pid] == init)
    os.kill(program, signal.SIGKILL)
    assert person.cold("print(1)").stdout == "1\n"
    kept.await_state(lambda state: person.kind_of(state)["zygote_pid"] not in (-1, init), 30)
    kept.await_spares(KIND)
    assert person.warm(kept, "print(2)").stdout == "2\n"


def test_the_pool_grows_with_demand_and_shrinks(no_keeper, person):
    with person.keep(spares=1) as made:
        for _ in range(30):
            assert person.warm(made, "print(1)").stdout == "1\n"
        assert made.kind(KIND)["target"] > 1


def test_a_run_that_finds_no_spare_waits_for_a_fork(no_keeper, person):
    """The first is cold, and the sign that a zygote is wanted. No spare is ever made, however far apart the others come."""
    code = "import sys; print('numpy' in sys.modules)"
    with keeper.Keeper("--spares", 0, "--spares-max", 0, "--preload", "numpy", warm=False, **person.whose) as made:
        assert made.kind(KIND)["zygote_pid"] < 0
        assert person.warm(made, code).stdout == "False\n"
        made.await_state(lambda state: person.kind_of(state)["zygote_pid"] > 0, 30)
        clients = [subprocess.Popen([box.CLOCHE, "run", "--warm", "--quiet", *PROCESS, "-e", code + "; import time; time.sleep(0.5)"],
                                    stdout=subprocess.PIPE, text=True, user=person.user, group=person.user,
                                    extra_groups=[] if person.user else None, env={**os.environ, **person.env}) for _ in range(6)]
        assert [client.communicate()[0] for client in clients] == ["True\n"] * 6
        kind = made.kind(KIND)
        assert (kind["hits"], kind["misses"], kind["failures"]) == (0, 7, 0), made.state()


@pytest.mark.parametrize("step", ["seccomp", "landlock", "landlock_scope"])
def test_a_fork_without_a_layer_of_its_own_is_refused(no_keeper, person, step):
    """It finds out by itself, although the zygote's own layers are there to be mistaken for it; runs are cold then."""
    if person.user and step == "landlock_scope":
        return  # the supervisor lets no signal out either, and answers before the kernel does
    environment = {**person.env, "CLOCHE_WEAKEN": step}
    with keeper.Keeper("--spares", 1, "--preload", "json", "--language", KIND, warm=False, program=box.WEAK, user=person.user,
                       env=environment) as made:
        state = made.await_state(lambda state: person.kind_of(state)["zygote_pid"] > 0 and person.kind_of(state)["failures"] > 0
                                 and state["failure"], 30)
        assert person.kind_of(state)["spares"] == 0
        words = {"seccomp": "memory that nobody counts", "landlock": "a path outside the rules", "landlock_scope": "signals are not kept"}
        made.await_state(lambda state: words[step] in state["failure"], 10)


@pytest.mark.parametrize("is_killed", [False, True], ids=["ends", "is killed"])
def test_nothing_is_left_when_the_keeper(no_keeper, person, is_killed):
    box.raw("reap", **person.whose)
    before = box.census()
    made = person.keep()
    client = subprocess.Popen([box.CLOCHE, "run", "--warm", "--quiet", *PROCESS, "-e",
                               "import os, time\nos.fork() or os.setsid() or os.fork()\ntime.sleep(60)"],
                              user=person.user, group=person.user, extra_groups=[] if person.user else None,
                              env={**os.environ, **person.env}, stderr=subprocess.DEVNULL)
    made.await_state(lambda state: state["running"] == 1, 10)
    time.sleep(0.2)
    parents, _ = keeper.processes()
    inside = [pid for pid in parents if pid != made.process.pid and is_below(parents, made.process.pid, pid)]
    if is_killed:
        made.kill()
    else:
        client.terminate()
        made.close()
    client.wait(10)
    deadline = time.monotonic() + 5
    while (left := [pid for pid in inside if os.path.exists(f"/proc/{pid}")]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left, left
    box.raw("reap", **person.whose)
    assert not leftovers(before)


@pytest.mark.parametrize("user", [0, USER])
def test_memory_of_the_zygote_is_not_given_to_who_executes_another_program(user):
    """What a fork shares with its zygote is not counted for it, for as long as it shares it."""
    takes = ("import mmap, time\nkept = []\nwhile True:\n  kept.append(mmap.mmap(-1, 4 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))\n"
             "  for at in range(0, 4 << 20, 4096): kept[-1][at] = 1\n  print(4 * len(kept), flush=True)\n  time.sleep(0.05)")
    code = f"import os; os.execv('/usr/bin/python3', ['python3', '-c', {takes!r}])"
    person = Person(user)
    try:
        with person.keep(preload="numpy,pandas,matplotlib.pyplot", spares=1) as kept:
            results = person.cold(code, "--memory", "64M"), person.warm(kept, code, "--memory", "64M")
        took = [int(result.stdout.split()[-1]) for result in results]
        assert [result.cause for result in results] == ["memory"] * 2 and took[1] <= took[0] + 8, took
    finally:
        person.close()


def test_init_of_the_zygote_has_no_rights_left():
    """Its program gives boxes their users, within a filter; init wears none."""
    person = Person(0)
    try:
        with person.keep(spares=1) as kept:
            init = kept.kind(KIND)["zygote_pid"]
            lines = dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{init}/status").read_text().splitlines() if ":\t" in line)
            assert [lines[name] for name in ("CapPrm", "CapEff", "CapInh", "CapAmb", "NoNewPrivs")] == ["0" * 16] * 4 + ["1"], lines
            assert person.warm(kept, "print(1)").stdout == "1\n"
    finally:
        person.close()
