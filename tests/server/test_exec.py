"""Commands, terminals and files in live sandboxes."""
import base64
import io
import json
import os
import tarfile
import threading
import time
import urllib.parse

import pytest
import websocket


@pytest.fixture(scope="module")
def sandbox(serving):
    answer = serving.post("/v1/sandboxes", {"limits": {"disk": "64M"}})
    assert answer.status == 201, answer
    yield f"/v1/sandboxes/{answer.json['id']}"
    serving.delete(f"/v1/sandboxes/{answer.json['id']}")


@pytest.fixture
def execute(serving, sandbox):
    def execute(*command, **fields):
        answer = serving.post(f"{sandbox}/exec", {"command": list(command), **fields})
        assert answer.status == 200, answer
        return answer.json
    return execute


def test_command_gives_its_outcome(execute):
    end = execute("bash", "-c", "cat; echo $WORD; pwd; echo bad >&2; exit 3", stdin="typed ", env={"WORD": "yes"}, cwd="/tmp")
    assert (end["exit_code"], end["cause"], end["stdout"], end["stderr"]) == (3, "exit", "typed yes\n/tmp\n", "bad\n")
    assert end["id"].startswith("exec_") and end["duration_ms"] > 0


def test_command_shares_files_with_the_interpreter(serving, sandbox, execute):
    serving.post(f"{sandbox}/run", {"code": "open('shared', 'w').write('from python')"})
    assert execute("cat", "shared")["stdout"] == "from python"


def test_command_has_a_time_limit(execute):
    started = time.monotonic()
    end = execute("sleep", "100", limits={"wall": "300ms"})
    assert end["cause"] == "wall_time" and end["timed_out"] and time.monotonic() - started < 10


def test_large_input_and_output_pass(execute):
    text = "x" * 3_000_000
    end = execute("cat", stdin=text)
    assert end["stdout"] == text


def test_bytes_that_are_no_text_pass_both_ways(serving, sandbox, execute):
    given = bytes(range(256)) + "é".encode()
    end = execute("cat", stdin_base64=base64.b64encode(given).decode())
    assert base64.b64decode(end["stdout_base64"]) == given and end["stdout"].endswith("é")
    assert "stdout_base64" not in execute("echo", "é")
    assert serving.post(f"{sandbox}/exec", {"command": ["cat"], "stdin_base64": "?"}).error["field"] == "stdin_base64"
    assert serving.post(f"{sandbox}/exec", {"command": ["cat"], "stdin": "", "stdin_base64": ""}).status == 422
    # A character that comes in two pieces is one in a stream, too.
    pieces = ["bash", "-c", r"printf 'a\303'; sleep 0.3; printf '\251'; printf '\303' >&2"]
    events = [(name, data) for name, data in serving.events(f"{sandbox}/exec", {"command": pieces}) if name in ("stdout", "stderr")]
    assert events == [("stdout", {"text": "a"}), ("stdout", {"text": "é"}), ("stderr", {"bytes": "ww=="})], events


def test_no_signal_is_none(execute):
    end = execute("true")
    assert end["signal"] is None and end["truncated"] == {"stdout": 0, "stderr": 0}, end
    assert execute("bash", "-c", "kill -KILL $$")["signal"] == 9


def test_output_without_end_is_cut(execute):
    end = execute("head", "-c", "20000000", "/dev/zero")
    assert end["truncated"]["stdout"] > 0 and end["exit_code"] == 0 and len(end["stdout"]) <= 8 << 20


def test_child_that_keeps_the_pipe_is_not_waited_for(execute):
    started = time.monotonic()
    end = execute("bash", "-c", "sleep 60 & echo done")
    assert end["stdout"] == "done\n" and time.monotonic() - started < 20


@pytest.mark.parametrize("body, field", [({}, "command"), ({"command": []}, "command"), ({"command": "ls"}, "command"), ({"command": ["no-such"]}, "command"),
                                         ({"command": ["ls"], "env": {"A=B": "x"}}, "env"), ({"command": ["ls"], "limits": {"memory": "1G"}}, "memory"),
                                         ({"command": ["ls"], "limits": {"wall": "100d"}}, "wall"), ({"command": ["ls", "a\0b"]}, "command"),
                                         ({"command": ["ls"], "shell": True}, "shell")])
def test_what_is_wrong_is_named(serving, sandbox, body, field):
    answer = serving.post(f"{sandbox}/exec", body)
    assert answer.status in (400, 422) and field in answer.error["field"], answer


def test_stream_tells_as_it_comes_and_takes_signals(serving, sandbox):
    events = serving.events(f"{sandbox}/exec", {"command": ["bash", "-c", "trap 'echo got; exit 4' TERM; echo ready; while :; do sleep 0.05; done"]})
    (started, about), (stdout, ready) = next(events), next(events)
    assert (started, stdout, ready["text"]) == ("started", "stdout", "ready\n")
    assert serving.post(f"{sandbox}/exec/{about['id']}/signal", {"signal": "NOPE"}).status == 422
    assert serving.post(f"{sandbox}/exec/{about['id']}/signal", {"signal": "TERM"}).status == 200
    rest = list(events)
    assert ("stdout", {"text": "got\n"}) in rest and rest[-1][0] == "end" and rest[-1][1]["exit_code"] == 4
    assert serving.post(f"{sandbox}/exec/{about['id']}/signal", {"signal": 9}).status == 404


def ends_soon(execute, mark):
    """A command that writes into the file as long as it lives: commands do not see each other."""
    for _ in range(100):
        before, after = execute("bash", "-c", f"stat -c %s {mark}; sleep 0.3; stat -c %s {mark}")["stdout"].split()
        if before == after:
            return True
    return False


LIVES = "echo > {0}; echo ready; while :; do echo >> {0}; sleep 0.05; done"


def test_client_that_leaves_takes_its_command_along(serving, sandbox, execute):
    events = serving.events(f"{sandbox}/exec", {"command": ["bash", "-c", LIVES.format("mark")]})
    next(events), next(events)
    events.close()
    assert ends_soon(execute, "mark")


def test_command_is_in_the_audit_log(serving, sandbox, execute):
    done = execute("true")["id"]
    for _ in range(50):
        lines = [json.loads(line) for path in (serving.data / "audit").glob("*.jsonl") for line in path.read_text().splitlines()]
        if any(done in json.dumps(line) for line in lines):
            return
        time.sleep(0.1)
    raise AssertionError(lines[-3:])


# ---- terminals ----

def terminal(serving, sandbox, query):
    return websocket.create_connection(f"ws://127.0.0.1:{serving.port}{sandbox}/exec/pty?{query}", timeout=20)


def read_until(connection, wanted):
    shown = b""
    while wanted not in shown:
        kind, data = connection.recv_data()
        assert kind in (websocket.ABNF.OPCODE_BINARY, websocket.ABNF.OPCODE_TEXT), (kind, data, shown)
        if kind == websocket.ABNF.OPCODE_TEXT:
            return shown, json.loads(data)
        shown += data
    return shown, None


def test_terminal_is_one(serving, sandbox):
    connection = terminal(serving, sandbox, "command=bash&command=--norc&rows=30&columns=100")
    connection.send_binary(b"test -t 0 && stty size\n")
    read_until(connection, b"30 100")
    connection.send(json.dumps({"resize": {"rows": 50, "columns": 120}}))
    connection.send_binary(b"stty size\n")
    read_until(connection, b"50 120")
    connection.send_binary(b"sleep 1000\n")
    time.sleep(0.3)
    connection.send_binary(b"\x03")
    connection.send_binary(b"exit 5\n")
    _shown, end = read_until(connection, b"never")
    assert end["end"]["exit_code"] == 5
    connection.close()


def test_signals_of_keys_go_to_the_foreground_and_others_to_the_command(serving, sandbox):
    connection = terminal(serving, sandbox, "command=bash&command=--norc&command=-i")
    connection.send_binary(b"echo re''ady; sleep 1000; echo wo''ken $?\n")
    read_until(connection, b"ready")
    time.sleep(0.3)
    connection.send(json.dumps({"signal": "INT"}))  # bash itself, which is not in the foreground, would only show a prompt
    connection.send_binary(b"echo st''ill $?\n")
    read_until(connection, b"still 130")
    connection.send(json.dumps({"signal": "KILL"}))
    _shown, end = read_until(connection, b"never")
    assert end["end"]["signal"] == 9, end
    connection.close()


def test_terminal_has_a_name_in_its_box_and_is_not_the_hosts(serving, sandbox):
    connection = terminal(serving, sandbox, "command=bash&command=--norc")
    connection.send_binary(b"echo [$(tty)]; echo th''rough > $(tty); ls /dev/pts; echo e''nd\n")
    shown, _ = read_until(connection, b"\nend")
    assert b"[/dev/pts/0]" in shown and b"\nthrough" in shown, shown
    connection.close()


def test_a_wrong_order_is_told_and_the_terminal_goes_on(serving, sandbox):
    connection = terminal(serving, sandbox, "command=cat")
    for order, field in (({"shout": 1}, "shout"), ({"resize": {"rows": 0}}, "resize"), ({"signal": "NOPE"}, "signal"), ([], None)):
        connection.send(json.dumps(order))
        _shown, told = read_until(connection, b"never")
        assert told["error"]["code"] == "bad_request" and told["error"].get("field") == field, told
    connection.send_binary(b"still here\n")
    read_until(connection, b"still here")
    connection.close()


@pytest.mark.parametrize("query, field", [("rows=abc", "rows"), ("columns=1001", "columns"), ("foo=1", "foo")])
def test_terminal_refuses_what_it_does_not_know(serving, sandbox, query, field):
    knock = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg=="}
    answer = serving.get(f"{sandbox}/exec/pty?{query}", headers=knock)
    assert answer.status == 400 and answer.error["field"] == field, answer


def test_a_kernel_that_takes_no_terminals_from_outside_is_named(serving):
    made = serving.post("/v1/sandboxes", {"isolation": "gvisor"})
    assert made.status == 201, made
    sandbox = f"/v1/sandboxes/{made.json['id']}"
    knock = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "MDEyMzQ1Njc4OWFiY2RlZg=="}
    answer = serving.get(f"{sandbox}/exec/pty", headers=knock)
    assert answer.status == 422 and "no terminals" in answer.error["message"], answer
    assert serving.post(f"{sandbox}/exec", {"command": ["echo", "1"]}).json["stdout"] == "1\n"
    assert serving.delete(sandbox).status == 204


def test_terminal_ends_with_its_connection(serving, sandbox, execute):
    connection = terminal(serving, sandbox, "command=bash&command=-c&command=" + urllib.parse.quote(LIVES.format("mark2")))
    read_until(connection, b"ready")
    connection.close()
    assert ends_soon(execute, "mark2")


def test_terminal_needs_a_websocket(serving, sandbox):
    assert serving.get(f"{sandbox}/exec/pty").status == 426


# ---- files ----

@pytest.fixture
def files(sandbox):
    return f"{sandbox}/files"


def test_file_goes_in_and_out(serving, files, execute):
    content = os.urandom(5_000_000)
    put = serving.put(f"{files}?path=deep/er/data.bin", content)
    assert put.status == 200 and put.json["size"] == len(content), put
    assert serving.get(f"{files}?path=/data/output/deep/er/data.bin").body == content
    part = serving.get(f"{files}?path=deep/er/data.bin", headers={"Range": "bytes=1000-1009"})
    assert part.status == 206 and part.body == content[1000:1010]
    assert part.headers["Content-Range"] == f"bytes 1000-1009/{len(content)}"
    assert serving.get(f"{files}?path=deep/er/data.bin", headers={"Range": "bytes=-5"}).body == content[-5:]
    assert serving.get(f"{files}?path=deep/er/data.bin", headers={"Range": "bytes=99999999-"}).status == 416
    assert execute("stat", "-c", "%U %a", "deep/er/data.bin")["stdout"] == "user 644\n"


def test_what_cannot_be_moved_is_named(serving, files):
    answer = serving.post(f"{files}/move", {"from": "never-was", "to": "anywhere/else"})
    assert answer.status == 404 and answer.error["message"].startswith("never-was:"), answer


def test_files_are_listed_moved_and_removed(serving, files):
    serving.put(f"{files}?path=a/one.txt", b"1")
    assert serving.post(f"{files}/mkdir", {"path": "a/b"}).status == 201
    assert serving.post(f"{files}/move", {"from": "a/one.txt", "to": "a/b/two.txt"}).status == 200
    listed = serving.get(f"{files}/list?path=a&depth=5").json
    assert [(entry["path"], entry["type"]) for entry in listed["entries"]] == [("a/b", "directory"), ("a/b/two.txt", "file")]
    assert serving.get(f"{files}/stat?path=a/b/two.txt").json["size"] == 1
    assert serving.delete(f"{files}?path=a").status == 204
    assert serving.get(f"{files}/stat?path=a").status == 404


@pytest.mark.parametrize("path, status", [("/nothing", 404), ("/tmp", 422), ("", 422), ("/etc/shadow", 404), ("/dev/zero", 422), ("/proc/1/environ", 404)])
def test_what_cannot_be_read_says_why(serving, files, path, status):
    assert serving.get(f"{files}?path={path}").status == status


def test_links_of_the_guest_lead_nowhere_outside(serving, sandbox, files):
    serving.post(f"{sandbox}/run", {"code": "import os\nos.symlink('/etc/hostname', 'host')\nos.symlink('/', 'root')\nos.symlink('../../../..', 'up')"})
    assert serving.get(f"{files}?path=host").body == b"cloche\n"  # the box's own
    names = {entry["path"].rsplit("/", 1)[1] for entry in serving.get(f"{files}/list?path=root").json["entries"]}
    assert "data" in names and "root" not in names  # the box's own root
    assert serving.put(f"{files}?path=up/usr/x", b"x").status == 403


def test_disk_limit_holds_for_uploads(serving, files):
    answer = serving.put(f"{files}?path=/tmp/huge", b"\0" * (100 << 20))
    assert answer.status == 507 and answer.error["code"] == "disk_full", answer
    assert serving.get(f"{files}/stat?path=/tmp/huge").status == 404


def test_directory_goes_both_ways_as_tar(serving, files):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("x.txt", "sub/y.txt"):
            about = tarfile.TarInfo(name)
            about.size = 5
            archive.addfile(about, io.BytesIO(b"hello"))
    assert serving.put(f"{files}/tar?path=/tmp/unpacked", packed.getvalue()).status == 200
    back = serving.get(f"{files}/tar?path=/tmp/unpacked")
    with tarfile.open(fileobj=io.BytesIO(back.body)) as archive:
        assert {member.name for member in archive if member.isfile()} == {"./x.txt", "./sub/y.txt"}
    assert serving.put(f"{files}/tar?path=/tmp/unpacked", b"no archive" * 1000).status == 422
    assert serving.get(f"{files}/tar?path=/tmp/unpacked/x.txt").status == 422


def test_watch_tells_of_files_that_are_put_by_their_names_only(serving, files, execute):
    serving.post(f"{files}/mkdir", {"path": "/tmp/put"})
    events = serving.events(f"{files}/watch?path=/tmp/put", method="GET")

    def change():
        for name, content in (("new", b"1"), ("new", b"2"), ("x.part-abcdef", b"3")):
            serving.put(f"{files}?path=/tmp/put/{name}", content)
        execute("mkdir", "/tmp/put/last")
    threading.Timer(0.5, change).start()
    seen = []
    for name, about in events:
        seen.append((name, about["path"].rpartition("/")[2]))
        if seen[-1][1] == "last":
            break
    events.close()
    names = ("new", "new", "x.part-abcdef")
    assert seen == [*((event, name) for name in names for event in ("created", "written")), ("created", "last")], seen


def test_changes_are_told(serving, files):
    serving.post(f"{files}/mkdir", {"path": "/tmp/watched"})
    events = serving.events(f"{files}/watch?path=/tmp/watched", method="GET")
    threading.Timer(0.5, lambda: serving.put(f"{files}?path=/tmp/watched/new", b"1")).start()
    for name, about in events:
        if about["path"] == "/tmp/watched/new":
            assert name == "created"
            break
    events.close()


def test_foreign_or_ended_sandboxes_are_not_there(serving):
    for method, path in [("POST", "exec"), ("GET", "files?path=x"), ("PUT", "files?path=x"), ("DELETE", "files?path=x"), ("GET", "files/list?path=x"),
                         ("GET", "files/tar?path=x"), ("GET", "files/watch?path=x"), ("POST", "exec/exec_x/signal")]:
        body = {"command": ["ls"]} if path == "exec" else {"signal": 9} if "signal" in path else None
        answer = serving.request(method, f"/v1/sandboxes/sbx_{'0' * 22}/{path}", body)
        assert answer.status == 404, (method, path, answer)
