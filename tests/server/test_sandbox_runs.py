"""What runs in live sandboxes say: in which order, how much of it, and how it is told why they failed."""
import pytest
from sandbox import Sandbox, error_of, make, until


def test_output_of_other_programs_has_its_place_among_the_interpreters(serving):
    sandbox = make(serving, runs_max=100)
    expected = "".join(f"p {number}\ns{number}\n" for number in range(10))
    for _ in range(30):
        assert sandbox.run("import os\nfor i in range(10): print('p', i); os.system(f'echo s{i}')")["stdout"] == expected
    sandbox.close()


def test_output_of_other_programs_is_limited_for_each_run_and_what_is_cut_is_counted(serving):
    sandbox = make(serving, runs_max=100, limits={"output_limit": "100k"})
    for _ in range(4):
        result = sandbox.run("import os; os.system('head -c 90000 /dev/zero | tr \\\\000 x')")
        assert len(result["stdout"]) == 90000 and result["truncated"]["stdout"] == 0
        result = sandbox.run("print('y' * 99); os.system('head -c 190000 /dev/zero | tr \\\\000 x; echo late >&2'); None")
        most = 100 << 10
        assert len(result["stdout"]) == most and result["truncated"] == {"stdout": 190100 - most, "stderr": 5, "results": 0}
    assert sandbox.run("os.system('echo hello')")["stdout"] == "hello\n"
    sandbox.close()


# Waits for it, as subprocess.run() does not once it was interrupted: what is still dying may still write.
FLOOD_BY_A_PROGRAM = """import subprocess
with subprocess.Popen(['yes']) as flood:
    try: flood.wait()
    finally: flood.kill(); flood.wait()"""


@pytest.mark.parametrize("code", ["while True: print('x' * 100000)", FLOOD_BY_A_PROGRAM])
def test_a_flood_of_output_ends_the_run_and_not_the_context(serving, code):
    sandbox = make(serving, limits={"output_limit": "1M"})
    sandbox.run("kept = 1")
    result = sandbox.run(code)
    assert result["cause"] == "output" and result["status"] == "interrupted" and not result["died"], result["cause"]
    assert len(result["stdout"]) == 1 << 20 and result["truncated"]["stdout"] >= 15 << 20
    assert sandbox.run("print(kept)")["stdout"] == "1\n"
    sandbox.close()


def test_a_program_behind_the_runs_that_floods_ends_the_context(serving):
    sandbox = make(serving, limits={"output_limit": "1M"})
    sandbox.run("import subprocess; p = subprocess.Popen(['yes'])")
    gone = until(lambda: (view := sandbox.ask("GET", "/contexts").json["contexts"][0])["state"] == "ended" and view)
    assert gone["cause"] == "output", gone
    sandbox.close()


@pytest.mark.parametrize("code, kept", [
    ("print('x' * (65 << 20))", "stdout"), ("import sys; sys.stdout.buffer.write(b'x' * (65 << 20)); None", "stdout"),
    ("import cloche; cloche.HTML('x' * (70 << 20))", None), ("import cloche; cloche.Markdown('x' * (70 << 20))", None),
    ("class Long(Exception): pass\nLong.__name__ = 'N' * (2 << 20)\nraise Long('\\x01' * (1 << 20))", "error"),
    ("class Many:\n    def _repr_mimebundle_(self, **_): return {f'text/x-{i}': 'x' for i in range(50)}\nMany()", None)])
def test_what_is_too_large_for_the_protocol_is_cut_and_kills_nobody(serving, code, kept):
    sandbox = make(serving, limits={"memory": "2G"})
    result = sandbox.run(code)
    assert not result["died"] and result["cause"] == "exit", result["cause"]
    if kept == "stdout":
        assert len(result["stdout"]) == 16 << 20 and result["truncated"]["stdout"] >= 49 << 20
    elif kept == "error":
        assert result["error"]["name"].startswith("NNN") and result["error"]["traceback"]
    else:
        assert "too large to be shown" in result["stderr"] and "text/plain" in result["results"][0]["media"]
    sandbox.close()


@pytest.mark.parametrize("code, value", [
    ("task = asyncio.create_task(f())\nawait task", "4"), ("t = asyncio.ensure_future(f())\nawait t", "4"), ("await asyncio.gather(f(), f())", "[4, 4]"),
    ("asyncio.run(f())", "4"), ("x = await f(); x + asyncio.run(f())", "8"), ("asyncio.get_event_loop().run_until_complete(f())", "4"),
    ("asyncio.run(f()); await asyncio.ensure_future(f())", "4"), ("start().done(), await start()", "(False, 4)"),
    ("async with asyncio.timeout(5): await f()\nasyncio.get_event_loop().is_running()", "False"),
    ("q = asyncio.Queue()\nasync def put(): await q.put(7)\np = asyncio.create_task(put())\nawait q.get()", "7")])
def test_await_and_its_surroundings_are_as_in_a_notebook_and_as_in_a_program(shared, code, value):
    shared.run("import asyncio\nasync def f(): return 4\ndef start(): return asyncio.create_task(f())")
    result = shared.run(code)
    assert result["status"] == "ok" and result["results"][-1]["media"]["text/plain"] == value, result


def test_a_failure_for_want_of_processes_or_space_says_so(serving):
    sandbox = make(serving, limits={"pids": 8, "disk": "2M"})
    result = sandbox.run("import subprocess\np = [subprocess.Popen(['sleep', '9']) for i in range(20)]")
    assert result["cause"] == "pids" and result["status"] == "error" and not result["died"], result
    assert sandbox.run("1 / 0")["cause"] == "exit"
    assert sandbox.run("open('/tmp/f', 'wb').write(bytes(4 << 20))")["cause"] == "disk"
    sandbox.close()


def test_a_sandbox_that_computes_in_threads_can_be_forked(serving):
    """Those that a library keeps for the next time are ended, and made again."""
    sandbox = make(serving, preset="analyst", warm=False)
    threads = "import os; print(len(os.listdir('/proc/self/task')))"
    assert int(sandbox.run(f"import numpy; a = numpy.ones((400, 400)); b = a @ a\n{threads}")["stdout"]) > 1
    fork = Sandbox(serving, sandbox.ask("POST", "/fork", {}).json["sandboxes"][0])
    for one in (sandbox, fork):
        assert one.run(f"print((a @ a == b).all())\n{threads}")["stdout"] == "True\n2\n"
    refused = sandbox.run("import threading, time; t = threading.Thread(target=time.sleep, args=(20,)); t.start()") and sandbox.ask("POST", "/fork", {})
    assert "Thread-" in error_of(refused, 422, "unprocessable")["message"]
    for one in (sandbox, fork):
        one.close()
