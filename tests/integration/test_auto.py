"""`--isolation auto`: which engine is chosen, never below what is asked for, and what is said about it."""
import importlib
import json
import os
import pathlib
import shutil
import subprocess
import time

import box
import keeper
import pytest

COSTS = pathlib.Path("/run/cloche/costs.json")
MODULE = '(module (func (export "_start")))'
ENGINES = ["process", "wasm", "container", "gvisor"]
USUAL = {"python_process": 20.0, "python_wasm": 40.0, "python_container": 30.0, "python_gvisor": 200.0,
         "javascript_process": 60.0, "javascript_wasm": 10.0, "javascript_container": 70.0, "javascript_gvisor": 300.0,
         "python_process_work": 50.0, "python_wasm_work": 900.0, "python_container_work": 60.0, "python_gvisor_work": 300.0,
         "javascript_process_work": 80.0, "javascript_wasm_work": 900.0, "javascript_container_work": 90.0, "javascript_gvisor_work": 400.0,
         "any_process": 5.0, "any_wasm": 5.0, "any_container": 5.0, "any_gvisor": 100.0}
WASM_IS_CHEAPEST = {**USUAL, "python_wasm": 1.0, "javascript_wasm": 1.0}


@pytest.fixture(autouse=True)
def costs():
    """Figures as another machine may have them, so that choices do not depend on this one's."""
    def write(**figures):
        COSTS.write_text(json.dumps({"made": int(time.time()) - 10, **{key.replace("_", "/"): value for key, value in figures.items()}}))
    kept = COSTS.read_text() if COSTS.exists() else None
    write(**USUAL)
    yield write
    COSTS.unlink(missing_ok=True)
    if kept:
        COSTS.write_text(kept)


def explain(*args, code=0, **options):
    done = box.raw("explain", "--json", *args, **options)
    assert done.returncode == code, done
    return json.loads(done.stdout)


def row(found, engine):
    return found["engines"][ENGINES.index(engine)]


@pytest.mark.parametrize("args, engine, words", [
    (("-e", "import math\nprint(math.pi)"), "process", "costs least"), (("-l", "javascript", "-e", "console.log(1)"), "wasm", "costs least"),
    (("-e", "import os; os.system('ls')"), "container", "starts processes: os.system"),
    (("-e", "print(open('/etc/hostname').read())"), "container", "opens files: open"),
    (("-e", "import socket"), "container", "uses the network: socket"), (("-e", "print("), "container", "this is not Python"),
    (("-e", "import pandas"), "container", "needs the package pandas"), (("-e", "import threading"), "container", "needs the module threading"),
    (("-e", "import pandas\npandas.read_csv('/x')"), "container", "opens files: read_csv"),
    (("-e", "eval('1')"), "container", "eval runs code"), (("-e", "import os; print(os.stat('/'))"), "container", "needs os.stat"),
    (("-e", "import io; io.FileIO('/etc/passwd')"), "container", "needs io.FileIO"),
    (("-e", "import os, sys; print(os.path.join('a', 'b'), sys.argv)"), "process", "plain code"),
    (("-e", "import random; random._os.system('ls')"), "container", "needs random._os.system"), (("-e", "import collections; collections._sys.modules['os']"), "container", "needs collections._sys.modules"),
    (("-e", "print(getattr('a', 'upper')())"), "container", "needs getattr"),
    (("-l", "javascript", "-e", "process.report.writeReport()"), "container", "needs process.report"), (("-l", "javascript", "-e", "globalThis['x']"), "container", "needs globalThis"),
    (("-l", "javascript", "-e", "require('fs').readFileSync('/x')"), "container", "opens files: fs"),
    (("-l", "wasm", "-e", MODULE), "wasm", "module"), (("-l", "bash", "-e", "ls"), "container", "only python and javascript"),
    (("--", "ls"), "container", "only python and javascript"), (("--isolation-min", "container", "-e", "1"), "container", "least that is asked"),
    (("--isolation-min", "gvisor", "-e", "1"), "gvisor", "least that is asked"), (("--isolation-min", "wasm", "-l", "javascript", "-e", "1"), "wasm", "costs least"),
    (("--isolation-min", "wasm", "-e", "1"), "container", "costs least")])
def test_choice(args, engine, words):
    found = explain(*args)
    assert found["isolation"] == engine and words in found["reason"], found
    assert [one["isolation"] for one in found["engines"]] == ENGINES
    assert "not" not in row(found, engine), found


def test_cost_decides(costs):
    costs(**WASM_IS_CHEAPEST)
    assert explain("-e", "print(1)")["isolation"] == "wasm"
    assert box.run("--isolation", "auto", "-e", "print(1)").isolation == "wasm"


@pytest.mark.parametrize("language, code", [
    *(("python", code) for code in (
        "for i in range(6000000): pass", "n = 5\nwhile n: n -= 1", "print(sum(x for x in open_ended))", "print([x for x in data])",
        "def f(n): return f(n - 1)", "f = lambda n: f(n - 1)", "class A:\n def f(s): return s.g()\n def g(s): return s.f()", "print(sum(range(10 ** 9)))",
        "print(7 ** 7777777)", "print(2 ** n)", "for i in range(200):\n for j in range(200): print(i, j)", "list(map(str, things))",
        "import itertools\nprint(len(list(itertools.permutations('abcdefghij'))))", "import math; math.factorial(9999)")),
    *(("javascript", code) for code in (
        "let s = 0; for (let i = 0; i < 2e8; i++) s += i", "while (true) {}", "do { } while (x())", "for (const x of things) console.log(x)",
        "for (let i = 0; i < n; i++) console.log(i)", "const f = (n) => n < 2 ? n : f(n - 1) + f(n - 2); f(30)", "new Array(10000000).fill(0)",
        "function a() { b() }\nfunction b() { a() }", "for (let i = 0; i < 200; i++) for (let j = 0; j < 200; j++) console.log(i)", "2n ** 10000000n"))])
def test_code_that_may_compute_long_goes_by_what_work_costs(costs, language, code):
    costs(**WASM_IS_CHEAPEST)
    found = explain("-l", language, "-e", f"n = data = things = open_ended = [1]\n{code}" if language == "python" else f"let n = 1, things = [], x = () => 0;\n{code}")
    assert found["isolation"] == "process" and "may compute long" in found["reason"] and row(found, "wasm")["cost_ms"] == 900, found


@pytest.mark.parametrize("language, code", [
    ("python", "for i in range(10):\n    for j in (1, 2): print(i * j)"), ("python", "print([x * x for x in range(100)], {1: 2}, 3 ** 2)"),
    ("python", "def area(r):\n    return 3.14 * r ** 2\nfor i, r in enumerate([1, 2, 3]): print(i, area(r))"),
    ("python", "import sys, hashlib, json\nprint(json.dumps(hashlib.sha256(b'x').hexdigest()), sys.argv[1:])"),
    ("javascript", "for (let i = 0; i < 10; i++) console.log(i)"), ("javascript", "console.log([1, 2, 3].map((x) => x * 2).filter((x) => x > 2))"),
    ("javascript", "const { a, b: [c, ...d] } = { a: 1, b: [2, 3] }; function f(x, { y = 1 }) { return x + y } console.log(f(a, {}), c, d)"),
    ("javascript", "class A { #x = 1; get y() { return this.#x } }\ntry { null.x } catch (e) { process.stdout.write(`${new A().y}\\n`) }")])
def test_code_whose_work_is_written_out_runs_where_a_run_costs_least_and_says_the_same(costs, language, code):
    costs(**WASM_IS_CHEAPEST)
    chosen = box.run("--isolation", "auto", "-l", language, "-e", code)
    assert chosen.isolation == "wasm" and chosen.stdout == box.run("--isolation", "process", "-l", language, "-e", code).stdout != "", chosen


@pytest.mark.parametrize("language, code, thing", [
    *(("javascript", f"console.log({code})", code.split("(")[0]) for code in ("Buffer", "TextEncoder", "URL", "Intl", "structuredClone", "crypto", "queueMicrotask2", "__filename")),
    ("javascript", "console.time('x')", "console.time"), ("javascript", "console.dir({})", "console.dir"), ("javascript", "console['group']('x')", "console.group"),
    ("javascript", "const c = console; c.count()", "console"),
    ("javascript", "(1234.5).toLocaleString()", "toLocaleString"), ("javascript", "const u = require('util'); u.inspect({})", "the module util"),
    ("python", "import hashlib; hashlib.pbkdf2_hmac('sha256', b'', b'', 1)", "hashlib.pbkdf2_hmac"), ("python", "from hashlib import scrypt as s; s", "hashlib.scrypt"),
    ("python", "import sys; print(sys.maxsize)", "sys.maxsize"), ("python", "import time; time.process_time()", "time.process_time"),
    ("python", "from datetime import datetime; datetime.now()", "datetime.datetime.now"), ("python", "from sys import *", "all of sys")])
def test_what_wasm_has_not_is_named_and_runs_elsewhere(costs, language, code, thing):
    costs(**WASM_IS_CHEAPEST)
    found = explain("-l", language, "-e", code)
    assert found["isolation"] == "process" and row(found, "wasm")["not"] == f"it lacks {thing}" or \
        row(found, "wasm")["not"].startswith(f"it lacks {thing}, "), found


def test_what_may_have_an_effect_does_not_run_below_the_usual_engine(costs):
    costs(**WASM_IS_CHEAPEST)
    for language, code in (("javascript", "process.hrtime()"), ("python", "import uuid; uuid.uuid1()"), ("python", "from os import path as p; p.exists('x')")):
        assert explain("-l", language, "-e", code)["isolation"] == "container", code


def test_all_that_counts_as_plain_python_is_in_wasm(monkeypatch):
    monkeypatch.syspath_prepend(str(box.ROOT / "guest/python"))
    needs, vet = (importlib.import_module(f"cloche.{name}") for name in ("vet_needs", "vet"))
    names = sorted(f"{owner}.{part}" for owner, parts in needs.PARTS.items() for part in parts)
    code = f"import {', '.join(sorted(vet.PURE | needs.PARTS.keys() - {'__future__'}))}\nfor name in {names}:\n    eval(name)\nprint(len({names}))"
    result = box.run("--isolation", "wasm", "--vet", "off", "-e", code)
    assert result.stdout == f"{len(names)}\n" and len(names) > 50, result


def test_all_that_counts_as_plain_javascript_is_in_wasm():
    said = subprocess.run(["node", "-p", "const { EVERYWHERE, PARTS } = require(process.argv[1]); JSON.stringify([[...EVERYWHERE], PARTS])",
                           box.ROOT / "guest/javascript/vet.cjs"], capture_output=True, text=True, check=True).stdout
    everywhere, parts = json.loads(said)
    names = [name for name in everywhere if name not in ("undefined", "arguments")]
    code = f"""console.log({json.dumps(names)}.filter((name) => !(name in globalThis)),
        Object.entries({json.dumps(parts)}).flatMap(([owner, all]) => all.split(" ").map((part) => [owner, part]))
          .filter(([owner, part]) => !(part in owner.split(".").reduce((at, name) => at[name], globalThis))))"""
    result = box.run("--isolation", "wasm", "-l", "javascript", "-e", code)
    assert result.stdout == "[] []\n" and len(names) > 50, result


def test_what_does_not_run_here_is_not_chosen_and_not_remembered(costs, config, shared):
    costs(**{key: value for key, value in USUAL.items() if "gvisor" not in key})
    runtime = shared / "runsc"
    path = config(f"oci_runtime = {runtime}")
    missing = row(explain("--config", path, "-e", "print(1)"), "gvisor")
    assert missing["not"].startswith("it does not run here: ") and str(runtime) in missing["not"], missing
    shutil.copy(shutil.which("runsc"), runtime)
    assert row(explain("--config", path, "-e", "print(1)"), "gvisor")["cost_ms"] > 0


def test_figures_are_of_the_modules_that_are_there(costs):
    """Those of another set of them, or of none any more, are measured anew."""
    costs(**USUAL)
    kept = json.loads(COSTS.read_text())
    COSTS.write_text(json.dumps({**kept, "modules": "of another day"}))
    found = explain("-e", "print(1)")
    assert row(found, "process")["cost_ms"] != pytest.approx(USUAL["python_process"], rel=1e-6), found
    assert json.loads(COSTS.read_text())["modules"] != "of another day"


def test_figures_of_no_worth_are_measured_anew(costs):
    costs(**{**USUAL, "python_process": -1})
    assert row(explain("-e", "print(1)"), "process")["cost_ms"] > 0


def test_costs_are_measured_where_none_are_known():
    COSTS.unlink()
    found = explain("-e", "print(1)")
    assert all(one["cost_ms"] > 1 for one in found["engines"] if "not" not in one) and "cost_ms" in found["engines"][2], found
    assert json.loads(COSTS.read_text())["python/container"] == pytest.approx(found["engines"][2]["cost_ms"], rel=1e-3)
    work = explain("-l", "javascript", "-e", "while (true) {}")
    assert json.loads(COSTS.read_text())["javascript/wasm/work"] == pytest.approx(row(work, "wasm")["cost_ms"], rel=1e-3)


# ---- never below what is asked for

PROGRAMS = ["print(1)", "import pandas", "while True: pass", "import hashlib; hashlib.scrypt", "print(", "import os; os.system('ls')"]


@pytest.mark.parametrize("least", ENGINES)
@pytest.mark.parametrize("whose", ["operator", "caller"])
def test_least_holds_whatever_the_code_and_the_costs(costs, config, least, whose):
    costs(**{**USUAL, "python_process": 0.1, "python_wasm": 0.2, "python_process_work": 0.1, "python_wasm_work": 0.2})
    args = ["--config", config(f"isolation.min = {least}")] if whose == "operator" else ["--isolation-min", least]
    for code in PROGRAMS:
        found = explain(*args, "-e", code)
        assert ENGINES.index(found["isolation"]) >= ENGINES.index(least), found
        assert all("below" in one["not"] for one in found["engines"][:ENGINES.index(least)]), found
    assert ENGINES.index(box.run(*args, "--isolation", "auto", "-e", "print(1)").isolation) >= ENGINES.index(least)


def test_operators_least_holds(config):
    path = config("isolation.min = container")
    assert explain("--config", path, "-e", "print(1)")["isolation"] == "container"
    refused = box.raw("explain", "--config", path, "-l", "wasm", "-e", MODULE)
    assert refused.returncode == box.BAD_SPEC and b"minimum" in refused.stderr


def test_default_follows_the_minimum_up(config):
    path = config("isolation.min = gvisor")
    for args in ((), ("--isolation", "auto")):
        result = box.run("--config", path, *args, "-e", "print(6 * 7)")
        assert (result.stdout, result.isolation) == ("42\n", "gvisor"), result
    said = box.raw("repl", "--config", path, input=b"6 * 7\n")
    assert b"42" in said.stdout, said
    refused = box.run("--config", path, "--isolation", "container", "-e", "1")
    assert refused.returncode == box.BAD_SPEC and "minimum" in refused.error["message"]


def test_minimum_holds_without_auto():
    result = box.run("--isolation", "process", "--isolation-min", "container", "-e", "1")
    assert result.returncode == box.BAD_SPEC and "stronger than" in result.error["message"]
    assert box.run("--isolation-min", "process", "-e", "1").isolation == "container"
    assert box.run("--isolation-min", "gvisor", "-e", "1").isolation == "gvisor"


def test_gvisor_can_be_what_is_chosen(costs):
    costs(**{**USUAL, "python_gvisor": 1.0})
    result = box.run("--isolation", "auto", "-e", "print(6 * 7)")
    assert (result.stdout, result.isolation) == ("42\n", "gvisor"), result


def test_an_ordinary_user_gets_an_engine_that_runs(shared):
    home = shared / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    options = {"user": 65534, "cwd": home, "env": {"HOME": str(home), "XDG_RUNTIME_DIR": str(home)}}
    assert box.raw("run", "-e", "1", **options).returncode == box.LAYER_MISSING  # else there is nothing to show here
    plain = box.raw("run", "--json", "--isolation", "auto", "-e", "print(7)", **options)
    assert json.loads(plain.stdout)["stdout"] == "7\n" and "plain code" in json.loads(plain.stdout)["chosen"], plain
    found = explain("-e", "import os; os.getcwd()", **options)
    assert found["isolation"] == "process" and "container does not run here" in found["reason"] and "os.getcwd" in found["reason"], found
    assert "memory limit" in row(found, "container")["not"]
    refused = explain("--isolation-min", "container", "-e", "print(1)", code=box.BAD_SPEC, **options)
    assert "memory limit" in refused["error"]["message"], refused
    assert explain("--isolation-min", "container", "--accept", "memory", "--accept", "cpus", "-e", "1", **options)["isolation"] == "container"


# ---- what is asked for besides

def test_options_of_run_decide(costs, tmp_path):
    costs(**WASM_IS_CHEAPEST)
    spec = tmp_path / "spec.json"
    spec.write_text(json.dumps({"code": "print(1)", "isolation": "container", "isolation_min": "container"}))
    assert explain("--input", "/etc/hostname", "-e", "print(1)")["isolation"] == "wasm"
    for args, words in ((("--read", "/etc/hostname"), "paths of the host"), (("--write", str(tmp_path)), "paths of the host"), (("--vet", "restricted"), "restricted")):
        found = explain(*args, "-e", "print(1)")
        assert found["isolation"] == "process" and words in row(found, "wasm")["not"], found
    assert explain("--spec", spec)["isolation"] == "container"


def test_restricted_code_does_not_run_in_wasm(costs):
    costs(**WASM_IS_CHEAPEST)
    result = box.run("--isolation", "auto", "--vet", "restricted", "-e", "print(1)")
    assert result.isolation == "process", result


def test_operator_can_make_it_the_default(config, costs):
    path = config("isolation = auto")
    result = box.run("--config", path, "-e", "print(1)")
    assert result.isolation == "process" and "costs least" in result.chosen
    assert "chosen" not in box.run("--config", path, "--isolation", "container", "-e", "print(1)").json
    assert box.run("--config", path, "--isolation-min", "container", "-e", "print(1)").isolation == "container"
    assert b"42" in box.raw("repl", "--config", path, input=b"6 * 7\n").stdout


# ---- what is said

def test_run_says_what_was_chosen():
    result = box.run("--isolation", "auto", "-e", "print(6 * 7)")
    assert (result.stdout, result.isolation) == ("42\n", "process") and "costs least" in result.chosen
    assert "chosen" not in box.run("-e", "print(1)").json
    loud, quiet = (box.raw("run", *args, "--isolation", "auto", "-e", "print(1)") for args in ((), ("--quiet",)))
    assert loud.stderr.startswith(b"cloche: auto chose process: plain code") and quiet.stderr == b"" and quiet.stdout == b"1\n"


def test_words_of_the_code_are_cut_between_characters():
    found = explain("-e", f"import {'ä' * 200}")
    assert found["isolation"] == "container" and "needs the package" in found["reason"], found


def test_warm():
    with keeper.Keeper("--spares", "1", "--preload", "json", minimum=1) as kept:
        before = kept.state()["hits"]
        result = box.run("--warm", "--isolation", "auto", "-e", "print(1)")
        assert (result.isolation, result.stdout) == ("container", "1\n") and result.chosen.startswith("a warm box of container was there")
        assert kept.state()["hits"] == before + 1
        assert box.run("--warm", "--isolation", "auto", "-l", "wasm", "-e", MODULE).isolation == "wasm"
        cold = box.run("--warm", "--isolation", "auto", "-l", "javascript", "-e", "console.log(1)")
        assert (cold.isolation, cold.stdout) == ("wasm", "1\n") and "costs least" in cold.chosen, cold
        said = box.raw("run", "--warm", "--isolation", "auto", "-e", "print(1)").stderr
        assert said.startswith(b"cloche: auto chose container: a warm box"), said
        assert box.run("--warm", "--isolation", "auto", "--isolation-min", "gvisor", "-e", "print(1)").isolation == "gvisor"


def test_table_for_people():
    done = subprocess.run([box.CLOCHE, "explain", "-e", "print(1)"], capture_output=True, text=True)
    assert done.stdout.splitlines()[0].startswith("process: plain code") and "20.0 ms  taken" in done.stdout, done
