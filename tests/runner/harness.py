"""A runner without a box: the interpreter of a context, at the other end of a socket."""
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUEST = ROOT / "guest" / "python"
PYTHON = "/usr/bin/python3"
BUILD = pathlib.Path(os.environ.get("CLOCHE_BUILD", ROOT / "build")).resolve()


class Ended:
    """What came of one run."""

    def __init__(self):
        self.events, self.end = [], None

    def text(self, kind):
        return b"".join(body for header, body in self.events if header["type"] == kind).decode()

    @property
    def stdout(self):
        return self.text("stdout")

    @property
    def stderr(self):
        return self.text("stderr")

    @property
    def status(self):
        return self.end["status"]

    @property
    def results(self):
        """(kind, {media type: bytes}) in order."""
        found = []
        for header, body in self.events:
            if header["type"] != "result":
                continue
            bundle = {}
            for name, length in header["media"]:
                bundle[name], body = body[:length], body[length:]
            assert not body, "the lengths do not add up"
            found.append((header["kind"], bundle))
        return found

    @property
    def value(self):
        values = [bundle["text/plain"].decode() for kind, bundle in self.results if kind == "value"]
        return values[0] if values else None

    @property
    def progress(self):
        return [(header["fraction"], header["text"]) for header, _ in self.events if header["type"] == "progress"]


class Context:
    COMMAND = [PYTHON, "-m", "cloche.runner"]

    def __init__(self, **environment):
        ours, theirs = socket.socketpair()
        self.home = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [*self.COMMAND, str(theirs.fileno())], pass_fds=[theirs.fileno()], cwd=self.home.name,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            # As init does it in a box: a job in the background has it ignored, and so would all that it starts.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            env={"PATH": os.environ["PATH"], "HOME": self.home.name, "TMPDIR": self.home.name, "LANG": "C.UTF-8",
                 "PYTHONPATH": str(GUEST), "PYTHONDONTWRITEBYTECODE": "1", **environment})
        theirs.close()
        self.socket = ours
        self.socket.settimeout(30)
        self.count = 0
        self.ready, _ = self.receive()

    def read(self, length):
        data = b""
        while len(data) < length:
            part = self.socket.recv(length - len(data))
            if not part:
                raise EOFError("the runner is gone")
            data += part
        return data

    def receive(self):
        head, body = struct.unpack("<II", self.read(8))
        return json.loads(self.read(head)), self.read(body)

    def send(self, header, body=b""):
        head = json.dumps(header).encode()
        self.socket.sendall(struct.pack("<II", len(head), len(body)) + head + body)

    def start(self, code, **fields):
        self.count += 1
        self.send({"type": "run", "run": self.count, **fields}, code.encode())
        header, _ = self.receive()
        while header["type"] in ("stdout", "stderr") and header["run"] is None:  # of a job, from before
            header, _ = self.receive()
        assert header == {"type": "started", "run": self.count}

    def wait(self, on_event=lambda header, body: None):
        ended = Ended()
        while True:
            header, body = self.receive()
            if header["type"] == "end":
                assert header["run"] == self.count
                ended.end = header
                return ended
            ended.events.append((header, body))
            on_event(header, body)

    def run(self, code, **fields):
        self.start(code, **fields)
        return self.wait()

    def completeness(self, code):
        self.send({"type": "complete"}, code.encode())
        header, _ = self.receive()
        assert header["type"] == "completeness"
        return header["text"]

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)

    def close(self):
        self.socket.close()
        try:
            return self.process.wait(10)
        finally:
            self.process.kill()
            self.process.communicate()
            self.home.cleanup()


class JavaScriptContext(Context):
    """From the packed file, which is what a box is given."""
    COMMAND = [os.environ.get("CLOCHE_TEST_NODE", "/usr/bin/node"), "--no-force-async-hooks-checks", str(BUILD / "runner.js")]


class BashContext(Context):
    COMMAND = [str(BUILD / "cloche-shell"), "/bin/bash"]


class JavaScriptSpare(Context):
    """As it waits in a box for its only program."""
    SCRIPT = ROOT / "guest" / "javascript" / "spare.cjs"
    COMMAND = [JavaScriptContext.COMMAND[0], "--require", str(SCRIPT), str(SCRIPT)]


class BashSpare(Context):
    COMMAND = [str(BUILD / "cloche-shell"), "--wait"]
