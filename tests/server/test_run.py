"""POST /v1/run: results, refusals, files, streams."""
import base64
import hashlib
import json
import os
import threading
import time

import box
import pytest


def run(serving, **fields):
    answer = serving.post("/v1/run", fields)
    assert answer.status == 200, answer
    return answer.json


def test_code_runs_and_its_result_is_that_of_the_core(serving):
    result = run(serving, code="print(6 * 7)")
    assert result["stdout"] == "42\n" and result["exit_code"] == 0 and result["cause"] == "exit"
    core = box.run("-e", "print(6 * 7)").json
    assert set(result) - {"vet"} == set(core) | {"id"}  # looked at only where it was warm
    assert [layer["name"] for layer in result["layers"]] == [layer["name"] for layer in core["layers"]]


def test_ids_have_their_form_and_are_never_the_same(serving):
    ids = {run(serving, code="1")["id"] for _ in range(5)}
    assert len(ids) == 5
    assert all(name.startswith("run_") and len(name) == 26 and name[4:].isalnum() for name in ids)


@pytest.mark.parametrize("language, code", [("bash", "echo $((6*7))"), ("javascript", "console.log(6*7)")])
def test_other_languages(serving, language, code):
    assert run(serving, language=language, code=code)["stdout"] == "42\n"


def test_command_with_arguments_stdin_and_environment(serving):
    result = run(serving, command=["/bin/sh", "-c", "cat; echo $NAME $1", "sh", "one"], stdin="in\n", env={"NAME": "value"})
    assert result["stdout"] == "in\nvalue one\n"


def test_arguments_of_code(serving):
    assert run(serving, code="import sys; print(sys.argv[1:])", args=["a", "b c"])["stdout"] == "['a', 'b c']\n"


def test_stdin_with_nul_and_large_stdin_arrive(serving):
    text = "a\0b" * 100000
    assert run(serving, code="import sys; print(len(sys.stdin.read()))", stdin=text)["stdout"] == f"{len(text)}\n"


@pytest.mark.parametrize("limits, code, cause", [
    ({"wall": "300ms"}, "while True: pass", "wall_time"),
    ({"memory": "64M"}, "x = bytearray(10**10)", "memory"),
    ({"output_limit": "1K"}, "while True: print('x' * 10000)", "output"),
])
def test_limits_end_a_run_and_are_its_cause(serving, limits, code, cause):
    if cause == "memory":
        code = "x = [bytearray(10**6) for _ in range(1000)]"
    result = run(serving, code=code, limits=limits)
    assert result["cause"] == cause
    assert result["timed_out"] == (cause == "wall_time")


def test_failing_code_is_a_result(serving):
    result = run(serving, code="raise SystemExit(3)")
    assert result["exit_code"] == 3 and result["cause"] == "exit"


def test_process_engine_and_cold_runs(serving):
    assert run(serving, code="print(1)", isolation="process")["isolation"] == "process"
    assert run(serving, code="print(1)", warm=False)["stdout"] == "1\n"


def test_auto_takes_the_box_that_waits_and_else_chooses_and_says_so(serving):
    warm = run(serving, code="print(1)", isolation="auto")
    assert warm["isolation"] == "container" and warm["chosen"].startswith("a warm box of container was there"), warm
    cold = run(serving, code="import threading; print(1)", isolation="auto", warm=False)
    assert cold["isolation"] == "container" and cold["chosen"] == "the code needs the module threading", cold
    plain = run(serving, code="print(1)", isolation="auto", warm=False)
    assert plain["stdout"] == "1\n" and plain["chosen"].startswith("plain code"), plain
    strong = run(serving, code="print(1)", isolation="auto", isolation_min="gvisor")
    assert strong["isolation"] == "gvisor" and strong["stdout"] == "1\n", strong
    assert "chosen" not in run(serving, code="print(1)")


def test_operators_default_can_be_auto_and_its_minimum_holds(fresh, tmp_path):
    config = tmp_path / "cloche.conf"
    config.write_text("isolation = auto\nisolation.min = container\n")
    serving = fresh("--config", config)
    assert run(serving, code="print(1)")["isolation"] == "container" and "chosen" in run(serving, code="print(1)", warm=False)
    assert serving.post("/v1/run", {"code": "1", "isolation": "process"}).status == 422


def test_bytes_that_are_no_text_come_in_base64_too(serving):
    result = run(serving, code="import sys; sys.stdout.buffer.write(bytes(range(256)))")
    assert base64.b64decode(result["stdout_base64"]) == bytes(range(256))


# ---- refusals ----

@pytest.mark.parametrize("body, status, code, field", [
    ({}, 400, "bad_request", "code"),
    ({"code": "1", "command": ["true"]}, 400, "bad_request", "command"),
    ({"code": "1", "nonsense": 1}, 400, "bad_request", "nonsense"),
    ({"code": "1", "stream": "yes"}, 400, "bad_request", "stream"),
    ({"code": "1", "warm": 1}, 400, "bad_request", "warm"),
    ({"code": "1", "collect": "all"}, 400, "bad_request", "collect"),
    ({"code": "1", "preset": "nobody"}, 400, "bad_request", "preset"),
    ({"code": "1", "files": {}}, 400, "bad_request", "files"),
    ({"code": "1", "files": [{"name": "../x", "content": ""}]}, 400, "bad_request", "files"),
    ({"code": "1", "files": [{"name": "x"}]}, 400, "bad_request", "files"),
    ({"code": "1", "files": [{"name": "x", "content": "", "upload": "x"}]}, 400, "bad_request", "files"),
    ({"code": "1", "files": [{"name": "x", "content_base64": "no!"}]}, 400, "bad_request", "files"),
    ({"code": "1", "files": [{"name": "x", "content": "", "mode": 7}]}, 400, "bad_request", "mode"),
    ({"code": "1", "files": [{"name": "x", "content": ""}] * 2}, 400, "bad_request", "files"),
    ({"code": "1", "files": [{"name": "x", "content": "", "executable": 1}]}, 400, "bad_request", "files"),
    ({"code": "1", "files": [{"name": "x", "tree": []}] * 2}, 400, "bad_request", "files"),
    ({"code": "1", "files": [{"name": "x", "tree": [], "content": ""}]}, 400, "bad_request", "files"),
    ({"code": "1", "files": [{"name": "x", "tree": {}}]}, 400, "bad_request", "files"),
    ({"code": "1", "files": [{"name": "x", "tree": [], "executable": True}]}, 400, "bad_request", "files"),
    ({"code": "1", "files": [{"name": "x", "tree": [{"path": str(i), "directory": True} for i in range(10001)]}]}, 400, "bad_request", "files"),
    *(({"code": "1", "files": [{"name": "x", "tree": [entry]}]}, 400, "bad_request", field) for entry, field in (
        ({"content": ""}, "files"), ({"path": "a"}, "files"), ({"path": 1, "content": ""}, "files"), (1, "files"), ({"path": "a", "content": "", "mode": 7}, "mode"),
        ({"path": "a", "content": "", "link": "b"}, "files"), ({"path": "a", "link": ""}, "files"), ({"path": "a", "link": "x\0y"}, "files"),
        ({"path": "a", "directory": True, "executable": True}, "files"), ({"path": "a", "directory": "yes"}, "files"), ({"path": "a", "directory": False}, "files"),
        ({"path_base64": "no!", "content": ""}, "files"), ({"path": "a", "path_base64": "YQ==", "content": ""}, "files"),
        ({"path": "a", "upload": 1}, "files"), ({"path": "a\0b", "content": ""}, "files"), ({"path": "x" * 256, "content": ""}, "files"),
        ({"path": "/".join("d" * 101), "content": ""}, "files"), ({"path": "/".join(["x" * 250] * 15), "content": ""}, "files"),
        *(({"path": path, "content": ""}, "files") for path in ("", "/", "/etc/x", "..", "../x", "a/../../x", "a/..", ".", "a//b", "a/")))),
    *(({"code": "1", "files": [{"name": "x", "tree": tree}]}, 422, "unprocessable", "files") for tree in (
        [{"path": "a", "link": "/tmp"}, {"path": "a/b", "content": "through the link"}], [{"path": "a", "link": "."}, {"path": "a/b", "directory": True}],
        [{"path": "a", "content": ""}, {"path": "a/b", "content": ""}], [{"path": "a", "content": ""}, {"path": "a", "content": ""}],
        [{"path": "a", "link": "b"}, {"path": "a", "directory": True}], [{"path": "a", "upload": "no-such"}])),
    ({"code": "1", "stdin": "", "stdin_upload": "x"}, 400, "bad_request", "stdin_upload"),
    ({"code": "1", "stdin_base64": "", "stdin_upload": "x"}, 400, "bad_request", "stdin_upload"),
    ({"code": "1", "stdin_upload": 1}, 400, "bad_request", "stdin_upload"),
    ({"code": "1", "stdin_upload": "no-such"}, 422, "unprocessable", "stdin_upload"),
    ({"code": 1}, 422, "unprocessable", "code"),
    ({"code": "1", "limits": {"memory": "1T"}}, 422, "unprocessable", "memory"),
    ({"code": "1", "limits": {"memory": "much"}}, 422, "unprocessable", "memory"),
    ({"code": "1", "limits": {"memroy": "1G"}}, 422, "unprocessable", "limits.memroy"),
    ({"code": "1", "limits": {"mem": "1G"}}, 422, "unprocessable", "limits.mem"),
    ({"code": "1", "isolation": "magic"}, 422, "unprocessable", "isolation"),
    ({"code": "1", "image": "no-such-image"}, 422, "unprocessable", "image"),
    ({"code": "1", "language": "cobol"}, 422, "unprocessable", "language"),
])
def test_wrong_requests_are_refused_by_field(serving, body, status, code, field):
    answer = serving.post("/v1/run", body)
    assert (answer.status, answer.error["code"], answer.error.get("field")) == (status, code, field), answer
    assert answer.error["message"]


@pytest.mark.parametrize("field", ["file", "inputs", "reads", "writes", "output"])
def test_paths_of_the_host_are_no_fields(serving, field):
    answer = serving.post("/v1/run", {"code": "1", field: "/etc/shadow"})
    assert answer.status == 400 and answer.error["field"] == field


@pytest.mark.parametrize("path", ["/v1/run", "/v1/sandboxes"])
def test_limits_are_not_waived_by_those_who_run_under_them(serving, path):
    answer = serving.post(path, {"accept": ["memory"]} | ({"code": "1"} if path == "/v1/run" else {}))
    assert answer.status == 400 and answer.error["field"] == "accept", answer


@pytest.mark.parametrize("body", ["", "{", "[]", "null", '"x"', '{"code":"1","code":"2"}', "[" * 100000, '{"code":"\\ud800"}', b"\xff\xfe"])
def test_what_is_no_json_object_is_refused(serving, body):
    assert serving.post("/v1/run", body).status == 400


def test_unknown_field_is_told_with_what_was_meant(serving):
    assert "did you mean 'code'" in serving.post("/v1/run", {"kode": "1"}).error["message"]


# ---- files ----

def test_files_go_in_and_come_out_inline(serving):
    content = bytes(range(256)) * 10
    result = run(serving, collect=True, files=[{"name": "a b.txt", "content": "text ö"}, {"name": "raw.bin", "content_base64": base64.b64encode(content).decode()}],
                 code="import os\nprint(open('/data/input/a b.txt').read())\nos.mkdir('sub')\n"
                      "open('sub/copy.bin', 'wb').write(open('/data/input/raw.bin', 'rb').read())")
    assert result["stdout"] == "text ö\n", result
    file, = result["files"]
    assert file["path"] == "sub/copy.bin" and file["size"] == len(content)
    assert base64.b64decode(file["content_base64"]) == content
    assert "url" not in file


@pytest.mark.parametrize("isolation", ["container", "process"])
def test_inputs_are_read_only_in_both_engines(serving, isolation):
    result = run(serving, isolation=isolation, files=[{"name": "x", "content": "1"}],
                 code="import os\np = os.environ['CLOCHE_INPUT'] + '/x'\nprint(open(p).read())\ntry:\n    open(p, 'w')\nexcept OSError as e:\n    print('refused')")
    assert result["stdout"] == "1\nrefused\n", result


def test_files_by_url_can_be_fetched_in_parts(serving):
    result = run(serving, collect="url", code="open('ä #?.txt', 'w').write('0123456789')")
    url = result["files"][0]["url"]
    assert "content_base64" not in result["files"][0]
    whole = serving.get(url)
    assert whole.status == 200 and whole.body == b"0123456789" and whole.headers["Accept-Ranges"] == "bytes"
    assert "sandbox" in whole.headers["Content-Security-Policy"]
    for asked, status, content, told in [("bytes=2-4", 206, b"234", "bytes 2-4/10"), ("bytes=7-", 206, b"789", "bytes 7-9/10"),
                                         ("bytes=-3", 206, b"789", "bytes 7-9/10"), ("bytes=5-100", 206, b"56789", "bytes 5-9/10"),
                                         ("bytes=0-0,2-3", 200, b"0123456789", None), ("lines=1-2", 200, b"0123456789", None)]:
        part = serving.get(url, headers={"Range": asked})
        assert (part.status, part.body, part.headers["Content-Range"]) == (status, content, told), asked
    beyond = serving.get(url, headers={"Range": "bytes=10-"})
    assert beyond.status == 416 and beyond.headers["Content-Range"] == "bytes */10"
    head = serving.request("HEAD", url)
    assert head.status == 200 and head.headers["Content-Length"] == "10" and not head.body


@pytest.mark.parametrize("path", ["missing.txt", "../tenant", "..%2ftenant", "%2e%2e/tenant", "sub/../../tenant", "%2fetc%2fpasswd", "link", "%00", "%zz"])
def test_nothing_but_collected_files_can_be_fetched(serving, path):
    kept = run(serving, collect="url", code="import os\nopen('x.txt', 'w').write('1')\nos.symlink('/etc/passwd', 'link')")
    answer = serving.get(f"/v1/runs/{kept['id']}/files/{path}")
    assert answer.status == 404 and answer.error["code"] == "not_found"


def test_runs_that_keep_nothing_have_no_files(serving):
    listed = run(serving, code="open('x', 'w').write('1')")
    assert listed["files"][0]["path"] == "x" and set(listed["files"][0]) == {"path", "size", "sha256"}
    assert serving.get(f"/v1/runs/{listed['id']}/files/x").status == 404
    inline = run(serving, code="open('x', 'w').write('1')", collect="inline")
    assert serving.get(f"/v1/runs/{inline['id']}/files/x").status == 404
    names = [path.name for path in (serving.data / "runs").iterdir()]
    assert inline["id"] not in names and listed["id"] not in names


def test_what_is_too_large_for_the_answer_is_kept(serving):
    result = run(serving, collect=True, code="open('big', 'wb').write(b'x' * (9 << 20))\nopen('small', 'w').write('1')")
    files = {file["path"]: file for file in result["files"]}
    assert "url" in files["big"] and "content_base64" in files["small"]
    assert len(serving.get(files["big"]["url"]).body) == 9 << 20


TREE = [{"path": "sub/a.txt", "content": "text ö"}, {"path": "sub", "directory": True}, {"path": "empty", "directory": True},
        {"path": "prog", "content": "#!/bin/sh\necho ran", "executable": True}, {"path": "link", "link": "sub/a.txt"},
        {"path_base64": base64.b64encode(b"\xff").decode(), "content_base64": "AAE="}, {"path": "large", "upload": "tree-large"},
        {"path": "tool", "upload": "tree-tool", "executable": True}]
LOOK = """cd $CLOCHE_INPUT/dir; find . -printf '%y %P\\n' | LC_ALL=C sort; cat link; od -An -tx1 $'\\xff'
./prog; ./tool; sha256sum < large; touch new sub/new 2>/dev/null; chmod 777 large 2>/dev/null; echo x 2>/dev/null >> large; find . | wc -l"""


@pytest.mark.parametrize("isolation", ["container", "process"])
@pytest.mark.parametrize("place", ["cold", "warm", "sandbox"])
def test_a_directory_is_an_input(serving, isolation, place):
    large = b"large\n" * 100000
    serving.put("/v1/files/tree-large", large)
    serving.put("/v1/files/tree-tool", b"#!/bin/sh\necho tool\n")
    files = [{"name": "dir", "tree": TREE}, {"name": "single", "content": "#!/bin/sh\necho single", "executable": True}]
    code = LOOK + "; $CLOCHE_INPUT/single"
    if place == "sandbox":
        made = serving.post("/v1/sandboxes", {"files": files, "isolation": isolation, "language": "bash"})
        assert made.status == 201, made
        output = serving.post(f"/v1/sandboxes/{made.json['id']}/run", {"code": code}).json["stdout"]
        serving.delete(f"/v1/sandboxes/{made.json['id']}")
    else:
        output = run(serving, language="bash", code=code, files=files, isolation=isolation, warm=place == "warm")["stdout"]
    assert output.split("\n")[:-1] == ["d ", "d empty", "d sub", "f large", "f prog", "f sub/a.txt", "f tool", "f \ufffd", "l link", "text ö 00 01", "ran", "tool",
                                       hashlib.sha256(large).hexdigest() + "  -", "9", "single"], output
    assert serving.get("/v1/files/tree-large").body == large
    for name in ("tree-large", "tree-tool"):
        assert serving.delete(f"/v1/files/{name}").status == 204
    assert not list(serving.data.glob("runs/*/input")) and not list(serving.data.glob("store/*/" + hashlib.sha256(large).hexdigest()))


def test_links_of_a_directory_lead_nowhere_on_the_host(serving, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("of the host")
    tree = [{"path": "out", "link": str(secret)}, {"path": "up", "link": "../../../../../../.." + str(secret)}, {"path": "data", "link": str(serving.data)}]
    for isolation in ("container", "process"):
        result = run(serving, language="bash", isolation=isolation, files=[{"name": "dir", "tree": tree}],
                     code="cd $CLOCHE_INPUT/dir; cat out; cat up; ls data/; ls -d out up data")
        assert "of the host" not in result["stdout"] and result["stdout"].split() == ["data", "out", "up"], result


@pytest.mark.parametrize("size", [0, 70_000, 5 << 20])
def test_stdin_can_be_an_upload(serving, size):
    content = os.urandom(size)
    serving.put("/v1/files/stdin", content)
    result = run(serving, stdin_upload="stdin", code="import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())")
    assert result["stdout"].strip() == hashlib.sha256(content).hexdigest()
    assert serving.delete("/v1/files/stdin").status == 204 and not list(serving.data.glob("store/*/" + hashlib.sha256(content).hexdigest()))


def test_upload_that_is_not_there(serving):
    answer = serving.post("/v1/run", {"code": "1", "files": [{"name": "x", "upload": "no-such"}]})
    assert answer.status in (404, 422) and answer.error["message"]


def test_preset_for_analysts(serving):
    result = run(serving, preset="analyst", code="import os; print(open('/sys/fs/cgroup/memory.max').read() if os.path.exists('/sys/fs/cgroup/memory.max') else 'v1')")
    assert result["exit_code"] == 0
    refused = serving.post("/v1/run", {"code": "1", "preset": "analyst", "limits": {"memory": "1T"}})
    assert refused.status == 422  # limits stand beside it, and are looked at


# ---- streams ----

def test_events_come_as_they_happen(serving):
    code = "import time\nfor i in range(3):\n    print(i, flush=True)\n    time.sleep(0.3)\nopen('f', 'w').write('1')"
    seen, times = [], []
    for name, data in serving.events("/v1/run", {"code": code, "collect": True}):
        seen.append((name, data))
        times.append(time.monotonic())
    names = [name for name, _ in seen]
    assert names[0] == "started" and names[-1] == "end" and names.count("stdout") >= 3 and "file" in names and "progress" in names
    end = seen[-1][1]
    assert end["stdout"] == "0\n1\n2\n" and end["id"] == seen[0][1]["id"] and end["files"][0]["content_base64"]
    outputs = [at for at, (name, _) in zip(times, seen) if name == "stdout"]
    assert outputs[-1] - outputs[0] > 0.3  # not collected first


def test_stream_is_asked_for_by_field_too(serving):
    answer = serving.post("/v1/run", {"code": "print(1)", "stream": True})
    assert answer.headers["Content-Type"] == "text/event-stream" and b"event: end" in answer.body


def test_characters_are_not_cut_and_bytes_are_told_as_such(serving):
    code = "import sys, time\nfor b in 'ä€😀'.encode():\n    sys.stdout.buffer.write(bytes([b])); sys.stdout.flush(); time.sleep(0.02)\nsys.stderr.buffer.write(b'\\xff\\xfe')"
    events = list(serving.events("/v1/run", {"code": code}))
    assert "".join(data["text"] for name, data in events if name == "stdout") == "ä€😀"
    raw, = [data for name, data in events if name == "stderr"]
    assert base64.b64decode(raw["bytes"]) == b"\xff\xfe"


def test_everything_that_was_written_is_streamed(serving):
    code = "import sys\nfor i in range(20000):\n    print(i)\n    print(-i, file=sys.stderr)"
    texts = {"stdout": "", "stderr": ""}
    for name, data in serving.events("/v1/run", {"code": code}):
        if name in texts:
            texts[name] += data["text"]
    assert texts["stdout"] == "".join(f"{i}\n" for i in range(20000)) and texts["stderr"] == "".join(f"{-i}\n" for i in range(20000))


def test_refusal_of_the_keeper_in_a_stream_is_an_error_event_or_status(serving):
    connection = serving.connect()
    connection.request("POST", "/v1/run", json.dumps({"code": "1", "language": "cobol", "stream": True}))
    response = connection.getresponse()
    body = response.read()
    assert b"unprocessable" in body and b"language" in body
    connection.close()


def runs_of_cause(serving, cause):
    return serving.get("/v1/stats").json["runs"][cause]


@pytest.mark.parametrize("streamed", [False, True])
def test_client_that_goes_away_cancels_its_run(serving, streamed):
    before = runs_of_cause(serving, "cancelled")
    connection = serving.connect()
    connection.request("POST", "/v1/run", json.dumps({"code": "import time; print(1, flush=True); time.sleep(25)", "stream": streamed}))
    time.sleep(0.5)
    connection.sock.close()
    connection.close()
    deadline = time.monotonic() + 5
    while runs_of_cause(serving, "cancelled") == before:
        assert time.monotonic() < deadline, "the run goes on"
        time.sleep(0.05)


def test_slow_reader_makes_the_program_wait(serving):
    """Nothing is lost, and the server holds little of it."""
    code = "import sys\nfor i in range(3000):\n    print('x' * 999)"
    connection = serving.connect()
    response = serving.open_stream(connection, "/v1/run", {"code": code, "limits": {"wall": "20s"}})
    got = b""
    for _ in range(5):
        got += response.read(1000)
        time.sleep(0.1)
    got += response.read()
    connection.close()
    text = "".join(json.loads(line[6:])["text"] for event in got.decode().split("\n\n") if event.startswith("event: stdout")
                   for line in event.split("\n") if line.startswith("data: "))
    assert len(text) == 3000 * 1000


def test_many_runs_at_one_time(serving):
    failed = []

    def client(number):
        connection = serving.connect()
        for i in range(4):
            answer = serving.post("/v1/run", {"code": f"print({number} * 1000 + {i})"}, connection=connection)
            if answer.status != 200 or answer.json["stdout"] != f"{number * 1000 + i}\n":
                failed.append(answer)
        connection.close()
    clients = [threading.Thread(target=client, args=(number,)) for number in range(8)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    assert not failed
