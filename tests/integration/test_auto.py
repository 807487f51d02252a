"""`--isolation auto`: which engine is chosen, never below what is asked for, and what is said about it."""
import json
import pathlib
import subprocess

import box
import keeper
import pytest

COSTS = pathlib.Path("/run/cloche/costs.json")
MODULE = '(module (func (export "_start")))'


@pytest.fixture(autouse=True)
def costs():
    """Figures as another machine may have them, so that choices do not depend on this one's."""
    def write(**figures):
        import time
        COSTS.write_text(json.dumps({"made": int(time.time()) - 10, **{key.replace("_", "/"): value for key, value in figures.items()}}))
    kept = COSTS.read_text() if COSTS.exists() else None
    write(python_process=20.0, python_wasm=40.0, python_container=30.0, python_gvisor=200.0,
          javascript_process=60.0, javascript_wasm=10.0, javascript_container=70.0, javascript_gvisor=300.0)
    yield write
    COSTS.unlink(missing_ok=True)
    if kept:
        COSTS.write_text(kept)


def explain(*args, code=0):
    done = box.raw("explain", "--json", *args)
    assert done.returncode == code, done
    return json.loads(done.stdout)


@pytest.mark.parametrize("args, engine, words", [
    (("-e", "import math\nprint(math.pi)"), "process", "costs least"), (("-l", "javascript", "-e", "console.log(1)"), "wasm", "costs least"),
    (("-e", "import os; os.system('ls')"), "container", "files, processes or the network"), (("-e", "print(open('/etc/hostname').read())"), "container", "files"),
    (("-e", "import socket"), "container", "network"), (("-e", "print("), "container", "cannot be read"),
    (("-l", "javascript", "-e", "require('fs').readFileSync('/x')"), "container", "files"),
    (("-l", "wasm", "-e", MODULE), "wasm", "module"), (("-l", "bash", "-e", "ls"), "container", "only python and javascript"),
    (("--", "ls"), "container", "only python and javascript"), (("--isolation-min", "container", "-e", "1"), "container", "least that is asked"),
    (("--isolation-min", "gvisor", "-e", "1"), "gvisor", "least that is asked"), (("--isolation-min", "wasm", "-l", "javascript", "-e", "1"), "wasm", "costs least"),
    (("--isolation-min", "wasm", "-e", "1"), "container", "costs least")])
def test_choice(args, engine, words):
    found = explain(*args)
    assert found["isolation"] == engine and words in found["reason"], found
    assert [row["isolation"] for row in found["engines"]] == ["process", "wasm", "container", "gvisor"]
    taken = found["engines"][["process", "wasm", "container", "gvisor"].index(engine)]
    assert "not" not in taken, found


def test_cost_decides(costs):
    costs(python_process=50.0, python_wasm=5.0, python_container=30.0, python_gvisor=200.0)
    assert explain("-e", "print(1)")["isolation"] == "wasm"
    assert box.run("--isolation", "auto", "-e", "print(1)").isolation == "wasm"


def test_what_does_not_run_here_is_not_chosen(costs):
    costs(python_process=-1, python_wasm=-1, python_container=30.0, python_gvisor=-1)
    found = explain("-e", "print(1)")
    assert found["isolation"] == "container" and found["engines"][0]["not"] == "it does not run here"


def test_costs_are_measured_where_none_are_known():
    COSTS.unlink()
    found = explain("-e", "print(1)")
    assert all(row["cost_ms"] > 1 for row in found["engines"] if "not" not in row) and "cost_ms" in found["engines"][2], found
    assert json.loads(COSTS.read_text())["python/container"] == pytest.approx(found["engines"][2]["cost_ms"], rel=1e-3)


def test_operators_least_holds(config):
    path = config("isolation.min = container")
    assert explain("--config", path, "-e", "print(1)")["isolation"] == "container"
    refused = box.raw("explain", "--config", path, "-l", "wasm", "-e", MODULE)
    assert refused.returncode == box.BAD_SPEC and b"minimum" in refused.stderr


def test_run_says_what_was_chosen():
    result = box.run("--isolation", "auto", "-e", "print(6 * 7)")
    assert (result.stdout, result.isolation) == ("42\n", "process") and "costs least" in result.chosen
    assert "chosen" not in box.run("-e", "print(1)").json


def test_minimum_holds_without_auto():
    result = box.run("--isolation", "process", "--isolation-min", "container", "-e", "1")
    assert result.returncode == box.BAD_SPEC and "stronger than" in result.error["message"]
    assert box.run("--isolation-min", "process", "-e", "1").isolation == "container"


def test_warm():
    with keeper.Keeper("--spares", "1", "--preload", "json", minimum=1) as kept:
        before = kept.state()["hits"]
        result = box.run("--warm", "--isolation", "auto", "-e", "print(1)")
        assert (result.isolation, result.stdout) == ("container", "1\n") and "not read" in result.chosen
        assert kept.state()["hits"] == before + 1
        assert box.run("--warm", "--isolation", "auto", "-l", "wasm", "-e", MODULE).isolation == "wasm"


def test_table_for_people():
    done = subprocess.run([box.CLOCHE, "explain", "-e", "print(1)"], capture_output=True, text=True)
    assert done.stdout.splitlines()[0].startswith("process: plain code") and "20.0 ms  taken" in done.stdout, done
