"""A server for the tests: `cloche serve` on a port of its own, with a data directory of its own, ended and looked after.

    with server.Server() as serving:
        answer = serving.post("/v1/run", {"code": "print(1)"})     # answer.status, answer.json, answer.headers
        for name, data in serving.events("/v1/run", {"code": "print(1)", "stream": True}): …
        raw = serving.raw(b"GET /health HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n")
"""
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import box

READY_S = 20
SANITIZED = b"__asan_init" in box.CLOCHE.read_bytes()  # then the server has no filter, and memory costs more


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]

    def __repr__(self):
        return f"<{self.status} {self.body[:2000]!r}>"


class Server:
    def __init__(self, *arguments, listen="127.0.0.1:0", data=None, key=None, program=None, env=None, await_ready=True):
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="cloche-server-"))
        self.data = pathlib.Path(data or self.place / "data")
        self.key = key
        self.started = time.monotonic()
        self.process = subprocess.Popen([program or box.CLOCHE, "serve", "--listen", listen, "--data", self.data, *map(str, arguments)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, **(env or {})})
        self.said = []
        self.heard = threading.Event()
        self.listener = threading.Thread(target=self.listen, daemon=True)
        self.listener.start()
        self.port = None
        if await_ready:
            self.await_ready()

    def listen(self):
        for line in self.process.stderr:
            self.said.append(line)
            self.heard.set()
        self.heard.set()

    def await_ready(self):
        deadline = time.monotonic() + READY_S
        while not self.port:
            self.heard.wait(0.1)
            self.heard.clear()
            found = re.search(r"serving on https?://\S+:(\d+)", "".join(self.said))
            if found:
                self.port, self.ready_s = int(found[1]), time.monotonic() - self.started
            elif self.process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise AssertionError(f"the server did not start: {''.join(self.said)}")
        return self

    @property
    def pid(self):
        """Of the unprivileged process that speaks HTTP."""
        for children in pathlib.Path("/proc", str(self.process.pid), "task").glob("*/children"):
            for pid in children.read_text().split():
                if pathlib.Path("/proc", pid, "comm").read_text().strip() == "cloche-server":
                    return int(pid)
        return None

    def connect(self, timeout=60):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None, connection=None):
        headers = dict(headers or {})
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        if self.key:
            headers.setdefault("Authorization", f"Bearer {self.key}")
        used = connection or self.connect()
        used.request(method, path, body, headers)
        response = used.getresponse()
        answer = Answer(response.status, response.headers, response.read())
        if not connection:
            used.close()
        return answer

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, body=None, **options):
        return self.request("POST", path, body, **options)

    def put(self, path, body=None, **options):
        return self.request("PUT", path, body, **options)

    def delete(self, path, **options):
        return self.request("DELETE", path, **options)

    def events(self, path, body=None, method="POST", headers=None):
        """Yields (name, data) of each event; the connection ends with the generator."""
        connection = self.connect()
        try:
            yield from read_events(self.open_stream(connection, path, body, method, headers))
        finally:
            connection.close()

    def open_stream(self, connection, path, body=None, method="POST", headers=None):
        headers = {"Accept": "text/event-stream", **({"Authorization": f"Bearer {self.key}"} if self.key else {}), **(headers or {})}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        response = connection.getresponse()
        assert response.status == 200, response.read()
        assert response.headers["Content-Type"] == "text/event-stream"
        return response

    def socket(self, timeout=20):
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def raw(self, data, timeout=20):
        """Sends the bytes, and returns all that comes until the server closes, or nothing more comes for a while."""
        with self.socket(timeout) as connection:
            connection.sendall(data)
            return read_until_quiet(connection)

    def stop(self, signal_number=signal.SIGTERM, seconds=30):
        if self.process.poll() is None:
            self.process.send_signal(signal_number)
        return self.process.wait(seconds)

    def close(self):
        try:
            self.stop()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("the server did not end") from None
        finally:
            self.listener.join(5)
            self.process.stderr.close()
            shutil.rmtree(self.place, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def read_events(response):
    name = None
    for line in response:
        line = line.decode().rstrip("\n")
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            yield name, json.loads(line[6:])


def read_until_quiet(connection, quiet_s=8):
    connection.settimeout(quiet_s)
    got = b""
    try:
        while piece := connection.recv(65536):
            got += piece
    except (TimeoutError, ConnectionResetError):
        pass
    return got
