"""Runs in boxes that a keeper has ready: the same as cold ones, only sooner, and each used once."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import pytest

import box
import keeper
from leftovers import leftovers
from terminal import on_terminal


@pytest.fixture(scope="module")
def kept():
    with keeper.Keeper("--spares", "4", "--preload", "numpy,pandas,matplotlib.pyplot") as made:
        yield made


@pytest.fixture
def no_keeper(kept):
    """There is one socket for a user: the module's keeper goes before a test has one of its own."""
    kept.close()


def warm(kept, code, *arguments, **options):
    before = kept.state()
    result = box.python(code, "--warm", *arguments, **options)
    after = kept.state()
    assert after["hits"] + after["misses"] > before["hits"] + before["misses"], (before, after, result)
    return result


SAME = [  # code, options
    ("import os; print(sorted(os.sched_getaffinity(0)))", ()),
    ("print(1)", ()),
    ("import sys; sys.exit(3)", ()),
    ("import sys; sys.exit('a message')", ()),
    ("raise ValueError('wrong')", ()),
    ("def f():\n    return 1/0\nf()", ()),
    ("print(", ()),
    ("import os; os.kill(os.getpid(), 9)", ()),
    ("import os; os.kill(os.getpid(), 15)", ()),
    ("import os; os.abort()", ()),
    ("import ctypes; ctypes.string_at(0)", ()),
    ("while True: pass", ("--wall", "0.5s")),
    ("while True: pass", ("--cpu", "0.5s")),
    ("x = bytearray(300 << 20)", ("--memory", "128M")),
    ("import os, time\nwhile True:\n  try: os.fork()\n  except OSError: pass", ("--pids", "10", "--wall", "5s")),
    ("open('/tmp/f', 'wb').write(bytes(50 << 20))", ("--disk", "10M")),
    ("import ctypes; ctypes.CDLL(None).mount(0, 0, 0, 0, 0)", ()),
    ("import sys\nwhile True: sys.stdout.write('x' * 65536)", ("--output-limit", "64K")),
    ("import sys, os; print(sys.argv, os.getcwd(), os.environ['A'], __name__, __file__, sys.path[0])", ("--env", "A=b")),
    ("import sys; print(sys.stdin.read())", ()),
    ("import threading; threading.Thread(target=lambda: print('late')).start()", ()),
    ("import atexit; atexit.register(print, 'bye')", ()),
    ("import atexit, threading\natexit.register(lambda: print(threading.main_thread().is_alive()))", ()),
    ("import logging, logging.handlers as h\n"
     "logging.getLogger().addHandler(h.MemoryHandler(9, target=logging.StreamHandler())); logging.warning('kept until the end')", ()),
    ("import atexit, logging, logging.handlers as h\natexit.register(logging.warning, 'after the program')\n"
     "logging.getLogger().addHandler(h.MemoryHandler(9, target=logging.StreamHandler()))", ()),
    ("import concurrent.futures as f, time\npool = f.ThreadPoolExecutor(2)\npool.submit(lambda: (time.sleep(0.1), print('late')))", ()),
    ("import matplotlib.pyplot as p\nmanager = p.figure().canvas.manager\nmanager.destroy = lambda: print('figures are closed')", ()),
    ("import multiprocessing as m, time\nm.get_context('fork').Process(target=lambda: (time.sleep(0.1), print('child'))).start()", ()),
    ("import weakref\nclass A: pass\na = A(); weakref.finalize(a, print, 'finalized')", ()),
    ("f = open('left-open', 'w'); f.write('all of it')", ()),
    ("import gzip, io; g = io.TextIOWrapper(gzip.GzipFile('left-open.gz', 'wb', mtime=1)); g.write('all of it')", ()),
    ("class A:\n    def __init__(self, n): self.n = n\n    def __del__(self): print('end of', self.n)\na, _b, c = A(1), A(2), A(3)", ()),
    ("class A:\n    def __del__(self): print('end of a ring')\na = A(); a.me = a", ()),
    ("f = open('left-open', 'w'); f.write('before'); raise ValueError(f.name)", ()),
    ("def f():\n    g = open('left-open', 'w'); g.write('in a frame'); 1 / 0\nf()", ()),
    ("import os; open('a.txt', 'w').write('x'); os.mkdir('d'); open('d/b', 'w').write('y')", ()),
    ("import subprocess; print(subprocess.run(['echo', 'hi'], capture_output=True).stdout)", ()),
    ("from multiprocessing import Pool\nprint(Pool(2).map(abs, [-1, -2]))", ()),
    ("import os, sys; os.write(1, b'raw\\xff'); print('text'); sys.stderr.write('e')", ()),
    ("input()", ()),
    ("import asyncio\nasync def f(): return 5\nprint(asyncio.run(f()))", ()),
    ("import resource; print([resource.getrlimit(n) for n in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, "
     "resource.RLIMIT_CORE, resource.RLIMIT_NPROC, resource.RLIMIT_CPU)])", ()),
    ("import os; print(os.getuid(), os.getgid(), os.getgroups(), os.umask(0), os.uname().nodename, os.getsid(0) == os.getpid())", ()),
    ("import signal; print([signal.getsignal(n) for n in range(1, 32) if n not in (9, 19)])", ()),
    ("import sys; print(sys.stdout.encoding, sys.stderr.errors, sys.stdin.encoding, sys.flags.dont_write_bytecode)", ()),
    ("print([n for n in dir(__builtins__) if n in ('display',)], input)", ()),
]


@pytest.mark.parametrize("code, options", SAME, ids=range(len(SAME)))
def test_is_the_same_as_cold(kept, code, options):
    cold = box.python(code, *options, input=b"given\n")
    assert keeper.comparable(warm(kept, code, *options, input=b"given\n")) == keeper.comparable(cold)


def test_progress_is_shown_on_a_terminal_and_gives_way_to_output(kept):
    code, seen, _ = on_terminal("run", "--warm", "--wall", "20s", "-e",
                                "import sys, time\ntime.sleep(1.9)\nsys.stdout.buffer.write(b'<\\x1b[31m\\xc3')\nsys.stdout.flush()\n"
                                "time.sleep(1)\nsys.stdout.buffer.write(b'\\xa9>\\n')\nsys.exit(3)")
    shown = [float(each) for each in re.findall(rb"(\d+\.\d) s of 20 s \| CPU", seen)]
    assert code == 3 and shown and max(shown) < 2.5, seen  # not behind a line that has not ended
    assert re.search(rb"\r\x1b\[K<\^\[\[31m\xc3\xa9>\r\n", seen), seen  # harmless, and no character is cut in two
    assert on_terminal("run", "--warm", "-e", "print(1)")[:2] == (0, b"1\r\n")


def test_files_have_their_own_name_in_tracebacks(kept, tmp_path):
    script = tmp_path / "hello.py"
    script.write_text("def f():\n    raise KeyError('k')\nf()\n")
    result = box.run("--warm", str(script), "argument")
    assert 'File "/code/hello.py", line 2, in f' in result.stderr
    assert "raise KeyError('k')" in result.stderr and "cloche" not in result.stderr


def test_inputs_are_shown_and_output_is_collected(kept, tmp_path):
    (tmp_path / "in.csv").write_text("a,b\n1,2\n")
    os.chmod(tmp_path / "in.csv", 0o600)
    result = warm(kept, "import pandas\nf = pandas.read_csv('/data/input/in.csv')\nf.to_csv('out.csv')\n"
                        "try: open('/data/input/in.csv', 'w')\nexcept OSError as error: print(error.errno)",
                  "--input", tmp_path / "in.csv", "--output", tmp_path / "out")
    assert result.stdout.strip() in ("30", "13"), result  # read-only, or not permitted
    assert (tmp_path / "out" / "out.csv").read_text() == ",a,b\n0,1,2\n"


@pytest.mark.parametrize("limit, low, high", [("memory", "64M", "2G"), ("pids", "5", "500"), ("cpus", "0.5", "2"), ("disk", "1M", "900M"),
                                              ("inodes", "50", "50000"), ("open-files", "20", "2000")])
def test_limits_may_be_lower_and_higher_than_a_spare_was_made_with(kept, limit, low, high):
    code = """
import os, resource, shutil
print(shutil.disk_usage("/tmp").total, os.statvfs("/tmp").f_files, resource.getrlimit(resource.RLIMIT_NOFILE))
try: x = bytearray(200 << 20)
except MemoryError: pass
"""
    for value in (low, high):
        hot, cold = warm(kept, code, f"--{limit}", value), box.python(code, f"--{limit}", value)
        assert (hot.cause, hot.stdout) == (cold.cause, cold.stdout), (limit, value)


def test_the_code_cannot_be_written(kept):
    result = warm(kept, """
import os
for name in ("/code/main.py", "/code/new.py", "/code/.x"):
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_CREAT):
        try:
            os.open(name, flags)
            print("opened", name)
        except OSError as error:
            pass
for call in (lambda: os.unlink("/code/main.py"), lambda: os.rename("/code/main.py", "/tmp/x"), lambda: os.chmod("/code", 0o777),
             lambda: os.mkdir("/code/d"), lambda: os.mkdir("/data/input/d")):
    try:
        call()
        print("done")
    except OSError:
        pass
print("held")
""")
    assert result.stdout == "held\n"


# ---- an end that is said a moment before it comes (guest/fork/farewell.c) ----

CALLS_ITSELF = "import ctypes, os, sys, time\nctypes.CDLL(None).prctl(15, b'cloche-end {0}', 0, 0, 0)\n"
CLOSES = "os.close(1); os.close(2)\n"


def is_forgotten(mark):
    """No process of the machine has it as its name."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "comm").read_text():
                return False
        except OSError:
            pass
    return True


def test_who_says_that_it_ends_is_ended(kept):
    started = time.monotonic()
    result = warm(kept, "print(1, flush=True)\n" + CALLS_ITSELF.format("007") + CLOSES + "while True: pass").json
    assert (result["cause"], result["exit_code"], result["stdout"]) == ("exit", 7, "1\n")
    assert time.monotonic() - started < 5
    for _ in range(100):
        if is_forgotten("cloche-end 007"):
            return
        time.sleep(0.05)
    raise AssertionError("it still runs")


@pytest.mark.parametrize("name", ["000x", "", "999", "256", "-01", "7"])
def test_name_that_says_no_end_is_none(kept, name):
    result = warm(kept, CALLS_ITSELF.format(name) + CLOSES + "time.sleep(0.3); os._exit(5)").json
    assert (result["cause"], result["exit_code"]) == ("exit", 5) and result["usage"]["wall_ms"] >= 300


def test_streams_that_are_closed_say_no_end(kept):
    result = warm(kept, "import os, time\n" + CLOSES + "time.sleep(0.3); open('late', 'w').write('x'); os._exit(5)").json
    assert (result["exit_code"], [file["path"] for file in result["files"]]) == (5, ["late"])


@pytest.mark.parametrize("other", ["os.fork() or (os.close(1), os.close(2), time.sleep(60))",
                                   "__import__('threading').Thread(target=time.sleep, args=(60,), daemon=True).start()"])
def test_who_is_not_alone_is_not_believed(kept, other):
    result = warm(kept, f"import os, time\n{other}\n" + CALLS_ITSELF.format("007") + CLOSES + "time.sleep(0.3); os._exit(5)").json
    assert (result["cause"], result["exit_code"]) == ("exit", 5)


def test_files_of_who_says_that_it_ends_are_collected(kept):
    code = ("open('done', 'w').write('x')\n" + CALLS_ITSELF.format("000") + CLOSES +
            "\nwhile True:\n    for i in range(50):\n        open(f'f{i}', 'w').write('y' * 100000)\n        os.unlink(f'f{i}')")
    for _ in range(5):
        result = warm(kept, code).json
        assert result["exit_code"] == 0 and "done" in [file["path"] for file in result["files"]]
        assert not result["not_collected"], result


def test_what_does_not_fit_runs_cold_with_the_same_result(kept, tmp_path):
    assert box.run("--warm", "--", "echo", "x").stdout == "x\n"
    assert box.run("--warm", "--env", "PYTHONHASHSEED=0", "-e", "import os; print(os.environ['PYTHONHASHSEED'], hash('a'))").stdout == \
        box.run("--env", "PYTHONHASHSEED=0", "-e", "import os; print(os.environ['PYTHONHASHSEED'], hash('a'))").stdout
    assert box.run("--warm", "--input", tmp_path, "-e", "import os; print(os.listdir('/data/input'))").exit_code == 0


def test_text_mode_streams_and_exits_as_the_program(kept):
    done = box.raw("run", "--warm", "-e", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")
    done = box.raw("run", "--warm", "--wall", "0.3s", "-e", "while True: pass")
    assert done.returncode == 128 + 9 and b"wall_time" in done.stderr


def test_a_wrong_spec_is_refused_as_without_a_keeper(kept):
    cold, hot = box.raw("run", "--memory", "1", "-e", "1"), box.raw("run", "--warm", "--memory", "1", "-e", "1")
    assert (hot.returncode, hot.stderr) == (cold.returncode, cold.stderr) and cold.returncode == box.BAD_SPEC


def test_no_residue_of_one_run_in_the_next(kept):
    leave = """
import builtins, os, sys, json, tempfile, pathlib
builtins.residue = 1
sys.modules["residue"] = sys
os.environ["RESIDUE"] = "1"
for place in ("/tmp", "/dev/shm", "/home/user", "/data/output"):
    pathlib.Path(place, "residue").write_text("secret")
import pandas; pandas.residue = 1
print(os.getpid())
"""
    look = """
import builtins, os, sys, pandas
found = [hasattr(builtins, "residue"), "residue" in sys.modules, "RESIDUE" in os.environ, hasattr(pandas, "residue")]
found += [os.path.exists(place + "/residue") for place in ("/tmp", "/dev/shm", "/home/user", "/data/output")]
found += [os.listdir(place) for place in ("/tmp", "/dev/shm", "/home/user", "/data/output")]
print(any(found), found)
"""
    for _ in range(5):
        assert warm(kept, leave).cause == "exit"
        assert warm(kept, look).stdout.startswith("False")


def test_forks_have_no_memory_in_common_that_they_can_write_to(kept):
    """It would be there for the next run to find, and in the zygote, whatever becomes of the box."""
    code = "print([line for line in open('/proc/self/maps') if line.split()[1][1] == 'w' and line.split()[1][3] == 's'])"
    assert warm(kept, code).stdout == "[]\n"


def test_randomness_differs_between_forks(kept):
    code = """
import random, uuid, secrets, tempfile, os, ssl, numpy
print(random.random(), numpy.random.rand(), numpy.random.default_rng().random(), uuid.uuid4(), secrets.token_hex(8),
      os.urandom(4).hex(), ssl.RAND_bytes(4).hex(), next(tempfile._get_candidate_names()), sep="|")
"""
    seen = [warm(kept, code).stdout.strip().split("|") for _ in range(40)]
    for column in zip(*seen):
        assert len(set(column)) == len(seen), column


def mounts_of(pid):
    return [line.split()[4] for line in pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]


def test_fork_brings_nothing_along_that_it_has_anew(kept):
    """Each mount of a zygote is copied with each fork, and stays below the fork's own."""
    warm(kept, "print(1)")
    kept.await_state(lambda state: state["spares"] >= 4 and state["kinds"][0]["places"] >= 2, 20)  # nothing is being made any more
    init = kept.state()["zygote_pid"]
    program, *_ = pathlib.Path(f"/proc/{init}/task/{init}/children").read_text().split()
    assert "/usr" in mounts_of(program)
    assert not [place for place in mounts_of(program) if place.startswith(("/proc", "/tmp", "/run", "/home", "/data", "/dev/pts", "/dev/shm"))]
    forks = pathlib.Path(f"/proc/{program}/task/{program}/children").read_text().split()
    assert all("/proc/cmdline" in mounts_of(fork) for fork in forks)
    doubled = [fork for fork in forks if mounts_of(fork).count("/proc") > 1]
    assert len(forks) >= 4 and len(doubled) <= 1, "only the first, from before its zygote was through with its own"


def test_helpers_leave_no_descriptor_behind(kept, tmp_path):
    """They have the keeper's own while they are inside of a box."""
    (tmp_path / "a.txt").write_text("a")
    pid, count = kept.state()["pid"], lambda: len(os.listdir(f"/proc/{pid}/fd"))
    read = "print(open('/data/input/a.txt').read())"

    def run(times):
        for _ in range(times):
            assert warm(kept, read, "--input", str(tmp_path / "a.txt")).stdout == "a\n"
            assert warm(kept, "print(1)").stdout == "1\n"
        kept.await_state(lambda state: state["spares"] >= 4 and state["running"] == 0, 20)
        time.sleep(1)  # what was used is destroyed, and places are made again

    run(2)
    before = count()
    run(12)
    assert count() <= before + 12, "of 24 runs with several helpers each"


def test_boxes_cannot_see_each_other_nor_the_zygote(kept):
    code = """
import os, pathlib
pids = [p for p in os.listdir("/proc") if p.isdigit()]
print(len(pids), sorted(pathlib.Path(f"/proc/{p}/comm").read_text().strip() for p in pids))
def target(fd):
    try: return os.readlink(f"/proc/self/fd/{fd}").split(":")[0]
    except OSError: return "gone"  # that of the listing itself
print(sorted(map(target, os.listdir("/proc/self/fd"))))
print({kind: os.readlink(f"/proc/self/ns/{kind}") for kind in os.listdir("/proc/self/ns")})
print(os.listdir("/dev/pts"))
"""
    # At the same time: numbers of namespaces are used again.
    other = subprocess.Popen([box.CLOCHE, "run", "--warm", "--quiet", "-e", code + "\nimport sys; sys.stdin.read()"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    second = [other.stdout.readline().rstrip("\n") for _ in range(3)]
    first = warm(kept, code).stdout.splitlines()
    other.communicate("")
    assert first[0] == "1 ['python3']", first  # init cannot be traced, so it is not there
    assert first[1] == "['gone', 'pipe', 'pipe', 'pipe']", first
    one, other = eval(first[2]), eval(second[2])
    shared = {kind for kind in one if one[kind] == other[kind]}
    assert shared <= {"time", "time_for_children"}, shared
    zygote = kept.state()["zygote_pid"]
    zygotes = {kind: os.readlink(f"/proc/{zygote}/ns/{kind}") for kind in one}
    assert {kind for kind in one if one[kind] == zygotes[kind]} <= {"time", "time_for_children"}


def test_uids_differ_and_are_the_boxes_own(kept):
    """Two at a time, seen from the host."""
    seen = set()
    running = [subprocess.Popen([box.CLOCHE, "run", "--warm", "-e", "import time; time.sleep(2)"]) for _ in range(2)]
    time.sleep(1)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            status = pathlib.Path("/proc", pid, "status").read_text()
        except OSError:
            continue
        uid = int(status.split("Uid:")[1].split()[0])
        if 0x7d000000 <= uid < 0x7d010000 and status.startswith("Name:\tpython3"):
            seen.add(uid)
    for process in running:
        process.wait()
    assert len(seen) >= 3, seen  # the zygote's, and the two


def test_a_crash_a_hang_and_a_flood_change_nothing_for_others(kept):
    before = kept.state()["zygote_pid"]
    hang = subprocess.Popen([box.CLOCHE, "run", "--warm", "--quiet", "-e", "while True: pass"], stdout=subprocess.DEVNULL)
    flood = subprocess.Popen([box.CLOCHE, "run", "--warm", "--quiet", "--wall", "3s", "-e",
                              "import ctypes\nc = ctypes.CDLL(None)\nwhile True: c.syscall(56, 0x7e024111, 0, 0, 0, 0)"],
                             stdout=subprocess.DEVNULL)
    try:
        for code in ("import ctypes; ctypes.string_at(0)", "import os; os.kill(-1, 9)",
                     "import ctypes; ctypes.CDLL(None).mount(0, 0, 0, 0, 0)"):
            assert warm(kept, code).cause in ("signal", "denied_syscall", "exit")
        for _ in range(5):
            assert warm(kept, "print(1)").stdout == "1\n"
    finally:
        hang.terminate()
        hang.wait()
        flood.wait()
    assert kept.state()["zygote_pid"] == before


def test_a_client_that_goes_away_ends_its_run(kept):
    client = subprocess.Popen([box.CLOCHE, "run", "--warm", "-e", "import time; time.sleep(60)"])
    kept.await_state(lambda state: state["running"] == 1, 5)
    client.kill()
    client.wait()
    kept.await_state(lambda state: state["running"] == 0, 5)


def test_a_killed_zygote_is_replaced(kept):
    zygote = kept.state()["zygote_pid"]
    os.kill(zygote, signal.SIGKILL)
    result = box.python("print(1)", "--warm")  # from a new one, or cold; or it had just been given a box that was dying
    assert (result.cause, result.stdout) in (("exit", "1\n"), ("host_failure", "")), result
    state = kept.await_state(lambda state: state["zygote_pid"] not in (zygote, -1) and state["spares"] >= 4, 20)
    assert state["zygotes"] >= 1
    assert warm(kept, "print(2)").stdout == "2\n"


def spares_of(kept):
    """The programs of a keeper's boxes that are forks, by their line of descent: other boxes may be on this machine."""
    parents, names = keeper.processes()
    zygote = kept.state()["zygote_pid"]

    def depth(pid):
        steps = 0
        while pid and pid != zygote:
            pid, steps = parents.get(pid, 0), steps + 1
        return steps if pid else 0

    return [pid for pid in names if names[pid] == "python3" and depth(pid) == 3]  # zygote's init, runner, init, program


def test_a_spare_has_its_memory_before_its_run(kept):
    """What a trial used (guest/fork/pages.c): one that fails leaves spares with next to nothing of their own."""
    kept.await_state(lambda state: state["spares"] >= 1 and state["spare_bytes"], 20)
    assert 1 << 20 < kept.state()["spare_bytes"] < 2 << 20


def test_who_is_expected_and_does_not_come_is_nobodys_loss(kept):
    """A spare gets ready as soon as a request is there, before it is known what that is."""
    for _ in range(3):
        kept.await_state(lambda state: state["spares"] >= 2, 20)
        assert warm(kept, "import os, threading; print(threading.get_native_id() == os.getpid())").stdout == "True\n"
        assert box.bash("echo of another kind", "--warm").stdout == "of another kind\n"
        assert box.raw("keep", "--state").returncode == 0
        time.sleep(0.02)  # it has given up waiting, and sleeps
    assert warm(kept, "print('as ever')").stdout == "as ever\n"


@pytest.mark.parametrize("engine, kind", [("container", "python"), ("process", "python/process")])
def test_what_a_spare_does_for_who_does_not_come_is_not_its_runs(kept, engine, kind):
    """Each byte of a request has it look out for a moment, at the cost of nobody's CPU time."""
    assert box.python("print(1)", "--warm", "--isolation", engine).cause == "exit"
    kept.await_spares(kind)
    for _ in range(400):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(os.environ["CLOCHE_KEEPER"])
            client.send(b"x")
        time.sleep(0.002)
    hits = kept.kind(kind)["hits"]
    result = box.python("print('at last')", "--warm", "--isolation", engine)
    assert result.stdout == "at last\n" and kept.kind(kind)["hits"] == hits + 1
    assert result.usage["cpu_user_ms"] + result.usage["cpu_system_ms"] < 35, result


def test_a_box_does_not_wait_for_a_client_that_does_not_read(kept):
    kept.await_state(lambda state: state["running"] == 0 and state["spares"] >= 1, 20)
    client = subprocess.Popen([box.CLOCHE, "run", "--warm", "--json", "--output-limit", "8M", "-e",
                               "import time; time.sleep(1); print('x' * 4000000)"], stdout=subprocess.PIPE)
    try:
        kept.await_state(lambda state: state["running"] == 1, 5)
        client.send_signal(signal.SIGSTOP)
        kept.await_state(lambda state: state["running"] == 0, 10)
    finally:
        client.send_signal(signal.SIGCONT)
        told = json.loads(client.communicate(timeout=20)[0])
    assert told["stdout"] == "x" * 4000000 + "\n"


def test_a_killed_spare_is_not_handed_out(kept):
    kept.await_state(lambda state: state["spares"] >= 4, 20)
    killed = spares_of(kept)
    assert len(killed) >= 4
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.05)  # one that is taken in the very moment of its death reports it
    for _ in range(6):
        assert box.python("print(1)", "--warm").stdout == "1\n"


def test_rotation_has_no_hiccup(no_keeper):
    with keeper.Keeper("--spares", "2", "--rotate", "5", "--preload", "json") as made:
        first = made.state()["zygote_pid"]
        deadline = time.monotonic() + 30
        while made.state()["rotations"] < 3:
            result = box.python("print(1)", "--warm")
            assert (result.cause, result.stdout) == ("exit", "1\n")
            assert time.monotonic() < deadline
        state = made.state()
        assert state["zygote_pid"] != first and state["failures"] == 0
        made.await_state(lambda state: state["zygotes"] <= 2, 20)


def test_nothing_is_left_when_the_keeper_ends(no_keeper):
    box.raw("reap")  # of what others left
    before = box.census()
    with keeper.Keeper("--spares", "3", "--preload", "json"):
        box.python("open('x', 'w').write('y')", "--warm")
    assert not leftovers(before)


def test_nothing_is_left_when_the_keeper_is_killed(no_keeper):
    box.raw("reap")  # of what others left
    before = box.census()
    made = keeper.Keeper("--spares", "3", "--preload", "json")
    client = subprocess.Popen([box.CLOCHE, "run", "--warm", "--quiet", "-e", "import time; time.sleep(60)"],
                              stderr=subprocess.DEVNULL)
    made.await_state(lambda state: state["running"] == 1, 10)
    made.kill()
    assert client.wait(10) == box.HOST_FAILURE
    alone = {"processes": before["processes"]}  # they end by themselves; the rest is the reaper's
    assert not {item for item in leftovers({**before, **alone}, 5) if item[0] == "processes"}
    box.raw("reap")
    assert not leftovers(before)
    with keeper.Keeper("--spares", "1", "--preload", "json", minimum=1):  # over the socket that is left
        assert box.python("print(1)", "--warm").stdout == "1\n"


def test_a_zygote_that_cannot_be_made_is_told_and_tried_again(no_keeper, tmp_path):
    """Here: because there is no place for records."""
    os.chmod(tmp_path, 0o777)
    (tmp_path / "cloche").write_text("in the way")
    directory = tempfile.mkdtemp(dir="/tmp")
    os.chmod(directory, 0o777)
    places = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "CLOCHE_KEEPER": f"{directory}/socket"}
    told = open(tmp_path / "told", "w+")
    process = subprocess.Popen([box.CLOCHE, "keep"], user=65534, group=65534, extra_groups=[], env={**os.environ, **places}, stderr=told)
    try:
        deadline, failures = time.monotonic() + 20, 0
        while failures < 2:
            assert process.poll() is None and time.monotonic() < deadline
            done = box.raw("keep", "--state", user=65534, env=places)
            failures = json.loads(done.stdout)["failures"] if done.returncode == 0 else 0
            time.sleep(0.1)
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(directory)
    told.seek(0)
    assert re.search("not warm yet: .*(cloche|cgroup)", said := told.read()) and "Broken pipe" not in said, said


def test_a_second_keeper_is_refused(no_keeper):
    with keeper.Keeper("--spares", "1", "--preload", "json", minimum=1):
        done = box.raw("keep")
        assert done.returncode == box.HOST_FAILURE and b"running already" in done.stderr


def test_a_socket_that_nobody_answers_is_taken_over(no_keeper):
    """A keeper that was killed may leave a child that holds its socket, for a moment."""
    path = os.environ["CLOCHE_KEEPER"]
    holder = subprocess.Popen([sys.executable, "-c", f"""
import os, socket, time
listening = socket.socket(socket.AF_UNIX)
if os.path.exists({path!r}): os.unlink({path!r})
listening.bind({path!r})
listening.listen()
print(flush=True)
time.sleep(0.7)"""], stdout=subprocess.PIPE)
    holder.stdout.readline()
    with keeper.Keeper("--spares", "1", "--preload", "json", minimum=1):
        assert holder.wait(5) == 0
        assert box.python("print(1)", "--warm").stdout == "1\n"


def test_state_without_a_keeper_says_how_to_start_one(no_keeper):
    done = box.raw("keep", "--state")
    assert done.returncode == box.HOST_FAILURE and b"cloche keep" in done.stderr
    assert b"is cold" in box.raw("run", "--warm", "-e", "print(1)").stderr


def test_processes_and_signals_of_some_are_not_taken_from_others(no_keeper):
    """The kernel counts them along the line of user namespaces: for all forks of a zygote together."""
    with keeper.Keeper("--spares", "5", "--preload", "json") as made:
        hogs = [subprocess.Popen([box.CLOCHE, "run", "--warm", "-e", """
import ctypes, os, signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
while ctypes.CDLL(None).sigqueue(os.getpid(), signal.SIGRTMIN, None) == 0:
    pass
try:
    while os.fork() or time.sleep(20):
        pass
except OSError:
    print("full", flush=True)
    time.sleep(20)
"""], stdout=subprocess.PIPE) for _ in range(4)]
        try:
            for hog in hogs:
                assert hog.stdout.readline() == b"full\n"
            result = warm(made, """
import ctypes, os
children = [os.fork() or os._exit(0) for _ in range(20)]
timer = ctypes.c_void_p()
print(ctypes.CDLL(None).timer_create(1, None, ctypes.byref(timer)))
""")
            assert result.stdout == "0\n", result
        finally:
            for hog in hogs:
                hog.kill()
                hog.communicate()


def test_the_keeper_of_another_user_is_not_talked_to():
    directory = tempfile.mkdtemp(dir="/tmp")
    os.chmod(directory, 0o777)
    path = f"{directory}/keeper.sock"
    listener = subprocess.Popen(["/usr/bin/python3", "-c", """
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print("ready", flush=True)
print(len(listener.accept()[0].recv(1000)), flush=True)
""", path], stdout=subprocess.PIPE, user=65534, group=65534, extra_groups=[])
    try:
        assert listener.stdout.readline() == b"ready\n"
        result = box.run("--warm", "-e", "print('cold')", env={"CLOCHE_KEEPER": path})
        assert result.stdout == "cold\n" and listener.stdout.readline() == b"0\n"
    finally:
        listener.kill()
        listener.communicate()
        shutil.rmtree(directory)
