"""The wasm engine: modules, their limits, hostile ones, and languages as modules."""
import ctypes
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest.mock

import box
import keeper
import pytest

HELLO = """(module (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1) (data (i32.const 8) "hello\\n")
  (func (export "_start") (i32.store (i32.const 0) (i32.const 8)) (i32.store (i32.const 4) (i32.const 6))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 20)))))"""


def module(text, *options, **more):
    return box.run("--language", "wasm", *options, "-e", text, **more)


def start(body, *options, head="", **more):
    """A module whose _start does this."""
    return module(f'(module {head} (memory (export "memory") 1) (func $main (export "_start") {body}))', *options, **more)


def python(code, *options, **more):
    return box.run("--isolation", "wasm", *options, "-e", code, **more)


def javascript(code, *options, **more):
    return box.run("--isolation", "wasm", "--language", "javascript", *options, "-e", code, **more)


def test_module_prints():
    result = module(HELLO)
    assert (result.stdout, result.cause, result.exit_code, result.isolation) == ("hello\n", "exit", 0, "wasm"), result
    assert result.layers[0]["name"] == "wasm" and {"seccomp", "landlock", "watchdog"} <= {layer["name"] for layer in result.layers}


def test_file_names_tell_the_engine(tmp_path):
    (tmp_path / "prog.wat").write_text(HELLO)
    assert box.raw("run", tmp_path / "prog.wat").stdout == b"hello\n"
    refused = box.raw("run", "--isolation", "container", tmp_path / "prog.wat")
    assert refused.returncode == box.BAD_SPEC and b"only the engine wasm" in refused.stderr


EMPTY = bytes.fromhex("0061736d01000000" "0104016000" "00" "0302" "0100" "070a01065f7374617274" "0000" "0a040102000b")


def test_binary_format(tmp_path):
    (tmp_path / "empty.wasm").write_bytes(EMPTY)
    result = box.run(tmp_path / "empty.wasm")
    assert (result.cause, result.exit_code) == ("exit", 0), result


@pytest.mark.parametrize("values, returned", [(("2", "3"), [5]), (("-1", "0"), [-1]), (("0x10", "-9223372036854775807"), [-9223372036854775791])])
def test_call_of_an_exported_function(values, returned):
    text = '(module (func (export "add") (param i32 i64) (result i64) (i64.add (i64.extend_i32_s (local.get 0)) (local.get 1))))'
    result = box.run("--language", "wasm", "--call", "add", "-e", text, "--", *values)
    assert result.returned == returned, result


def test_numbers_of_a_spec_are_values():
    text = '(module (func (export "sum") (param i64 f64) (result f64) (f64.add (f64.convert_i64_s (local.get 0)) (local.get 1))))'
    spec = {"language": "wasm", "code": text, "call": "sum", "args": [-2, 0.1]}
    assert box.run("--spec", "-", input=json.dumps(spec).encode()).returned == [-1.9], spec


def test_numbers_below_zero_are_no_options_after_the_file(tmp_path):
    text = '(module (func (export "same") (param f64) (result f64) (local.get 0)))'
    (tmp_path / "same.wat").write_text(text)
    assert box.raw("run", "--call", "same", tmp_path / "same.wat", "-1.5").stdout == b"-1.5\n"
    refused = box.raw("run", "--language", "wasm", "--call", "same", "-e", text, "-1.5")
    assert refused.returncode == box.BAD_SPEC and b"a number below zero comes after --" in refused.stderr


VECTOR = '(module (func (export "in") (param {0})) (func (export "out") (result v128) (v128.const i32x4 1 2 3 4)))'


@pytest.mark.parametrize("kind", ["v128", "anyref", "(ref null any)", "externref", "(ref func)"])
def test_values_that_nobody_can_write_are_refused(kind):
    result = box.run("--language", "wasm", "--call", "in", "-e", VECTOR.format(kind), "--", "1")
    assert result.returncode == box.BAD_SPEC and "a vector or a reference" in result.error["message"], result


def test_vectors_are_returned_as_one_number():
    assert module(VECTOR.format("i32"), "--call", "out").returned == ["0x00000004000000030000000200000001"]


def test_returned_values_are_printed():
    text = '(module (func (export "two") (result i32 f64) (i32.const 7) (f64.const 0.5)))'
    raw = box.raw("run", "--language", "wasm", "--call", "two", "-e", text)
    assert raw.stdout == b"7\n0.5\n" and raw.returncode == 0


@pytest.mark.parametrize("call, values, words", [
    ("nothing", (), "exports no function 'nothing'"), ("one", (), "takes 1 values, and 0 are given"),
    ("one", ("x",), "value 1, 'x', is not i32"), ("one", ("99999999999",), "is not i32")])
def test_wrong_calls_are_named(call, values, words):
    result = box.run("--language", "wasm", "--call", call, "-e", '(module (func (export "one") (param i32)))', "--", *values)
    assert result.returncode == box.BAD_SPEC and words in result.error["message"], result


MANY = "".join(f'(import "{"x" * 90}" "f{number}" (func))' for number in range(300))


@pytest.mark.parametrize("text, words", [
    ('(module (import "env" "system" (func)) (func (export "_start")))', "'env.system', which is not approved"),
    ('(module (import "cloche" "kv_get" (func (param i32 i32 i32 i32) (result i32))) (func (export "_start")))', "group 'kv'"),
    ('(module (import "wasi_unstable" "fd_write" (func)) (func (export "_start")))', "'wasi_unstable.fd_write'"),
    ('(module (import "env" "host_call" (func (param i32 i32 i32 i32 i32) (result i32))) (func (export "_start")))', "'env.host_call'"),
    ('(module (import "wasi_snapshot_preview1" "no_such_call" (func)) (func (export "_start")))', "no_such_call"),
    ('(module (import "env" "memory" (memory 1)) (func (export "_start")))', "'env.memory'"),
    ('(module (import "env" "a" (func)) (import "env" "b" (func)) (import "cloche" "log" (func (param i32 i32))))',
     "'env.a', 'env.b', 'cloche.log' (group 'log'), which are not approved"),
    (f"(module {MANY})", ".f7' and 292 more, which are not approved"),
    ("(component)", "wasm32-wasip1"), ("\0asm\r\0\1\0", "wasm32-wasip1"),
    ("(module", "expected"), ("\0asm", ""), ("", ""), ("(module)", "exports no '_start'")])
def test_what_is_not_approved_never_starts(text, words):
    result = box.run("--spec", "-", input=json.dumps({"language": "wasm", "code": text}).encode())
    assert result.returncode == box.BAD_SPEC and words in result.error["message"], result


def test_without_wasi_not_even_wasi_is_linked():
    result = module(HELLO, "--host", "log")
    assert result.returncode == box.BAD_SPEC and "group 'wasi'" in result.error["message"]


KV = """(module (import "cloche" "kv_set" (func $set (param i32 i32 i32 i32) (result i32)))
  (import "cloche" "kv_get" (func $get (param i32 i32 i32 i32) (result i32)))
  (import "cloche" "log" (func $log (param i32 i32))) (import "cloche" "clock_now" (func $now (result i64)))
  (import "cloche" "random_fill" (func $random (param i32 i32)))
  (memory (export "memory") 1) (data (i32.const 0) "keyvalue")
  (func (export "main") (result i32 i32 i32 i64)
    (call $get (i32.const 0) (i32.const 3) (i32.const 100) (i32.const 50))
    (drop (call $set (i32.const 0) (i32.const 3) (i32.const 3) (i32.const 5)))
    (call $get (i32.const 0) (i32.const 3) (i32.const 100) (i32.const 50))
    (call $log (i32.const 100) (i32.const 5))
    (call $random (i32.const 200) (i32.const 4)) (i32.load (i32.const 200)) (call $now)))"""


def test_approved_host_functions():
    groups = [word for name in ("kv", "log", "clock", "random") for word in ("--host", name)]
    one, two = (module(KV, "--call", "main", *groups) for _ in range(2))
    assert one.returned[:2] == two.returned[:2] == [-1, 5], one  # nothing is kept from run to run
    assert one.stderr == "log: value\n" and one.returned[2] != two.returned[2] and one.returned[3] > 1.7e18


@pytest.mark.parametrize("body", ["(call $log (i32.const 65530) (i32.const 100))", "(call $log (i32.const -1) (i32.const 1))"])
def test_host_functions_touch_nothing_outside(body):
    result = start(body, "--host", "log", head='(import "cloche" "log" (func $log (param i32 i32)))')
    assert result.cause == "trap" and "outside" in result.detail, result


def test_unknown_group_is_refused():
    result = module(HELLO, "--host", "files")
    assert result.returncode == box.BAD_SPEC and "'files' is not a group" in result.error["message"]


@pytest.mark.parametrize("body, trap", [
    ("unreachable", "unreachable"), ("call $main", "stack_overflow"), ("(drop (i32.load (i32.const 70000)))", "memory_out_of_bounds"),
    ("(drop (i32.div_s (i32.const 1) (i32.const 0)))", "integer_division_by_zero"),
    ("(drop (i32.div_s (i32.const 0x80000000) (i32.const -1)))", "integer_overflow"),
    ("(drop (i32.trunc_f32_s (f32.const nan)))", "bad_conversion_to_integer"),
    ("(call_indirect (i32.const 0))", "indirect_call_to_null"), ("(call_indirect (i32.const 9))", "table_out_of_bounds"),
    ("(call_indirect (param i32) (i32.const 1) (i32.const 1))", "bad_signature")])
def test_traps_are_named(body, trap):
    result = start(body, head="(table 2 funcref) (elem (i32.const 1) $main)")
    assert (result.cause, result.trap, result.exit_code, result.signal) == ("trap", trap, None, None), result
    assert not result.detail.split("trap: ", 1)[-1][:1].isdigit(), result.detail
    assert result.returncode == 134


GROW = "(loop (if (i32.ne (memory.grow (i32.const 16)) (i32.const -1)) (then br 1)))"


def test_memory_is_refused_at_the_limit_and_a_module_that_then_traps_ran_out_of_it():
    result = start(f"{GROW} unreachable", "--memory", "64M")
    assert result.cause == "memory" and "64" in result.detail, result
    assert 60 << 20 <= result.usage["peak_memory_bytes"] <= 64 << 20
    assert start(GROW, "--memory", "64M").cause == "exit"


@pytest.mark.parametrize("memories", ['(memory (export "heap") 1)', '(memory (export "a") (export "b") 1)'])
def test_memory_of_any_name_runs_out(memories):
    result = module(f'(module {memories} (func (export "_start") {GROW} unreachable))', "--memory", "64M")
    assert result.cause == "memory", result


@pytest.mark.parametrize("memories, pages", [
    ('(memory (export "memory") 500)', 500), ('(memory (export "other") 300) (memory (export "memory") 200)', 500),
    ('(memory (export "a") (export "b") 100)', 100)])
def test_memory_that_a_module_has_is_told(memories, pages):
    result = module(f'(module {memories} (func (export "_start")))', "--memory", "100M")
    assert result.usage["peak_memory_bytes"] == pages * 65536, result


def test_memory_that_python_has_is_told():
    result = python("x = b'x' * (300 << 20)", "--memory", "500M")
    assert 300 << 20 <= result.usage["peak_memory_bytes"] <= 500 << 20, result


def test_more_memory_at_the_start_than_the_limit():
    result = module('(module (memory (export "memory") 2000) (func (export "_start")))', "--memory", "64M")
    assert result.returncode == box.BAD_SPEC and "memory" in result.error["message"], result


def test_tables_are_bounded():
    result = module('(module (table 1 funcref) (func (export "grow") (result i32) (table.grow (ref.null func) (i32.const 100000000))))',
                    "--call", "grow")
    assert result.returned == [-1], result


@pytest.mark.parametrize("option, cause", [("--cpu", "cpu_time"), ("--wall", "wall_time")])
def test_endless_loops_end(option, cause):
    result = start("(loop br 0)", option, "300ms")
    assert result.cause == cause and result.timed_out and result.usage["wall_ms"] < 5000, result
    assert result.returncode == 137


def test_sleeping_ends_at_the_wall_limit():
    assert python("import time; time.sleep(60)", "--wall", "400ms").cause == "wall_time"


def test_fuel_is_the_same_in_every_run():
    count = '(module (func (export "count") (param i32) (loop (local.set 0 (i32.sub (local.get 0) (i32.const 1))) (br_if 0 (local.get 0)))))'
    used = {box.run("--language", "wasm", "--call", "count", "--fuel", "100000", "-e", count, "--", "1000").fuel_used for _ in range(3)}
    assert len(used) == 1 and 1000 < used.pop() < 20000
    result = start("(loop br 0)", "--fuel", "5000")
    assert result.cause == "cpu_time" and "fuel is 5000" in result.detail and result.fuel_used == 5000, result


@pytest.mark.parametrize("fields, words", [
    ({"command": ["true"]}, "no programs of an image"), ({"language": "python", "code": "1", "call": "x"}, "modules of one's own"),
    ({"language": "bash", "code": "true"}, "none for the engine wasm, which has: wasm, python, javascript, sql, php, ruby"), ({"language": "wasm", "code": "", "fuel": 0}, "fuel"),
    ({"code": "1", "reads": ["/usr"]}, "/data/input and /data/output only"), ({"code": "1", "cwd": "/usr"}, "cwd: '/usr' cannot be entered")])
def test_what_the_engine_has_not(fields, words):
    result = box.run("--spec", "-", input=json.dumps({"isolation": "wasm", **fields}).encode())
    assert result.returncode == box.BAD_SPEC and words in result.error["message"], result


def test_only_the_wasm_engine_calls():
    result = box.run("--isolation", "process", "--call", "x", "-e", "1")
    assert result.returncode == box.BAD_SPEC and "only the engine wasm" in result.error["message"]


def test_operators_minimum_holds(config, tmp_path):
    result = box.run("--config", config("isolation.min = container"), "--language", "wasm", "-e", HELLO)
    assert result.returncode == box.BAD_SPEC and "below the operator's minimum" in result.error["message"]


def test_output_limit_and_flood():
    endless = HELLO.replace("(drop (call $write", "(loop (drop (call $write").replace("(i32.const 20)))))", "(i32.const 20))) br 0)))")
    result = module(endless, "--output-limit", "4k", "--wall", "20s")
    assert result.cause == "output" and len(result.stdout) == 4096, result


# ---- languages

def test_python():
    code = "import sys, json\nprint(json.dumps([sys.platform, sys.argv[1:], 6 * 7]))\nprint('e', file=sys.stderr)"
    result = box.run("--isolation", "wasm", "-e", code, "--", "a b", "c")
    assert json.loads(result.stdout) == ["wasi", ["a b", "c"], 42] and result.stderr == "e\n", result


AT_THE_END = """import atexit, sys
atexit.register(print, "at exit")
kept = open("/data/output/kept.txt", "w")
kept.write("written")
class Last:
    def __init__(self, name): self.name = name
    def __del__(self): print("gone:", self.name)
held = Last("held")
ring = Last("ring"); ring.ring = ring
"""


@pytest.mark.parametrize("end, status", [("", 0), ("sys.exit(3)", 3), ("1/0", 1)])
def test_python_lets_go_of_all_that_it_holds(tmp_path, end, status):
    result = python(AT_THE_END + end, "--output", tmp_path)
    assert (result.stdout, result.exit_code) == ("at exit\ngone: held\ngone: ring\n", status), result
    assert (tmp_path / "kept.txt").read_text() == "written"


@pytest.mark.parametrize("code, status, stderr", [
    ("def f():\n    1/0\nf()", 1, ['Traceback (most recent call last):', '  File "/code/main.py", line 3, in <module>', '    f()',
                                 '  File "/code/main.py", line 2, in f', '    1/0', '    ~^~', 'ZeroDivisionError: division by zero']),
    ("def f(:", 1, ['  File "/code/main.py", line 1', '    def f(:', '          ^', 'SyntaxError: invalid syntax']),
    ("import sys; sys.exit('so')", 1, ["so"]), ("import sys; sys.exit(None)", 0, []), ("import sys; sys.exit(257)", 1, []), ("raise SystemExit", 0, []),
    ("import sys\ndef hook(*_): raise OSError('no')\nsys.excepthook = hook\n1/0", 1, None),
    ("import sys; sys.stdout = None", 0, []), ("import sys; sys.stdout.close()", 0, []),
])
def test_python_ends_as_any_python(code, status, stderr):
    result = python(code)
    assert (result.exit_code, result.cause) == (status, "exit"), result
    assert stderr is None or result.stderr.splitlines() == stderr
    assert "prelude" not in result.stderr or "Original exception was" in result.stderr


def test_python_has_the_names_of_any_program():
    code = "import sys; print(sorted(globals())); print(__name__, __file__, sys.argv, sys.orig_argv, __loader__.path, sys.modules['__main__'].__dict__ is globals())"
    result = box.run("--isolation", "wasm", "-e", code, "a", "", "--c d")
    names, rest = result.stdout.splitlines()
    assert eval(names) == ["__annotations__", "__builtins__", "__cached__", "__doc__", "__file__", "__loader__", "__name__", "__package__", "__spec__", "sys"]
    assert rest == "__main__ /code/main.py ['/code/main.py', 'a', '', '--c d'] ['python', '-I', '-B', '/code/main.py', 'a', '', '--c d'] /code/main.py True"


def test_python_measures_time():
    result = python("import time\nwhile time.process_time() < 0.2: pass\nprint(0.19 < time.perf_counter() < 2, time.time() > 1.7e9)")
    assert result.stdout == "True True\n", result


def test_python_ends_as_it_says():
    assert python("raise SystemExit(7)").exit_code == 7
    failed = python("def f():\n    1/0\nf()")
    assert failed.exit_code == 1 and 'File "/code/main.py", line 2, in f' in failed.stderr


def test_stdin_and_environment():
    result = python("import os; print(input(), os.environ['WORD'])", "--env", "WORD=x", input=b"line\n")
    assert result.stdout == "line x\n"


def test_files_in_and_out(tmp_path):
    (tmp_path / "in.txt").write_text("given")
    result = python("open('/data/output/out.txt', 'w').write(open('/data/input/in.txt').read() * 2)",
                    "--input", tmp_path / "in.txt", "--output", tmp_path / "out")
    assert [file["path"] for file in result.files] == ["out.txt"], result
    assert (tmp_path / "out" / "out.txt").read_text() == "givengiven"


@pytest.mark.parametrize("options, directory", [((), "/data/output"), (("--cwd", "/tmp"), "/tmp"), (("--cwd", "/data/input"), "/data/input")])
def test_relative_names_are_those_of_the_working_directory(options, directory):
    assert python("import os; print(os.getcwd())", *options).stdout == f"{directory}\n"


def test_relative_names_of_python_lead_to_the_output():
    result = python("open('mine.txt', 'w').write('x')")
    assert [file["path"] for file in result.files] == ["mine.txt"], result


def test_tmp_is_there_and_not_given_back():
    result = python("import tempfile, os\nwith tempfile.TemporaryDirectory() as d: open(d + '/x', 'w')\nopen('/tmp/left', 'w'); print(d, os.listdir('/tmp'))")
    assert re.fullmatch(r"/tmp/\w+ \['left'\]\n", result.stdout) and result.files == [], result


def test_tmp_counts_for_the_disk_limit():
    assert python("f = open('/tmp/x', 'wb')\nwhile True: f.write(bytes(100000))", "--disk", "5M").cause == "disk"


ESCAPES = """
import os
def tried(name, call):
    try:
        print(name, "GOT", call())
    except Exception as error:
        print(name, type(error).__name__)
tried("absolute", lambda: open("/etc/passwd").read())
tried("dots", lambda: open("/data/output/../../../etc/passwd").read())
tried("dots of input", lambda: open("/data/input/../../etc/passwd").read())
tried("trailing slash", lambda: os.listdir("/data/output/../"))
tried("link out", lambda: (os.symlink("../../../../../../etc/passwd", "/data/output/link"), open("/data/output/link").read()))
tried("absolute link", lambda: (os.symlink("/etc/passwd", "/data/output/other"), open("/data/output/other").read()))
tried("link to a directory", lambda: (os.symlink("../../..", "/data/output/up"), os.listdir("/data/output/up/etc")))
tried("rename out", lambda: (open("/data/output/x", "w").close(), os.rename("/data/output/x", "/data/output/../../x")))
tried("write to input", lambda: open("/data/input/given", "w"))
tried("create in input", lambda: open("/data/input/new", "w"))
tried("remove input", lambda: os.remove("/data/input/given"))
tried("write to code", lambda: open("/code/main.py", "w"))
tried("socket", lambda: __import__("socket").create_connection(("127.0.0.1", 80)))
tried("process", lambda: __import__("subprocess").run(["true"]))
tried("proc", lambda: open("/proc/self/environ").read())
tried("root", lambda: os.listdir("/"))
print("control", open("/data/input/given").read(), os.listdir("/data/input"))
"""


def test_paths_and_calls_that_lead_out(tmp_path):
    (tmp_path / "given").write_text("control")
    result = python(ESCAPES, "--input", tmp_path / "given")
    assert result.cause == "exit" and result.exit_code == 0, result
    assert "GOT" not in result.stdout and result.stdout.count("\n") == 17, result.stdout
    assert "control control ['given']" in result.stdout


def test_nothing_of_the_host_is_in_the_environment():
    result = python("import os; print(sorted(os.environ))")
    assert "CLOCHE_BUILD" not in result.stdout and "/tmp/" not in result.stdout and "PATH" in result.stdout


def test_javascript():
    result = javascript("console.log(1, [2, {a: 'x'}], 'y'); setTimeout(() => console.log('late'), 5); await 0; console.error('e')")
    assert (result.stdout, result.stderr, result.exit_code) == ("1 [ 2, { a: 'x' } ] y\nlate\n", "e\n", 0), result


@pytest.mark.parametrize("code, status, words", [
    ("throw new TypeError('no')", 1, "TypeError: no"), ("let x = ", 1, "SyntaxError"), ("process.exit(7); console.log(1)", 7, ""),
    ("try { process.exit(3) } catch (e) { console.log('caught') }", 3, ""), ("Promise.reject(new Error('lost'))", 1, "Error: lost"),
    ("await new Promise(() => {})", 13, "never come"), ("process.exitCode = 4", 4, ""), ("setTimeout(() => { throw 5 }, 1)", 1, "Uncaught 5"),
    ("function f() { return f() } f()", 1, "RangeError")])
def test_javascript_ends_as_node_would(code, status, words):
    result = javascript(code)
    assert (result.cause, result.exit_code, result.stdout) == ("exit", status, "") and words in result.stderr, result


def test_javascript_cannot_reach_the_host_function_beneath():
    result = javascript("console.log(typeof __say, Object.keys(globalThis).includes('__say'), typeof require, typeof std)")
    assert result.stdout == "undefined false undefined undefined\n", result


def test_javascript_ends_at_its_limits():
    assert javascript("for (;;);", "--cpu", "300ms").cause == "cpu_time"
    assert javascript("setInterval(() => {}, 10)", "--wall", "300ms").cause == "wall_time"
    grown = javascript("let x = []; for (;;) x.push(new Array(100000).fill(1))", "--memory", "64M", "--wall", "20s")
    assert (grown.cause, grown.exit_code) == ("exit", 1) and "out of memory" in grown.stderr, grown  # it was refused, and told so


# What each prints and how it ends; with one argument, a file made by a relative name, and stdin where it reads it.
OTHERS = {
    "sql": ("create table t(a, b);\ninsert into t values (1, 'x;y'), (2, null); -- so\nselect sum(a), group_concat(b) from t; select a, b from t;\nselect missing",
            "3|x;y\n1|x;y\n2|\n", 1, "/code/main.sql:4: no such column: missing\n"),
    "php": ("<?php echo array_sum([1, 2]), ' ', $argv[1], ' ', json_encode(['a' => 1]), \"\\n\"; file_put_contents('made', 'x'); exit(200);",
            '3 word {"a":1}\n', 200, ""),
    "ruby": ("require 'json'\nputs [1, 2].sum, ARGV, ({a: 1}).to_json\nFile.write('made', 'x')\n$stderr.puts 'e'\nexit 7", '3\nword\n{"a":1}\n', 7, "e\n"),
}


@pytest.mark.parametrize("language", OTHERS)
def test_other_languages_are_rows_of_the_table(language):
    code, stdout, status, stderr = OTHERS[language]
    arguments = ("/data/output/made",) if language == "sql" else ("word",)
    result = box.run("--isolation", "wasm", "--language", language, "-e", code, "--", *arguments)
    assert (result.stdout, result.stderr, result.cause, result.exit_code) == (stdout, stderr, "exit", status), result
    assert [file["path"] for file in result.files] == ["made"]
    refused = box.run("--isolation", "container", "--language", language, "-e", code)
    assert refused.returncode == box.BAD_SPEC and "only the engine wasm has it" in refused.error["message"]


@pytest.mark.parametrize("language, code, words", [
    ("php", "<?php nothing();", "Call to undefined function nothing()"), ("ruby", "nothing()", "undefined method"), ("sql", "select", "incomplete input"),
    ("php", "<?php for (;;);", None), ("ruby", "loop {}", None), ("sql", "with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n;", None)])
def test_errors_and_limits_of_other_languages(language, code, words):
    result = box.run("--isolation", "wasm", "--language", language, "--cpu", "2s", "-e", code)
    if words:
        assert result.cause == "exit" and result.exit_code != 0 and words in result.stdout + result.stderr, result
    else:
        assert result.cause == "cpu_time", result


def test_sql_keeps_what_triggers_and_texts_hold():
    code = "create table t(a); create trigger r after insert on t begin update t set a = a + 1; update t set a = a * 2; end; insert into t values (1); select a, ';' from t"
    assert box.run("--isolation", "wasm", "--language", "sql", "-e", code).stdout == "4|;\n"


def test_an_operators_own_language(config, tmp_path):
    (tmp_path / "rows.json").write_text(json.dumps({"name": "snake", "engine": "wasm", "extensions": ["snake"], "file": "main.snake", "run": ["snake", "{code}"],
                                                    "find": ["/usr/local/lib/cloche/wasm/python.cwasm"]}))
    result = box.run("--config", config(f"languages = {tmp_path}/rows.json"), "--isolation", "wasm", "--language", "snake", "-e", "import sys; print(sys.orig_argv)")
    assert result.stdout == "['snake', '/code/main.snake']\n", result


def test_an_operators_own_module_is_compiled_into_its_place(tmp_path):
    (tmp_path / "mine.wasm").write_bytes(EMPTY)
    subprocess.run([box.ROOT / "setup" / "install-wasm", "module", tmp_path / "mine.wasm", "mine", box.CLOCHE.parent], check=True,
                   env={**os.environ, "CLOCHE_WASM_DIRECTORY": str(tmp_path / "place")})
    assert (tmp_path / "place" / "mine.cwasm").read_bytes()[:4] == b"\x7fELF"


def test_an_ordinary_user_can(shared):
    raw = box.raw("run", "--isolation", "wasm", "-e", "print(7)", user=65534, cwd=shared, env={"HOME": str(shared)})
    assert raw.stdout == b"7\n", raw


def test_contexts_are_refused():
    raw = box.raw("repl", "--isolation", "wasm", input=b"1\n")
    assert raw.returncode == box.BAD_SPEC and b"no contexts" in raw.stderr, raw


STRUCTS = ("wasmtime_val_t", "wasmtime_extern_t", "wasmtime_func_t", "wasmtime_memory_t", "wasmtime_global_t", "wasmtime_instance_t", "wasm_byte_vec_t")


def declarations():
    """What the package says of the library: its ctypes, without the library."""
    names = {"dll": unittest.mock.MagicMock(), "ctypes": ctypes}
    text = pathlib.Path("/usr/local/lib/cloche/wasm/bindings.py").read_text()
    exec("import ctypes\nfrom typing import Any\n" + re.sub(r"^from \._ffi import.*$", FFI, text, flags=re.M), names)
    return names


FFI = "class wasm_val_t(ctypes.Structure): pass\nclass wasm_ref_t(ctypes.Structure): pass"


def test_declarations_are_those_of_the_library(tmp_path):
    """guest/wasm/api.h is written by hand: what comes with the library says the same."""
    there = declarations()
    header = (box.ROOT / "guest" / "wasm" / "api.h").read_text()
    names = set(re.findall(r"\b((?:wasm|wasmtime|wasi)_\w+)\(", header))
    assert len(names) > 60
    source = tmp_path / "sizes.c"
    source.write_text('#include "api.h"\n#include <stdio.h>\n' + "int main(void) {\n" +
                      "".join(f'printf("%zu\\n", sizeof({name}));\n' for name in STRUCTS) + "}\n")
    subprocess.run(["gcc", "-I", box.ROOT / "guest" / "wasm", "-o", tmp_path / "sizes", source], check=True)
    sizes = list(map(int, subprocess.run([tmp_path / "sizes"], capture_output=True, text=True, check=True).stdout.split()))
    assert sizes == [ctypes.sizeof(there[name]) for name in STRUCTS]
    for name in sorted(names):
        declared = re.search(rf"\b{name}\(((?:[^()]|\([^()]*\))*)\)\s*;", header)
        if not declared:
            continue  # made by a macro
        words = re.sub(r"\([^()]*\)", "", declared[1]).strip()
        count = 0 if words in ("", "void") else words.count(",") + 1
        assert len(there[f"_{name}"].argtypes) == count, f"{name}: {count} parameters here"


# ---- processes that stay

@pytest.fixture(scope="module")
def kept():
    with keeper.Keeper("--spares", "1", "--preload", "json", minimum=1) as made:
        yield made


def served(kept, code, *options, language="python", hits=1, stdin=subprocess.DEVNULL):
    """In a process that a keeper has, or it fails."""
    before = kept.kind("wasm")["hits"]
    done = subprocess.run([box.CLOCHE, "run", "--warm", "--json", "--isolation", "wasm", "--language", language, *map(str, options), "-e", code],
                          stdin=stdin, capture_output=True, timeout=60)
    assert kept.kind("wasm")["hits"] == before + hits, done
    return box.Result(done.stdout, done.returncode, done.stderr)


@pytest.fixture
def ready(kept):
    """One is there: the first run of all makes it, and so does one after a run that ended its own."""
    if not kept.kind("wasm")["spares"]:
        served(kept, "1", hits=0)
    return kept


WARM_SAME = [
    ("python", "import sys; print(1); print(2, file=sys.stderr); sys.exit(3)", ()), ("python", "1/0", ()),
    ("python", "import sys, os; print(sys.argv, sorted(os.environ), os.listdir('/data/output'))", ("--env", "A=b")),
    ("javascript", "console.log([1], process.env.A); throw new Error('x')", ("--env", "A=b")),
    ("wasm", HELLO, ()), ("wasm", '(module (func (export "_start") unreachable))', ()), *((language, OTHERS[language][0].replace("'made'", "'/tmp/made'"), ()) for language in OTHERS),
    ("wasm", '(module (import "env" "no" (func)))', ()), ("python", "1", ("--cwd", "/etc")), ("python", "import os; print(os.getcwd())", ("--cwd", "/tmp")), ("python", "x = [0] * 10**9", ("--memory", "64M")),
    ("wasm", "(module (memory (export \"memory\") 1) (func (export \"_start\") (loop br 0)))", ("--cpu", "200ms")),
]


RANDOM = """import os, random, secrets, tempfile, uuid
print(random.random(), random.SystemRandom().random(), os.urandom(8).hex(), secrets.token_hex(8), uuid.uuid4(), next(tempfile._get_candidate_names()))"""


def test_memory_of_a_warm_run_is_told(ready):
    assert served(ready, "x = bytearray(100 << 20)").usage["peak_memory_bytes"] >= 100 << 20
    assert served(ready, "x = 1").usage["peak_memory_bytes"] < 50 << 20  # its own, not that of the run before


def test_what_is_left_in_tmp_is_not_there_in_the_next_run(ready):
    look = "import os; print(os.listdir('/tmp')); "
    assert served(ready, look + "open('/tmp/gone', 'w'); os.remove('/tmp/gone')").stdout == "[]\n"
    assert ready.kind("wasm")["spares"] == 1
    assert served(ready, look + "open('/tmp/left', 'w')").stdout == "[]\n"
    assert ready.kind("wasm")["spares"] == 0  # it is not used again
    assert served(ready, look, hits=0).stdout == "[]\n"


LEAVES_A_FILE = """(module (import "wasi_snapshot_preview1" "path_open" (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (memory (export "memory") 1) (data (i32.const 0) "left")
  (func $begin (drop (call $open (i32.const 4) (i32.const 0) (i32.const 0) (i32.const 4) (i32.const 1) (i64.const 66) (i64.const 66) (i32.const 0) (i32.const 8))))
  (start $begin))"""


def test_what_a_refused_module_has_left_is_not_there_in_the_next_run(ready):
    refused = served(ready, LEAVES_A_FILE, "--call", "nothing", language="wasm")
    assert "exports no function" in refused.error["message"], refused
    assert ready.kind("wasm")["spares"] == 0  # it is not used again
    assert served(ready, "import os; print(os.listdir('/data/output'))", hits=0).stdout == "[]\n"


def test_files_of_a_run_that_left_others_in_tmp_are_given_back(ready):
    result = served(ready, "open('/tmp/left', 'w'); open('mine', 'w').write('x' * 5)")
    assert [(file["path"], file["size"]) for file in result.files] == [("mine", 5)]


def workers_below(pid):
    parents, names = keeper.processes()
    return [worker for worker, name in names.items() if name == "cloche-wasm" and pid in (parents[worker], parents.get(parents[worker]))]


@pytest.mark.parametrize("number, cold, warm", [(signal.SIGABRT, "trap", "trap"), (signal.SIGTRAP, "trap", "trap"), (signal.SIGKILL, "signal", "host_failure")])
def test_what_wasmtime_dies_of_is_the_codes_doing(ready, number, cold, warm):
    for is_warm, cause in ((True, warm), (False, cold)):
        command = [box.CLOCHE, "run", "--json", *(["--warm"] if is_warm else []), "--isolation", "wasm", "--wall", "20s", "-e", "while True: pass"]
        running = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        above = ready.process.pid if is_warm else running.pid
        workers, until = [], time.monotonic() + 20
        while not workers and time.monotonic() < until:
            time.sleep(0.3)
            workers = workers_below(above)
        assert workers
        for worker in workers:
            os.kill(worker, number)
        result = json.loads(running.communicate(timeout=30)[0])
        assert (result["cause"], result.get("trap") == "crash") == (cause, cause == "trap"), result
        assert cause != "trap" or f"signal {number.value}" in result["detail"]


def test_runs_do_not_share_what_is_random(ready):
    """All of them begin with the same memory."""
    seen = [served(ready, RANDOM).stdout.split() for _ in range(40)]
    for values in zip(*seen, strict=True):
        assert len(set(values)) == len(seen), values


@pytest.mark.parametrize("language, code, options", WARM_SAME)
def test_warm_is_as_cold(ready, language, code, options):
    warm = served(ready, code, *options, language=language)
    cold = box.run("--isolation", "wasm", "--language", language, *options, "-e", code)
    if "error" in cold.json:
        assert warm.json == cold.json
    else:
        assert keeper.comparable(warm) == keeper.comparable(cold)


def test_nothing_of_a_run_is_in_the_next(ready):
    served(ready, "import sys, builtins; builtins.left = 1; sys.modules['json'].left = 1")
    result = served(ready, "import builtins, json, os; print(hasattr(builtins, 'left'), hasattr(json, 'left'), os.listdir('/code'))")
    assert result.stdout == "False False ['main.py']\n", result
    write = '(module (memory (export "memory") 4) (func (export "look") (result i32) (i32.load (i32.const 200000)) (i32.store (i32.const 200000) (i32.const 7))))'
    assert [served(ready, write, "--call", "look", language="wasm").returned for _ in range(3)] == [[0]] * 3


def test_files_are_given_back_and_not_left(ready):
    result = served(ready, "open('/data/output/mine', 'w').write('x' * 5)")
    assert [(file["path"], file["size"]) for file in result.files] == [("mine", 5)]
    assert ready.kind("wasm")["spares"] == 0  # it is not used again
    assert served(ready, "import os; print(os.listdir('/data/output'))", hits=0).stdout == "[]\n"


@pytest.mark.parametrize("code, options, cause", [
    ("import time; time.sleep(30)", ("--wall", "300ms"), "wall_time"), ("while True: print('x' * 10000)", ("--output-limit", "4k"), "output")])
def test_runs_that_must_be_ended_take_their_process_with_them(ready, code, options, cause):
    assert served(ready, code, *options).cause == cause
    assert served(ready, "print(1)", hits=0).stdout == "1\n"


def test_endless_code_is_ended_and_its_process_goes_on(ready):
    assert served(ready, "while True: pass", "--cpu", "300ms").cause == "cpu_time"
    assert served(ready, "print(1)").stdout == "1\n"


def test_killed_process(ready):
    parents, names = keeper.processes()
    workers = [pid for pid, name in names.items() if name == "cloche-wasm" and parents.get(parents[pid]) == ready.process.pid]
    assert workers
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.2)
    assert served(ready, "print(1)", hits=0).stdout == "1\n"


def test_several_at_once(ready):
    command = [box.CLOCHE, "run", "--warm", "--isolation", "wasm", "-e", "import sys; print(sum(range(10**6)))"]
    running = [subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) for _ in range(24)]
    assert {process.communicate(timeout=60)[0] for process in running} == {b"499999500000\n"}
    assert 1 <= ready.kind("wasm")["spares"] <= 16  # that wait, however many were needed


def test_stdin_of_a_file(ready, tmp_path):
    (tmp_path / "lines").write_text("one\n")
    with open(tmp_path / "lines") as lines:
        assert served(ready, "print(input(), 'two')", stdin=lines).stdout == "one two\n"
