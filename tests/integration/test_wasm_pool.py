"""Processes of the wasm engine that stay: nothing of a run is there for the next, and who waits does nothing but wait."""
import pathlib
import subprocess

import box
import keeper
import pytest


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
