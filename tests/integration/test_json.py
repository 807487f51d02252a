"""cloche run --json: one result, every field of it."""
import json
import subprocess

import box
import pytest

FIELDS = {"exit_code": int, "signal": type(None), "timed_out": bool, "cause": str, "stdout": str, "stderr": str,
          "truncated": dict, "files": list, "not_collected": list, "usage": dict, "isolation": str, "layers": list}
USAGE = {"wall_ms": float, "cpu_user_ms": float, "cpu_system_ms": float, "peak_memory_bytes": int, "peak_pids": int,
         "disk_bytes": int}


def test_result_has_every_field_and_its_type(engine):
    result = box.python("import sys; print('out'); print('err', file=sys.stderr); open('f', 'w').write('x')", engine=engine)
    for name, kind in FIELDS.items():
        assert type(result.json[name]) is kind, name
    assert (result.exit_code, result.signal, result.timed_out, result.cause) == (0, None, False, "exit")
    assert (result.stdout, result.stderr) == ("out\n", "err\n")
    assert result.truncated == {"stdout": 0, "stderr": 0}
    assert result.not_collected == [] and result.isolation == engine
    for name, kind in USAGE.items():
        assert type(result.usage[name]) in (kind, int), name
    assert result.host_stderr == ""


def test_result_is_one_line_and_nothing_else(engine):
    done = box.raw("run", "--json", "--isolation", engine, "-e", "print('a\\nb')")
    assert done.stdout.count(b"\n") == 1 and done.stderr == b""
    json.loads(done.stdout)


def test_exit_code_is_null_after_a_signal(engine):
    result = box.run("--", "sh", "-c", "kill -USR1 $$", engine=engine)
    assert (result.exit_code, result.signal, result.cause, result.returncode) == (None, 10, "signal", 138)


def test_files_have_path_size_and_hash(engine):
    result = box.python("import os; os.mkdir('d'); open('d/f', 'wb').write(b'abc')", engine=engine)
    assert result.files == [{"path": "d/f", "size": 3,
                             "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}]


def test_layers_are_named_and_active(engine):
    result = box.python("1", engine=engine)
    layers = {layer["name"]: layer for layer in result.layers}
    expected = {"container": {"namespaces", "box_uid", "root", "cgroup", "capabilities", "no_new_privs", "seccomp",
                              "landlock", "landlock_scope", "rlimits"},
                "process": {"box_uid", "capabilities", "no_new_privs", "seccomp", "landlock", "landlock_scope",
                            "rlimits", "watchdog"},
                "gvisor": {"kernel", "namespaces", "box_uid", "root", "cgroup", "capabilities", "no_new_privs",
                           "seccomp", "rlimits"}}[engine]
    for name in expected:
        assert layers[name]["active"] is True, layers[name]
        assert isinstance(layers[name]["detail"], str) and layers[name]["detail"]


def test_usage_tells_the_time(engine):
    code = "import time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass\ntime.sleep(0.3)"
    usage = box.python(code, engine=engine).usage
    cpu = usage["cpu_user_ms"] + usage["cpu_system_ms"]
    assert 350 < cpu < 1500, usage
    assert 650 < usage["wall_ms"] < 5000, usage


def test_usage_tells_system_time_apart(engine):
    usage = box.python("import os, time\nend = time.process_time() + 0.5\nf = open('/dev/zero', 'rb', buffering=0)\n"
                       "while time.process_time() < end: f.read(1 << 20)", engine=engine).usage
    assert usage["cpu_system_ms"] > 100, usage


def test_usage_of_children_counts(engine):
    usage = box.python("import subprocess, sys\nfor i in range(2): subprocess.run([sys.executable, '-c', 'import time\\n"
                       "while time.process_time() < 0.25: pass'])", engine=engine).usage
    assert usage["cpu_user_ms"] + usage["cpu_system_ms"] > 400, usage


def test_usage_tells_the_peak_of_memory(engine):
    usage = box.python("import time; x = bytearray(100 << 20); time.sleep(0.1); del x; time.sleep(0.1)", engine=engine).usage
    assert 100 << 20 < usage["peak_memory_bytes"] < 200 << 20, usage


def test_usage_of_a_short_run_is_not_zero(engine):
    # Without groups it is a look every 10 ms that tells.
    usage = box.python("import time; x = bytearray(30 << 20); time.sleep(0.05)", engine=engine).usage
    assert usage["peak_memory_bytes"] > 25 << 20, usage
    assert usage["cpu_user_ms"] + usage["cpu_system_ms"] > 1, usage
    assert usage["wall_ms"] > 1


def test_usage_tells_the_peak_of_processes(engine):
    usage = box.python("import subprocess\nps = [subprocess.Popen(['sleep', '0.4']) for i in range(9)]\n"
                       "for p in ps: p.wait()", engine=engine).usage
    assert usage["peak_pids"] == 10, usage
    usage = box.python("import threading, time\nts = [threading.Thread(target=time.sleep, args=(0.4,)) for i in range(9)]\n"
                       "for t in ts: t.start()\nfor t in ts: t.join()", engine=engine).usage
    assert usage["peak_pids"] == 10, usage


def test_usage_tells_the_disk(engine):
    usage = box.python("import os, time\nopen(os.environ['TMPDIR'] + '/f', 'wb').write(bytes(20 << 20)); time.sleep(0.4)",
                       engine=engine).usage
    assert 20 << 20 <= usage["disk_bytes"] < 25 << 20, usage


def test_truncated_counts_the_bytes_that_are_missing(engine):
    result = box.python("import sys; sys.stdout.write('x' * 5000); sys.stderr.write('y' * 1500)", "--output-limit", "1000",
                        engine=engine)
    assert (len(result.stdout), len(result.stderr)) == (1000, 1000)
    assert result.truncated == {"stdout": 4000, "stderr": 500}
    assert (result.cause, result.exit_code) == ("exit", 0)


def test_cut_inside_a_character_is_valid_json(engine):
    result = box.python("print('é' * 1000)", "--output-limit", "1001", engine=engine)
    assert result.stdout.startswith("é" * 500) and result.truncated["stdout"] == 1000


def test_compile_step_has_a_result_of_its_own(engine):
    result = box.run("-l", "c", "-e", "int main(void) { return 7; }", engine=engine)
    assert (result.exit_code, result.cause) == (7, "exit")
    assert (result.compile["exit_code"], result.compile["cause"]) == (0, "exit")
    assert result.compile["usage"]["wall_ms"] > 0
    assert "compile" not in box.python("1", engine=engine).json


def test_refusal_is_json_too():
    done = box.raw("run", "--json", "--memory", "lots", "-e", "1")
    assert done.returncode == box.BAD_SPEC
    error = json.loads(done.stdout)["error"]
    assert (error["code"], error["field"]) == ("bad_spec", "memory") and "lots" in error["message"]


def test_wrong_option_is_json_too():
    """A program that reads our JSON must not have to guess why there is none."""
    for args in (("--no-such-option",), ("--memory",), ("-Z",)):
        done = box.raw("run", "--json", *args)
        assert done.returncode == box.BAD_SPEC
        assert json.loads(done.stdout)["error"]["code"] == "bad_spec", done


def test_missing_layer_is_json_too(engine):
    done = box.raw("run", "--json", "--isolation", engine, "-e", "1", weaken="seccomp", verify=True)
    assert done.returncode == box.LAYER_MISSING
    error = json.loads(done.stdout)["error"]
    assert (error["code"], error["layer"]) == ("layer_missing", "seccomp")


def test_json_on_a_terminal_is_for_people():
    done = subprocess.run(["script", "-qec", f"{box.CLOCHE} run --json -e 'print(1)'", "/dev/null"], capture_output=True)
    assert done.stdout.count(b"\n") > 10 and json.loads(done.stdout)["stdout"] == "1\n"


@pytest.mark.parametrize("code", ["\\ud800", "\\x00", "\\x1b[31m", "\\u2028", '\\"', "\\\\"])
def test_strange_characters_survive_json(code):
    result = box.python(f"import sys; sys.stdout.buffer.write('{code}'.encode('utf-8', 'surrogatepass'))")
    expected = eval(f"'{code}'")
    if expected == "\ud800":
        assert result.stdout_base64 == "7aCA"
    else:
        assert result.stdout == expected and "stdout_base64" not in result.json
