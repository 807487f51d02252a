"""Runs the real program for the tests.

    result = box.run("-e", "print(1)")              # cloche run --json …; result.stdout, result.cause, …
    raw = box.raw("run", "-e", "print(1)")          # any command line: raw.returncode, raw.stdout (bytes), raw.stderr
    box.run(…, engine="process", weaken="seccomp,landlock")   # the test program with those steps removed

The build directory is $CLOCHE_BUILD (default: build beside tests/).
"""
import json
import os
import pathlib
import subprocess

import records

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CLOCHE_BUILD", ROOT / "build")).resolve()
CLOCHE = BUILD / "cloche"
OTHER_PROGRAMS = [program for program in (BUILD / "cloche-full",) if program.exists()]  # what it becomes for other commands than run
WEAK = BUILD / "cloche-weak"
PROBE = BUILD / "tests" / "probe"
ENGINES = ("container", "process")
ALL_ENGINES = (*ENGINES, "gvisor")  # a start of the last takes 0.2 s: it is not asked everything

BAD_SPEC, LAYER_MISSING, HOST_FAILURE, RESERVED = 250, 251, 252, 249


class Result:
    """The JSON result of a run, its fields as attributes; .json is the whole."""

    def __init__(self, text, returncode, stderr):
        self.returncode = returncode
        self.host_stderr = stderr
        self.json = json.loads(text) if text.strip() else {}

    def __getattr__(self, name):
        try:
            return self.json[name]
        except KeyError:
            raise AttributeError(f"no '{name}' in {self!r}") from None

    def __repr__(self):
        return f"<{self.returncode} {self.json} {self.host_stderr!r}>"


def raw(*args, weaken=None, verify=False, input=b"", timeout=120, env=None, user=None, cwd=None, program=None,
        pass_fds=(), prefix=()):
    """A command line of cloche (or, with weaken, of the test program); returns a CompletedProcess of bytes."""
    environment = dict(os.environ)
    environment.pop("CLOCHE_WEAKEN", None)
    if weaken is not None:
        environment["CLOCHE_WEAKEN"] = weaken
        if verify:
            environment["CLOCHE_WEAKEN_VERIFY"] = "1"
    environment.update(env or {})
    command = [*prefix, str(program or (WEAK if weaken is not None else CLOCHE)), *map(str, args)]
    return subprocess.run(command, input=input, capture_output=True, timeout=timeout, env=environment, user=user, group=user,
                          cwd=cwd, pass_fds=pass_fds, extra_groups=[] if user is not None else None)


WARM = os.environ.get("CLOCHE_TEST_WARM") == "1"  # runs take boxes of a keeper that is running

# Becomes the command that a test wants to run, in place of the interpreter that a keeper had ready. A program of the
# host's cannot be granted to such a box: it comes as stdin.
TRAMPOLINE = """
import os, sys
path, comes = sys.argv[1], sys.argv[2] == "comes"
program = os.environ["TMPDIR"] + "/program"
if comes:
    with open(program, "wb") as file:
        file.write(sys.stdin.buffer.read())
    os.chmod(program, 0o755)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
os.execvp(program if comes else path, [path, *sys.argv[3:]])
"""


def warmed(args, options):
    """The same run for a warm box."""
    args = list(map(str, args))
    if "--" not in args:
        return ["--warm", *args]
    at = args.index("--")
    given, command = args[:at], args[at + 1:]
    comes = False
    if "--read" in given:
        place = given.index("--read")
        comes = command[0].startswith(given[place + 1] + "/")
        if comes:
            del given[place:place + 2]
            options["input"] = pathlib.Path(command[0]).read_bytes()
    return ["--warm", *given, "-e", TRAMPOLINE, command[0], "comes" if comes else "there", *command[1:]]


def run(*args, engine=None, **options):
    """cloche run --json ARGS, parsed."""
    if WARM and options.get("weaken") is None:
        args = warmed(args, options)
    chosen = ["--isolation", engine] if engine else []
    done = raw("run", "--json", *chosen, *args, **options)
    try:
        return Result(done.stdout.decode(), done.returncode, done.stderr.decode(errors="replace"))
    except json.JSONDecodeError:
        raise AssertionError(f"no JSON: {done}") from None


def python(code, *args, **options):
    return run(*args, "-e", code, **options)


def bash(code, *args, **options):
    return run(*args, "--language", "bash", "-e", code, **options)


def process_status(pid):
    """The lines of its status by name; None: it is gone."""
    try:
        with open(f"/proc/{pid}/status", "rb", 0) as file:
            text = file.read(8192).decode(errors="replace")
    except OSError:
        return None
    return {name: value.strip() for name, _, value in (line.partition(":") for line in text.splitlines())}


def is_box_uid(uid):
    """Of boxes, and of their gateways."""
    return 0x7d000000 <= uid < 0x7d020000


def is_somebody_elses_to_bury(status):
    """What has ended, and whose parent has, is the machine's first process's, which may take its time. The first process of
    a fork is that of the interpreter's that it was forked from, in the box that this one lives in."""
    parent = process_status(status["PPid"]) if status["State"].startswith("Z") else None
    return bool(parent) and (status["PPid"] == "1" or is_box_uid(int(parent["Uid"].split()[0])))


def census():
    """What boxes leave on the host, as a comparable value: processes, groups, mounts, directories, records."""
    def listing(path):
        try:
            return sorted(os.listdir(path))
        except OSError:
            return []

    groups = []
    for top, directories, _ in os.walk("/sys/fs/cgroup"):
        groups += [os.path.join(top, name) for name in directories if name.startswith("box-")]
        if top.count("/") > 8:
            directories.clear()
    processes = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        status = process_status(pid)
        if not status:
            continue
        uid = int(status["Uid"].split()[0])
        if (is_box_uid(uid) or (status["Name"] == "init" and pid != "1")) and not is_somebody_elses_to_bury(status):
            processes.append((pid, status["Name"], uid))
    mounts = [line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
    return {
        "groups": sorted(groups),
        "processes": processes,
        "mounts": mounts,
        "records": [f"box-{number}" for number in records.taken()],
        "directories": listing("/var/lib/cloche/box") + listing("/dev/shm/cloche-0-box"),
        "namespaces": listing("/run/netns"),
        "temporary": [name for name in listing("/tmp") if name.startswith("cloche-")],
    }
