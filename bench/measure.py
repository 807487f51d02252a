"""Timing of commands, side by side: the part that every benchmark here shares.

Theory of operation
-------------------
A contender is a command that must print a known text.  `interleave` runs all of
them in rounds: each round runs every contender once, in an order shuffled anew,
so that a noisy neighbour or a slow phase of the machine hits all of them alike,
and no contender always runs behind the same other one.

One run is timed from just before posix_spawn (vfork-like: the size of this
Python process costs nothing) until the kernel marks the process as exited, seen
through a pidfd.  Its output is then checked.  A run with the wrong output or
exit code is counted and shown, and its time is thrown away.

This process is a subreaper: whatever a contender leaves running behind its back
(podman's conmon, say) becomes our child, and we wait for its end, untimed,
before the next run starts.
"""

import atexit
import ctypes
import math
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Callable, List, Optional

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OUTPUT_KEPT_BYTES = 64 * 1024
FAILURES_IN_A_ROW_LIMIT = 10
SETTLE_TIMEOUT_S = 20.0
PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWNS = 0x00020000

libc = ctypes.CDLL(None, use_errno=True)


class Missing(Exception):
    """A contender cannot take part; the text is the reason shown to people."""


@dataclass
class Sample:
    """What one run gave.  `why` is empty exactly when the run counts."""

    elapsed_ms: float
    settle_ms: float
    why: str = ""


@dataclass
class Contender:
    """One row of the table.

    `command` gets the number of the run, because some runtimes want a name that
    was never used before.  `namespace` is a mount namespace descriptor to start
    the command in, or None for the one we live in.
    """

    key: str
    label: str
    command: Callable[[int], List[str]]
    kind: str = "peer"  # "native", "cloche" or "peer": decides the colour in the chart
    slow: bool = False
    version: str = ""
    note: str = ""
    missing: str = ""
    namespace: Optional[int] = None
    expect: bytes = b"1\n"
    runs_wanted: int = 0
    runs_started: int = 0
    samples: List[Sample] = field(default_factory=list)

    def times_ms(self):
        return [sample.elapsed_ms for sample in self.samples if not sample.why]

    def failures(self):
        return [sample.why for sample in self.samples if sample.why]


def taken(key, label, values_ms, note, kind="cloche", failed=0, why="failed"):
    """A contender whose times were taken by somebody else."""
    made = Contender(key, label, lambda number: [], kind=kind, note=note)
    made.samples = [Sample(value, 0.0) for value in values_ms] + [Sample(0.0, 0.0, why)] * failed
    return made


def absent(key, label, reason, kind="peer"):
    """A contender that cannot run still gets its row, with the reason."""
    return Contender(key, label, lambda number: [], kind=kind, missing=reason)


def have_own_keeper():
    """A socket of the benchmark's own, until it ends: others may have a keeper on this machine."""
    place, owner = tempfile.mkdtemp(prefix="cloche-bench-"), os.getpid()
    os.environ["CLOCHE_KEEPER"] = os.path.join(place, "socket")
    atexit.register(lambda: os.getpid() == owner and shutil.rmtree(place, ignore_errors=True))


def clean_environment():
    """The same small environment for everybody: no PYTHON* variables of ours leak
    in, and XDG_* stays because it decides where a user's caches are."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("XDG_")}
    return {"PATH": SYSTEM_PATH, "HOME": os.environ.get("HOME", "/"), "LANG": "C.UTF-8", **kept}


def become_subreaper():
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def enter_mount_namespace(descriptor):
    # The kernel refuses this in a process with threads, which is why nothing here
    # may import numpy or matplotlib before the measuring is over.
    if libc.setns(descriptor, CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), "setns to a mount namespace (are there threads?)")


class inside:
    """Visit a mount namespace and come back; None means stay at home."""

    def __init__(self, namespace):
        self.namespace = namespace
        self.home = None

    def __enter__(self):
        if self.namespace is not None:
            self.home = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            enter_mount_namespace(self.namespace)

    def __exit__(self, *_):
        if self.home is not None:
            enter_mount_namespace(self.home)
            os.close(self.home)
            self.home = None


def child_pids():
    path = f"/proc/self/task/{os.getpid()}/children"
    with open(path, encoding="ascii") as children:
        return [int(word) for word in children.read().split()]


def settle(keep, timeout_s=SETTLE_TIMEOUT_S):
    """Wait until nothing but the processes in `keep` is left of our descendants.
    Returns the milliseconds waited; what outlives the time-out is killed by pid."""
    start = time.perf_counter()
    while True:
        left = [pid for pid in child_pids() if pid not in keep]
        # Only pids not reaped yet are killed: a reaped one may be anybody's by now.
        left = [pid for pid in left if os.waitpid(pid, os.WNOHANG)[0] == 0]
        waited_s = time.perf_counter() - start
        # Their own children come to us with their death, so look again before
        # calling it settled.  The second limit is for what SIGKILL does not end.
        if not left and set(child_pids()) <= set(keep) or waited_s > timeout_s + 5:
            return waited_s * 1000
        if waited_s > timeout_s:
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.0005)


def spawn(command, environment, stdout, stderr):
    # An ended pipe and not /dev/null: runtimes with user namespaces give their stdin
    # to the container's root, and that would be the host's device.
    null, write_end = os.pipe2(os.O_CLOEXEC)
    os.close(write_end)
    try:
        return os.posix_spawn(
            command[0],
            command,
            environment,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, null, 0),
                (os.POSIX_SPAWN_DUP2, stdout, 1),
                (os.POSIX_SPAWN_DUP2, stderr, 2),
            ],
            # Its own group: Ctrl-C reaches us alone, and we end it in order.
            setpgroup=0,
            # Python ignores these two, and an ignored signal is inherited.
            setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
        )
    finally:
        os.close(null)


def drain(descriptor, kept):
    """Read what is there; returns False at the end of the stream."""
    try:
        data = os.read(descriptor, OUTPUT_KEPT_BYTES)
    except BlockingIOError:
        return True
    if len(kept) < OUTPUT_KEPT_BYTES:
        kept.extend(data)
    return bool(data)


def wait_for_exit(pidfd, streams, timeout_s):
    """Collect output until the process has exited.  Returns the time stamp of the
    exit, or None on a time-out.  The end of the pipes is not waited for: a helper
    left behind may hold them open."""
    deadline = time.perf_counter() + timeout_s
    poller = select.poll()
    for descriptor in (pidfd, *streams):
        poller.register(descriptor, select.POLLIN)
    while True:
        remaining = deadline - time.perf_counter()
        if remaining <= 0:
            return None
        events = poller.poll(remaining * 1000)
        now = time.perf_counter_ns()
        ready = [descriptor for descriptor, _ in events]
        for descriptor in ready:
            if descriptor in streams and not drain(descriptor, streams[descriptor]):
                poller.unregister(descriptor)
        if pidfd in ready:
            for descriptor, kept in streams.items():
                drain(descriptor, kept)
            return now


def verdict(status, stdout, stderr, expect):
    """Why a run does not count, or an empty text when it does."""
    code = os.waitstatus_to_exitcode(status)
    if code == 0 and stdout == expect:
        return ""
    said = bytes(stderr or stdout).decode(errors="replace").strip().splitlines()
    last = f": {said[-1][:200]}" if said else ""
    if code != 0:
        return f"{'signal' if code < 0 else 'exit code'} {abs(code)}{last}"
    return f"printed {bytes(stdout[:40])!r} instead of {expect!r}{last}"


def run_once(command, expect=b"1\n", namespace=None, keep=(), timeout_s=30.0):
    """Run and time one command; never raises for what the command does."""
    environment = clean_environment()
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    streams = {out_read: bytearray(), err_read: bytearray()}
    pid, pidfd = None, None
    try:
        for descriptor in streams:
            os.set_blocking(descriptor, False)
        with inside(namespace):
            start = time.perf_counter_ns()
            pid = spawn(command, environment, out_write, err_write)
            pidfd = os.pidfd_open(pid)
            end = wait_for_exit(pidfd, streams, timeout_s)
        if end is None:
            os.killpg(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        pid = None
        settled_ms = settle(keep)
        why = verdict(status, streams[out_read], streams[err_read], expect)
        if end is None:
            return Sample(timeout_s * 1000, settled_ms, f"no end within {timeout_s:g} s")
        return Sample((end - start) / 1e6, settled_ms, why)
    except OSError as error:
        return Sample(0.0, 0.0, f"could not start {command[0]}: {error.strerror or error}")
    finally:
        if pid is not None:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        for descriptor in (out_read, out_write, err_read, err_write, pidfd):
            if descriptor is not None:
                os.close(descriptor)


def run_contender(contender, keep=()):
    command = contender.command(contender.runs_started)
    contender.runs_started += 1
    return run_once(command, contender.expect, contender.namespace, keep)


def warm_up(contender, keep=(), times=2):
    """Untimed first runs, so that everybody starts with a filled page cache.  A
    contender that fails all of them is missing, with its own words as the reason."""
    reason = ""
    for _ in range(times):
        reason = run_contender(contender, keep).why
        if not reason:
            return
    contender.missing = f"does not run here: {reason}"


def takes_part(round_number, rounds, wanted):
    """Spread `wanted` runs evenly over `rounds` rounds."""
    return (round_number + 1) * wanted // rounds > round_number * wanted // rounds


def interleave(contenders, rounds, pause_s=0.01, seed=1, keep=lambda: (), progress=None):
    """Fill in the samples of all contenders that are not missing, round by round."""
    order = random.Random(seed)
    failures_in_a_row = {contender.key: 0 for contender in contenders}
    for round_number in range(rounds):
        turn = [
            contender
            for contender in contenders
            if not contender.missing
            and failures_in_a_row[contender.key] < FAILURES_IN_A_ROW_LIMIT
            and takes_part(round_number, rounds, contender.runs_wanted)
        ]
        order.shuffle(turn)
        for contender in turn:
            # Teardown that the kernel does later (network namespaces) gets a moment.
            time.sleep(pause_s)
            sample = run_contender(contender, keep())
            contender.samples.append(sample)
            failed = failures_in_a_row[contender.key] + 1 if sample.why else 0
            failures_in_a_row[contender.key] = failed
            if failed == FAILURES_IN_A_ROW_LIMIT:
                contender.note = f"given up after {failed} failures in a row; {contender.note}"
        if progress:
            progress(round_number + 1, rounds)


def print_progress(done, total):
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\rround {done} of {total}", end=end, file=sys.stderr, flush=True)


def quantile(values, fraction):
    """Nearest rank: always a time that was really seen, never an average of two."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)]


QUANTILES = {
    "p1": 0.01, "p5": 0.05, "p10": 0.10, "p25": 0.25, "p50": 0.50, "p75": 0.75,
    "p90": 0.90, "p95": 0.95, "p99": 0.99, "p999": 0.999,
}  # fmt: skip


def summary(values):
    """All figures of one list of times; empty when there was none."""
    if not values:
        return {}
    mean = sum(values) / len(values)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    figures = {name: quantile(values, fraction) for name, fraction in QUANTILES.items()}
    figures.update(min=min(values), max=max(values), mean=mean, standard_deviation=spread)
    return {name: round(value, 3) for name, value in figures.items()}
