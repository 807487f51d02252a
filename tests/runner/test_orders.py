"""Orders to the Python runner beside runs: to preload, to become a program, to fork."""
import array
import os
import resource
import select
import shutil
import signal
import socket
import struct

import box
import harness
import pytest


@pytest.fixture
def packed(tmp_path):
    """A runner as it is in a box: with the library that forks it."""
    shutil.copytree(harness.GUEST / "cloche", tmp_path / "cloche", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(box.BUILD / "fork.so", tmp_path / "cloche" / "fork.so")
    made = harness.Context(PYTHONPATH=str(tmp_path))
    yield made
    made.close()


def become(context, code, **fields):
    """What is left when the runner has become this program: its exit status, and what it wrote."""
    context.send({"type": "main", "path": "/code/hello.py", "arguments": [], "environment": [], "rlimits": [], **fields},
                 code.encode())
    out, err = context.process.communicate(timeout=30)
    return context.process.returncode, out.decode(), err.decode()


def preload(context, *modules):
    context.send({"type": "preload", "modules": modules})
    return context.receive()[0]


# ---- preload ----

def test_preload_imports_and_says_ready(packed):
    assert preload(packed, "decimal", "json.tool")["type"] == "ready"
    assert packed.run("import sys; 'decimal' in sys.modules, 'json.tool' in sys.modules").value == "(True, True)"


def test_preload_leaves_out_what_is_not_there(packed):
    assert preload(packed, "no_such_module_at_all", "decimal")["type"] == "ready"
    assert packed.run("import sys; 'decimal' in sys.modules").value == "True"


def test_preload_of_a_spare_leaves_no_files_and_needs_no_library(context):
    for name in ("file", "folder/below"):
        path = os.path.join(context.home.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w").close()
    context.send({"type": "preload", "modules": ["decimal", "no_such_module_at_all"], "forks": False})
    assert context.receive()[0]["type"] == "ready" and not os.listdir(context.home.name)
    assert become(context, "import sys; print('decimal' in sys.modules)")[:2] == (0, "True\n")


def test_preload_of_nothing_says_ready(packed):
    assert preload(packed)["type"] == "ready"
    assert packed.run("1").value == "1"


def test_preloaded_interpreter_still_allocates_and_frees(packed):
    preload(packed, "decimal")
    assert packed.run("x = [[i] * 10 for i in range(300_000)]; len(x)").value == "300000"
    assert packed.run("del x; y = [str(i) for i in range(300_000)]; y[-1]").value == "'299999'"


# ---- main ----

def test_program_has_its_surroundings(context):
    status, out, err = become(
        context, "import sys, os, resource\nprint(sys.argv, __name__, __file__, sys.path[0], os.environ['A'], "
                 "resource.getrlimit(resource.RLIMIT_NOFILE))",
        arguments=["a", ""], environment=["A=b=c"], rlimits=[[resource.RLIMIT_NOFILE, 64]])
    assert (status, out, err) == (0, "['/code/hello.py', 'a', ''] __main__ /code/hello.py /code b=c (64, 64)\n", "")


@pytest.mark.parametrize("code,status", [
    ("", 0), ("raise SystemExit", 0), ("raise SystemExit(3)", 3), ("raise SystemExit(259)", 3), ("import sys; sys.exit(-1)", 255),
    ("import os; os._exit(7)", 7), ("1 / 0", 1), ("print(", 1), ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -15),
    ("raise KeyboardInterrupt", -signal.SIGINT),
])
def test_programs_end_as_python_ends_them(context, code, status):
    assert become(context, code)[0] == status


def test_program_that_waits_begins_at_the_word(context):
    context.send({"type": "main", "path": "/code/hello.py", "waits": True}, b"print('begun', flush=True)")
    assert not select.select([context.process.stdout], [], [], 0.5)[0]
    context.socket.sendall(b"g")
    assert context.process.communicate(timeout=10) == (b"begun\n", b"")


def test_program_that_waits_for_nobody_does_not_begin(context):
    context.send({"type": "main", "path": "/code/hello.py", "waits": True}, b"print('begun')")
    context.socket.close()
    assert context.process.communicate(timeout=10) == (b"", b"")


def test_exit_with_a_message(context):
    assert become(context, "raise SystemExit('a message')") == (1, "", "a message\n")


def test_traceback_names_the_program_and_not_the_runner(context):
    status, _, err = become(context, "def f():\n    1 / 0\nf()")
    assert status == 1 and 'File "/code/hello.py", line 2, in f' in err and "script.py" not in err and "ZeroDivisionError" in err


def test_exit_functions_threads_and_streams_are_waited_for(context):
    code = ("import atexit, sys, threading, time\natexit.register(print, 'bye')\n"
            "threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()\nsys.stdout.write('cut')")
    assert become(context, code)[:2] == (0, "cutthread\nbye\n")


def test_program_has_no_channel_to_the_host(context):
    status, out, _ = become(context, "import os\nprint([n for n in os.listdir('/proc/self/fd') "
                                     "if os.path.exists(f'/proc/self/fd/{n}') and int(n) > 2])")
    assert (status, out) == (0, "[]\n")
    assert context.socket.recv(1) == b""


def test_interrupt_of_a_program_is_its_own(context):
    context.send({"type": "main", "path": "/code/hello.py"},
                 b"import time\ntry:\n    print('on', flush=True)\n    time.sleep(30)\nexcept KeyboardInterrupt: print('caught')")
    assert context.process.stdout.readline() == b"on\n"
    context.interrupt()
    out, _ = context.process.communicate(timeout=10)
    assert (context.process.returncode, out) == (0, b"caught\n")


# ---- fork ----

def test_fork_without_descriptors_is_refused_and_nothing_breaks(context):
    context.run("x = 1")
    context.send({"type": "fork", "landlock": 0})
    header, _ = context.receive()
    assert header["type"] == "refused" and "descriptors" in header["text"]
    assert context.run("x").value == "1"


def test_fork_with_too_few_descriptors_is_refused_and_they_are_closed(context):
    count = "import os; len(os.listdir('/proc/self/fd'))"
    before = context.run(count).value
    head = b'{"type":"fork","landlock":0}'
    with open(os.devnull) as null:
        context.socket.sendmsg([struct.pack("<II", len(head), 0) + head],
                               [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [null.fileno()] * 3))])
    header, _ = context.receive()
    assert header["type"] == "refused" and "descriptors" in header["text"]
    assert context.run(count).value == before


def test_what_was_seen_ahead_of_a_fork_holds_until_code_runs(context):
    context.run("import threading\ngo = threading.Event()\nt = threading.Thread(target=go.wait, name='bee')\nt.start()")
    context.send({"type": "look"})
    context.send({"type": "fork"})
    header, _ = context.receive()
    assert header["type"] == "refused" and "bee" in header["text"]
    context.send({"type": "look"})
    assert context.run("go.set(); t.join()").status == "ok"
    context.send({"type": "fork"})
    header, _ = context.receive()
    assert header["type"] == "refused" and "descriptors" in header["text"]


def test_fork_is_refused_while_threads_or_children_run(context):
    context.run("import threading\ngo = threading.Event()\nt = threading.Thread(target=go.wait, name='bee')\nt.start()")
    context.send({"type": "fork"})
    header, _ = context.receive()
    assert header["type"] == "refused" and "bee" in header["text"]
    context.run("go.set(); t.join()\nimport subprocess\np = subprocess.Popen(['cat'], stdin=subprocess.PIPE, "
                "stdout=subprocess.PIPE)\np.stdin.write(b'on\\n'); p.stdin.flush(); p.stdout.readline()")
    context.send({"type": "fork"})
    header, _ = context.receive()
    assert header["type"] == "refused" and "cat" in header["text"]
    assert context.run("p.kill(); p.wait()").status == "ok"
