"""cloche run --spec: the same run, told in JSON."""
import json

import box
import pytest


def run_spec(spec, *args, tmp_path, **options):
    path = tmp_path / "spec.json"
    path.write_text(spec if isinstance(spec, str) else json.dumps(spec))
    return box.run("--spec", path, *args, **options)


@pytest.fixture
def spec(tmp_path):
    return lambda spec, *args, **options: run_spec(spec, *args, tmp_path=tmp_path, **options)


@pytest.fixture
def refused(tmp_path):
    """Runs a spec that must be refused; returns the error object."""
    def run(spec, *args):
        path = tmp_path / "spec.json"
        path.write_bytes(spec if isinstance(spec, bytes) else (spec if isinstance(spec, str) else json.dumps(spec)).encode())
        done = box.raw("run", "--json", "--spec", path, *args)
        assert done.returncode == box.BAD_SPEC, done
        return json.loads(done.stdout)["error"]
    return run


def test_spec_from_a_file(spec, engine):
    result = spec({"code": "import sys; print(sys.argv[1:])", "language": "python", "args": ["a", "--b"], "isolation": engine})
    assert (result.stdout, result.exit_code, result.isolation) == ("['a', '--b']\n", 0, engine)


def test_spec_from_stdin():
    done = box.run("--spec", "-", input=json.dumps({"code": "import sys; print(repr(sys.stdin.read()))"}).encode())
    assert done.stdout == "''\n"


def test_spec_from_stdin_brings_its_own_stdin():
    done = box.run("--spec", "-", input=json.dumps({"command": ["cat"], "stdin": "héllo\n"}).encode())
    assert done.stdout == "héllo\n"


def test_stdin_of_a_spec_may_be_large_and_hold_nul(spec, engine):
    result = spec({"code": "import sys; d = sys.stdin.buffer.read(); print(len(d), d.count(0))", "isolation": engine,
                   "stdin": "x" * 3000000 + "\0" * 5})
    assert result.stdout == "3000005 5\n"


def test_stdin_of_the_caller_is_passed_where_the_spec_has_none(spec):
    assert spec({"command": ["cat"]}, input=b"from outside").stdout == "from outside"


def test_empty_stdin_in_a_spec_is_an_empty_stdin(spec):
    assert spec({"command": ["wc", "-c"], "stdin": ""}, input=b"not this").stdout.strip() == "0"


def test_every_field_works(spec, shared, engine):
    (shared / "in.txt").write_text("input")
    (shared / "dir").mkdir()
    (shared / "dir" / "x").write_text("granted")
    code = ("import os, sys\nprint(open(os.environ['CLOCHE_INPUT'] + '/renamed').read(), open(sys.argv[1]).read(), "
            "os.environ['A'], sys.stdin.read())\nopen('out.txt', 'w').write('kept')")
    result = spec({"language": "python", "code": code, "args": [str(shared / "dir" / "x")], "env": {"A": "1=2"},
                   "image": "host", "isolation": engine, "inputs": [f"{shared}/in.txt:renamed"], "reads": [str(shared / "dir")],
                   "output": str(shared / "collected"), "accept": ["cpus"], "stdin": "std", "limits": {"memory": "100M", "wall": 5},
                   "compile_limits": {"wall": "10s"}})
    assert result.stdout == "input granted 1=2 std\n", result
    assert (shared / "collected" / "out.txt").read_text() == "kept"
    assert [file["path"] for file in result.files] == ["out.txt"]


def test_file_field_runs_a_file(spec, tmp_path):
    (tmp_path / "x.sh").write_text("echo $((6 * 7))")
    assert spec({"file": str(tmp_path / "x.sh")}).stdout == "42\n"


def test_limits_take_numbers_and_texts(spec):
    for value, text in ((67108864, "64 MiB"), ("64M", "64 MiB")):
        assert text in spec({"code": "x = bytearray(b'x') * (99 << 20)", "limits": {"memory": value}}).detail
    for value in (0.3, "300ms", "0.3"):
        assert "300 ms" in spec({"code": "import time; time.sleep(9)", "limits": {"wall": value}}).detail


def test_options_after_the_spec_override_it(spec, engine):
    result = spec({"code": "import time; time.sleep(9)", "limits": {"wall": "20s"}, "isolation": "process"}, "--wall", "300ms",
                  "--isolation", engine)
    assert "300 ms" in result.detail and result.isolation == engine


def test_options_before_the_spec_are_overridden(tmp_path):
    (tmp_path / "s.json").write_text(json.dumps({"code": "import time; time.sleep(9)", "limits": {"wall": "300ms"}}))
    assert "300 ms" in box.run("--wall", "20s", "--spec", tmp_path / "s.json").detail


@pytest.mark.parametrize("name, nearest", [("langauge", "language"), ("limit", "limits"), ("arg", "args"), ("Code", "code"),
                                           ("input", "inputs"), ("read", "reads"), ("isolatoin", "isolation"), ("enviroment", None),
                                           ("memory", None), ("", None), ("x" * 300, None)])
def test_unknown_field_is_named_and_the_nearest_suggested(refused, name, nearest):
    error = refused({"code": "print(1)", name: "x"})
    assert name[:60] in error["message"]
    if nearest:
        assert f"'{nearest}'" in error["message"]


@pytest.mark.parametrize("name", ["memroy", "wal", "open-files", "walltime", ""])
def test_unknown_limit_is_named(refused, name):
    for where in ("limits", "compile_limits"):
        error = refused({"code": "print(1)", where: {name: "1"}})
        assert f"{where}.{name}" in error["message"]


@pytest.mark.parametrize("field, value", [
    ("language", 5), ("language", None), ("language", ["python"]), ("code", 5), ("code", None), ("code", ["print(1)"]), ("stdin", 5),
    ("stdin", {}), ("command", "ls"), ("command", [1]), ("command", [None]), ("command", {}), ("args", "x"), ("args", [["x"]]),
    ("env", ["A=1"]), ("env", "A=1"), ("env", {"A": 1}), ("env", {"A": None}), ("env", {"A B": "1"}), ("env", {"": "1"}),
    ("inputs", "x"), ("inputs", [5]), ("reads", "/usr"), ("writes", True), ("limits", []), ("limits", "x"), ("limits", {"memory": None}),
    ("limits", {"memory": [1]}), ("limits", {"memory": True}), ("limits", {"memory": "lots"}), ("limits", {"memory": -1}),
    ("limits", {"pids": 1.5}), ("limits", {"wall": -0.5}), ("compile_limits", 1), ("isolation", 1), ("isolation", "docker"),
    ("image", 1), ("output", 1), ("accept", "memory"), ("accept", ["seccomp"]), ("cwd", "relative"), ("cwd", 5), ("file", 5)])
def test_wrong_type_or_value_is_refused_by_name(refused, field, value):
    spec = {"code": "print('started')", field: value}
    if field in ("command", "file"):
        del spec["code"]
    error = refused(spec)
    assert error["code"] == "bad_spec"
    inner = next(iter(value)) if isinstance(value, dict) and value else ""
    assert field in error["message"] or (inner and inner in error["message"]), error


def test_nul_in_a_string_is_refused(refused):
    for spec in ({"language": "py\0thon", "code": "1"}, {"command": ["ls", "\0"]}, {"code": "1", "env": {"A": "\0"}},
                 {"code": "1", "cwd": "/\0"}, {"code": "1", "args": ["a\0b"]}):
        assert "NUL" in refused(spec)["message"]
    assert refused('{"code": "1", "env": {"A\\u0000B": "x"}}')["code"] == "bad_spec"


def test_code_with_nul_is_code(spec):
    result = spec({"language": "bash", "code": "echo a\n#\0\necho b"})
    assert "a\n" in result.stdout


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "5", '"x"', "{'code': 1}", '{"code": "1",}', '{"code": "1"} x', "\xff",
                                  '{"code": "\\ud800"}', "[" * 100000, '{"limits":' * 5000, "{}" * 2, '{"code": 1e999999}'])
def test_not_a_spec_says_where(refused, text):
    error = refused(text.encode("latin-1"))
    assert error["code"] == "bad_spec" and ("JSON" in error["message"] or "code" in error["message"])


def test_error_in_json_names_line_and_column(refused):
    assert "line 3" in refused('{\n"code": "1",\n"wall" 5}')["message"]


def test_duplicate_keys_are_refused(refused):
    for text in ('{"code": "print(1)", "code": "print(2)"}', '{"code": "1", "limits": {"memory": "1G", "memory": "2G"}}'):
        assert "duplicate" in refused(text)["message"].lower()


def test_code_and_command_together_are_refused(refused):
    assert "not both" in refused({"code": "1", "command": ["ls"]})["message"]
    assert "not both" in refused({"code": "1", "file": "/etc/hostname"})["message"]


def test_nothing_to_run_is_refused(refused):
    for spec in ({}, {"language": "python"}, {"command": []}):
        assert "nothing to run" in refused(spec)["message"]


def test_spec_that_cannot_be_read_is_named(tmp_path):
    done = box.raw("run", "--spec", tmp_path / "nothing.json")
    assert done.returncode == box.BAD_SPEC and b"nothing.json" in done.stderr
    done = box.raw("run", "--spec", tmp_path)
    assert done.returncode == box.BAD_SPEC


def test_unicode_spec_is_read_as_it_is(spec):
    assert spec({"code": "print('naïve — ✓ 漢字 🙂')"}).stdout == "naïve — ✓ 漢字 🙂\n"


def test_many_arguments_are_refused_past_the_limit(refused, spec):
    assert spec({"command": ["sh", "-c", "echo $#", "sh"] + ["x"] * 1000}).stdout == "1000\n"
    assert "1024" in refused({"command": ["true"] + ["x"] * 1024})["message"]


def test_many_grants_are_refused_past_the_limit(refused, shared):
    for i in range(65):
        (shared / str(i)).write_text("")
    assert "64" in refused({"code": "1", "inputs": [str(shared / str(i)) for i in range(65)]})["message"]
