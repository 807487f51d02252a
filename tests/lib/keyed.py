"""A server with keys, and its tenants: for the tests of who may do what, and how much of it."""
import concurrent.futures
import json
import pathlib
import shutil
import subprocess
import tempfile
import time

import box
import server

CONFIG = "server.cpus = 2\nserver.queue = 24\nserver.queue_wait = 3s\n"
TENANTS = {  # their quotas, where they differ from the defaults
    "alice": (), "bob": (), "hog": (), "guest": (), "operator": ("--operator",), "pager": (), "other-pager": (),
    "few-boxes": ("--boxes", 2), "forker": (), "few-runs": ("--runs", 2), "slow": ("--runs-minute", 2), "little-cpu": ("--cpu-hour", "200ms"),
    "commander": ("--cpu-hour", "700ms"), "leaver": ("--cpu-hour", "700ms"),
    "spinner": ("--cpu-hour", "5s"), "overlapper": ("--cpu-hour", "5s"), "sleeper": ("--cpu-hour", "5s"), "straggler": ("--cpu-hour", "5s"),  # little comes back in a second
    "little-memory": ("--memory", "600M"), "little-disk": ("--disk", "150M"), "little-uploads": ("--uploads", 100000),
    "keeper-of-files": ("--kept", "3M"),
}


def key_command(data, *words):
    done = subprocess.run([box.CLOCHE, "key", *map(str, words), "--data", data], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class Keyed:
    """A server and the keys of its tenants; each tenant is an attribute with the methods of a server."""

    def __init__(self):
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="cloche-tenants-"))
        self.data = self.place / "data"
        self.config = self.place / "config"
        self.config.write_text(CONFIG)
        self.keys = {name: key_command(self.data, "add", "--tenant", name, *quotas) for name, quotas in TENANTS.items()}
        self.start()

    def start(self):
        self.server = server.Server("--spares", "2", "--preload", "json", "--config", self.config, data=self.data)

    def request(self, tenant, method, path, body=None, headers=None, connection=None):
        given = {"Authorization": f"Bearer {self.keys[tenant]}"} if tenant else {}
        return self.server.request(method, path, body, {**given, **(headers or {})}, connection)

    def run(self, tenant, headers=None, **fields):
        return self.request(tenant, "POST", "/v1/run", fields, headers)

    def audit(self, **fields):
        lines = [json.loads(line) for line in (self.data / "audit" / "runs.jsonl").read_text().splitlines()]
        return [line for line in lines if all(line.get(name) == value for name, value in fields.items())]

    def close(self):
        self.server.close()
        shutil.rmtree(self.place, ignore_errors=True)


def together(count, call):
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(call, range(count)))


def refused(answer, field, status=429):
    assert answer.status == status, answer
    assert answer.error["code"] == {429: "quota", 422: "unprocessable", 413: "too_large"}[status] and answer.error["field"] == field
    assert answer.error["message"] and (status != 429 or int(answer.headers["Retry-After"]) >= 1)


http_error = server.http.client.HTTPException


def await_answer(keyed):
    deadline = time.monotonic() + 15
    while True:
        try:
            if keyed.request("alice", "GET", "/v1/stats").status == 200:
                return
        except (OSError, http_error):
            pass
        assert time.monotonic() < deadline, "".join(keyed.server.said)
        time.sleep(0.05)
