"""The servers that bench/server measures, and what is read of them from outside."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import image_engines
import measure

START_TIMEOUT_S = 60.0
HELD_HEADERS = "Accept: text/event-stream\r\n\r\n"


def ask(port, path, body=None, method=None, timeout=60):
    """One request, as JSON; what is no success is raised."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, method=method)
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return json.loads(answer.read() or b"null")


def memory_kb(pid):
    """The proportional share of a process (PSS): what is shared is split among those who share it."""
    text = Path("/proc", str(pid), "smaps_rollup").read_text(encoding="ascii")
    return int(re.search(r"^Pss:\s+(\d+)", text, re.M)[1])


def cpu_seconds(pid):
    """User and system time of all threads, also of those that ended."""
    fields = Path("/proc", str(pid), "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def children(pid):
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError):
            text = Path("/proc", entry, "stat").read_text(encoding="utf-8", errors="replace")
            if int(text.rpartition(")")[2].split()[1]) == pid:
                found[int(entry)] = text[text.index("(") + 1 : text.rindex(")")]
    return found


class Cloche:
    """`cloche serve` on a port of its own, with data of its own, warm."""

    def __init__(self, binary, *options):
        self.directory = tempfile.TemporaryDirectory(prefix="cloche-bench-")
        self.log = open(f"{self.directory.name}/log", "w+", encoding="utf-8")
        environment = {**os.environ, "CLOCHE_KEEPER": f"{self.directory.name}/socket"}
        self.process = subprocess.Popen(
            [binary, "serve", "--listen", "127.0.0.1:0", "--data", f"{self.directory.name}/data", *map(str, options)],
            env=environment, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
        )  # fmt: skip
        self.port = None
        try:
            self._await_ready()
        except BaseException:
            self.close()
            raise
        self.server_pid = next((pid for pid, name in children(self.process.pid).items() if name == "cloche-server"), None)

    def said(self):
        return Path(self.log.name).read_text(encoding="utf-8", errors="replace").strip()

    def _await_ready(self):
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self.process.poll() is None:
            found = re.search(r"serving on \w+://[^ ]*:(\d+)", self.said())
            if found:
                self.port = int(found[1])
                return
            time.sleep(0.01)
        raise measure.Missing(f"the server did not come up: {self.said()[-300:]}")

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        self.directory.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Flask:
    """bench/flask_docker.py in front of the daemon that the other benchmarks use."""

    def __init__(self, stage, environment):
        python = environment / "bin" / "python"
        if not python.exists():
            raise measure.Missing(f"no {environment.name}: run setup/install-python")
        client, self.version, _ = image_engines.docker_daemon(stage)
        self.port = free_port()
        self.process = subprocess.Popen(
            [python, Path(__file__).with_name("flask_docker.py"), str(self.port), image_engines.IMAGE],
            env={**measure.clean_environment(), "DOCKER_HOST": client[-1]},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        stage.keep().add(self.process.pid)
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                ask(self.port, "/health", timeout=5)
                return
            except OSError as reason:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    self.close()
                    raise measure.Missing(f"the baseline did not come up: {reason}") from reason
                time.sleep(0.1)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Watch(threading.Thread):
    """Memory and descriptors of a process, once a second, until it is closed."""

    def __init__(self, pid, every_s=1.0):
        super().__init__(daemon=True)
        self.pid, self.every_s, self.samples, self.over = pid, every_s, [], threading.Event()
        self.started = time.monotonic()

    def run(self):
        while True:
            with contextlib.suppress(OSError):
                self.samples.append({"s": round(time.monotonic() - self.started, 1), "pss_kb": memory_kb(self.pid),
                                     "descriptors": descriptors(self.pid)})  # fmt: skip
            if self.over.wait(self.every_s):
                return

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()

    def growth_kb(self):
        """Median of the last fifth less the median of the second: the first is for warming up."""
        values = [sample["pss_kb"] for sample in self.samples]
        fifth = len(values) // 5
        if fifth < 1:
            return None
        return measure.quantile(values[-fifth:], 0.5) - measure.quantile(values[fifth : 2 * fifth], 0.5)


@contextlib.contextmanager
def held_streams(port, path, count):
    """So many streams that are open and idle: each has its headers."""
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{HELD_HEADERS}".encode()
    held = []
    try:
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", port), timeout=30)
            held.append(connection)
            connection.sendall(request)
        for connection in held:
            begun = connection.recv(4096)
            if not begun.startswith(b"HTTP/1.1 200"):
                raise measure.Missing(f"no stream: {begun[:200]!r}")
        yield held
    finally:
        for connection in held:
            connection.close()
