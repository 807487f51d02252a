"""Tenants and the wasm engine, whose processes stay: nobody has one with somebody else."""
import pathlib
import shutil
import subprocess
import tempfile

import box
import keeper
import pytest
import server

# Writes a file, and is then refused for want of a value.
PLANTS = """(module
 (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
 (memory (export "memory") 1) (data (i32.const 100) "report.csv")
 (func (export "_initialize")
   (drop (call $open (i32.const 4) (i32.const 0) (i32.const 100) (i32.const 10) (i32.const 1) (i64.const 64) (i64.const 64) (i32.const 0) (i32.const 0))))
 (func (export "go") (param i32)))"""


class Keyed:
    def __init__(self, *tenants):
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="cloche-wasm-tenants-"))
        self.keys = {name: self.add_key(name) for name in tenants}
        self.server = server.Server("--spares", "0", "--preload", "json", data=self.place / "data")

    def add_key(self, tenant):
        done = subprocess.run([box.CLOCHE, "key", "add", "--tenant", tenant, "--data", self.place / "data"], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def run(self, tenant, **fields):
        return self.server.post("/v1/run", fields, headers={"Authorization": f"Bearer {self.keys[tenant]}"})

    def python(self, tenant, code):
        answer = self.run(tenant, isolation="wasm", language="python", code=code)
        assert answer.status == 200, answer
        return answer.json

    def workers(self):
        parents, names = keeper.processes()
        return {pid for pid, name in names.items() if name == "cloche-wasm" and parents.get(parents[pid]) == self.server.process.pid}

    def close(self):
        self.server.close()
        shutil.rmtree(self.place, ignore_errors=True)


@pytest.fixture(scope="module")
def keyed(census):
    started = Keyed("alice", "bob")
    yield started
    started.close()


def test_each_tenant_has_processes_of_its_own(keyed):
    keyed.python("alice", "1")
    of_alice = keyed.workers()
    keyed.python("bob", "1")
    of_both = keyed.workers()
    assert len(of_alice) == 1 and len(of_both) == 2 and of_alice < of_both
    for tenant in ("alice", "bob", "alice"):
        keyed.python(tenant, "1")
        assert keyed.workers() == of_both, "they are used again"


def test_files_of_one_tenant_are_not_given_to_another(keyed):
    keyed.python("bob", "1")
    assert keyed.run("alice", language="wasm", name="plant.wat", call="go", code=PLANTS).status == 422
    for tenant in ("bob", "alice"):
        seen = keyed.python(tenant, "import os; print(os.listdir('/data/output'))")
        assert (seen["stdout"], seen["files"]) == ("[]\n", []), tenant


def test_a_server_without_keys_keeps_its_processes_too(fresh):
    serving = fresh()
    for _ in range(2):
        assert serving.post("/v1/run", {"isolation": "wasm", "code": "print(1)"}).json["stdout"] == "1\n"
    parents, names = keeper.processes()
    assert sum(name == "cloche-wasm" and parents.get(parents[pid]) == serving.process.pid for pid, name in names.items()) == 1
