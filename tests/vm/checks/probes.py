"""Every escape probe on this kernel, in healthy boxes (the controls in weakened ones are tests/escape's)."""
import concurrent.futures
import json
import os

import box
import world as world_module
from checks import Count, role, say, test

HELD, UNDECIDED = 0, 2
WORKERS = 2
BATCH = 40

# Run in a box of their own: they look at their parent (init), their session or their descriptors, or end the box.
ALONE_GROUPS = {"descriptors", "terminals", "memory", "processes"}
ALONE_NAMES = ("init_", "supervisor_")

# Role, engine, probe → the exit code that it has on this kernel, or for an ordinary user, and why.
PID_1 = "process 1 of a pid namespace can be named without Landlock's scope; the kernel drops what would end it"
NO_PRIVILEGE = "without CAP_SETPCAP the bounding set cannot be emptied; no_new_privs makes it worthless"
LINKED = "undecided: the input is a link to the caller's own file; files.py tries to write it"
EXCEPTIONS = {
    ("root", "container", "init_cannot_be_signalled"): (1, PID_1),
    ("root", "container", "supervisor_cannot_be_signalled"): (1, PID_1),
    ("user", "container", "init_cannot_be_signalled"): (1, PID_1),
    ("user", "container", "supervisor_cannot_be_signalled"): (1, PID_1),
    ("user", "process", "bounding_set_is_empty"): (1, NO_PRIVILEGE),
    ("user", "process", "input_file_cannot_be_rewritten"): (2, LINKED),
}
# 65,534 signals, each of them a question to the supervisor, take minutes in an emulator; shared_uid.py tries a few.
TOO_LONG = {("user", "process", "no_process_can_be_signalled"), ("root", "process", "no_process_can_be_signalled")}

# In the box: each probe in turn, as a child of a shell. `try` first, so that a killed box tells which one it was.
LOOP = 'code=$1; shift; for name; do echo "try $name"; "$code" "$name" 2>&1; echo "end $? $name"; done'


class World(world_module.World):
    """Several probes in one box: a start costs more than a probe here."""

    def _configure(self):
        super()._configure()
        row = {"name": "batch", "extensions": [], "file": "probe", "run": ["/bin/bash", "-c", LOOP, "batch", "{code}"]}
        (self.directory / "batch.json").write_text(json.dumps(row))
        with open(self.directory / "cloche.conf", "a") as config:
            config.write(f"languages = {self.directory}/batch.json\n")

    def arguments(self, *probe_arguments):
        less = ["--memory", "128M"] if probe_arguments[0] == "memory_is_bounded" else []  # to fill the default takes long
        more = ["--wall", "120s"] if probe_arguments[0] == "--syscalls" else []  # hundreds of them, emulated
        return [*less, *more, *super().arguments(*probe_arguments)]

    def run_batch(self, engine, names):
        arguments = [word if word != "binary" else "batch" for word in self.arguments(*names)]
        return box.run("--wall", "120s", "--cpu", "120s", *arguments, engine=engine, env=self.launcher_env,
                       pass_fds=(self.canary_fd, self.tcp.fileno()))


def is_alone(probe):
    return probe.group in ALONE_GROUPS or probe.name.startswith(ALONE_NAMES) or probe.name == "mounts_tell_no_path_of_the_host"


def outcome(result, probe):
    if result.json.get("exit_code") is not None:
        return result.exit_code, result.stdout + result.stderr
    if probe.may_be_killed and result.json.get("cause") in ("denied_syscall", "memory", "pids"):
        return HELD, ""
    return None, repr(result)


def run_alone(world, engine, probe):
    return {probe.name: outcome(world.run(engine, probe.name), probe)}


def run_together(world, engine, probes):
    """Name → (exit code, text). A probe that ends the box is judged by the cause; the rest goes on in a new one."""
    found, left = {}, list(probes)
    while left:
        result = world.run_batch(engine, [probe.name for probe in left])
        text = []
        for line in result.json.get("stdout", "").splitlines():
            if line.startswith("try "):
                text = []
            elif line.startswith("end "):
                code, name = line.split()[1:]
                found[name] = int(code), "\n".join(text)
            else:
                text.append(line)
        left = [probe for probe in left if probe.name not in found]
        if left:  # the first of these ended the box, or it was never begun
            found[left[0].name] = outcome(result, left[0])
            left = left[1:]
    return found


def wrong(found, engine):
    """The lines for those that are not as expected."""
    lines = []
    for name, (code, text) in found.items():
        wanted, reason = EXCEPTIONS.get((role(), engine, name), (HELD, ""))
        if code != wanted:
            lines.append(f"    {name}: exit {code}, not {wanted} {reason}: {text.strip()[:600]}")
    return lines


@test("root", "user")
def init_cannot_be_ended_from_inside(engine):
    """By any signal, wherever it is: process 1, or the parent."""
    script = 'for number in $(seq 64); do kill -$number 1 $PPID; done 2>/dev/null; sleep 0.2; echo here; exit 5'
    result = box.run("--", "bash", "-c", script, engine=engine)
    assert (result.stdout, result.cause, result.exit_code) == ("here\n", "exit", 5), result


@test("root", "user")
def every_probe_holds(engine):
    probes = [probe for probe in world_module.probes()
              if engine in probe.engines and (role(), engine, probe.name) not in TOO_LONG]
    every = int(os.environ.get("CLOCHE_VM_EVERY") or 1)  # all of them have been tried outside; each role and engine takes others
    first = (("root", "user").index(role()) * 2 + ("container", "process").index(engine)) % every
    probes = probes[first::every]
    together = [probe for probe in probes if not is_alone(probe)]
    world = World()
    found = {}
    try:
        canary = world.canary.read_text()
        with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
            jobs = [pool.submit(run_together, world, engine, together[at:at + BATCH]) for at in range(0, len(together), BATCH)]
            jobs += [pool.submit(run_alone, world, engine, probe) for probe in probes if is_alone(probe)]
            for job in concurrent.futures.as_completed(jobs):
                before = len(found) // 100
                found.update(job.result())
                if len(found) // 100 > before:
                    say(f"        {role():8} {engine} {len(found)} of {len(probes)} probes")
        for probe in probes:  # on a loaded machine some take longer than they give themselves: once more, alone
            if found[probe.name][0] == UNDECIDED and (role(), engine, probe.name) not in EXCEPTIONS:
                found.update(run_alone(world, engine, probe))
        assert world.canary.read_text() == canary
        assert world.neighbour.poll() is None
    finally:
        world.close()
    assert set(found) == {probe.name for probe in probes} and len(probes) >= 300 // every
    lines = wrong(found, engine)
    for line in lines:
        say(line)
    return Count(len(found) - len(lines), len(lines))
