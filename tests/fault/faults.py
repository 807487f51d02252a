"""Runs of cloche in which one system call fails, or at which a process is killed; and the judgement of their outcome.

A Shape is a command line with what an untouched run of it gives. Sweep.each() takes every call of one process in
turn, breaks it, and collects a sentence for each outcome that is not sound.
"""
import concurrent.futures
import dataclasses
import errno
import functools
import json
import pathlib
import re
import subprocess

import box

FACTS = ["--read", "/tmp/facts", "--", "/tmp/facts", "/tmp/canary"]
REFUSALS = (box.LAYER_MISSING, box.HOST_FAILURE)
HANG_SECONDS = 20
# Where the removal itself fails, something must stay; a reap then finds it. After all else nothing may be left.
REMOVALS = ("rmdir", "unlink", "unlinkat")


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
        return f"call {self.index} of process {self.process}, {self.name}({self.path or ', '.join(map(str, self.arguments))})"


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
        return next(number for number, parent in self.born.items() if parent == self.init())


class Shape:
    """A command line of cloche run, and what is right."""

    def __init__(self, *arguments, engine, json_result=True, prepare=None, expect=None):
        self.arguments = ["run", "--isolation", engine, "--wall", "10s", *(["--json"] if json_result else []), *arguments]
        self.json_result = json_result
        self.prepare = prepare or (lambda world: None)
        self.expect = expect
        self.right = None

    def learn(self, world):
        """An untouched run is the measure."""
        self.prepare(world)
        done = world.cloche(*self.arguments)
        assert self.essence(done, world) is not None, done
        self.right = self.essence(done, world)
        for _ in range(3):
            self.prepare(world)
            again = self.essence(world.cloche(*self.arguments), world)
            assert again == self.right, f"untouched runs differ: {difference(self.right, again)}"

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
        if result.get("compile"):
            kept["compile layers"] = result["compile"].get("layers")
        return done.returncode, kept, extra


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


def says_something(done, shape):
    """A refusal must carry a sentence: in the JSON, or on stderr."""
    if done.stderr.strip():
        return True
    try:
        result = json.loads(done.stdout)
    except ValueError:
        return False
    return bool(result.get("error", {}).get("message") or (result.get("cause") == "host_failure"))


class Breaker:
    """Runs a shape in a world with one call broken, and judges."""

    def __init__(self, world, shape):
        self.world = world
        self.shape = shape

    def run(self, *options):
        self.shape.prepare(self.world)
        done = self.world.run("/tmp/inject", "--report", "/tmp/report", *options, "--", "/tmp/cloche",
                              *self.shape.arguments, timeout=HANG_SECONDS)
        return done, Report.read(self.world.outside("/tmp/report"))

    def survey(self):
        """All calls of an untouched run."""
        done, report = self.run()
        assert self.shape.essence(done, self.world) == self.shape.right, \
            f"a traced run is not like others: {difference(self.shape.right, self.shape.essence(done, self.world))} {done}"
        return report

    def fail_call(self, process, index, code):
        """(hit, complaint): complaint is None when the outcome is sound, hit None when there is no such call."""
        try:
            done, report = self.run("--process", str(process), "--call", str(index), "--error", str(code))
        except subprocess.TimeoutExpired:
            hit = Report.read(self.world.outside("/tmp/report")).hit
            self.world.leftovers()
            self.world.reap()
            return hit or index, f"{hit or index} failing with {errno.errorcode[code]}: hangs"
        if report.hit is None or report.spared:
            return report.hit, None
        complaints = self.judge(done, report, process)
        left = self.world.leftovers()
        if left:
            if report.hit.name not in REMOVALS:
                complaints.append(f"leaves {left}")
            self.world.reap()
            left = self.world.leftovers()
            if left:
                complaints.append(f"and after a reap still {left}")
        if not complaints:
            return report.hit, None
        return report.hit, f"{report.hit} failing with {errno.errorcode[code]}: {'; '.join(complaints)}"

    def judge(self, done, report, process):
        if report.signal is not None:
            return [f"the launcher dies by signal {report.signal}"]
        essence = self.shape.essence(done, self.world)
        if essence == self.shape.right or self.is_told_omission(essence):
            return []
        if done.returncode not in REFUSALS:
            if essence is None:
                return [f"exit status {done.returncode} with stdout {done.stdout[:200]!r} stderr {done.stderr[:200]!r}"]
            return [f"exit status {done.returncode}, not as an untouched run: {difference(self.shape.right, essence)}"]
        silent_write = report.hit.name in ("write", "writev") and report.hit.arguments[0] in (1, 2)
        if not says_something(done, self.shape) and not silent_write:
            return [f"refuses with {done.returncode} without a word"]
        return []


    def is_told_omission(self, essence):
        """The program's own success, with files that could not be collected, each named with a reason."""
        if not self.shape.json_result or essence is None or not essence[1].get("not_collected"):
            return False
        named = {omission["path"] for omission in essence[1]["not_collected"] if omission["reason"]}
        right_files = {entry["path"]: entry for entry in self.shape.right[1]["files"]}
        lost = [path for path, entry in right_files.items() if entry not in essence[1]["files"]]
        if "" not in named and any(path not in named for path in lost):
            return False
        without = [{key: value for key, value in part.items() if key not in ("files", "not_collected")}
                   for part in (essence[1], self.shape.right[1])]
        return essence[0] == self.shape.right[0] and without[0] == without[1]


def thin_out(calls, longest=12):
    """Long rows of the same call (a hundred closes, the bounding set) are sampled: both ends and a few between."""
    kept, row = [], []

    def flush():
        if len(row) <= longest:
            kept.extend(row)
        else:
            step = max(1, (len(row) - 6) // 6)
            kept.extend(row[:3] + row[3:-3:step] + row[-3:])
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
