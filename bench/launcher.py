"""How much memory the launcher itself takes: the cloche process, without children.

The kernel keeps the highest resident size of a process as VmHWM.  It is read
again and again until the process has gone, because the figure goes with it; the
last reading is at most a fraction of a millisecond old.  getrusage is of no use
here: it counts waited-for children, and what this process was before the exec.
"""

import os
import signal
import time

import measure
import report

PROGRAM = "import time; time.sleep(0.2)"
LEVELS = ("container", "process")
READ_INTERVAL_S = 0.0002
RUN_TIMEOUT_S = 30.0
TARGET_KB = 4 * 1024


def peak_kb(pid):
    """VmHWM in KB; None once the process has no memory any more."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1])
    except (FileNotFoundError, ProcessLookupError):
        pass
    return None


def watch_peak(pid, pidfd):
    """The highest VmHWM seen until the process has exited; None on a time-out."""
    highest = 0
    deadline = time.monotonic() + RUN_TIMEOUT_S
    while time.monotonic() < deadline:
        highest = max(highest, peak_kb(pid) or 0)
        if os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return highest
        time.sleep(READ_INTERVAL_S)
    return None


def run_level(binary, level):
    """One run; returns the peak in KB and why it does not count (or nothing)."""
    command = [str(binary), "run", "--quiet", "--isolation", level, "-e", PROGRAM]
    null = os.open("/dev/null", os.O_WRONLY | os.O_CLOEXEC)
    pid, pidfd = None, None
    try:
        # The spawn returns after the exec, so no reading sees our own memory.
        pid = measure.spawn(command, measure.clean_environment(), null, null)
        pidfd = os.pidfd_open(pid)
        highest = watch_peak(pid, pidfd)
        if highest is None:
            return 0, f"no end within {RUN_TIMEOUT_S:g} s"
        _, status = os.waitpid(pid, 0)
        pid = None
        code = os.waitstatus_to_exitcode(status)
        return highest, "" if code == 0 else f"exit code {code}"
    except OSError as error:
        return 0, f"could not start {binary}: {error.strerror or error}"
    finally:
        if pid is not None:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        for descriptor in (null, pidfd):
            if descriptor is not None:
                os.close(descriptor)


def measure_level(binary, level, runs, keep=()):
    record = {"level": level, "missing": None, "n": 0, "failed": 0, "failures": []}
    if not os.access(binary, os.X_OK):
        record["missing"] = f"{binary} does not exist (build it first)"
        return record
    peaks, failures = [], []
    for _ in range(runs):
        highest, why = run_level(binary, level)
        measure.settle(keep)
        if why:
            failures.append(why)
        else:
            peaks.append(highest)
    record.update(n=len(peaks), failed=len(failures), failures=sorted(set(failures))[:3])
    if peaks:
        record.update(
            peak_kb_max=max(peaks), peak_kb_p50=measure.quantile(peaks, 0.5), peaks_kb=peaks
        )
    else:
        record["missing"] = f"every run failed: {failures[-1]}"
    return record


def measure_all(binary, runs, keep=()):
    return [measure_level(binary, level, runs, keep) for level in LEVELS]


def lines(records):
    for record in records:
        name = f"cloche {record['level']}"
        if record["missing"]:
            yield f"{name}: missing: {record['missing']}"
        else:
            yield (
                f"{name}: launcher peak {record['peak_kb_max'] / 1024:.2f} MB "
                f"(p50 {record['peak_kb_p50'] / 1024:.2f} MB, n {record['n']}, "
                f"failed {record['failed']})"
            )


def targets(records):
    """One per level, on the highest peak of all runs, not on a typical one."""
    for record in records:
        peak = record.get("peak_kb_max")
        yield report.Target(
            f"launcher peak memory, {record['level']}",
            round(peak / 1024, 3) if peak else None,
            TARGET_KB / 1024,
            unit="MB",
            strict=True,
            reason=record["missing"] or "",
        )


def write(path, machine, records):
    report.write_json(
        path,
        {
            "benchmark": "launcher_memory",
            "machine": machine,
            "program": PROGRAM,
            "levels": records,
            "targets": [target.as_json() for target in targets(records)],
        },
    )
