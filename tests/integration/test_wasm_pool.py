"""Processes of the wasm engine that stay: nothing of a run is there for the next, and who waits does nothing but wait."""
import contextlib
import os
import pathlib
import signal
import subprocess
import time

import box
import keeper
import pytest
import takeover

LISTED = "import os; print(os.listdir('/data/output'))"
LOOKED_AT = """import os
both = [os.stat(f'/data/{place}') for place in ('output', 'input')]
for seen in both: print(seen.st_size, seen.st_nlink)
for seen in both: print(seen.st_mtime_ns, seen.st_atime_ns, seen.st_ctime_ns)"""
WAIT_S = 10  # for a look that comes once a second

# Writes a file before it is refused.
WRITES = """(import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (memory (export "memory") 1) (data (i32.const 100) "left")
  (func $write (drop (call $open (i32.const 4) (i32.const 0) (i32.const 100) (i32.const 4) (i32.const 1) (i64.const 64) (i64.const 64) (i32.const 0) (i32.const 0))))"""
REFUSED = {
    "a call with too few values": (f'(module {WRITES} (func (export "_initialize") (call $write)) (func (export "go") (param i32)))', ("--call", "go")),
    "an exit before the start": ('(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))' + WRITES +
                                 '(func $both (call $write) (call $exit (i32.const 0))) (start $both) (func (export "_start")))', ()),
}
SETS_TIMES = """(module
 (import "wasi_snapshot_preview1" "path_filestat_set_times" (func $set (param i32 i32 i32 i32 i64 i64 i32) (result i32)))
 (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
 (memory (export "memory") 1) (data (i32.const 8) ".")
 (func (export "_start")
   (call $exit (call $set (i32.const 4) (i32.const 1) (i32.const 8) (i32.const 1)
     (i64.const 1234567890123456789) (i64.const 1000000000987654321) (i32.const 5)))))"""


@pytest.fixture(scope="module")
def kept():
    with keeper.Keeper("--spares", "1", "--preload", "json", minimum=1) as made:
        yield made


def run(code, *options, language="python"):
    done = subprocess.run([box.CLOCHE, "run", "--warm", "--json", "--isolation", "wasm", "--language", language, *map(str, options), "-e", code],
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    return box.Result(done.stdout, done.returncode, done.stderr)


def workers(kept):
    """The processes with Wasmtime in them that this keeper has."""
    parents, names = keeper.processes()
    return {pid for pid, name in names.items() if name == "cloche-wasm" and parents.get(parents[pid]) == kept.process.pid}


@pytest.fixture
def worker(kept):
    """The only one, which waits."""
    run("1")
    alive = workers(kept)
    assert len(alive) == 1, alive
    return alive.pop()


def await_end(kept, pid):
    deadline = time.monotonic() + WAIT_S
    while pid in workers(kept):
        assert time.monotonic() < deadline, f"{pid} is still there"
        time.sleep(0.05)


@pytest.mark.parametrize("how", REFUSED)
def test_files_of_a_run_that_is_refused_are_nobodys(kept, how):
    code, options = REFUSED[how]
    run("1")
    assert run(code, *options, language="wasm").returncode == box.BAD_SPEC
    after = run(LISTED)
    assert (after.stdout, after.files) == ("[]\n", []), after


def test_a_process_that_refused_its_order_is_not_used_again(kept, worker):
    assert run('(module (import "env" "no" (func)))', language="wasm").returncode == box.BAD_SPEC
    await_end(kept, worker)


MANY = "import os\nfor i in range(3000): open(f'/data/output/{i}', 'w').close()\nfor i in range(3000): os.unlink(f'/data/output/{i}')"


@pytest.mark.parametrize("language, code, rest_s", [
    ("wasm", SETS_TIMES, 0), ("python", MANY, 1), ("python", "import os; os.mkdir('/data/output/x'); os.rmdir('/data/output/x')", 1), ("python", LISTED, 1),
    ("python", "import os; os.listdir('/data/input')", 1)], ids=["times", "many", "directory", "listed", "inputs"])
def test_directories_show_nothing_of_the_run_before(kept, worker, language, code, rest_s):
    """Its times are those of before, or of after the run."""
    before = run(LOOKED_AT).stdout.split()
    ended = time.time_ns() + rest_s * 9 * 10 ** 8
    assert run(code + (f"\nimport time; time.sleep({rest_s})" if rest_s else ""), language=language).exit_code == 0
    seen = run(LOOKED_AT).stdout.split()
    assert seen[:4] == before[:4]
    for now, then in zip(seen[4:], before[4:], strict=True):
        assert now == then or int(now) >= ended - 10 ** 7, (seen, before, ended)
    assert workers(kept) == {worker}, "it can still be used"


def big_module(number, size=6 << 20):
    """As the binary format has it: data that only its code could copy into memory."""
    def length(value):
        coded = b""
        while value > 127:
            coded, value = coded + bytes([value & 127 | 128]), value >> 7
        return coded + bytes([value])

    def section(kind, content):
        return bytes([kind]) + length(len(content)) + content
    data = bytes([number]) * size
    return (b"\0asm\1\0\0\0" + section(1, b"\1\x60\0\0") + section(3, b"\1\0") + section(7, b"\1\x06_start\0\0") + section(12, b"\1") +
            section(10, b"\1\2\0\x0b") + section(11, b"\1\1" + length(size) + data))


def own_memory(pid):
    fields = dict(line.split(":", 1) for line in pathlib.Path("/proc", str(pid), "status").read_text().splitlines())
    return int(fields["RssAnon"].split()[0]) << 10


def run_file(path):
    done = subprocess.run([box.CLOCHE, "run", "--warm", "--json", "--memory", "1G", path], stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    return box.Result(done.stdout, done.returncode, done.stderr)


def test_modules_that_are_kept_are_few_megabytes(kept, worker, tmp_path):
    for number in range(8):
        (tmp_path / "big.wasm").write_bytes(big_module(number))
        assert run_file(tmp_path / "big.wasm").exit_code == 0
    assert workers(kept) == {worker} and own_memory(worker) < 32 << 20
    assert run("1", "--memory", "64M").cause == "exit"


def test_who_holds_much_is_not_kept(kept, worker, tmp_path):
    (tmp_path / "big.wasm").write_bytes(big_module(1, (16 << 20) - 1000))
    assert run_file(tmp_path / "big.wasm").exit_code == 0
    await_end(kept, worker)


def test_who_computes_while_it_waits_is_ended(kept, worker):
    with takeover.Takeover(worker):
        pass  # is left as it was, and no reason to end it
    deadline = time.monotonic() + WAIT_S
    while worker in workers(kept):  # each wakes its clock: that is time of its own
        assert time.monotonic() < deadline, "it goes on"
        try:
            for _ in range(2000):
                os.kill(worker, signal.SIGALRM)
        except ProcessLookupError:
            break
    assert run("print(1)").stdout == "1\n"


def test_who_takes_memory_while_it_waits_is_ended(kept, worker):
    with takeover.Takeover(worker) as taken:
        assert taken.touch_memory(256 << 20) > 0
    await_end(kept, worker)
    assert run("print(1)", "--memory", "64M").stdout == "1\n"


def test_who_makes_a_process_is_ended(kept, worker):
    with takeover.Takeover(worker) as taken:
        assert taken.call(takeover.FORK) > 0
    await_end(kept, worker)


def test_a_process_that_is_made_while_a_run_is_under_way_ends_it(kept, worker):
    running = subprocess.Popen([box.CLOCHE, "run", "--warm", "--json", "--isolation", "wasm", "-e", "import time; time.sleep(20)"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        time.sleep(0.5)
        with contextlib.suppress(ProcessLookupError), takeover.Takeover(worker) as taken:  # the end may come before the call is back
            assert taken.call(takeover.FORK) > 0
        result = box.Result(running.communicate(timeout=30)[0], running.returncode, b"")
        assert result.cause == "pids", result
    finally:
        running.kill()
        running.wait()
    await_end(kept, worker)


def kernel_limits(pid):
    text = pathlib.Path("/proc", str(pid), "limits").read_text()
    return {line[:26].strip(): line[26:].split()[:2] for line in text.splitlines() if line.startswith(("Max processes", "Max file size", "Max open files"))}


def await_workers_below(pid):
    """Of a run without a keeper: its own."""
    deadline = time.monotonic() + WAIT_S
    while True:
        parents, names = keeper.processes()
        found = [each for each, name in names.items() if name == "cloche-wasm" and parents.get(parents[each]) == pid]
        if found:
            return found
        assert time.monotonic() < deadline, "it does not start"
        time.sleep(0.02)


@pytest.mark.parametrize("options", [(), ("--pids", "5", "--disk", "8M", "--open-files", "100")], ids=["usual", "own"])
def test_the_kernel_limits_of_a_warm_run_are_those_of_a_cold_one(kept, options):
    for pid in workers(kept):
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.2)
    run("1")  # one with other limits, or the same
    assert run("1", *options).exit_code == 0
    running = subprocess.Popen([box.CLOCHE, "run", "--isolation", "wasm", *options, "-e", "import time; time.sleep(20)"], stdin=subprocess.DEVNULL)
    try:
        cold = [kernel_limits(pid) for pid in await_workers_below(running.pid)]
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(30)
    warm = [kernel_limits(pid) for pid in workers(kept)]
    assert len(warm) == (2 if options else 1) and len(cold) == 1 and len(cold[0]) == 3
    assert cold[0] in warm, warm


def test_an_ordinary_users_keeper_has_them_too(shared):
    os.chown(shared, 65534, 65534)
    whose = {"user": 65534, "env": {"HOME": str(shared), "CLOCHE_KEEPER": str(shared / "socket")}}
    touched = "import os; os.mkdir('/data/output/x'); os.rmdir('/data/output/x'); os.listdir('/data/input')"
    with keeper.Keeper("--spares", "0", "--preload", "json", warm=False, **whose) as own:
        for code in (touched, LISTED, LISTED):
            done = subprocess.run([box.CLOCHE, "run", "--warm", "--isolation", "wasm", "-e", code], stdin=subprocess.DEVNULL, capture_output=True,
                                  timeout=60, cwd=shared, user=65534, group=65534, extra_groups=[], env={**os.environ, **whose["env"]})
            assert done.returncode == 0 and done.stdout == (b"" if code == touched else b"[]\n"), done
        assert (own.kind("wasm")["hits"], own.kind("wasm")["misses"]) == (2, 1)
