"""Who takes part: the plain interpreter, cloche itself, and bubblewrap.

The heavier peers are in oci_runtimes.py and image_engines.py.  Each factory
returns a contender, or raises Missing with the reason that the table shows.
"""

import os
import subprocess
from pathlib import Path

import measure
from stage import find_program, first_line

PYTHON = "/usr/bin/python3"
PROGRAM = "print(1)"
ROOT = Path(__file__).resolve().parent.parent
NOT_ASKED_FOR = "not asked for (--only)"
MERGED_LINKS = ("bin", "lib", "lib32", "lib64", "sbin")


def merged_links():
    """The links of a merged /usr (/bin -> usr/bin …) as the host has them."""
    return {name: os.readlink(f"/{name}") for name in MERGED_LINKS if os.path.islink(f"/{name}")}


def native(_stage):
    return measure.Contender(
        "native",
        "native python3",
        lambda number: [PYTHON, "-c", PROGRAM],
        kind="native",
        version=first_line(PYTHON, "--version"),
        note="no isolation",
    )


def native_file(stage):
    """As `cloche run -e` has it, which writes the program to a file so that tracebacks can show its lines."""
    path = stage.directory / "main.py"
    path.write_text(PROGRAM)
    return measure.Contender(
        "native-file",
        "native, a file",
        lambda number: [PYTHON, str(path)],
        kind="native",
        version=first_line(PYTHON, "--version"),
        note="no isolation; python3 FILE instead of python3 -c",
    )


def cloche(level, binary):
    """A factory per level; an operator's daemon is never involved: `run` is cold."""

    def make(_stage):
        key, label = f"cloche-{level}", f"cloche {level}"
        if not os.access(binary, os.X_OK):
            raise measure.Missing(f"{binary} does not exist (build it first)")
        return measure.Contender(
            key,
            label,
            lambda number: [str(binary), "run", "--quiet", "--isolation", level, "-e", PROGRAM],
            kind="cloche",
            version=first_line(str(binary), "--version"),
            note="all limits at their defaults",
        )

    return make


def bubblewrap(_stage):
    bwrap = find_program("bwrap")
    arguments = [bwrap, "--unshare-all", "--die-with-parent", "--new-session"]
    for path in ("/usr", "/etc/alternatives"):
        if os.path.exists(path):
            arguments += ["--ro-bind", path, path]
    for name, target in merged_links().items():
        arguments += ["--symlink", target, f"/{name}"]
    arguments += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/"]
    # Root keeps capabilities in bubblewrap unless told otherwise; an ordinary user
    # has none to drop.
    arguments += ["--cap-drop", "ALL"]
    return measure.Contender(
        "bubblewrap",
        "bubblewrap",
        lambda number: arguments + [PYTHON, "-c", PROGRAM],
        version=first_line(bwrap, "--version"),
        note="all namespaces; no seccomp, no memory or process limit (it has none)",
    )


def gather(factories, stage, only=()):
    """All contenders, in order; none is dropped without a word."""
    found = []
    for key, label, kind, make in factories:
        if only and key not in only:
            found.append(measure.absent(key, label, NOT_ASKED_FOR, kind))
            continue
        try:
            contender = make(stage)
            measure.warm_up(contender, stage.keep())
        except (measure.Missing, OSError, subprocess.SubprocessError) as reason:
            contender = measure.absent(key, label, str(reason), kind)
        found.append(contender)
    return found
