"""A small world of its own for runs that are broken on purpose.

    with World() as world:
        done = world.cloche("run", "--", "/bin/true")      # returncode, stdout, stderr
        world.census()                                     # what boxes left behind, as a comparable value

A world is a pid, mount and cgroup namespace with its own /run, /tmp, /dev/shm, /var/lib/cloche and control groups. So
a census counts nothing of other suites that run at the same time, every process that is left is a leak whatever its
name, and `cloche reap` meets nobody else's boxes. From outside all of it is below /proc/HOLDER/root. The program is copied in
at the start: a build in the middle of a sweep changes nothing.
"""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import box
import records

HERE = pathlib.Path(__file__).resolve().parent
# What cloche uses, and what other runtimes want to find beside it.
CONTROLLERS = ("memory", "pids", "cpu", "cpuacct", "freezer", "cpuset", "devices", "blkio")


def have_namespaces():
    """Why there can be no world here; None if there can."""
    if os.geteuid() != 0:
        return "needs root: worlds are namespaces with their own control groups"
    missing = [name for name in ("unshare", "nsenter", "setpriv", "cc") if not shutil.which(name)]
    return f"needs {', '.join(missing)}" if missing else None


def hierarchies():
    """The cgroup hierarchies of this machine that carry limits, as (controllers, mount point, version)."""
    found = []
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        fields, tail = line.split(" - ")
        kind, _, options = tail.split(" ", 2)
        point = fields.split()[4]
        carried = [name for name in options.split(",") if name in CONTROLLERS]
        if kind == "cgroup" and carried and point not in [other[1] for other in found]:
            found.append((",".join(carried), point, 1))
        if kind == "cgroup2" and "memory" in pathlib.Path(point, "cgroup.controllers").read_text().split():
            found.append(("", point, 2))
    return found


def build_tool(name, into, *flags):
    target = pathlib.Path(into, name)
    subprocess.run(["cc", "-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror", "-o", target, HERE / f"{name}.c", *flags],
                   check=True)
    return target


def remove_stale_groups(point):
    """Those of worlds whose maker was killed; their processes went with it."""
    for group in pathlib.Path(point).glob("cloche-world-*"):
        if not os.path.exists(f"/proc/{group.name.split('-')[2]}"):
            with contextlib.suppress(OSError):
                for top, _, _ in os.walk(group, topdown=False):
                    os.rmdir(top)


class World:
    """See the top of the file."""

    def __init__(self, tools=()):
        self.name = f"cloche-world-{os.getpid()}-{time.monotonic_ns()}"
        self.groups = []
        for controllers, point, version in hierarchies():
            remove_stale_groups(point)
            group = pathlib.Path(point, self.name)
            if version == 2:
                pathlib.Path(point, "cgroup.subtree_control").write_text("+memory +pids +cpu")
            group.mkdir()
            for name in ("cpuset.cpus", "cpuset.mems"):  # empty in a new group, and then nobody may join
                if "cpuset" in controllers.split(","):
                    (group / name).write_text(pathlib.Path(point, name).read_text())
            self.groups.append((controllers, point, version, group))
        script = ["set -e"]
        script += [f"echo $$ > {group}/cgroup.procs" for _, _, _, group in self.groups]
        script += ["mkdir -p /var/lib/cloche",
                   "exec unshare --mount --pid --cgroup --fork --kill-child --mount-proc sh -ec \"$1\""]
        # A test session that is killed takes its worlds with it.
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "sh", "-c", "\n".join(script), "sh",
                                         self.inner_script()],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        if self.process.stdout.readline().strip() != b"ready":
            self.close()
            raise RuntimeError("the world did not come up")
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        self.holder = int(children[0])
        self.root = pathlib.Path(f"/proc/{self.holder}/root")
        for _, point, version, group in self.groups:
            if version == 2:  # only leaves may hold processes
                leaf = group / "holder"
                leaf.mkdir()
                for pid in (group / "cgroup.procs").read_text().split():
                    (leaf / "cgroup.procs").write_text(pid)
        self.program = "/tmp/cloche"
        for source in (box.CLOCHE, *box.OTHER_PROGRAMS, *tools):
            shutil.copy(source, self.root / "tmp" / pathlib.Path(source).name)
        self.write("/tmp/canary", "canary-of-the-host\n")
        self.prefix = ["nsenter", f"--target={self.holder}", "--mount", "--pid", "--cgroup", "--"]
        assert self.cloche("run", "--", "/bin/true").returncode == 0, "an untouched run fails in the world"
        self.baseline = self.census()

    def inner_script(self):
        lines = ["mount -t tmpfs -o mode=0755 world /run", "mount -t tmpfs -o mode=0755 world /var/lib/cloche",
                 "mount -t tmpfs -o mode=1777 world /tmp", "mount -t tmpfs -o mode=1777 world /dev/shm"]
        if any(version == 1 for _, _, version, _ in self.groups):
            lines += ["umount -R -l /sys/fs/cgroup", "mount -t tmpfs -o mode=0755 world /sys/fs/cgroup"]
            lines += [f"mkdir -p {point} && mount -t cgroup -o {controllers} world {point}"
                      for controllers, point, version, _ in self.groups if version == 1]
        else:
            lines += [f"umount -R -l {point} && mount -t cgroup2 world {point}" for _, point, _, _ in self.groups]
        # The first process must reap whatever comes to it: an ignored SIGCHLD does that.
        return "\n".join([*lines, "echo ready", "exec env --ignore-signal=CHLD sleep infinity >/dev/null"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.process.kill()  # and with it the whole pid namespace
        self.process.wait()
        for _, _, _, group in self.groups:
            for _ in range(200):
                try:
                    for top, _, _ in os.walk(group, topdown=False):
                        os.rmdir(top)
                    break
                except OSError:
                    time.sleep(0.02)

    def outside(self, path):
        """A path of the world as we reach it."""
        return self.root / str(path).lstrip("/")

    def write(self, path, text, mode=0o644):
        self.outside(path).write_text(text)
        self.outside(path).chmod(mode)

    def start(self, *command, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        # For builds with sanitizers: their search for leaks does not work on a traced program.
        options.setdefault("env", {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:" + os.environ.get("ASAN_OPTIONS", "")})
        for _ in range(100):
            try:
                return subprocess.Popen([*self.prefix, *map(str, command)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, **options)
            except BlockingIOError:  # somebody else has all the processes of this machine for the moment
                time.sleep(0.1)
        raise RuntimeError("this machine has no process left")

    @staticmethod
    def child_of(process, seconds=10.0):
        """The pid out here of the command itself, whose parent is nsenter."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
                if children:
                    return int(children[0])
        raise ProcessLookupError(process.args)

    def run(self, *command, timeout=20, input=None, **options):
        """Runs a command in the world; a hang kills everything in it, and raises TimeoutExpired."""
        stdin = subprocess.DEVNULL if input is None else subprocess.PIPE
        process = self.start(*command, stdin=stdin, **options)
        try:
            stdout, stderr = process.communicate(input, timeout)
        except subprocess.TimeoutExpired:
            self.kill_all()
            process.kill()
            process.communicate()
            raise
        if process.returncode == 1 and stderr.startswith(b"nsenter: fork failed") and input is None:
            time.sleep(0.5)  # as above
            return self.run(*command, timeout=timeout, **options)
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def cloche(self, *arguments, **options):
        return self.run(self.program, *arguments, **options)

    def shell(self, script, *arguments, **options):
        return self.run("sh", "-c", script, "sh", *arguments, **options)

    def reap(self):
        return self.cloche("reap")

    def pids(self):
        """All processes of the world but its first, zombies included, as pids inside."""
        return sorted(int(name) for name in os.listdir(self.root / "proc") if name.isdigit() and name != "1")

    def describe(self, pid):
        with contextlib.suppress(OSError, IndexError):
            lines = (self.root / "proc" / str(pid) / "status").read_text().splitlines()
            return f"{pid} {lines[0].split(None, 1)[1]} ({lines[2].split(None, 1)[1]})"
        return None

    def kill(self, pid, number=signal.SIGKILL):
        """A signal to a process of the world, by its pid inside."""
        return self.run("kill", f"-{int(number)}", pid).returncode == 0

    def kill_all(self):
        for pid in self.pids():
            self.kill_quietly(pid)

    def kill_quietly(self, pid):
        subprocess.run([*self.prefix, "kill", "-9", str(pid)], stderr=subprocess.DEVNULL, check=False)

    def census(self):
        def listing(path):
            try:
                return sorted(os.listdir(self.outside(path)))
            except OSError:
                return []

        def boxes_in_memory():
            """Where private directories are: these stay, what is in them must not."""
            return [name for name in listing("/dev/shm") if re.fullmatch(r"cloche-\d+-box", name)]

        groups = []
        for top, directories, _ in os.walk(self.outside("/sys/fs/cgroup")):
            groups += [os.path.join(top, name).split("/root", 1)[1] for name in directories if name.startswith("box-")]
        mounts = pathlib.Path(f"/proc/{self.holder}/mountinfo").read_text()
        return {
            "processes": [text for text in map(self.describe, self.pids()) if text],
            "groups": sorted(groups),
            "mounts": sorted(line.split()[4] for line in mounts.splitlines()),
            "records": [f"box-{number}" for number in records.taken(self.outside("/run/cloche/boxes"))],
            "directories": [*listing("/var/lib/cloche/box"),
                            *(entry for name in boxes_in_memory() for entry in listing(f"/dev/shm/{name}"))],
            "network": listing("/run/netns"),
            # An ordinary user's state and boxes: the directories stay, what is in them must not.
            "temporary": [entry for name in listing("/tmp") if name.startswith("cloche-")
                          for entry in (*(f"{name}/{below}" for below in listing(f"/tmp/{name}") if below != "boxes"),
                                        *records.taken(self.outside(f"/tmp/{name}/boxes")))],
            "shared memory": [name for name in listing("/dev/shm") if name not in boxes_in_memory()],
        }

    def leftovers(self, seconds=2.0):
        """What a census has and the baseline has not, after processes had their time to go; {} when nothing."""
        deadline = time.monotonic() + seconds
        while self.pids() and time.monotonic() < deadline:
            time.sleep(0.005)
        now = self.census()
        was = self.baseline
        return {key: [item for item in now[key] if item not in was[key]] or f"{now[key]}, and was {was[key]}"
                for key in now if now[key] != was[key]}
