"""What people and programs read: the table, the JSON, the targets, machine facts."""

import json
import os
import platform
import shutil
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path

import measure

COLUMNS = ("contender", "p50", "p90", "p99", "min", "ratio", "n", "failed", "note")
NOTE_WIDTH = 48
FAILURES_SHOWN = 3


@dataclass
class Target:
    """One promise.  `value` None means that it could not be measured, which counts
    as a miss: an unmeasured promise is not kept."""

    name: str
    value: float = None
    limit: float = None
    unit: str = "ms"
    strict: bool = False  # below the limit, not at it
    reason: str = ""

    def met(self):
        if self.value is None or self.limit is None:
            return False
        return self.value < self.limit if self.strict else self.value <= self.limit

    def line(self):
        word = "PASS" if self.met() else "MISS"
        if self.value is None or self.limit is None:
            return f"{word}  {self.name}: not measured ({self.reason})"
        sign = "<" if self.strict else "<="
        value, limit = round(self.value, 2), round(self.limit, 2)
        return f"{word}  {self.name}: {value:g} {sign} {limit:g} {self.unit}"

    def as_json(self):
        return {
            "name": self.name,
            "met": self.met(),
            "value": self.value,
            "limit": self.limit,
            "unit": self.unit,
            "reason": self.reason,
        }


@dataclass
class Rate(Target):
    """At least so much, not at most."""

    def met(self):
        return self.value is not None and self.value >= self.limit

    def line(self):
        return super().line().replace(" <= ", " >= ")


def read_first(path, prefix=""):
    """The value of the first line with this prefix, e.g. of /proc/cpuinfo."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                if line.startswith(prefix):
                    return line[len(prefix) :].strip(" \t:\n")
    except OSError:
        pass
    return ""


def cgroup_layout():
    top = Path("/sys/fs/cgroup")
    if (top / "cgroup.controllers").exists():
        return "v2"
    if (top / "unified" / "cgroup.controllers").exists():
        return "hybrid (v1 controllers, v2 without)"
    return "v1" if (top / "memory").is_dir() else "none"


def machine_facts():
    """Taken at the start: the load is the one that the benchmark found."""
    return {
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "cpu_model": read_first("/proc/cpuinfo", "model name"),
        "cpu_count": len(os.sched_getaffinity(0)),
        "memory_total": read_first("/proc/meminfo", "MemTotal:"),
        "system": read_first("/etc/os-release", "PRETTY_NAME=").strip('"'),
        "cgroups": cgroup_layout(),
        "user": "root" if os.geteuid() == 0 else "ordinary user",
        "load_at_start": [round(load, 2) for load in os.getloadavg()],
        "started_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def facts_line(machine):
    return (
        f"{machine['cpu_count']} x {machine['cpu_model'] or machine['architecture']}, "
        f"Linux {machine['kernel']}, cgroups {machine['cgroups']}, "
        f"load at start {machine['load_at_start'][0]}"
    )


def load_warning(machine):
    """Interleaving keeps the comparison fair under load, not the absolute figures."""
    load, count = machine["load_at_start"][0], machine["cpu_count"]
    if load > count / 2:
        return f"the machine was busy at the start (load {load} on {count} cores): figures are high"
    return ""


def contender_record(contender):
    """One contender as JSON; a missing one has its reason and no figures."""
    failures = contender.failures()
    settled = [sample.settle_ms for sample in contender.samples if not sample.why]
    times = contender.times_ms()
    return {
        "key": contender.key,
        "label": contender.label,
        "kind": contender.kind,
        "version": contender.version,
        "note": contender.note,
        "missing": contender.missing or None,
        "command": contender.command(0),
        "n": len(times),
        "failed": len(failures),
        "failures": sorted(set(failures))[:FAILURES_SHOWN],
        "figures_ms": measure.summary(times),
        "left_running_after_exit_ms": measure.summary(settled),
        "samples_ms": [round(value, 3) for value in times],
    }


def p50(contenders, key):
    """The median of one contender, or None with the reason why there is none."""
    for contender in contenders:
        if contender.key != key:
            continue
        times = contender.times_ms()
        if times:
            return measure.quantile(times, 0.5), ""
        failures = contender.failures()
        return None, contender.missing or (failures[-1] if failures else "no runs")
    return None, f"{key} is not part of this run"


def row(contender, base_ms):
    figures = measure.summary(contender.times_ms())
    if contender.missing or not figures:
        reason = f"missing: {contender.missing}" if contender.missing else "every run failed"
        failed = str(len(contender.failures())) if contender.samples else "-"
        return [contender.label, *["-"] * 5, "0", failed, reason]
    ratio = f"{figures['p50'] / base_ms:.2f}x" if base_ms else "-"
    times = [f"{figures[name]:.1f}" for name in ("p50", "p90", "p99", "min")]
    count, failed = len(contender.times_ms()), len(contender.failures())
    return [contender.label, *times, ratio, str(count), str(failed), contender.note]


def table(contenders, base_key="native"):
    """The table for people: milliseconds, ratio against the native interpreter."""
    base_ms, _ = p50(contenders, base_key)
    rows = [list(COLUMNS)] + [row(contender, base_ms) for contender in contenders]
    widths = [max(len(line[column]) for line in rows) for column in range(len(COLUMNS) - 1)]
    left = sum(widths) + 2 * len(widths)
    room = max(NOTE_WIDTH, shutil.get_terminal_size((left + NOTE_WIDTH, 24)).columns - left)
    lines = []
    for cells in rows:
        start = cells[0].ljust(widths[0])
        for cell, width in zip(cells[1:-1], widths[1:]):
            start += "  " + cell.rjust(width)
        notes = textwrap.wrap(cells[-1], room) or [""]
        lines.append(f"{start}  {notes[0]}".rstrip())
        lines += [" " * left + note for note in notes[1:]]
    lines.insert(1, "-" * (left + min(room, NOTE_WIDTH)))
    return "\n".join(lines)


def failure_lines(contenders):
    """The failed runs in their own words, a few of each contender."""
    lines = []
    for contender in contenders:
        failures = contender.failures()
        for why in sorted(set(failures))[:FAILURES_SHOWN]:
            lines.append(f"{contender.label}: {failures.count(why)} failed: {why}")
    return lines


def write_json(path, content):
    """Written beside and renamed, so that a reader never sees half a file."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    os.replace(unfinished, path)
