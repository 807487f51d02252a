"""Live sandboxes over HTTP: state, streams, interrupts, deadlines, forks, checkpoints, and what becomes of them."""
import base64
import http.client
import os
import pathlib
import re
import shutil
import signal
import threading
import time

import keeper
import leftovers
import pytest
from sandbox import PATIENCE_S, Sandbox, error_of, make, until

# ---- made, looked at, ended ----

def test_a_sandbox_is_made_looked_at_and_ended(serving):
    sandbox = make(serving, ttl="10m", idle="5m", metadata={"who": "me"})
    view = sandbox.view
    assert re.fullmatch(r"sbx_[0-9A-Za-z]{22}", view["id"]) and view["state"] == "running", view
    assert view["language"] == "python" and view["metadata"] == {"who": "me"}
    assert re.fullmatch(r"ctx_[0-9A-Za-z]{22}", *view["contexts"])
    assert view["limits"]["memory"] > 1 << 20 and view["limits"]["wall"] == 30 and view["limits"]["cpus"] > 0, view
    assert view["expires_at"] > view["created_at"]
    assert sandbox.ask("GET").json == view
    sandbox.close()
    error_of(sandbox.ask("GET"), 404, "not_found")
    error_of(sandbox.ask("POST", "/run", {"code": "1"}), 404, "not_found")
    error_of(sandbox.ask("DELETE"), 404, "not_found")


@pytest.mark.parametrize("minimum", ["process", "gvisor"])
def test_auto_is_the_usual_engine_and_told_by_its_name(fresh, tmp_path, minimum):
    config = tmp_path / "cloche.conf"
    config.write_text(f"isolation.min = {minimum}\n")
    sandbox = make(fresh("--config", config), isolation="auto")
    usual = "gvisor" if minimum == "gvisor" else "container"
    assert sandbox.view["isolation"] == usual and sandbox.ask("GET").json["isolation"] == usual
    kernel = sandbox.run("import platform; print(platform.release())")["stdout"].strip()
    assert (kernel == os.uname().release) == (usual == "container"), kernel
    sandbox.close()


def test_what_never_was_is_not_found(serving):
    for path in ("sbx_" + "0" * 22, "nonsense", "%ff"):
        assert error_of(serving.request("GET", f"/v1/sandboxes/{path}"), 404, "not_found")


@pytest.mark.parametrize("fields, field", [
    ({"languages": "python"}, "languages"), ({"ttl": "soon"}, "ttl"), ({"ttl": "100h"}, "ttl"), ({"idle": -1}, "idle"),
    ({"runs_max": 0}, "runs_max"), ({"metadata": {"a": 1}}, "metadata"), ({"limits": {"memory": "9000G"}}, "memory"),
    ({"limits": {"colour": 1}}, "limits.colour"), ({"language": "cobol"}, "language"), ({"preset": "wizard"}, "preset"),
    ({"isolation": "prayer"}, "isolation"), ({"inputs": ["/etc/passwd"]}, "inputs"), ({"warm": 1}, "warm"),
])
def test_wrong_wishes_are_refused_by_name(serving, fields, field):
    answer = serving.request("POST", "/v1/sandboxes", fields)
    assert answer.status in (400, 422) and answer.json["error"]["field"] == field, answer


# ---- runs ----

def test_state_is_kept_between_runs(shared):
    assert shared.run("kept = 40")["results"] == []
    result = shared.run("print('hello'); kept + 2")
    assert result["status"] == "ok" and result["cause"] == "exit" and result["exit_code"] == 0
    assert result["stdout"] == "hello\n" and result["stderr"] == ""
    assert result["results"] == [{"is_value": True, "media": {"text/plain": "42"}}]
    assert not result["died"] and result["usage"]["peak_memory_bytes"] > 0 and re.match("run_", result["id"])


def test_output_of_other_programs_belongs_to_the_run(shared):
    result = shared.run("import os; os.system('echo out; echo err >&2'); print('end')")
    assert sorted(result["stdout"].split()) == ["end", "out"] and result["stderr"] == "err\n"


def test_rich_results_come_by_their_types(shared):
    table = shared.run("import pandas; pandas.DataFrame({'a': [1, 2]})")["results"][0]["media"]
    assert "<table" in table["text/html"] and "a" in table["text/plain"]
    plot = shared.run("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()")["results"][0]["media"]
    assert base64.b64decode(plot["image/png"]).startswith(b"\x89PNG")


def test_an_exception_is_told_with_its_traceback(shared):
    result = shared.run("def fall():\n    return 1 / 0\nfall()")
    assert result["status"] == "error" and result["exit_code"] == 1 and not result["died"]
    assert result["error"]["name"] == "ZeroDivisionError" and "in fall" in result["error"]["traceback"]
    assert shared.run("import sys; sys.exit(3)")["exit_code"] == 3


def test_stdin_is_given(shared):
    assert shared.run("print(input() + input())", stdin="a\nb\n")["stdout"] == "ab\n"


def test_bytes_that_are_not_text_come_whole(shared):
    result = shared.run("import os; os.write(1, b'\\xff\\x00'); None")
    assert base64.b64decode(result["stdout_base64"]) == b"\xff\x00"


@pytest.mark.parametrize("fields, field", [
    ({}, "code"), ({"code": 1}, "code"), ({"code": "1", "cod": 1}, "cod"), ({"code": "1", "limits": {"memory": "1G"}}, "memory"),
    ({"code": "1", "limits": {"wall": "100h"}}, "wall"),
])
def test_wrong_runs_are_refused_by_name(shared, fields, field):
    answer = shared.ask("POST", "/run", fields)
    assert answer.status in (400, 422) and answer.json["error"]["field"] == field, answer


def test_a_run_in_a_context_that_is_not_there_is_not_found(shared):
    error_of(shared.ask("POST", "/run", {"code": "1", "context": "ctx_" + "0" * 22}), 404, "not_found")


def test_events_come_as_they_happen(serving, shared):
    code = "import time, sys\nfor word in 'ab':\n    print(word + 'é', flush=True); time.sleep(0.4)\nprint('!', file=sys.stderr)\n7"
    seen = [(name, data, time.monotonic()) for name, data in serving.events(shared.path + "/run", {"code": code, "stream": True})]
    names = [name for name, _, _ in seen if name != "progress"]
    assert names == ["started", "stdout", "stdout", "stderr", "result", "end"], seen
    texts = [data["text"] for name, data, _ in seen if name == "stdout"]
    times = [at for name, _, at in seen if name == "stdout"]
    assert texts == ["aé\n", "bé\n"] and times[1] - times[0] > 0.2
    end = seen[-1][1]
    assert end["id"] == seen[0][1]["id"] and end["stdout"] == "aé\nbé\n" and end["results"][0]["media"]["text/plain"] == "7"


def test_a_stream_that_is_refused_has_the_status_of_its_refusal(serving):
    answer = serving.request("POST", "/v1/sandboxes/sbx_" + "1" * 22 + "/run", {"code": "1", "stream": True})
    error_of(answer, 404, "not_found")


def test_results_and_progress_have_the_shape_of_other_runs(serving, shared):
    seen = list(serving.events(shared.path + "/run", {"code": "import time; time.sleep(2.2)"}))
    used = [data for name, data in seen if name == "progress"]
    assert used and used[0]["wall_ms"] >= 900 and used[0]["wall_limit_ms"] >= 10000 and used[0]["pids"] >= 1, seen
    assert used[0]["silent_ms"] >= 900, seen
    assert "elapsed_ms" not in used[0]
    result = shared.run("print('x' * 20_000_000)")
    assert result["truncated"]["stdout"] > 0 and result["truncated"]["stderr"] == 0 and result["signal"] is None, result


def test_an_interpreter_that_ends_itself_says_how(serving):
    sandbox = make(serving)
    for code, exit_code, number in (("import os; os._exit(3)", 3, None), ("import os; os.kill(os.getpid(), 9)", None, 9)):
        result = sandbox.run(code)
        assert result["died"] and (result["exit_code"], result["signal"]) == (exit_code, number), result
        assert sandbox.ask("POST", f"/contexts/{sandbox.context}/restart", {}).status == 200
    sandbox.close()


# ---- files ----

def test_files_are_shown_read_only_and_found_again_after_a_restart(serving):
    assert serving.put("/v1/files/big.csv", b"x,y\n1,2\n").status in (200, 201)
    sandbox = make(serving, files=[{"name": "a.txt", "content": "inline"}, {"upload": "big.csv"}])
    read = "print(open('/data/input/a.txt').read(), open('/data/input/big.csv').read().split())"
    assert sandbox.run(read)["stdout"] == "inline ['x,y', '1,2']\n"
    assert sandbox.run("open('/data/input/a.txt', 'a')")["error"]["name"] in ("PermissionError", "OSError")
    assert sandbox.ask("POST", f"/contexts/{sandbox.context}/restart", {}).status == 200
    assert sandbox.run(read)["stdout"] == "inline ['x,y', '1,2']\n"
    fork = Sandbox(serving, sandbox.ask("POST", "/fork", {}).json["sandboxes"][0])
    sandbox.close()
    assert fork.run(read)["stdout"] == "inline ['x,y', '1,2']\n"
    fork.close()
    error_of(serving.post("/v1/sandboxes", {"files": [{"upload": "nothing"}]}), 422, "unprocessable")
    error_of(serving.post("/v1/sandboxes", {"files": [{"name": "../x", "content": ""}]}), 400, "bad_request")


def test_a_run_tells_which_files_it_made(serving):
    sandbox = make(serving)
    sandbox.run("open('before', 'w').write('x'); open('grown', 'w').write('x')")
    time.sleep(0.05)  # files have their times by the kernel's tick
    code = "import os; os.makedirs('a b', exist_ok=True); open('a b/c&d', 'w').write('abc'); open('grown', 'a').write('y'); os.symlink('/etc/passwd', 'link')"
    result = sandbox.run(code, collect=True)
    files = {file["path"]: file for file in result["files"]}
    assert {path: file["size"] for path, file in files.items()} == {"a b/c&d": 3, "grown": 2} and not result["files_truncated"], result
    assert serving.get(files["a b/c&d"]["url"]).body == b"abc"
    assert "files" not in sandbox.run("open('more', 'w')")
    time.sleep(0.05)
    events = list(serving.events(sandbox.path + "/run", {"code": "open('last', 'w').write('12345')", "collect": True}))
    assert [data["path"] for name, data in events if name == "file"] == ["last"] and events[-1][1]["files"][0]["size"] == 5, events
    cut = sandbox.run("for i in range(1500): open(f'many{i}', 'w')", collect=True)
    assert len(cut["files"]) == 1000 and cut["files_truncated"]
    assert sandbox.run("import os; os._exit(1)", collect=True)["files"] is None
    sandbox.close()


def test_files_of_another_context_are_reached_by_its_name(serving):
    sandbox = make(serving)
    other = sandbox.ask("POST", "/contexts", {"language": "bash"}).json["id"]
    made = sandbox.run("echo from bash > only-there", context=other, collect=True)["files"]
    assert serving.get(made[0]["url"]).body == b"from bash\n", made
    path = f"{sandbox.path}/files?path=/data/output/"
    assert serving.get(path + "only-there").status == 404
    assert serving.get(f"{path}only-there&context={other}").body == b"from bash\n"
    assert serving.put(f"{path}put&context={other}", b"x").status == 200
    below = sandbox.path + "/files"
    assert serving.post(below + "/mkdir", {"path": "/data/output/made", "context": other}).status == 201
    assert serving.post(below + "/move", {"from": "/data/output/put", "to": "/data/output/moved", "context": other}).status == 200
    entries = serving.get(f"{below}/list?path=/data/output&depth=2&context={other}").json["entries"]
    assert {entry["path"] for entry in entries} >= {"/data/output/made", "/data/output/moved", "/data/output/only-there"}, entries
    assert serving.get(f"{below}/list?path=/data/output").json["entries"] == []
    assert serving.delete(f"{path}made&context={other}").status == 204
    error_of(serving.get(f"{path}x&context=ctx_{'0' * 22}"), 404, "not_found")
    sandbox.close()


INLINE = [{"name": "i.txt", "content": "hey"}]
READ = "open('/data/input/i.txt').read()"


def text_of(result):
    assert result["status"] == "ok", result
    return result["results"][0]["media"]["text/plain"]


def test_forks_and_checkpoints_see_the_files_that_the_sandbox_came_with(serving):
    sandbox = make(serving, files=INLINE)
    answer = sandbox.ask("POST", "/fork", {})
    assert answer.status == 201, answer
    fork = Sandbox(serving, answer.json["sandboxes"][0])
    assert text_of(fork.run(READ)) == "'hey'"
    point = sandbox.ask("POST", "/checkpoints", {})
    assert point.status == 201, point
    assert sandbox.ask("POST", f"/checkpoints/{point.json['id']}/rollback", {}).status == 200
    assert text_of(sandbox.run(READ)) == "'hey'"
    sandbox.close()
    # They stay for the fork: its own forks, and an interpreter that is restarted.
    again = fork.ask("POST", "/fork", {})
    assert again.status == 201, again
    assert fork.ask("POST", f"/contexts/{fork.context}/restart", {}).status == 200
    assert text_of(fork.run(READ)) == "'hey'"
    place = pathlib.Path(serving.data) / "sandboxes.files"
    before = set(os.listdir(place))
    fork.close()
    assert set(os.listdir(place)) == before
    Sandbox(serving, again.json["sandboxes"][0]).close()
    assert len(before - set(os.listdir(place))) == 1, "the last of them takes the files along"


def test_an_upload_that_is_deleted_stays_with_the_sandbox(serving):
    assert serving.put("/v1/files/goes.txt", "some bytes").status in (200, 201)
    sandbox = make(serving, files=[{"name": "g.txt", "upload": "goes.txt"}])
    assert serving.delete("/v1/files/goes.txt").status == 204
    answer = sandbox.ask("POST", "/fork", {})
    assert answer.status == 201, answer
    fork = Sandbox(serving, answer.json["sandboxes"][0])
    assert text_of(fork.run("open('/data/input/g.txt').read()")) == "'some bytes'"
    sandbox.close()
    fork.close()


def test_an_error_of_the_host_does_not_tell_where_the_server_keeps_things(serving):
    sandbox = make(serving, files=INLINE)
    for room in pathlib.Path(serving.data, "sandboxes.files").iterdir():
        shutil.rmtree(room)  # as no server does
    answer = sandbox.ask("POST", "/fork", {})
    assert "i.txt" in error_of(answer, 500, "host_failure")["message"]
    assert str(serving.data).encode() not in answer.body and b"room_" not in answer.body, answer
    sandbox.close()


# ---- ends of runs ----

def in_background(call):
    results = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    return lambda: (thread.join(PATIENCE_S), results[0])[1]


def await_state(sandbox, state):
    until(lambda: sandbox.ask("GET", "/contexts").json["contexts"][0]["state"] == state)


def test_a_run_is_interrupted_and_a_second_one_meanwhile_is_a_conflict(shared):
    shared.run("kept = 'still here'")
    result = in_background(lambda: shared.run("import time; time.sleep(60)"))
    await_state(shared, "busy")
    error_of(shared.ask("POST", "/run", {"code": "1"}), 409, "conflict")
    error_of(shared.ask("POST", "/fork", {}), 409, "conflict")
    assert shared.ask("POST", f"/contexts/{shared.context}/interrupt", {}).status == 202
    ended = result()
    assert ended["status"] == "interrupted" and ended["cause"] == "cancelled" and not ended["died"], ended
    assert shared.run("kept")["results"][0]["media"]["text/plain"] == "'still here'"


IGNORES = """
import time
class Stubborn:
    def __del__(self):
        print('busy', flush=True)
        until = time.monotonic() + 1
        while time.monotonic() < until: pass
Stubborn()
time.sleep(60)
"""


def test_where_nothing_runs_there_is_nothing_to_interrupt(shared):
    shared.run("1")
    error = error_of(shared.ask("POST", f"/contexts/{shared.context}/interrupt", {}), 409, "conflict")
    assert "no run is under way" in error["message"] and "contexts" in error["hint"], error
    assert shared.run("2")["status"] == "ok"


def test_an_interrupt_that_python_ignores_comes_again(shared):
    """In a __del__, or in what is called around a fork, an exception goes no further."""
    shared.run("kept = 'still here'")
    result = in_background(lambda: shared.run(IGNORES))
    await_state(shared, "busy")
    time.sleep(0.4)
    assert shared.ask("POST", f"/contexts/{shared.context}/interrupt", {}).status == 202
    ended = result()
    assert ended["stdout"] == "busy\n" and ended["status"] == "interrupted" and not ended["died"], ended
    assert shared.run("kept")["results"][0]["media"]["text/plain"] == "'still here'"


def test_time_is_limited_and_can_be_extended(shared):
    result = shared.run("while True: pass", limits={"wall": "300ms"})
    assert result["cause"] == "wall_time" and result["timed_out"] and result["status"] == "interrupted" and not result["died"]
    longer = in_background(lambda: shared.run("import time; time.sleep(1.2); 'done'", limits={"wall": "900ms"}))
    await_state(shared, "busy")
    assert shared.ask("POST", f"/contexts/{shared.context}/extend", {"ms": 5000}).status == 200
    assert longer()["results"][0]["media"]["text/plain"] == "'done'"
    error_of(shared.ask("POST", f"/contexts/{shared.context}/extend", {"ms": 5000}), 409, "conflict")


def test_a_client_that_goes_away_takes_its_run_with_it(serving, shared):
    stream = serving.events(shared.path + "/run", {"code": "import time; time.sleep(60)", "stream": True})
    assert next(stream)[0] == "started"
    stream.close()
    await_state(shared, "idle")


def test_a_death_is_told_and_the_context_can_be_restarted(serving):
    sandbox = make(serving, limits={"memory": "256M"}, runs_max=50)
    result = sandbox.run("x = bytearray(1 << 30)")
    assert result["died"] and result["cause"] == "memory" and result["exit_code"] is None and "256 MiB" in result["detail"], result
    error_of(sandbox.ask("POST", "/run", {"code": "1"}), 410, "gone")
    context, = sandbox.ask("GET", "/contexts").json["contexts"]
    assert context["state"] == "ended" and context["cause"] == "memory"
    assert sandbox.ask("POST", f"/contexts/{context['id']}/restart", {}).json["state"] == "idle"
    assert sandbox.run("1 + 1")["results"][0]["media"]["text/plain"] == "2"
    sandbox.close()


def test_runs_are_counted(serving):
    sandbox = make(serving, runs_max=2)
    sandbox.run("1")
    sandbox.run("1")
    refused = error_of(sandbox.ask("POST", "/run", {"code": "1"}), 409, "conflict")
    assert refused["field"] == "runs_max" and "extend" in refused["hint"], refused
    view = sandbox.ask("POST", "/extend", {"runs_max": 3, "idle": "7m"}).json
    assert (view["runs"], view["runs_max"], view["idle_ms"]) == (2, 3, 420000), view
    assert view["expires_at"] == sandbox.view["expires_at"]
    sandbox.run("1")
    assert error_of(sandbox.ask("POST", "/extend", {"runs_max": 100001}), 422, "unprocessable")["field"] == "runs_max"
    error_of(sandbox.ask("POST", "/extend", {}), 400, "bad_request")
    sandbox.close()


def test_the_operator_says_how_many_runs_there_can_be(fresh, tmp_path):
    (tmp_path / "conf").write_text("server.sandbox_runs = 30\n")
    serving = fresh("--config", tmp_path / "conf")
    assert "30" in error_of(serving.post("/v1/sandboxes", {"runs_max": 31}), 422, "unprocessable")["message"]
    sandbox = make(serving, runs_max=30)
    assert error_of(sandbox.ask("POST", "/extend", {"runs_max": 31}), 422, "unprocessable")["field"] == "runs_max"


# ---- deadlines ----

def test_time_and_idleness_end_a_sandbox_by_themselves(serving):
    short, idle, kept = make(serving, ttl="1500ms"), make(serving, idle="1500ms"), make(serving, ttl="1s")
    assert kept.ask("POST", "/extend", {"ttl": "1h"}).json["expires_at"] > kept.view["expires_at"]
    for sandbox, cause, word in ((short, "wall_time", "time is over"), (idle, "cancelled", "idle")):
        view = until(lambda: (view := sandbox.ask("GET").json)["state"] == "ended" and view)
        assert view["cause"] == cause and word in view["detail"], view
        error = error_of(sandbox.ask("POST", "/run", {"code": "1"}), 410, "gone")
        assert error["cause"] == cause and word in error["message"], error
    assert kept.ask("GET").json["state"] == "running"
    error_of(kept.ask("POST", "/extend", {"ttl": "1000h"}), 422, "unprocessable")
    kept.close()


# ---- contexts, forks, checkpoints ----

def test_contexts_are_apart(shared):
    context = shared.ask("POST", "/contexts", {"language": "bash"}).json
    assert context["language"] == "bash" and context["state"] == "idle", context
    assert shared.run("there=yes; echo $there", context=context["id"])["stdout"] == "yes\n"
    assert shared.run("'there' in dir()")["results"][0]["media"]["text/plain"] == "False"
    assert len(shared.ask("GET", "/contexts").json["contexts"]) == 2
    assert shared.ask("DELETE", f"/contexts/{context['id']}").status == 204
    error_of(shared.ask("DELETE", f"/contexts/{context['id']}"), 404, "not_found")
    assert shared.ask("DELETE", f"/contexts/{shared.context}").status == 409


def test_a_fork_lives_as_long_as_its_parent_was_given_last(serving):
    parent = make(serving, ttl="10m", idle="5m")
    extended = parent.ask("POST", "/extend", {"ttl": "3h"}).json
    fork = Sandbox(serving, parent.ask("POST", "/fork", {"count": 1}).json["sandboxes"][0])
    assert fork.view["expires_at"] >= extended["expires_at"] and fork.ask("GET").json["expires_at"] == fork.view["expires_at"]
    parent.ask("POST", "/extend", {"ttl": "2m"})
    short = Sandbox(serving, parent.ask("POST", "/fork", {"count": 1}).json["sandboxes"][0])
    assert short.view["expires_at"] < extended["expires_at"]
    for sandbox in (parent, fork, short):
        sandbox.close()


def test_forks_have_the_state_and_share_nothing_after(serving):
    first = make(serving, metadata={"family": "one"})
    first.run("numbers = [1]; open('/tmp/file', 'w').write('first')")
    forks = [Sandbox(serving, view) for view in first.ask("POST", "/fork", {"count": 2}).json["sandboxes"]]
    assert len({first.id, *(fork.id for fork in forks)}) == 3 and all(fork.view["parent"] == first.id for fork in forks)
    for number, sandbox in enumerate([first, *forks]):
        sandbox.run(f"numbers.append({number}); open('/tmp/file', 'a').write('{number}')")
    said = [sandbox.run("print(numbers, open('/tmp/file').read())")["stdout"] for sandbox in [first, *forks]]
    assert said == [f"[1, {number}] first{number}\n" for number in range(3)]
    first.close()
    assert forks[0].run("numbers")["results"][0]["media"]["text/plain"] == "[1, 1]"
    for fork in forks:
        fork.close()


def test_branches_run_side_by_side_each_in_its_copy(serving, shared):
    shared.run("base = 10")
    runs = [{"code": f"base += {number}; print(base)"} for number in range(3)] + [{"code": "1 / 0"}]
    results = shared.ask("POST", "/fork", {"runs": runs}).json["results"]
    assert [result["stdout"] for result in results] == ["10\n", "11\n", "12\n", ""]
    assert [result["branch"] for result in results] == [0, 1, 2, 3] and results[3]["error"]["name"] == "ZeroDivisionError"
    assert shared.run("base")["results"][0]["media"]["text/plain"] == "10"
    events = list(serving.events(shared.path + "/fork", {"runs": runs[:2], "stream": True}))
    assert {data["branch"] for name, data in events if name == "stdout"} == {0, 1} and events[-1][0] == "end"
    assert [result["stdout"] for result in events[-1][1]["results"]] == ["10\n", "11\n"]


def test_a_checkpoint_is_returned_to_as_often_as_one_likes(shared):
    shared.run("past = 'then'; open('/tmp/past', 'w').write('then')")
    point = shared.ask("POST", "/checkpoints", {"name": "before"}).json
    assert re.fullmatch(r"cp_[0-9A-Za-z]{22}", point["id"]) and point["name"] == "before"
    for _ in range(2):
        shared.run("past = 'now'; open('/tmp/past', 'w').write('now')")
        view = shared.ask("POST", f"/checkpoints/{point['id']}/rollback", {}).json
        assert view["contexts"] == [shared.context]
        assert shared.run("print(past, open('/tmp/past').read())")["stdout"] == "then then\n"
    assert shared.ask("GET", "/checkpoints").json["checkpoints"] == [point]
    assert shared.ask("DELETE", f"/checkpoints/{point['id']}").status == 204
    error_of(shared.ask("POST", f"/checkpoints/{point['id']}/rollback", {}), 404, "not_found")


def test_checkpoints_and_forks_outlive_an_interpreter_that_dies(serving):
    sandbox = make(serving)
    sandbox.run("moment = 'then'")
    point = sandbox.ask("POST", "/checkpoints", {}).json["id"]
    fork = Sandbox(serving, sandbox.ask("POST", "/fork", {}).json["sandboxes"][0])
    for code in ("import os; os._exit(1)", "moment = b'x' * (4 << 30)"):
        sandbox.run(code)
        assert fork.run("print(moment)")["stdout"] == "then\n"
        assert sandbox.ask("POST", f"/checkpoints/{point}/rollback", {}).status == 200
        assert sandbox.run("print(moment)")["stdout"] == "then\n"
    for one in (sandbox, fork):
        one.close()


def test_fork_lives_on_when_its_sandbox_is_deleted_in_a_run_that_does_not_listen(serving):
    sandbox = make(serving)
    sandbox.run("moment = 'then'; import signal, time")
    fork = Sandbox(serving, sandbox.ask("POST", "/fork", {}).json["sandboxes"][0])
    result = in_background(lambda: sandbox.ask("POST", "/run", {"code": "signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: time.sleep(1)"}))
    await_state(sandbox, "busy")
    sandbox.close()
    result()
    assert fork.run("print(moment)")["stdout"] == "then\n"
    again = Sandbox(serving, fork.ask("POST", "/fork", {}).json["sandboxes"][0])  # its parent's parent answers for its filter
    assert again.run("print(moment)")["stdout"] == "then\n"
    for one in (again, fork):
        one.close()


def sleepers(seconds):
    """Processes on this machine that were told to sleep for just that long."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            found += [process.name] if process.joinpath("cmdline").read_bytes() == b"sleep\0" + seconds.encode() + b"\0" else []
        except OSError:
            pass
    return found


def leave_a_sleeper(sandbox, seconds):
    """In a sandbox that has a checkpoint, whose box stays for as long as that is there."""
    point = sandbox.ask("POST", "/checkpoints", {}).json["id"]
    sandbox.run(f"import os; os.system('sleep {seconds} &')")
    assert until(lambda: len(sleepers(seconds)) == 1)
    return point


@pytest.mark.parametrize("how", ["rollback", "restart", "delete the context", "delete the sandbox"])
def test_what_a_state_had_going_ends_with_it_also_when_its_forks_live_on(serving, how):
    sandbox = make(serving)
    seconds = f"86{os.getpid()}.{sum(map(ord, how))}"
    point = leave_a_sleeper(sandbox, seconds)
    fork = None
    if how == "rollback":
        assert sandbox.ask("POST", f"/checkpoints/{point}/rollback", {}).status == 200
    elif how == "restart":
        assert sandbox.ask("POST", f"/contexts/{sandbox.context}/restart", {}).status == 200
    elif how == "delete the context":
        assert sandbox.ask("POST", "/contexts", {}).status == 201
        assert sandbox.ask("DELETE", f"/contexts/{sandbox.context}").status == 204
    else:
        fork = Sandbox(serving, sandbox.ask("POST", "/fork", {"checkpoint": point}).json["sandboxes"][0])
        sandbox.close()
    assert until(lambda: not sleepers(seconds)), how
    if fork:
        assert fork.run("print('here')")["stdout"] == "here\n"
        fork.close()
    else:
        assert sandbox.ask("POST", f"/checkpoints/{point}/rollback", {}).status == 200 and sandbox.run("print('here')")["stdout"] == "here\n"
        sandbox.close()


def test_a_command_of_a_state_that_was_left_ends_with_it_and_keeps_nobody_waiting(serving):
    sandbox = make(serving)
    point = sandbox.ask("POST", "/checkpoints", {}).json["id"]
    ended = []
    waiting = threading.Thread(target=lambda: ended.append(sandbox.ask("POST", "/exec", {"command": ["sleep", "20"]}).json))
    waiting.start()
    time.sleep(0.5)
    assert sandbox.ask("POST", f"/checkpoints/{point}/rollback", {}).status == 200
    waiting.join(10)
    assert ended and ended[0]["exit_code"] is None and ended[0]["cpu_ms"] < 2000, ended
    started = time.monotonic()
    sandbox.close()
    assert time.monotonic() - started < 5


def test_a_checkpoint_is_forked_and_the_sandbox_stays_as_it_is(serving):
    sandbox = make(serving)
    sandbox.run("moment = 'then'")
    point = sandbox.ask("POST", "/checkpoints", {}).json["id"]
    sandbox.run("moment = 'now'")
    forks = [Sandbox(serving, view) for view in sandbox.ask("POST", "/fork", {"count": 2, "checkpoint": point}).json["sandboxes"]]
    for fork in forks:
        assert fork.run("print(moment); moment = 'later'")["stdout"] == "then\n"
        assert fork.view["parent"] == sandbox.id and fork.context != sandbox.context
    assert sandbox.run("print(moment)")["stdout"] == "now\n"
    error_of(sandbox.ask("POST", "/fork", {"checkpoint": "cp_none"}), 404, "not_found")
    error_of(sandbox.ask("POST", "/fork", {"checkpoint": point, "runs": [{"code": "1"}]}), 400, "bad_request")
    for one in [*forks, sandbox]:
        one.close()


def test_what_cannot_be_forked_says_so(serving):
    sandbox = make(serving, language="bash")
    error = error_of(sandbox.ask("POST", "/fork", {}), 422, "unprocessable")
    assert "python" in error["message"]
    sandbox.close()


def test_two_sandboxes_cannot_see_each_other(serving):
    one, other = make(serving), make(serving)
    one.run("open('/tmp/secret', 'w').write('x'); secret = 1; import subprocess; subprocess.Popen(['sleep', '77'])")
    seen = other.run("""
import os
print(os.path.exists('/tmp/secret'), 'secret' in globals())
print(any('77' in open(f'/proc/{pid}/cmdline').read() for pid in os.listdir('/proc') if pid.isdigit()))
""")
    assert seen["stdout"] == "False False\nFalse\n", seen
    one.close()
    other.close()


# ---- lists and events ----

def test_lists_have_filters_and_pages(serving):
    mark = os.urandom(4).hex()
    made = [make(serving, metadata={"mark": mark, "n": str(number % 2)}) for number in range(3)]
    ids = [sandbox.id for sandbox in made]
    answer = serving.request("GET", f"/v1/sandboxes?metadata.mark={mark}&state=running").json
    assert [view["id"] for view in answer["sandboxes"]] == ids and "next" not in answer
    first = serving.request("GET", f"/v1/sandboxes?metadata.mark={mark}&limit=2").json
    rest = serving.request("GET", f"/v1/sandboxes?metadata.mark={mark}&limit=2&cursor={first['next']}").json
    assert [view["id"] for view in first["sandboxes"] + rest["sandboxes"]] == ids and "next" not in rest
    odd = serving.request("GET", f"/v1/sandboxes?metadata.mark={mark}&metadata.n=1").json["sandboxes"]
    assert [view["id"] for view in odd] == ids[1:2]
    for query in ("state=asleep", "limit=0", "limit=many", "colour=red"):
        error_of(serving.request("GET", "/v1/sandboxes?" + query), 400, "bad_request")
    for sandbox in made:
        sandbox.close()


def test_metadata_is_asked_for_as_openapi_writes_objects_too(serving):
    mark = os.urandom(4).hex()
    sandbox = make(serving, metadata={"mark": mark, "a.b]": "c"})
    for query in (f"metadata[mark]={mark}", f"metadata%5Bmark%5D={mark}", f"metadata[mark]={mark}&metadata.a.b%5D=c", f"metadata.mark={mark}&metadata%5Ba.b%5D%5D=c"):
        assert [view["id"] for view in serving.request("GET", "/v1/sandboxes?" + query).json["sandboxes"]] == [sandbox.id], query
    assert serving.request("GET", f"/v1/sandboxes?metadata[mark]={mark}x").json["sandboxes"] == []
    error = error_of(serving.request("GET", f"/v1/sandboxes?metadata={mark}"), 400, "bad_request")
    assert error["field"] == "metadata" and "metadata.NAME=VALUE" in error["hint"] and "metadata[NAME]=VALUE" in error["hint"], error
    for query in ("metadata[mark=1", "metadata]=1", "metadatas.x=1", "metadata.mark=%ff"):
        error_of(serving.request("GET", "/v1/sandboxes?" + query), 400, "bad_request")
    sandbox.close()


def test_what_happens_is_told_as_events(serving):
    sandbox = make(serving)
    stream = serving.events(sandbox.path + "/events", method="GET")
    assert next(stream)[0] == "opened"
    run = sandbox.run("1")
    name, data = next(stream)
    assert name == "run_started" and (data["run"], data["runs"], data["context"]) == (run["id"], 1, sandbox.context), data
    name, data = next(stream)
    assert name == "run_ended" and data["status"] == "ok" and data["run"] == run["id"], data
    exec = sandbox.ask("POST", "/exec", {"command": ["sh", "-c", "exit 3"]}).json
    name, data = next(stream)
    assert name == "exec_started" and (data["exec"], data["command"], data["context"], data["terminal"]) == (exec["id"], "sh", sandbox.context, False), data
    name, data = next(stream)
    assert name == "exec_ended" and (data["exec"], data["exit_code"], data["cancelled"]) == (exec["id"], 3, False), data
    assert sandbox.ask("GET", "/files/list?path=/tmp").status == 200  # is no command of anybody's
    branches = sandbox.ask("POST", "/fork", {"runs": [{"code": "1"}, {"code": "2"}]}).json["results"]
    name, data = next(stream)
    assert name == "branches_started" and data["runs"] == [branch["id"] for branch in branches], data
    assert next(stream)[0] == "branches_ended"
    sandbox.close()
    assert [name for name, _ in stream] == ["ended"]


def test_who_comes_back_hears_what_came_meanwhile(serving):
    sandbox = make(serving)
    sandbox.run("1")
    connection = serving.connect()
    response = serving.open_stream(connection, sandbox.path + "/events", method="GET")
    ids = [line for line in (response.readline().decode() for _ in range(8)) if line.startswith("id: ")]
    assert ids == ["id: 1\n", "id: 2\n"], ids
    connection.close()
    again = serving.events(sandbox.path + "/events", method="GET", headers={"Last-Event-ID": "2"})
    name, data = next(again)
    assert (name, data["number"]) == ("run_ended", 3), data
    sandbox.close()


# ---- losses: at the end, for they need servers of their own ----

def test_sandboxes_are_lost_with_their_server_and_that_is_told(fresh):
    serving = fresh()
    sandbox = make(serving)
    sandbox.run("1")
    deleted = make(serving)
    deleted.close()
    os.kill(serving.pid, signal.SIGKILL)
    lost = until(lambda: answered(lambda: sandbox.ask("GET")))
    error = error_of(lost, 410, "gone")
    assert error["cause"] == "host_failure"
    assert error_of(sandbox.ask("POST", "/run", {"code": "1"}), 410, "gone")["cause"] == "host_failure"
    error_of(deleted.ask("GET"), 404, "not_found")
    listed = serving.get("/v1/sandboxes?state=ended").json["sandboxes"]
    assert [(one["id"], one["state"], one["cause"]) for one in listed] == [(sandbox.id, "ended", "host_failure")], listed
    ended = make(serving, ttl="100ms")  # the other kind of those that have ended
    until(lambda: len(serving.get("/v1/sandboxes?state=ended").json["sandboxes"]) == 2)
    pages = [serving.get("/v1/sandboxes?state=ended&limit=1").json]
    pages.append(serving.get(f"/v1/sandboxes?state=ended&limit=1&cursor={pages[0]['next']}").json)
    assert [[one["id"] for one in page["sandboxes"]] for page in pages] == [[ended.id], [sandbox.id]] and "next" not in pages[1], pages
    ended.close()
    assert serving.request("GET", "/v1/sandboxes").json["sandboxes"] == []
    fresh = make(serving)
    assert fresh.run("2")["status"] == "ok"
    fresh.close()


def answered(call):
    try:
        return call()
    except (OSError, http.client.HTTPException):
        return None


def test_sandboxes_are_lost_with_their_keeper_and_nothing_is_left(fresh, census, tmp_path):
    tmp_path.chmod(0o755)
    first = fresh(data=tmp_path / "data")
    sandbox = make(first)
    sandbox.run("import subprocess; subprocess.Popen(['sleep', '1234'])")
    first.stop(signal.SIGKILL)
    until(lambda: not any(name == "sleep" and "1234" in cmdline(pid) for pid, name in keeper.processes()[1].items()), 5)
    second = until(lambda: started(fresh, tmp_path / "data"))
    lost = Sandbox(second, sandbox.view)
    assert error_of(lost.ask("GET"), 410, "gone")["cause"] == "host_failure"
    assert not leftovers.leftovers(census, 5), "the server that was started did not clear away what the first left"


def started(fresh, data):
    """The directory is free as soon as the old server has seen that its keeper is gone."""
    try:
        return fresh(data=data)
    except AssertionError:
        return None


def cmdline(pid):
    try:
        return pathlib.Path("/proc", str(pid), "cmdline").read_text()
    except OSError:
        return ""
