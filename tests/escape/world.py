"""The host side of the escape probes: things that a box must not reach, and the run of one probe in a box."""
import ctypes
import os
import pathlib
import secrets
import shutil
import socket
import subprocess
import time

import box
import keeper

libc = ctypes.CDLL(None, use_errno=True)
MQ_OPEN, MQ_UNLINK = 240, 241
NAMESPACES = "user pid net ipc uts cgroup time mnt".split()


class Probe:
    """One line of `probe --list`."""

    def __init__(self, line):
        self.name, self.group, engines, controls, self.description, killed = line.split("\t")
        self.engines = engines.split(",")
        self.controls = controls.split(",")
        self.may_be_killed = killed == "yes"


def probes():
    listing = subprocess.run([box.PROBE, "--list"], capture_output=True, text=True, check=True).stdout
    return [Probe(line) for line in listing.splitlines()]


class World:
    """Canary, sockets, shared memory and a process of the host; close() removes them all."""

    def __init__(self):
        self.directory = pathlib.Path(f"/var/tmp/cloche-canary-{secrets.token_hex(4)}")
        self.directory.mkdir(mode=0o755)
        self.canary = self.directory / "canary"
        self.canary.write_text("canary-" + secrets.token_hex(8))
        self.canary_fd = os.open(self.canary, os.O_RDONLY)
        self.secret = secrets.token_hex(16)
        self.launcher_env = {"CLOCHE_TEST_SECRET": self.secret, "SSH_AUTH_SOCK": "/tmp/agent"}
        self.neighbour = subprocess.Popen(["sleep", "100000"], env={**os.environ, **self.launcher_env})
        self._listen()
        self._share()
        self._configure()
        self.keeper = None

    def _listen(self):
        name = "cloche-probe-" + secrets.token_hex(4)
        self.abstract, self.path, self.tcp = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX), socket.socket()
        self.abstract.bind("\0" + name)
        self.path.bind(str(self.directory / "sock"))
        os.chmod(self.directory / "sock", 0o777)
        self.tcp.bind(("127.0.0.1", 0))
        for listener in (self.abstract, self.path, self.tcp):
            listener.listen(64)
        self.variables = {"ABSTRACT": name, "SOCKET": self.directory / "sock", "TCP": self.tcp.getsockname()[1]}

    def _share(self):
        self.shm, self.msg, self.sem = libc.shmget(0, 4096, 0o1666), libc.msgget(0, 0o1666), libc.semget(0, 1, 0o1666)
        self.queue = "cloche-probe-" + secrets.token_hex(4)
        former = os.umask(0)
        self.queue_fd = libc.syscall(MQ_OPEN, self.queue.encode(), os.O_RDWR | os.O_CREAT, 0o666, None)
        os.umask(former)
        self.variables |= {"SHMID": self.shm, "MSGID": self.msg, "SEMID": self.sem, "MQ": "/" + self.queue}

    def _configure(self):
        """The probe runs as code of a language whose programs run themselves: no host path leads into the box."""
        (self.directory / "binary.json").write_text('{"name": "binary", "extensions": [], "file": "probe", "run": ["{code}"]}')
        (self.directory / "cloche.conf").write_text(f"languages = {self.directory}/binary.json\n")
        (self.directory / "given.txt").write_text("given\n")
        self.variables |= {
            "CANARY": self.canary, "PID": self.neighbour.pid, "HOSTNAME": socket.gethostname(),
            "BOOT_ID": pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip(), "SECRET_ENV": self.secret,
            "FD_CANARY": self.canary_fd,
            "NAMESPACES": " ".join(os.readlink(f"/proc/self/ns/{kind}") for kind in NAMESPACES),
        }

    def _given(self, probe_name):
        variables = self.variables | {"UPTIME": int(time.clock_gettime(time.CLOCK_BOOTTIME))}
        shown = ["--input", self.directory / "given.txt"]
        if probe_name == "mounts_tell_no_path_of_the_host":
            shown = []  # what is granted shows its host path in mountinfo: docs/threat-model.md says so
        return [*(f"--env=CLOCHE_PROBE_{name}={value}" for name, value in variables.items()), *shown]

    def arguments(self, *probe_arguments):
        # Files of a box are in memory unless they would be too much of it; links lead from there to no file of the image.
        on_disk = ["--disk", "400M"] if probe_arguments[0] == "system_file_cannot_be_linked_into_scratch" else []
        return ["--config", self.directory / "cloche.conf", "--language", "binary", *on_disk,
                *self._given(probe_arguments[0]), box.PROBE, *probe_arguments]

    def _keep(self):
        """A keeper that has all that a launcher must not hand on."""
        if self.keeper is None:
            self.keeper = keeper.Keeper("--preload", "numpy", "--language", "bash,bash/process,python/process", env=self.launcher_env,
                                        pass_fds=(self.canary_fd, self.tcp.fileno()))

    def _run_forked(self, engine, *probe_arguments, **options):
        """In a box that was forked, beforehand or on demand."""
        kind = "python" if engine == "container" else f"python/{engine}"
        if self.keeper.kind(kind)["zygote_pid"] < 0:
            self.keeper.await_spares(kind)
        before = self.keeper.kind(kind)
        result = box.run("--warm", "--isolation", engine, *self._given(probe_arguments[0]), "-e", box.TRAMPOLINE, "/tmp/program",
                         "comes", *probe_arguments, input=box.PROBE.read_bytes(), **options)
        after = self.keeper.kind(kind)
        assert after["hits"] + after["misses"] > before["hits"] + before["misses"], "the run was not warm"
        return result

    def _run_started(self, engine, *probe_arguments, **options):
        """In a box that was started before there was anything to run."""
        kind = "bash" if engine == "container" else f"bash/{engine}"
        self.keeper.await_spares(kind)
        before = self.keeper.kind(kind)["hits"]
        result = box.run("--warm", "--isolation", engine, "--language", "bash", *self._given(probe_arguments[0]), "-e",
                         'cat > "$TMPDIR/program"; chmod 755 "$TMPDIR/program"; exec "$TMPDIR/program" "$@" < /dev/null',
                         *probe_arguments, input=box.PROBE.read_bytes(), **options)
        assert self.keeper.kind(kind)["hits"] == before + 1, "the run was not warm"
        return result

    def run(self, engine, *probe_arguments, weaken=None, **options):
        if engine.startswith("warm"):
            self._keep()
        if engine.startswith("forked"):
            self._keep()
            return self._run_forked(engine.partition(" ")[2], *probe_arguments, **options)
        if engine.startswith("warm"):
            return self._run_started(engine.partition(" ")[2], *probe_arguments, **options)
        return box.run(*self.arguments(*probe_arguments), engine=engine, weaken=weaken, env=self.launcher_env,
                       pass_fds=(self.canary_fd, self.tcp.fileno()), **options)

    def close(self):
        if self.keeper:
            self.keeper.close()
        self.neighbour.kill()
        self.neighbour.wait()
        libc.shmctl(self.shm, 0, None)
        libc.msgctl(self.msg, 0, None)
        libc.semctl(self.sem, 0, 0)
        libc.syscall(MQ_UNLINK, self.queue.encode())
        for listener in (self.abstract, self.path, self.tcp):
            listener.close()
        os.close(self.queue_fd)
        os.close(self.canary_fd)
        shutil.rmtree(self.directory, ignore_errors=True)
