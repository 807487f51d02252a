"""The engine tests on the stock kernel, and the few lines that collect and run them.

A test is a function whose name is a sentence. `test` says who runs it: the roles are

    root     root, no AppArmor profile loaded
    profile  root, Cloche's AppArmor profile loaded
    user     an ordinary user in a cgroup delegated to it, profile loaded
    session  an ordinary user in a login session: no cgroup that it may write, profile loaded

and once for each engine. Standard library only: the machine has nothing else.
"""
import contextlib
import os
import pathlib
import sys
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests" / "lib"), str(ROOT / "tests" / "escape")]

ENGINES = ("container", "process")
CASES = []


class Skip(Exception):
    """Raised by a test that cannot be done here, with the reason."""


class Count:
    def __init__(self, passed=0, failed=0, skipped=0):
        self.passed, self.failed, self.skipped = passed, failed, skipped

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def __str__(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


class Case:
    def __init__(self, function, roles, engines):
        self.function, self.roles, self.engines = function, roles, engines


def test(*roles, engines=ENGINES):
    """Marks a test. With engines=None it is run once, without an argument; it may return a Count of its own."""
    def mark(function):
        CASES.append(Case(function, roles, engines))
        return function
    return mark


def role():
    return os.environ["CLOCHE_VM_ROLE"]


def say(text):
    print(text, flush=True)


@contextlib.contextmanager
def reported(name, count):
    """Counts what happens inside as one test, and says so in one line."""
    started = time.monotonic()
    own = Count()
    try:
        yield own
        word = "ok"
    except Skip as reason:
        word, own = "skipped" if os.environ.get("MUST_WORK") != "1" else "FAILED", Count(0, 0, 1)
        if word == "FAILED":
            own = Count(0, 1, 0)
        name += f": {reason}"
    except Exception:
        word, own = "FAILED", Count(0, 1, 0)
        say(traceback.format_exc(limit=-3).rstrip())
    else:
        if not (own.passed or own.failed or own.skipped):
            own.passed = 1
        elif own.failed:
            word = "FAILED"
        name += f": {own}" if own.passed > 1 or own.failed else ""
    count.add(own)
    say(f"{word:8}{role():8} {name}  ({time.monotonic() - started:.1f} s)")


def run_role(only=""):
    """Runs all tests of this process's role. Returns the Count."""
    count = Count()
    for case in CASES:
        for engine in case.engines or (None,):
            name = f"{engine + ' ' if engine else ''}{case.function.__name__}"
            if role() not in case.roles or only not in name:
                continue
            with reported(name, count) as own:
                counted = case.function(engine) if engine else case.function()
                if counted is not None:
                    own.add(counted)
    return count
