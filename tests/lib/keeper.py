"""A keeper for the tests: `cloche keep` in a state directory of its own user, ended and looked after.

    with keeper.Keeper("--spares", "4") as kept:
        box.run("--warm", "-e", "print(1)")
        kept.state()["hits"]
"""
import atexit
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import box

WARM_S = 120  # an emulator takes its time

# A socket of the tests' own: others may have a keeper on this machine.
PLACE, OWNER = tempfile.mkdtemp(prefix="cloche-keeper-"), os.getpid()
os.environ["CLOCHE_KEEPER"] = os.path.join(PLACE, "socket")
atexit.register(lambda: os.getpid() == OWNER and shutil.rmtree(PLACE, ignore_errors=True))


def comparable(result):
    """What a run must have in common with the same run in another box."""
    kept_fields = ("exit_code", "signal", "timed_out", "cause", "stdout", "stderr", "files", "detail", "denied_syscall")
    seen = {name: result.json.get(name) or "" for name in kept_fields}
    seen["layers"] = [(layer["name"], layer["active"], layer["detail"]) for layer in result.json.get("layers", [])]
    if result.json.get("cause") in ("output",):
        seen["stdout"] = ""
    for stream in ("stdout", "stderr"):  # without namespaces a box sees its directory and user as the host does
        seen[stream] = re.sub(r"[\w./-]*/box-\d+-\d+", "BOX", seen[stream])
        seen[stream] = re.sub(r"\b2097[12]\d{5}\b", "UID", seen[stream])
    return seen


def processes():
    """Of this machine, by pid: their parents, and their names."""
    parents, names = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            text = pathlib.Path("/proc", pid, "stat").read_text()
        except OSError:
            continue
        names[int(pid)] = text[text.index("(") + 1:text.rindex(")")]
        parents[int(pid)] = int(text.rpartition(")")[2].split()[1])
    return parents, names


class Keeper:
    def __init__(self, *arguments, env=None, pass_fds=(), program=None, warm=True, minimum=2, user=None):
        self.whose = {"env": env, "user": user}
        self.process = subprocess.Popen([program or box.CLOCHE, "keep", "--quiet", *map(str, arguments)],
                                        env={**os.environ, **(env or {})}, pass_fds=pass_fds, user=user, group=user,
                                        extra_groups=[] if user is not None else None,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            self.await_state(lambda state: not warm or state["spares"] >= minimum)
        except BaseException:
            self.close()
            raise

    def state(self):
        done = box.raw("keep", "--state", **self.whose)
        assert done.returncode == 0, done
        return json.loads(done.stdout)

    def await_state(self, is_so, seconds=WARM_S):
        deadline = time.monotonic() + seconds
        while True:
            assert self.process.poll() is None, self.process.stderr.read()
            done = box.raw("keep", "--state", **self.whose)
            state = json.loads(done.stdout) if done.returncode == 0 else None
            if state and state["pid"] == self.process.pid and is_so(state):
                return state
            assert time.monotonic() < deadline, (state, done)
            time.sleep(0.02)

    def kind(self, name):
        """The state of one kind of spares."""
        return next(kind for kind in self.state()["kinds"] if kind["kind"] == name)

    def await_spares(self, name, count=1, seconds=WARM_S):
        self.await_state(lambda state: any(kind["kind"] == name and kind["spares"] >= count for kind in state["kinds"]), seconds)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if not self.process.stderr.closed:
            self.process.stderr.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
