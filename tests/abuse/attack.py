"""Helpers of the abuse tests.

    program = attack.program("name", C_SOURCE)        # compiled once, static, where every box may read it
    result = attack.run(program, "arg", engine=…)     # cloche run --json --read … -- program arg
    attack.leftovers(census)                          # what is on the host now and was not then
"""
import atexit
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

import box
from leftovers import UID_BASE, differences, leftovers  # noqa: F401  (used by the tests as attack.…)

DEADLINE_GRACE_S = 1.0  # security.md: gone by the deadline plus one second

_directory = None
_programs = {}


def directory():
    global _directory
    if _directory is None:
        _directory = pathlib.Path(tempfile.mkdtemp(prefix="abuse-programs-", dir="/tmp"))
        os.chmod(_directory, 0o755)
        atexit.register(shutil.rmtree, _directory, ignore_errors=True)
    return _directory


def program(name, source):
    if name not in _programs:
        path = directory() / name
        (directory() / f"{name}.c").write_text(source)
        done = subprocess.run(["gcc", "-O1", "-static", "-pthread", "-D_GNU_SOURCE", "-Wno-unused-result", "-o", path, f"{path}.c"],
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        os.chmod(path, 0o755)
        _programs[name] = path
    return _programs[name]


def run(path, *arguments, limits=(), **options):
    return box.run("--read", directory(), *limits, "--", path, *arguments, **options)


def timed(function, *args, **options):
    """(result, seconds)"""
    before = time.monotonic()
    result = function(*args, **options)
    return result, time.monotonic() - before


SANITIZED = b"__asan_init" in box.CLOCHE.read_bytes() if box.CLOCHE.exists() else False


def small(peak, limit):
    """Is the launcher's peak of memory within the limit? Sanitizers take many times as much."""
    return SANITIZED or 0 < peak < limit


def host_processes(marker):
    """Processes of the host (zombies too) whose command line or name has the marker."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = pathlib.Path("/proc", pid, "cmdline").read_bytes()
            name = pathlib.Path("/proc", pid, "comm").read_text().strip()
        except OSError:
            continue
        if int(pid) != os.getpid() and (marker.encode() in line or name == marker[:15]) and b"cloche" not in line.split(b"\0")[0]:
            found.append((int(pid), line, name))
    return found


def gone(marker, seconds=DEADLINE_GRACE_S):
    deadline = time.monotonic() + seconds
    while (found := host_processes(marker)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return found == [] or found


def memory_available():
    for line in pathlib.Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no MemAvailable")
