"""The first filter over HTTP: modes, the refusal of what is blocked, and the command line against a server."""
import json

import box
import pytest

FORBIDDEN = "print('ran')\nimport subprocess\n"


def test_warning_comes_with_the_result(serving):
    answer = serving.post("/v1/run", {"code": FORBIDDEN, "vet": "warn"})
    assert answer.status == 200 and answer.json["stdout"] == "ran\n"
    assert [(found["line"], found["column"], found["rule"]) for found in answer.json["vet"]["findings"]] == [(2, 8, "module")]
    assert answer.json["vet"]["facts"]["imports"] == ["subprocess"]


@pytest.mark.parametrize("more", [{}, {"warm": False}, {"language": "javascript", "code": "console.log('ran')\neval('1')"},
                                  {"isolation": "process"}, {"collect": "inline"}])
def test_blocked_code_is_refused_with_its_findings(serving, more):
    answer = serving.post("/v1/run", {"code": FORBIDDEN, "vet": "block", **more})
    assert answer.status == 422, answer
    assert answer.json["error"]["code"] == "vetted" and answer.json["error"]["field"] == "code"
    assert answer.json["cause"] == "vetted" and answer.json["stdout"] == "" and answer.json["exit_code"] is None
    assert answer.json["vet"]["findings"][0]["line"] == 2 and answer.json["id"].startswith("run_")


def test_code_that_is_only_looked_at_is_answered_well(serving):
    answer = serving.post("/v1/run", {"code": FORBIDDEN, "vet": "only"})
    assert answer.status == 200 and answer.json["cause"] == "vetted" and answer.json["stdout"] == ""
    assert len(answer.json["vet"]["findings"]) == 1


def test_stream_ends_with_the_findings(serving):
    events = list(serving.events("/v1/run", {"code": FORBIDDEN, "vet": "block", "stream": True}))
    assert [name for name, _data in events] == ["started", "end"]
    result = events[-1][1]
    assert result["cause"] == "vetted" and result["vet"]["findings"]


def test_wrong_modes_are_refused(serving):
    answer = serving.post("/v1/run", {"code": "1", "vet": "loud"})
    assert answer.status == 422 and answer.json["error"]["field"] == "vet" and "restricted" in answer.json["error"]["message"]
    answer = serving.post("/v1/run", {"command": ["/bin/true"], "vet": "block"})
    assert answer.status == 422 and answer.json["error"]["field"] == "vet"


def test_operators_minimum_holds_for_clients(fresh, tmp_path):
    config = tmp_path / "cloche.conf"
    config.write_text("vet.min = block\nvet.block_modules = shutil\n")
    server = fresh("--config", str(config))
    assert server.post("/v1/run", {"code": "import shutil"}).json["error"]["code"] == "vetted"
    assert server.post("/v1/run", {"code": "print(1)"}).json["stdout"] == "1\n"
    assert server.post("/v1/run", {"code": "print(1)", "vet": "off"}).status == 422
    assert server.post("/v1/run", {"language": "bash", "code": "echo"}).status == 422
    assert server.post("/v1/sandboxes", {"language": "python"}).status in (400, 422)
    assert all(engine["usable"] for engine in server.get("/v1/doctor").json["engines"])  # its own runs are not vetted


def test_command_line_against_a_server(serving, tmp_path):
    file = tmp_path / "a.py"
    file.write_text(FORBIDDEN)
    env = {"CLOCHE_SERVER": f"http://127.0.0.1:{serving.port}"}
    done = box.raw("vet", file, env=env)
    assert done.returncode == 1 and done.stdout.startswith(b"a.py:2:8: subprocess"), done
    done = box.raw("run", "--vet", "block", file, env=env)
    assert done.returncode == 253 and done.stdout == b"" and b"cloche: vet: line 2, column 8" in done.stderr, done
    done = box.raw("run", "--json", "--vet", "block", file, env=env)
    result = json.loads(done.stdout)
    assert done.returncode == 253 and result["cause"] == "vetted" and result["vet"]["findings"] and "error" not in result
    done = box.raw("run", "--vet", "warn", file, env=env)
    assert done.returncode == 0 and done.stdout == b"ran\n" and b"cloche: vet:" in done.stderr
