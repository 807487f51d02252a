"""The first filter, through the real program: cold and warm, both engines, and code that is meant to break it."""
import json
import pathlib
import shutil
import sys

import pytest

import box
import keeper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "guest/python"))

from cloche import vet

VETTED = 253
FORBIDDEN = "import subprocess\n"
MARK = "open('ran', 'w').write('x'); print('ran')\n"


@pytest.fixture(scope="module")
def kept():
    with keeper.Keeper("--spares", "3", "--preload", "json", "--language", "javascript,python/process") as made:
        made.await_spares("javascript")
        made.await_spares("python/process")
        yield made


def rules(result):
    return [(finding["line"], finding["column"], finding["rule"]) for finding in result.vet["findings"]]


# ---- modes

@pytest.fixture(params=["cold", "warm"])
def way(request):
    """The options for a run in either kind of box, and whether one was taken that waited."""
    if request.param == "cold":
        return ()
    request.getfixturevalue("kept")
    return ("--warm",)


def test_blocked_code_never_ran(way, engine, shared):
    """Its first line would leave a file, and print. Beside it the same code without what is blocked, which does."""
    for code, ran in ((MARK + FORBIDDEN, False), (MARK, True)):
        target = shared / str(ran)
        result = box.run(*way, "--vet", "block", "--output", target, "-e", code, engine=engine)
        assert (target / "ran").exists() == ran and (result.stdout == "ran\n") == ran, result
        assert result.returncode == (0 if ran else VETTED)
        assert result.cause == ("exit" if ran else "vetted")
    blocked = box.run(*way, "--vet", "block", "-e", MARK + FORBIDDEN, engine=engine)
    assert blocked.exit_code is None and blocked.signal is None and not blocked.timed_out
    assert rules(blocked) == [(2, 8, "module")]
    assert "line 2" in blocked.detail and blocked.vet["mode"] == "block"


def test_blocked_javascript_never_ran(way, shared):
    code = "require('fs').writeFileSync('/data/output/ran', 'x'); console.log('ran')\n"
    for more, ran in (("eval('1')", False), ("", True)):
        target = shared / str(ran)
        result = box.run(*way, "--vet", "block", "--output", target, "-l", "javascript", "-e", code + more)
        assert (target / "ran").exists() == ran and (result.stdout == "ran\n") == ran, result
        assert result.returncode == (0 if ran else VETTED)
    assert rules(box.run(*way, "--vet", "block", "-l", "javascript", "-e", code + "eval('1')")) == [(2, 1, "call")]


def test_warned_code_runs_and_its_findings_are_told(way, engine):
    result = box.run(*way, "--vet", "warn", "-e", MARK + FORBIDDEN, engine=engine)
    assert result.stdout == "ran\n" and result.cause == "exit" and result.returncode == 0
    assert rules(result) == [(2, 8, "module")] and result.vet["mode"] == "warn"
    assert result.vet["facts"]["processes"] == ["subprocess"]


def test_code_that_is_only_looked_at_does_not_run(way, shared):
    result = box.run(*way, "--vet", "only", "--output", shared / "out", "-e", MARK)
    assert result.returncode == 0 and result.cause == "vetted" and result.stdout == "" and not result.files
    assert result.vet["findings"] == [] and result.vet["facts"]["files"] == ["open"]
    assert box.run(*way, "--vet", "only", "-e", MARK + FORBIDDEN).returncode == 1


def test_without_a_word_only_warm_python_is_looked_at(kept):
    """A cold box would need a second interpreter for it, and JavaScript's parser takes longer than most programs."""
    assert "vet" not in box.run("-e", FORBIDDEN).json
    assert rules(box.run("--warm", "-e", FORBIDDEN)) == [(1, 8, "module")]
    assert "vet" not in box.run("--warm", "-l", "javascript", "-e", "eval('1')").json
    assert "vet" not in box.run("--warm", "--vet", "off", "-e", FORBIDDEN).json


def test_missing_package_warns_and_does_not_block(way):
    result = box.run(*way, "--vet", "block", "-e", "print(1)\nimport no_such_package_x")
    assert result.stdout == "1\n" and result.cause == "exit" and rules(result) == [(2, 1, "missing")]
    assert result.vet["facts"]["missing"] == ["no_such_package_x"]


@pytest.mark.parametrize("code", ["import no_such_package_x", "x = 1\n\nimport no_such_package_x.y"])
def test_code_that_was_not_read_is_told_afterwards_what_it_lacks(code):
    """From its own last words, which cost nothing: a cold run is not read unless it is asked for."""
    result = box.run("-e", code)
    assert result.exit_code == 1 and "ModuleNotFoundError" in result.stderr
    assert rules(result) == [(len(code.splitlines()), 1, "missing")] and result.vet["facts"] is None
    assert "no_such_package_x" in result.vet["findings"][0]["message"] and result.vet["findings"][0]["severity"] == "note"
    assert "vet" not in box.run("--vet", "off", "-e", code).json
    assert b"vet: line" in box.raw("run", "-e", code).stderr


@pytest.mark.parametrize("code", ["let x = 1\nrequire('no-such-package-x')", "import x from '@no/such-package-x'\nconsole.log(x)"])
def test_javascript_is_told_afterwards_what_it_lacks(way, code, shared):
    file = shared / ("main.mjs" if code.startswith("import") else "main.js")
    file.write_text(code)
    result = box.run(*way, file)
    assert result.exit_code == 1 and [finding["rule"] for finding in result.vet["findings"]] == ["missing"], result
    assert "such-package-x" in result.vet["findings"][0]["message"]
    if file.name == "main.js":
        assert result.vet["findings"][0]["line"] == 2


@pytest.mark.parametrize("said, status", [
    ("ModuleNotFoundError: No module named '\x1b[2Jevil'", 1),
    ("ModuleNotFoundError: No module named 'a b; rm'", 1),
    ("ModuleNotFoundError: No module named '" + "x" * 500 + "'", 1),
    ("ModuleNotFoundError: No module named 'unfinished", 1),
    ("ModuleNotFoundError: No module named ''", 1),
    ("ModuleNotFoundError: No module named 'a'\nValueError: another end", 1),
    ("x ModuleNotFoundError: No module named 'a'", 1),
    ("Error: Cannot find module './mine.js'", 1),
    ("ModuleNotFoundError: No module named 'a'", 0),
])
def test_words_of_a_guest_that_are_no_complaint_are_not_taken_for_one(said, status):
    assert "vet" not in box.run("-e", f"import sys\nsys.stderr.write({said!r})\nsys.exit({status})").json


def test_words_of_a_guest_are_taken_for_no_more_than_they_are():
    """It may lie about a package, as about all that it prints; a line beyond all numbers is none."""
    said = "File \"/code/main.py\", line 99999999999999999999\nModuleNotFoundError: No module named 'a_b.c'\n\n"
    result = box.run("-e", f"import sys\nsys.stderr.write({said!r})\nsys.exit(1)")
    assert rules(result) == [(1, 1, "missing")] and "needs package a_b.c," in result.vet["findings"][0]["message"]


def test_what_has_no_reader_says_so_once_where_it_was_asked_for(kept):
    for options in ((), ("--warm",)):
        result = box.run(*options, "--vet", "warn", "-l", "bash", "-e", "echo 1")
        assert result.stdout == "1\n" and rules(result) == [(1, 1, "unread")]
        assert result.vet["findings"][0]["message"] == "not read: bash has no reader"
    assert "vet" not in box.run("-l", "bash", "-e", "echo 1").json
    assert box.raw("run", "--vet", "warn", "--", "/bin/true").stderr.count(b"not read: a command has no reader") == 1


def test_findings_of_ordinary_code_do_not_block_it(way):
    code = ("d = {'__class__': 'A'}\ndef compile(x):\n    return x\nclass A:\n    def f(self, k):\n"
            "        return getattr(self, k), self.__class__ == A\nprint(compile(1))")
    result = box.run(*way, "--vet", "block", "-e", code)
    assert result.stdout == "1\n" and [finding["severity"] for finding in result.vet["findings"]] == ["note"]
    blocked = box.run(*way, "--vet", "block", "-e", code + "\neval('1')")
    assert blocked.cause == "vetted" and "1 finding, the first in line 8" in blocked.json["detail"]


def test_findings_are_remarks_of_the_command_line(way):
    done = box.raw("run", *way, "--vet", "warn", "-e", FORBIDDEN + "print(1)")
    assert done.stdout == b"1\n" and b"cloche: vet: line 1, column 8: subprocess" in done.stderr
    assert box.raw("run", *way, "-q", "--vet", "warn", "-e", FORBIDDEN + "print(1)").stderr == b""
    done = box.raw("run", *way, "--vet", "block", "-e", FORBIDDEN)
    assert done.returncode == VETTED and b"cloche: vetted: the code did not run" in done.stderr


def test_vet_command(shared, way):
    file = shared / "a.py"
    file.write_text("x = 1\nexec('1')\n")
    done = box.raw("vet", *way, file)
    assert done.returncode == 1 and done.stdout.startswith(b"a.py:2:1: exec runs code") and b"[call]" in done.stdout
    assert done.stderr == b""
    file.write_text("print(1)\n")
    done = box.raw("vet", *way, file)
    assert done.returncode == 0 and done.stdout == b"" and done.stderr == b""
    result = json.loads(box.raw("vet", *way, "--json", "-e", "import math").stdout)
    assert result["vet"]["facts"]["pure"] is True and result["cause"] == "vetted"
    assert box.raw("vet").returncode == box.BAD_SPEC
    assert box.raw("vet", "--", "/bin/true").returncode == box.BAD_SPEC


def test_stdin_is_the_programs_not_the_vetters(way):
    assert box.run(*way, "--vet", "block", "-e", "print(input())", input=b"hello\n").stdout == "hello\n"


@pytest.mark.parametrize("language, code", [("python", "print('ran')\nimport subprocess"), ("javascript", "console.log('ran')\neval('1')")])
def test_code_for_the_engine_wasm_is_read_by_another(way, language, code):
    """Its boxes run no programs of an image."""
    if box.run("-l", language, "-e", "", engine="wasm").returncode != 0:
        pytest.skip(f"the engine wasm has no {language} here")
    result = box.run(*way, "--vet", "block", "-l", language, "-e", code, engine="wasm")
    assert result.cause == "vetted" and result.stdout == "" and result.vet["findings"][0]["line"] == 2
    result = box.run(*way, "--vet", "warn", "-l", language, "-e", code.replace("eval('1')", "Function"), engine="wasm")
    assert result.stdout.startswith("ran\n") and result.vet["findings"] and result.isolation == "wasm"
    assert box.run(*way, "--vet", "restricted", "-l", language, "-e", code, engine="wasm").returncode == box.BAD_SPEC


def test_what_the_engine_wasm_lacks_is_told_for_that_engine(way):
    """Its Python has the standard library and no package of the image; the vetter runs in a box that has them."""
    if box.run("-e", "", engine="wasm").returncode != 0:
        pytest.skip("the engine wasm has no python here")
    for options in ((), ("--vet", "warn")):
        result = box.run(*way, *options, "-e", "import math\nimport pandas", engine="wasm")
        assert rules(result) == [(2, 1, "missing")] and "wasm" in result.vet["findings"][0]["message"], options
    assert rules(box.run(*way, "--vet", "warn", "-e", "import json, datetime, statistics, csv", engine="wasm")) == []


def test_the_list_of_what_python_for_wasm_lacks_is_true():
    if box.run("-e", "", engine="wasm").returncode != 0:
        pytest.skip("the engine wasm has no python here")
    code = f"lacks = {sorted(vet.WASM_LACKS)}\n" + """import sys, warnings
warnings.simplefilter("ignore")
def is_there(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True
print(sorted(name for name in sys.stdlib_module_names if not name.startswith("_")
             and name not in ("antigravity", "this", "idlelib", "turtledemo") and is_there(name) == (name in lacks)))"""
    assert box.run("--wall", "60s", "--memory", "1G", "-e", code, engine="wasm").stdout == "[]\n"


@pytest.mark.skipif(shutil.which("runsc") is None, reason="there is no runsc")
def test_code_for_the_engine_gvisor_is_read_in_such_a_box():
    assert rules(box.run("--vet", "block", "-e", MARK + FORBIDDEN, engine="gvisor")) == [(2, 8, "module")]
    assert box.run("--vet", "block", "-e", MARK, engine="gvisor").stdout == "ran\n"


# ---- what cannot be vetted

@pytest.mark.parametrize("arguments", [("-l", "bash", "-e", "echo"), ("--", "/bin/true"), ("-l", "go", "-e", "package main")])
def test_what_cannot_be_read_is_not_let_through_as_vetted(arguments):
    result = box.run("--vet", "block", *arguments)
    assert result.returncode == box.BAD_SPEC and result.error["field"] == "vet"
    assert box.run("--vet", "warn", "-l", "bash", "-e", "echo 1").stdout == "1\n"


def test_operators_minimum_and_lists(config):
    path = config("vet.min = block", "vet.block_modules = shutil", "vet.allow_modules = subprocess")
    assert box.run("--config", path, "-e", "import shutil").cause == "vetted"
    assert box.run("--config", path, "-e", "import subprocess; print(1)").stdout == "1\n"
    refused = box.run("--config", path, "--vet", "warn", "-e", "1")
    assert refused.returncode == box.BAD_SPEC and "minimum 'block'" in refused.error["message"]
    assert box.run("--config", path, "--", "/bin/true").returncode == box.BAD_SPEC
    assert box.raw("doctor", "--config", path).returncode == box.raw("doctor").returncode
    done = box.raw("repl", "--config", path, input=b"1\n")
    assert done.returncode != 0 and b"vet" in done.stderr
    only = config("vet = block", "vet.only_modules = math")
    assert rules(box.run("--config", only, "-e", "import math, json")) == [(1, 14, "module")]


def test_operators_own_language_row_has_no_vetter(config, shared):
    row = shared / "python.json"
    row.write_text(json.dumps({"name": "python", "extensions": ["py"], "find": ["/usr/bin/python3"], "file": "main.py",
                               "run": ["{runtime}", "{code}"]}))
    path = config(f"languages = {row}")
    assert box.run("--config", path, "--vet", "block", "-e", "print(1)").returncode == box.BAD_SPEC
    assert box.run("--config", path, "--vet", "warn", "-e", "print(1)").stdout == "1\n"


# ---- the vetter is out of the user's reach

@pytest.mark.parametrize("variables", [("PYTHONPATH=/data/input",), ("PYTHONSTARTUP=/data/input/x.py",), ("LD_PRELOAD=/data/input/x.so",)])
def test_variables_and_files_of_the_user_do_not_reach_the_vetter(way, shared, variables):
    """A sitecustomize of the user's would be the vetter's, too, and could make it say what it likes."""
    trick = shared / "sitecustomize.py"
    trick.write_text("import os, sys\nif 'vet' in str(sys.orig_argv): print('{}'); os._exit(0)\n"
                     "sys.stdout.write('tricked\\n')\n")
    result = box.run(*way, "--vet", "block", "--input", trick, *(part for one in variables for part in ("--env", one)),
                     "-e", MARK + FORBIDDEN)
    assert result.cause == "vetted" and result.stdout == "" and rules(result) == [(2, 8, "module")]


# ---- hostile code

HOSTILE = {
    "brackets": "x = " + "(" * 100000,
    "unary": "x = " + "-" * 400000 + "1",
    "chain": "x = " + "+".join("1" * 200000),
    "attributes": "x" + ".a" * 100000,
    "lambdas": "x = " + "lambda: " * 50000 + "0",
    "comparisons": "x = " + "not " * 100000 + "1",
    "blocks": "".join(" " * depth + "if 1:\n" for depth in range(99)) + " " * 99 + "pass",
    "strings": "x = '" + "\\N{DIGIT ONE}" * 30000 + "'",
    "numbers": "x = " + "9" * 400000,
    "nul": "x = 1\0; eval('1')",
    "names": "\n".join(f"import a{number}" for number in range(5000)),
    "calls": "\n".join("eval(x)" for _ in range(50000)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_code_that_is_meant_to_break_the_parser_ends_cleanly(name, shared, way):
    file = shared / "main.py"
    file.write_bytes(HOSTILE[name].encode())
    result = box.run(*way, "--vet", "block", "--wall", "20s", file)
    assert result.cause in ("vetted", "exit"), result
    if result.cause == "vetted":
        assert result.returncode == VETTED and result.vet["findings"]
    assert len(json.dumps(result.vet)) < 256 << 10
    assert box.run(*way, "--vet", "block", "-e", "print(1)").stdout == "1\n"


@pytest.mark.parametrize("code", [b"x = 1\n" * (10 << 20 >> 3), b"[" * (10 << 20), bytes(1 << 20), b"\xff\xfe" * 1000, b""],
                         ids=["long", "deep", "zeros", "not-utf8", "empty"])
@pytest.mark.parametrize("language", ["py", "js"])
def test_ten_megabytes_and_what_is_not_text(code, language, shared):
    file = shared / f"main.{language}"
    file.write_bytes(code)
    result = box.run("--vet", "block", file)
    assert result.cause == ("vetted" if code else "exit"), (result.json.get("detail"), result.json.get("vet"))
    if len(code) > 512 << 10:
        assert result.vet["findings"][0]["rule"] == "size"


def test_vetter_that_runs_out_of_memory_blocks(shared):
    """Within the size that is looked at, but with a tree that does not fit."""
    result = box.run("--vet", "block", "--compile", "memory=32M", "-e", "x = [" + "1," * 60000 + "]" + "\nprint(1)")
    if result.cause == "exit":
        pytest.fail("32 MB were enough: make the code larger")
    assert result.cause == "vetted" and result.vet["findings"][0]["rule"] == "parser"
    assert result.returncode == VETTED


# ---- restricted

@pytest.fixture(scope="module")
def restricted():
    if box.raw("run", "--", "/usr/bin/python3", "-I", "-c", "import RestrictedPython").returncode != 0:
        pytest.skip("RestrictedPython is not in the image `host`: setup/install-restricted")


def test_restricted_code_runs_in_restricted_pythons_world(restricted):
    result = box.run("--vet", "restricted", "-e", "import math\nx = [i for i in range(4)]\ny = 5\ny += 6\nx[0] = y - 6\nprint(math.pi > 3, sum(x))")
    assert result.stdout == "True 11\n" and result.returncode == 0 and result.vet["mode"] == "restricted"


@pytest.mark.parametrize("code, word", [
    ("open('/etc/passwd')", "NameError"), ("1/0", "ZeroDivisionError"),
    ('import json; json.codecs.builtins.open("/etc/hostname").read()', "AttributeError"),
    ('import re; re.enum.sys.modules.get("os").system("id")', "AttributeError"),
    ('import operator; operator.attrgetter("__cl" + "ass__")(1)', "AttributeError"),
])
def test_restricted_code_lacks_what_has_effects(restricted, code, word):
    result = box.run("--vet", "restricted", "-e", code)
    assert result.exit_code == 1 and word in result.stderr, result


def test_restricted_code_is_ordinary_code_otherwise(restricted):
    result = box.run("--vet", "restricted", "-e", "from datetime import datetime\nclass A:\n    def __init__(self):\n        self.x = 1\n"
                     "print(A().x, datetime.strptime('2024', '%Y').year, type(1) == int, '{}'.format(2), input())", input=b"in\n")
    assert result.stdout == "1 2024 True 2 in\n", result


def test_restricted_imports_are_found_before_it_runs(restricted):
    result = box.run("--vet", "restricted", "-e", "print(1)\nimport pandas")
    assert result.cause == "vetted" and result.stdout == "" and (2, 1, "restricted") in rules(result)


def test_restricted_python_blocks_what_it_does_not_compile(restricted):
    result = box.run("--vet", "restricted", "-e", "x = 1\nx._private")
    assert result.cause == "vetted" and rules(result) == [(2, 1, "restricted")]
    assert box.run("--vet", "restricted", "-l", "javascript", "-e", "1").returncode == box.BAD_SPEC
