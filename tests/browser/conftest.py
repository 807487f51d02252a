"""A server of the tests' own, and a browser in front of it."""
import json
import os
import pathlib
import select
import subprocess
import time

import box
import pytest
import server

HERE = pathlib.Path(__file__).parent
NODE = box.BUILD / "node"
SCREENSHOTS = box.BUILD / "screenshots"
START_S, SCENARIO_S = 60, 90


class Lines:
    """The lines that a process writes, each awaited for a while."""

    def __init__(self, stream):
        self.stream, self.rest = stream, b""

    def next(self, seconds):
        deadline = time.monotonic() + seconds
        while b"\n" not in self.rest:
            ready, _, _ = select.select([self.stream], [], [], max(0, deadline - time.monotonic()))
            chunk = os.read(self.stream.fileno(), 65536) if ready else b""
            if not chunk:
                raise TimeoutError(f"no line within {seconds} s, but: {self.rest.decode(errors='replace')}")
            self.rest += chunk
        line, self.rest = self.rest.split(b"\n", 1)
        return line.decode(errors="replace")


@pytest.fixture(scope="session")
def driver():
    """Performs a scenario by its name; returns what went wrong, or None."""
    subprocess.run([box.ROOT / "setup" / "install-node", NODE], check=True)
    subprocess.run([box.ROOT / "setup" / "install-pyodide", box.BUILD / "pyodide"], check=True)  # the server looks for it there
    with server.Server() as serving:
        process = subprocess.Popen(["node", HERE / "driver.mjs", f"http://127.0.0.1:{serving.port}", SCREENSHOTS],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   env={**os.environ, "CLOCHE_NODE_MODULES": str(NODE)})
        lines = Lines(process.stdout)
        assert json.loads(lines.next(START_S)) == {"ready": True}

        def perform(name):
            process.stdin.write(f"{name}\n".encode())
            process.stdin.flush()
            return json.loads(lines.next(SCENARIO_S)).get("error")

        try:
            yield perform
        finally:
            process.stdin.close()  # the driver closes the browser, and ends
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
