"""Runs of cloche in which one system call fails, or at which a process is killed; and the judgement of their outcome.

A Shape is a command line with what an untouched run of it gives. Sweep.each() takes every call of one process in
turn, breaks it, and collects a sentence for each outcome that is not sound.
"""
import concurrent.futures
import dataclasses
import errno
import functools
import json
import os
import pathlib
import re
import subprocess

import box

FACTS = ["--read", "/tmp/facts", "--", "/tmp/facts", "/tmp/canary"]
# The same by an ordinary user.
ORDINARY = ["/usr/bin/setpriv", "--reuid=54321", "--regid=54321", "--clear-groups", "--inh-caps=-all"]
REFUSALS = (box.LAYER_MISSING, box.HOST_FAILURE)
HANG_SECONDS = 20
# Where a granted path cannot be looked at the filter is the one for paths that hold sockets: less is allowed, not more.
STRICTER = ", no named sockets"
# A sanitizer's own allocations end the program when they fail: nothing to learn from that.
SANITIZED = b"__asan_init" in box.CLOCHE.read_bytes() if box.CLOCHE.exists() else False
ALLOCATIONS = ("mmap", "munmap", "mremap", "mprotect", "madvise", "brk")


@functools.lru_cache(maxsize=None)
def call_names():
    header = pathlib.Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h").read_text()
    return {int(number): name for name, number in re.findall(r"#define __NR_(\w+)\s+(\d+)", header)}


@dataclasses.dataclass
class Call:
    """One line of the tool's report."""

    process: int
    index: int
    number: int
    arguments: tuple
    path: str

    @classmethod
    def parse(cls, words):
        return cls(int(words[1]), int(words[2]), int(words[3]), tuple(map(int, words[4:7])), " ".join(words[7:]))

    @property
    def name(self):
        return call_names().get(self.number, str(self.number))

    def __str__(self):
        shown = self.path or ", ".join(str(value) if -2**16 < value < 2**16 else "…" for value in self.arguments)
        return f"call {self.index} of process {self.process}, {self.name}({shown})"


@dataclasses.dataclass
class Report:
    calls: list
    hit: Call = None
    spared: bool = False
    signal: int = None
    born: dict = dataclasses.field(default_factory=dict)
    executed: list = dataclasses.field(default_factory=list)

    @classmethod
    def read(cls, path):
        report = cls([])
        for line in path.read_text().splitlines():
            words = line.split(" ")
            if words[0] == "call":
                report.calls.append(Call.parse(words))
            elif words[0] in ("hit", "spared"):
                report.hit = Call.parse(words)
                report.spared = words[0] == "spared"
            elif words[0] == "born":
                report.born[int(words[1])] = int(words[2])
            elif words[0] == "exec":
                report.executed.append(int(words[1]))
            elif words[0] == "end" and words[1] == "signal":
                report.signal = int(words[2])
        return report

    def init(self):
        """The number of the process that becomes the box's init: the child of the launcher that executes."""
        return next(number for number, parent in self.born.items() if parent == 0 and number in self.executed)

    def program(self):
        """Init's child that executes: before it is init, it may have had others, which help it to get there."""
        return next(number for number, parent in self.born.items() if parent == self.init() and number in self.executed)


class Shape:
    """A command line of cloche run, and what is right."""

    def __init__(self, *arguments, engine, json_result=True, prepare=None, expect=None, prefix=()):
        self.prefix = list(prefix)
        shown = ["--json"] if json_result else []
        self.arguments = ["run", "--isolation", engine, "--wall", "10s", *shown, *arguments]
        self.json_result = json_result
        self.prepare = prepare or (lambda world: None)
        self.expect = expect
        self.right = None

    def learn(self, world):
        """An untouched run is the measure."""
        self.right = self.essence(self.untouched(world), world)
        assert self.right is not None and self.right[0] == 0, self.untouched(world)
        for _ in range(3):
            again = self.essence(self.untouched(world), world)
            assert again == self.right, f"untouched runs differ: {difference(self.right, again)}"

    def untouched(self, world):
        self.prepare(world)
        return world.run(*self.prefix, "/tmp/cloche", *self.arguments)

    def reap(self, world):
        return world.run(*self.prefix, "/tmp/cloche", "reap")

    def essence(self, done, world):
        """All that must be the same in every run that claims success; None when it does not claim it."""
        extra = self.expect(world) if self.expect else None
        if not self.json_result:
            return done.returncode, done.stdout, done.stderr, extra
        try:
            result = json.loads(done.stdout)
        except ValueError:
            return None
        if "error" in result:
            return None
        kept = {key: value for key, value in result.items() if key not in ("usage", "compile")}
        kept["stdout"] = kept["stdout"].splitlines()
        # Why a layer is not there may be said in other words; that it is not, or is, may not change.
        kept["layers"] = [{**layer, "detail": layer["detail"].replace(STRICTER, "") if layer["active"] else None}
                          for layer in result["layers"]]
        if self.prefix:  # counted from the user's other processes, of which there may be more or fewer
            kept["stdout"] = [line for line in kept["stdout"] if not line.startswith("rlimit 6 ")]
        if result.get("compile"):
            kept["compile layers"] = result["compile"].get("layers")
        return done.returncode, kept, extra


def texts_of(code):
    """What an error is called: each C library has its own words, and `cloche` is linked with another one than Python."""
    in_musl = {errno.EIO: "I/O error", errno.EMFILE: "No file descriptors available", errno.ENOMEM: "Out of memory",
               errno.ENFILE: "Too many open files in system"}
    return [os.strerror(code), *filter(None, [in_musl.get(code)])]


def difference(right, seen):
    """The parts in which two essences differ, short."""
    if isinstance(right, (tuple, list)) and isinstance(seen, (tuple, list)):
        if len(right) == len(seen):
            parts = [difference(a, b) for a, b in zip(right, seen) if a != b]
            return "; ".join(parts[:4])
        gone = [item for item in right if item not in seen]
        new = [item for item in seen if item not in right]
        return f"missing {gone[:4]}, new {new[:4]}"
    if isinstance(right, dict) and isinstance(seen, dict):
        return "; ".join(f"{key}: {difference(right.get(key), seen.get(key))}" for key in {**right, **seen}
                         if right.get(key) != seen.get(key))
    return f"{str(right)[:300]!r} became {str(seen)[:300]!r}"


def says_something(done):
    """A refusal must carry a sentence: in the JSON, or on stderr."""
    if done.stderr.strip():
        return True
    try:
        result = json.loads(done.stdout)
    except ValueError:
        return False
    return bool(result.get("error", {}).get("message") or (result.get("cause") == "host_failure"))


def without_mapping(essence):
    """Where owners may not be mapped a granted path is shown with a stranger's rights: fewer, and so no downgrade."""
    result = essence[1]
    if not isinstance(result, dict):
        return essence
    return essence[0], {**result, "stdout": [line.replace(",idmapped", "") for line in result["stdout"]]}, essence[2]


@dataclasses.dataclass
class Outcome:
    """What came of one broken call: a complaint about the run itself, and what was left before any reap."""

    hit: Call = None
    complaint: str = None
    left: str = None


class Breaker:
    """Runs a shape in a world with one call broken, and judges."""

    def __init__(self, world, shape):
        self.world = world
        self.shape = shape

    def run(self, *options):
        self.shape.prepare(self.world)
        execs = ["--execs", "2"] if self.shape.prefix else []
        done = self.world.run("/tmp/inject", "--report", "/tmp/report", *execs, *options, "--", *self.shape.prefix,
                              "/tmp/cloche", *self.shape.arguments, timeout=HANG_SECONDS)
        return done, Report.read(self.world.outside("/tmp/report"))

    def survey(self):
        """All calls of an untouched run."""
        done, report = self.run()
        essence = self.shape.essence(done, self.world)
        assert essence == self.shape.right, \
            f"a traced run is not like others: {difference(self.shape.right, essence)} {done}"
        return report

    def fail_call(self, process, index, code):
        name = errno.errorcode[code]
        try:
            done, report = self.run("--process", str(process), "--call", str(index), "--error", str(code))
        except subprocess.TimeoutExpired:
            self.world.leftovers()
            self.shape.reap(self.world)
            return Outcome(index, f"call {index} of process {process} failing with {name}: hangs")
        if report.hit is None or report.spared:
            return Outcome(report.hit)
        if SANITIZED and report.hit.name in ALLOCATIONS:
            self.world.leftovers()
            self.shape.reap(self.world)
            return Outcome(report.hit)
        complaints = self.judge(done, report.hit, report, code)
        before = self.world.leftovers()
        if before:
            self.shape.reap(self.world)
            after = self.world.leftovers()
            if after:
                complaints.append(f"leaves {after} even after a reap")
                self.world.kill_all()
        what = f"{report.hit} failing with {name}: "
        return Outcome(report.hit, what + "; ".join(complaints) if complaints else None,
                       f"{what}leaves {before}" if before else None)

    def judge(self, done, hit, report, code):
        if report.signal is not None:
            return [f"the launcher dies by signal {report.signal}"]
        essence = self.shape.essence(done, self.world)
        if essence == self.shape.right or self.is_told_omission(essence):
            return []
        if code == errno.EPERM and essence and without_mapping(essence) == without_mapping(self.shape.right):
            return []
        if code == errno.EPERM and essence and done.returncode != 0 and "disk" in str(essence):
            return []  # a guest could forbid us to look at its files: what cannot be counted counts as too much
        to_the_caller = hit.process == 0 and hit.name in ("write", "writev") and hit.arguments[0] in (1, 2)
        if to_the_caller and done.returncode != 0:
            return []  # nobody can be told, but it is no success
        # A file of the caller's that cannot be read is a wrong spec, if the reason is told.
        said = done.stdout + done.stderr
        is_named = done.returncode == box.BAD_SPEC and any(text.encode() in said for text in texts_of(code))
        if done.returncode not in REFUSALS and not is_named:
            if essence is None:
                return [f"exit status {done.returncode}, stdout {done.stdout[:200]!r}, stderr {done.stderr[:200]!r}"]
            other = difference(self.shape.right, essence)
            return [f"exit status {done.returncode}, but not as an untouched run: {other}"]
        if not says_something(done):
            return [f"refuses with {done.returncode} without a word"]
        return []

    def is_told_omission(self, essence):
        """The program's own success, with files that could not be collected, each named with a reason."""
        right = self.shape.right
        if essence is None:
            return False
        if not self.shape.json_result:
            said = [line for line in essence[2].splitlines(True) if not line.startswith(b"cloche: not collected: ")]
            return (essence[0], essence[1], b"".join(said), essence[3]) == right
        named = {omission["path"] for omission in essence[1]["not_collected"] if omission["reason"]}
        lost = [entry["path"] for entry in right[1]["files"] if entry not in essence[1]["files"]]
        told = lambda path: path in named or any(name in ("", ".") or path.startswith(name + "/") for name in named)
        if not named or not all(told(path) for path in lost):
            return False
        same = [{key: value for key, value in part.items() if key not in ("files", "not_collected")}
                for part in (essence[1], right[1])]
        return essence[0] == right[0] and same[0] == same[1]


def thin_out(calls, longest=10):
    """Long rows of the same call (a hundred closes, the bounding set) are sampled: both ends and a few between."""
    kept, row = [], []

    def flush():
        if len(row) <= longest:
            kept.extend(row)
        else:
            kept.extend(row[:2] + row[2:-2:max(1, (len(row) - 4) // 5)] + row[-2:])
        row.clear()

    for call in calls:
        if row and row[-1].number != call.number:
            flush()
        row.append(call)
    flush()
    return kept


def in_parallel(worlds, items, work):
    """work(world, item) for all items, each world taking the next as it gets free; the results in order."""
    free = list(worlds)

    def one(item):
        world = free.pop()
        try:
            return work(world, item)
        finally:
            free.append(world)

    with concurrent.futures.ThreadPoolExecutor(len(worlds)) as pool:
        return list(pool.map(one, items))


def report_complaints(complaints):
    found = [text for text in complaints if text]
    assert not found, f"{len(found)} unsound outcomes:\n  " + "\n  ".join(found)
