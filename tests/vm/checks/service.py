"""The Debian package and its systemd unit: installed, started, killed, stopped, removed."""
import json
import os
import pathlib
import signal
import subprocess
import time
import urllib.error
import urllib.request

from checks import ROOT, test

GROUPS = pathlib.Path("/sys/fs/cgroup/cloche")


def command(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done
    return done.stdout.strip()


def journal():
    return command("journalctl", "--no-pager", "-u", "cloche")[-2000:]


def ask(path, body=None, seconds=30):
    """Asks again while nobody answers."""
    until = time.monotonic() + seconds
    while True:
        request = urllib.request.Request(f"http://127.0.0.1:8420{path}", json.dumps(body).encode() if body is not None else None)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read()) from error
        except OSError as error:
            assert time.monotonic() < until, (error, journal())
            time.sleep(0.2)


def main_pid():
    return int(command("systemctl", "show", "--property", "MainPID", "--value", "cloche"))


def await_new_main(former):
    for _ in range(100):
        if main_pid() not in (0, former):
            return
        time.sleep(0.1)
    raise AssertionError(journal())


@test("root", engines=None)
def package_runs_as_a_service():
    command("dpkg", "--install", *map(str, ROOT.glob("cloche_*.deb")))
    try:
        command("systemctl", "start", "cloche")
        result = ask("/v1/run", {"code": "print(6 * 7)"})
        assert (result["stdout"], result["cause"]) == ("42\n", "exit"), result
        groups = next(layer for layer in result["layers"] if layer["name"] == "cgroup")
        assert groups["active"] and groups["detail"].startswith("v2"), result

        sandbox = f"/v1/sandboxes/{ask('/v1/sandboxes', {})['id']}"
        assert ask(f"{sandbox}/exec", {"command": ["id", "-u"]})["stdout"] == "1000\n"
        assert list(GROUPS.glob("box-*")), "the sandbox is in a group"

        server = int(command("pidof", "cloche-server").split()[0])
        os.kill(server, signal.SIGKILL)
        while pathlib.Path(f"/proc/{server}").exists():
            time.sleep(0.1)
        assert ask("/health") == {"status": "ok"}, "the keeper starts it again"

        keeper = main_pid()
        os.kill(keeper, signal.SIGKILL)
        await_new_main(keeper)
        assert ask("/v1/run", {"code": "print(1)"})["stdout"] == "1\n", "systemd starts all of it again"

        started = time.monotonic()
        command("systemctl", "stop", "cloche")
        assert time.monotonic() - started < 15 and not list(GROUPS.glob("box-*"))
        assert command("systemctl", "show", "--property", "Result", "--value", "cloche") == "success", journal()
    finally:
        command("dpkg", "--remove", "cloche")
    assert subprocess.run(["systemctl", "cat", "cloche"], capture_output=True).returncode != 0
