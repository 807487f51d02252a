"""The stage that the contenders play on, and its clearing away.

Everything the benchmark makes lives in three places, so that it can be removed
without a trace: one temporary directory, one cgroup name, and one private mount
namespace for the peers.  In that namespace /run, /var/lib and /dev/shm are empty
tmpfs, since podman and others write there whatever options they get; and the
empty cgroup v2 hierarchy of a hybrid layout is unmounted, since crun 1.8 refuses
to start when it sees one.  The host itself is never changed.

Processes are ended by the pid that we got when we started them, or as our own
descendants (this process is a subreaper).
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import measure

NAMESPACE_SCRIPT = """
set -e
for place in /run /var/lib /dev/shm; do
  [ -d "$place" ] && mount -t tmpfs -o mode=755 tmpfs "$place"
done
if [ "$(stat -fc %T /sys/fs/cgroup/unified 2>/dev/null)" = cgroup2fs ]; then
  umount /sys/fs/cgroup/unified
  echo hybrid
else
  echo plain
fi
read -r _
"""
HIDDEN_IN_NAMESPACE = ("/run/", "/var/lib/", "/dev/shm/")
STOP_TIMEOUT_S = 20.0


def is_root():
    return os.geteuid() == 0


def find_program(name):
    """The system's program, not one that a developer's PATH puts in front of it."""
    path = shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin")
    if path is None:
        raise measure.Missing(f"{name} is not installed")
    return path


def first_line(*command, namespace=None):
    """The first line a program prints, for versions.  Even that is asked in the
    peers' namespace: `crun --version` makes its directory below /run."""
    try:
        with measure.inside(namespace):
            done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0].strip() if lines else ""


def mounts_below(directory):
    with open("/proc/self/mountinfo", encoding="utf-8") as mountinfo:
        points = [line.split()[4] for line in mountinfo]
    return [point for point in points if point.startswith(f"{directory}/")]


class Stage:
    def __init__(self):
        self.directory = None
        self.cgroup_name = f"cloche-bench-{os.getpid()}"
        self.hybrid_hidden = False
        self._namespace = None
        self._keep = set()
        self._stops = []

    def __enter__(self):
        measure.become_subreaper()
        self.directory = Path(tempfile.mkdtemp(prefix="cloche-bench-"))
        # Containers with a user namespace reach their root through this directory
        # as another user.
        self.directory.chmod(0o711)
        return self

    def __exit__(self, *_):
        # A second Ctrl-C would leave things behind; clearing away takes seconds.
        signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        previous = [signal.signal(number, signal.SIG_IGN) for number in signals]
        # Last in, first out; and a step that fails does not keep the next from its turn.
        with contextlib.ExitStack() as steps:
            for number, handler in zip(signals, previous):
                steps.callback(signal.signal, number, handler)
            steps.callback(self._remove_directory)
            steps.callback(self._remove_cgroups)
            steps.callback(self._close_namespace)
            steps.callback(measure.settle, keep=(), timeout_s=1.0)
            for stop in self._stops:
                steps.callback(stop)

    def _close_namespace(self):
        if self._namespace is not None:
            os.close(self._namespace)
            self._namespace = None

    def keep(self):
        """The processes that live for the whole benchmark (daemons)."""
        return self._keep

    def make_directory(self, *parts):
        path = self.directory.joinpath(*parts)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def namespace(self):
        """The peers' mount namespace, made at the first call."""
        if self._namespace is None:
            self._namespace = self._make_namespace()
        return self._namespace

    def _make_namespace(self):
        if not is_root():
            raise measure.Missing("needs root (a private mount namespace)")
        if f"{self.directory}/".startswith(HIDDEN_IN_NAMESPACE):
            raise measure.Missing(f"TMPDIR must not be below {HIDDEN_IN_NAMESPACE}")
        helper = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", NAMESPACE_SCRIPT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            answer = helper.stdout.readline().strip()
            if not answer:
                reason = helper.stderr.read().strip()
                raise measure.Missing(f"no private mount namespace: {reason}")
            self.hybrid_hidden = answer == "hybrid"
            return os.open(f"/proc/{helper.pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            helper.communicate("\n")

    def start_daemon(self, command, log_path, namespace):
        """Start a long-lived helper below a pid namespace of its own: when its first
        process goes, the kernel ends the whole tree, and with us gone that first
        process goes too.  The shell in between is there to reap orphans."""
        shell = 'trap "kill -TERM \\$daemon" TERM; "$@" & daemon=$!; wait $daemon; wait'
        with open(log_path, "wb") as log, measure.inside(namespace):
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--mount", "--mount-proc",
                 "--fork", "--kill-child", "sh", "-c", shell, "sh", *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=measure.clean_environment(),
                start_new_session=True,
            )  # fmt: skip
        self._keep.add(process.pid)
        self._stops.append(lambda: self._stop_daemon(process))
        return process

    def _stop_daemon(self, process):
        self._keep.discard(process.pid)
        # unshare passes no signal on, so the shell below it is told directly.
        try:
            with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
                for pid in file.read().split():
                    os.kill(int(pid), signal.SIGTERM)
            process.wait(STOP_TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired):
            process.kill()
            process.wait()

    def _remove_cgroups(self):
        top = Path("/sys/fs/cgroup")
        for group in [top / self.cgroup_name, *top.glob(f"*/{self.cgroup_name}")]:
            if not group.is_dir():
                continue
            for directory, _, _ in os.walk(group, topdown=False):
                self._remove_cgroup(directory)

    @staticmethod
    def _remove_cgroup(directory):
        # A group is busy for a moment after its last process has gone.
        for _ in range(100):
            try:
                os.rmdir(directory)
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.02)
        print(f"left behind: cgroup {directory}")

    def _remove_directory(self):
        # Bind mounts of the host's /usr must never be in the way of a recursive
        # removal.  They are made in other namespaces only; this is the belt to it.
        for point in reversed(mounts_below(self.directory)):
            subprocess.run(["umount", "--lazy", point], check=False)
        if mounts_below(self.directory):
            print(f"left behind: {self.directory} (something is still mounted there)")
            return
        shutil.rmtree(self.directory, ignore_errors=True)
        if self.directory.exists():
            print(f"left behind: {self.directory}")
