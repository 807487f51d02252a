"""Keys, tenants, the queue, Idempotency-Key and the audit log, on a server with keys."""
import base64
import concurrent.futures
import hashlib
import json
import os
import re
import signal
import subprocess
import threading
import time

import box
import private_network
import pytest
import server
from keyed import await_answer, http_error, key_command, together

SOURCES = sorted((box.ROOT / "src" / "server").glob("*.c"))
ROUTES = sorted({found for path in SOURCES for found in re.findall(r'\{\s*"([A-Z]+)",\s*"(/[^"]*)"', path.read_text())})
OPEN = {("GET", "/"), ("GET", "/assets/pyodide/{file}"), ("GET", "/assets/{path...}"), ("GET", "/health"), ("GET", "/ready"), ("GET", "/v1/openapi.json")}


@pytest.fixture(scope="module", autouse=True)
def alone(census):
    """A server without keys. Started with the first test: one that is ended while it warms up takes its time."""
    with server.Server("--spares", "0", "--preload", "json") as started:
        yield started


# ---- keys ----

def test_routes_are_found_at_all():
    assert {("POST", "/v1/run"), ("POST", "/v1/sandboxes/{id}/run"), ("PUT", "/v1/files/{name}"), ("GET", "/metrics")} <= set(ROUTES)


def test_without_a_key_every_route_answers_alike(keyed):
    connection = keyed.server.connect()
    seen = set()
    for method, pattern in ROUTES + [("GET", "/v1/nothing"), ("PATCH", "/v1/run")]:
        answer = keyed.server.request(method, re.sub(r"\{[^}]*\}", "x", pattern), connection=connection)
        if (method, pattern) in OPEN:
            assert answer.status != 401, (method, pattern)
            continue
        assert answer.headers["WWW-Authenticate"] == "Bearer"
        seen.add((answer.status, answer.body))
        assert answer.status == 401 and answer.error["code"] == "unauthorized", (method, pattern, answer)
    assert len(seen) == 1


@pytest.mark.parametrize("value", ["", "cl_", "cl_" + "A" * 43, "cl_" + "A" * 44, "A" * 46, "cl_" + "é" * 43, "x" * 5000, "cl_" + "0" * 42 + "\t"])
def test_keys_that_are_none_are_refused(keyed, value):
    for name, text in (("Authorization", f"Bearer {value}"), ("X-API-Key", value), ("Authorization", f"Basic {value}")):
        answer = keyed.request(None, "GET", "/v1/stats", headers={name: text.encode("utf-8")})
        assert answer.status == 401 and answer.error["code"] == "unauthorized", answer


def test_a_key_with_one_wrong_character_is_none(keyed):
    right = keyed.keys["alice"]
    for at in (0, 3, 20, 45):
        wrong = right[:at] + ("A" if right[at] != "A" else "B") + right[at + 1:]
        assert keyed.request(None, "GET", "/v1/stats", headers={"X-API-Key": wrong}).status == 401
    for other in (right[:-1], right + "A", hashlib.sha256(right.encode()).hexdigest()):
        assert keyed.request(None, "GET", "/v1/stats", headers={"X-API-Key": other}).status == 401


def test_both_headers_take_a_key(keyed):
    assert keyed.request("alice", "GET", "/v1/stats").status == 200
    assert keyed.request(None, "GET", "/v1/stats", headers={"X-API-Key": keyed.keys["alice"]}).status == 200
    assert keyed.request(None, "GET", "/v1/stats", headers={"Authorization": f"bearer  {keyed.keys['alice']}"}).status == 200


def test_keys_come_and_go_while_the_server_runs(keyed):
    key = key_command(keyed.data, "add", "--tenant", "late")
    headers = {"X-API-Key": key}
    assert keyed.request(None, "GET", "/v1/stats", headers=headers).json["tenant"]["name"] == "late"
    key_command(keyed.data, "limit", "--tenant", "late", "--boxes", 7)
    assert keyed.request(None, "GET", "/v1/stats", headers=headers).json["tenant"]["quotas"]["boxes"] == {"used": 0, "limit": 7}
    other = key_command(keyed.data, "add", "--tenant", "late")
    listed = [line.split() for line in key_command(keyed.data, "list").splitlines()]
    ids = [line[0] for line in listed if line and line[0].startswith("key_") and line[-1] == "late"]
    assert len(ids) == 2
    key_command(keyed.data, "remove", ids[0])
    assert keyed.request(None, "GET", "/v1/stats", headers=headers).status == 401
    assert keyed.request(None, "GET", "/v1/stats", headers={"X-API-Key": other}).status == 200
    key_command(keyed.data, "remove", "--tenant", "late")
    assert keyed.request(None, "GET", "/v1/stats", headers={"X-API-Key": other}).status == 401


def test_keys_are_stored_hashed_and_nothing_is_open_to_others(keyed):
    assert keyed.run("alice", code="print('a word that is not to be found')").status == 200
    for path in keyed.data.rglob("*"):
        if path.is_file() and path.name != "underway":
            text = path.read_bytes()
            assert not [name for name, key in keyed.keys.items() if key.encode()[3:] in text], path
            assert b"a word that is not" not in text or path.name == "journal", path
    assert keyed.data.stat().st_mode & 0o777 == 0o700
    if os.geteuid() == 0:
        assert keyed.data.stat().st_uid != 0 and (keyed.data / "keys").stat().st_uid == 0


def test_the_command_says_what_is_wrong(keyed):
    for words, told in ((("add",), "--tenant"), (("add", "--tenant", "../x"), "no name"), (("remove", "key_none"), "no key"),
                        (("limit", "--tenant", "alice"), "at least one"), (("add", "--tenant", "x", "--boxes", "many"), "whole number"),
                        (("burn",), "there are add, list, limit, remove")):
        done = subprocess.run([box.CLOCHE, "key", *words, "--data", keyed.data], capture_output=True, text=True)
        assert done.returncode == 250 and told in done.stderr, (words, done)


def test_stats_tell_that_there_are_keys(keyed):
    stats = keyed.request("alice", "GET", "/v1/stats").json
    assert stats["single_user"] is False and stats["tenant"]["name"] == "alice"
    queue = keyed.request("operator", "GET", "/v1/stats").json["queue"]
    assert queue["cpus_total"] == 2 and queue["depth"] == 24
    assert "with keys" in "".join(keyed.server.said)


def test_figures_of_all_are_for_operators(keyed):
    def runs(tenant):
        stats = keyed.request(tenant, "GET", "/v1/stats").json
        return stats["runs"]["exit"], stats["latency"]["runs"], stats["runs_refused"]
    before = {name: runs(name) for name in ("alice", "bob", "operator")}
    assert keyed.run("bob", code="1").status == 200 and keyed.run("bob", code="1", limits={"memory": -1}).status == 422
    more = {name: tuple(now - then for now, then in zip(runs(name), before[name])) for name in before}
    assert more == {"alice": (0, 0, 0), "bob": (1, 1, 1), "operator": (1, 1, 1)}
    stats = keyed.request("alice", "GET", "/v1/stats").json
    assert set(stats) == {"version", "uptime_s", "single_user", "runs", "runs_refused", "latency", "tenant"}
    assert {"queue", "pool", "machine", "memory", "connections"} <= set(keyed.request("operator", "GET", "/v1/stats").json)
    answer = keyed.request("alice", "GET", "/metrics")
    assert answer.status == 403 and answer.error["code"] == "forbidden"
    assert b"cloche_runs_total" in keyed.request("operator", "GET", "/metrics").body


def test_another_address_needs_a_key(census, tmp_path):
    done = subprocess.run([box.CLOCHE, "serve", "--listen", "0.0.0.0:0", "--data", tmp_path / "data"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 250 and "key" in done.stderr, done


def test_quotas_alone_are_no_key(census, tmp_path):
    key_command(tmp_path, "add", "--tenant", "t1")
    (tmp_path / "keys").write_text('{"tenant":"t1","limits":{"boxes":1}}\n')
    with private_network.entered():
        done = subprocess.run([box.CLOCHE, "serve", "--listen", "0.0.0.0:0", "--data", tmp_path], capture_output=True, text=True, timeout=20)
    assert done.returncode == 250 and "key" in done.stderr, done


def server_killed(serving):
    """Kills the process that speaks HTTP, and waits for the next."""
    before = serving.pid
    os.kill(before, signal.SIGKILL)
    deadline = time.monotonic() + 15
    while "was started again" not in "".join(serving.said):
        assert time.monotonic() < deadline, serving.said
        time.sleep(0.02)
    assert serving.pid not in (None, before)


def test_a_server_that_is_started_again_on_another_address_is_not_open(census, tmp_path):
    key = key_command(tmp_path, "add", "--tenant", "t1")
    with private_network.entered(), server.Server("--spares", "0", "--preload", "json", listen="0.0.0.0:0", data=tmp_path) as serving:
        assert serving.post("/v1/run", {"code": "1"}, headers={"X-API-Key": key}).status == 200
        key_command(tmp_path, "remove", "--tenant", "t1")
        assert serving.post("/v1/run", {"code": "1"}).status == 401
        server_killed(serving)
        assert serving.post("/v1/run", {"code": "1"}).status == 401


def test_on_loopback_only_a_new_start_brings_the_single_user_back(fresh):
    serving = fresh()
    server_killed(serving)
    assert serving.get("/v1/stats").json["single_user"] is True
    key_command(serving.data, "add", "--tenant", "t1")
    key_command(serving.data, "remove", "--tenant", "t1")
    serving.said.clear()
    server_killed(serving)
    assert serving.get("/v1/stats").status == 401


def test_the_first_key_ends_the_single_user(alone):
    assert alone.get("/v1/stats").json["single_user"] is True and alone.get("/v1/stats").json["tenant"]["name"] == "local"
    assert "single-user" in "".join(alone.said)
    key = key_command(alone.data, "add", "--tenant", "first")
    assert alone.get("/v1/stats").status == 401
    assert alone.get("/v1/stats", headers={"X-API-Key": key}).json["single_user"] is False
    (alone.data / "keys").unlink()
    assert alone.get("/v1/stats").status == 401


# ---- kill -9 ----

def kill_during_run(keyed, pid, name):
    """Kills a process while a run with a key is under way; returns that run's request."""
    body, headers = {"code": f"import time; time.sleep(5) # {name}"}, {"Idempotency-Key": name}

    def ask():
        try:
            keyed.request("alice", "POST", "/v1/run", body, headers)
        except (OSError, http_error):
            pass
    asking = threading.Thread(target=ask)
    asking.start()
    deadline = time.monotonic() + 10
    while keyed.request("operator", "GET", "/v1/stats").json["queue"]["running"] == 0:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    asking.join()
    return body, headers


def test_a_killed_server_leaves_one_outcome_for_each_run(keyed):
    done = keyed.run("alice", {"Idempotency-Key": "before"}, code="print('before')")
    code = "import time; time.sleep(5) # server"
    body, headers = kill_during_run(keyed, keyed.server.pid, "server")
    await_answer(keyed)
    for _ in range(2):
        answer = keyed.request("alice", "POST", "/v1/run", body, headers)
        assert answer.status == 500 and answer.error["code"] == "host_failure" and answer.headers["Idempotency-Replayed"] == "true"
        assert answer.headers["Content-Type"].startswith("application/json")
    (line,) = keyed.audit(code_sha256=hashlib.sha256(code.encode()).hexdigest())
    assert line["cause"] == "host_failure" and line["tenant"] == "alice"
    assert keyed.run("alice", {"Idempotency-Key": "before"}, code="print('before')").body == done.body


def test_a_killed_keeper_leaves_one_outcome_for_each_run(keyed):
    done = keyed.run("alice", {"Idempotency-Key": "before 2"}, code="print('before')")
    code = "import time; time.sleep(5) # keeper"
    body, headers = kill_during_run(keyed, keyed.server.process.pid, "keeper")
    keyed.server.process.wait()
    keyed.server.close()
    keyed.start()
    answer = keyed.request("alice", "POST", "/v1/run", body, headers)
    assert answer.status == 500 and answer.error["code"] == "host_failure", answer
    assert len(keyed.audit(code_sha256=hashlib.sha256(code.encode()).hexdigest())) == 1
    assert keyed.run("alice", {"Idempotency-Key": "before 2"}, code="print('before')").body == done.body


# ---- what is another tenant's does not exist ----

@pytest.fixture(scope="module")
def belongings(keyed):
    """One of each kind of alice's."""
    sandbox = keyed.request("alice", "POST", "/v1/sandboxes", {"metadata": {"secret": "alice"}}).json
    point = keyed.request("alice", "POST", f"/v1/sandboxes/{sandbox['id']}/checkpoints", {}).json
    assert keyed.request("alice", "PUT", "/v1/files/alice.csv", b"a,b\n1,2\n").status in (200, 201)
    result = keyed.run("alice", code="open('/data/output/x.txt','w').write('secret')", collect="url").json
    url = result["files"][0]["url"]
    assert keyed.request("alice", "GET", url).body == b"secret"
    yield {"sandbox": sandbox["id"], "context": sandbox["contexts"][0], "point": point["id"], "file": "alice.csv", "run": result["id"]}
    keyed.request("alice", "DELETE", f"/v1/sandboxes/{sandbox['id']}")


@pytest.fixture
def command(keyed, belongings, request):
    """A command of alice's that runs meanwhile."""
    if "{exec}" not in request.node.callspec.params["pattern"]:
        yield belongings
        return
    connection = keyed.server.connect()
    stream = keyed.server.open_stream(connection, f"/v1/sandboxes/{belongings['sandbox']}/exec", {"command": ["sleep", "60"], "stream": True},
                                      headers={"Authorization": f"Bearer {keyed.keys['alice']}"})
    name, started = next(server.read_events(stream))
    assert name == "started"
    yield {**belongings, "exec": started["id"]}
    stream.close()
    connection.close()


STRANGE = {"sandbox": "sbx_" + "0" * 22, "context": "ctx_" + "0" * 22, "point": "cp_" + "0" * 22, "file": "nobody.csv", "run": "run_" + "0" * 22,
           "exec": "exec_" + "0" * 22}
WEBSOCKET = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
BODIES = {"/run": {"code": "1"}, "/extend": {"ttl": "1h"}, "/contexts/{context}/extend": {"ms": 1000}, "/exec": {"command": ["true"]},
          "/exec/{exec}/signal": {"signal": "TERM"}, "/mkdir": {"path": "/tmp/x"}, "/move": {"from": "/tmp/x", "to": "/tmp/y"}}


def body_for(pattern):
    return next((BODIES[end] for end in sorted(BODIES, key=len, reverse=True) if pattern.endswith(end)), None)


def filled(pattern, ids):
    if pattern.startswith("/v1/files"):
        return re.sub(r"\{[^}]*\}", ids["file"], pattern)
    if pattern.startswith("/v1/runs"):
        return pattern.replace("{id}", ids["run"]).replace("{path...}", "x.txt")
    names = {"{id}": ids["sandbox"], "{context}": ids["context"], "{checkpoint}": ids["point"], "{exec}": ids.get("exec", "")}
    path = re.sub(r"\{[^}]*\}", lambda found: names[found.group()], pattern)
    return path + ("?path=/tmp/x" if "/files" in path and not body_for(pattern) else "")


def without_ids(answer, ids):
    text = answer.body.decode()
    for name in sorted(ids.values(), key=len, reverse=True):
        text = text.replace(name, "ID")
    headers = {name: value for name, value in answer.headers.items() if name not in ("Date", "Content-Length")}
    return answer.status, text, headers


WITH_IDS = [(method, pattern) for method, pattern in ROUTES if "{" in pattern and (method, pattern) not in OPEN
            and not (method == "PUT" and pattern == "/v1/files/{name}")]  # a name of one's own: nobody else's is touched


@pytest.mark.parametrize("method, pattern", WITH_IDS, ids=lambda value: str(value))
def test_what_is_another_tenants_answers_as_what_does_not_exist(keyed, command, method, pattern):
    belongings = command
    body = body_for(pattern)
    if method == "PUT":
        body = b"x"
    elif body is None and method == "POST":
        body = {}
    headers = WEBSOCKET if pattern.endswith("/pty") else {}
    theirs = keyed.request("bob", method, filled(pattern, belongings), body, headers)
    nobodys = keyed.request("bob", method, filled(pattern, STRANGE), body, headers)
    assert without_ids(theirs, belongings) == without_ids(nobodys, STRANGE)
    assert theirs.status == 404 and theirs.error["code"] == "not_found", theirs
    once = keyed.request("bob", method, filled(pattern, belongings), body, {**headers, "Idempotency-Key": f"matrix {method} {pattern}"})
    assert without_ids(once, belongings)[:2] == without_ids(nobodys, STRANGE)[:2]


def test_after_all_that_alice_has_everything(keyed, belongings):
    found = keyed.request("alice", "GET", f"/v1/sandboxes/{belongings['sandbox']}").json
    assert found["state"] == "running" and [point["id"] for point in found["checkpoints"]] == [belongings["point"]]
    assert keyed.request("alice", "GET", "/v1/files/alice.csv").body == b"a,b\n1,2\n"
    assert keyed.request("alice", "POST", f"/v1/sandboxes/{belongings['sandbox']}/run", {"code": "print(1)"}).json["stdout"] == "1\n"


def test_lists_show_ones_own(keyed, belongings):
    assert keyed.request("bob", "GET", "/v1/sandboxes").json == {"sandboxes": []}
    assert keyed.request("bob", "GET", "/v1/sandboxes?metadata.secret=alice").json == {"sandboxes": []}
    assert keyed.request("bob", "GET", "/v1/files").json["files"] == []
    assert [one["id"] for one in keyed.request("alice", "GET", "/v1/sandboxes").json["sandboxes"]] == [belongings["sandbox"]]


def test_a_page_of_a_list_tells_nothing_of_others(keyed):
    def cursor_of(tenant):
        made = [keyed.request(tenant, "POST", "/v1/sandboxes", {}).json["id"] for _ in range(2)]
        page = keyed.request(tenant, "GET", "/v1/sandboxes?limit=1").json
        assert [one["id"] for one in page["sandboxes"]] == made[:1]
        rest = keyed.request(tenant, "GET", f"/v1/sandboxes?limit=1&cursor={page['next']}").json
        assert [one["id"] for one in rest["sandboxes"]] == made[1:] and "next" not in rest
        for name in made:
            assert keyed.request(tenant, "DELETE", f"/v1/sandboxes/{name}").status == 204
        return page["next"]
    assert cursor_of("pager") == cursor_of("other-pager")  # whoever was before


def test_the_same_file_name_is_another_file(keyed, belongings):
    assert keyed.request("bob", "PUT", "/v1/files/alice.csv", b"mine").status in (200, 201)
    assert keyed.request("alice", "GET", "/v1/files/alice.csv").body == b"a,b\n1,2\n"
    assert keyed.run("bob", code="print(open('/data/input/d').read())", files=[{"name": "d", "upload": "alice.csv"}]).json["stdout"] == "mine\n"
    assert keyed.request("bob", "DELETE", "/v1/files/alice.csv").status == 204
    theirs = keyed.run("bob", code="1", files=[{"name": "d", "upload": "alice.csv"}])
    nobodys = keyed.run("bob", code="1", files=[{"name": "d", "upload": "nobody.csv"}])
    assert theirs.status == nobodys.status >= 400
    assert theirs.body.replace(b"alice", b"nobody") == nobodys.body


# ---- the queue ----

def test_a_hog_makes_others_wait_for_few_of_its_runs(keyed):
    """Two run at one time, and the hog has ten more in line when the guest comes. By order, not by the clock: a machine may be slow."""
    code = "import time; time.sleep(0.4) # hog"
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        hogs = [pool.submit(keyed.run, "hog", code=code) for _ in range(12)]
        deadline = time.monotonic() + 10
        while (queue := keyed.request("operator", "GET", "/v1/stats").json["queue"])["waiting"] < 9:
            assert time.monotonic() < deadline, queue
        assert queue["running"] == 2
        guests = [keyed.run("guest", code="print(1)") for _ in range(2)]
        statuses = [hog.result().status for hog in hogs]
    assert [guest.status for guest in guests] == [200, 200] and set(statuses) <= {200, 503}
    (last,) = keyed.audit(run=guests[1].json["id"])
    before = [line for line in keyed.audit(tenant="hog", code_sha256=hashlib.sha256(code.encode()).hexdigest()) if line["at"] <= last["at"]]
    assert len(before) <= 8, "the guest stood behind all of the hog's"


def test_who_waits_too_long_is_told_to_come_again(keyed):
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        long = [pool.submit(keyed.run, "hog", code="import time; time.sleep(3.6)") for _ in range(2)]
        time.sleep(0.3)
        answer = keyed.run("guest", {"Idempotency-Key": "late"}, code="print(1)")
        assert answer.status == 503 and answer.error["code"] == "overloaded" and int(answer.headers["Retry-After"]) >= 1
        assert [run.result().status for run in long] == [200, 200]
    again = keyed.run("guest", {"Idempotency-Key": "late"}, code="print(1)")  # nothing was done: the key is free
    assert again.status == 200 and "Idempotency-Replayed" not in again.headers


def test_control_traffic_does_not_wait(keyed):
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        runs = [pool.submit(keyed.run, "hog", code="while True: pass", limits={"wall": "600ms"}) for _ in range(4)]
        time.sleep(0.1)
        before = time.monotonic()
        for _ in range(20):
            assert keyed.request("guest", "GET", "/v1/sandboxes").status == 200
        assert time.monotonic() - before < 1.5
        assert {run.result().status for run in runs} == {200}


# ---- Idempotency-Key ----

def test_the_same_request_runs_once(keyed):
    headers = {"Idempotency-Key": "one"}
    first, second = (keyed.run("alice", headers, code="import random; print(random.random())") for _ in range(2))
    assert first.status == second.status == 200 and first.body == second.body
    assert "Idempotency-Replayed" not in first.headers and second.headers["Idempotency-Replayed"] == "true"
    assert len(keyed.audit(run=first.json["id"])) == 1


def test_another_request_with_the_key_is_a_conflict(keyed):
    headers = {"Idempotency-Key": "two"}
    assert keyed.run("alice", headers, code="print(1)").status == 200
    for answer in (keyed.run("alice", headers, code="print(2)"), keyed.request("alice", "POST", "/v1/sandboxes", {"code": "print(1)"}, headers)):
        assert answer.status == 409 and answer.error["code"] == "conflict" and answer.error["field"] == "Idempotency-Key"
    assert keyed.run("bob", headers, code="print(2)").status == 200  # keys are each tenant's own


@pytest.mark.parametrize("key", ["x" * 256, "", "a\tb", "é".encode("utf-8")])
def test_keys_that_cannot_be_are_refused(keyed, key):
    answer = keyed.run("alice", {"Idempotency-Key": key}, code="1")
    assert answer.status == 400 and answer.error["field"] == "Idempotency-Key"


def test_of_many_at_once_one_runs_and_all_get_its_outcome(keyed):
    answers = together(6, lambda _: keyed.run("alice", {"Idempotency-Key": "three"}, code="import time; time.sleep(0.4); print(time.time())"))
    assert {answer.status for answer in answers} == {200} and len({answer.body for answer in answers}) == 1
    assert len(keyed.audit(run=answers[0].json["id"])) == 1


def test_a_sandbox_is_made_once(keyed):
    answers = [keyed.request("bob", "POST", "/v1/sandboxes", {"metadata": {"n": "1"}}, {"Idempotency-Key": "box"}) for _ in range(2)]
    assert [answer.status for answer in answers] == [201, 201] and answers[0].body == answers[1].body
    assert len(keyed.request("bob", "GET", "/v1/sandboxes?metadata.n=1").json["sandboxes"]) == 1
    path = f"/v1/sandboxes/{answers[0].json['id']}/run"
    runs = [keyed.request("bob", "POST", path, {"code": "n = globals().get('n', 0) + 1\nprint(n)"}, {"Idempotency-Key": "in box"}) for _ in range(2)]
    assert [run.json["stdout"] for run in runs] == ["1\n", "1\n"]
    assert keyed.request("bob", "DELETE", f"/v1/sandboxes/{answers[0].json['id']}").status == 204


def test_the_record_of_one_shape_is_not_given_for_the_other(keyed):
    for number, (first, second) in enumerate((({}, {"Accept": "text/event-stream"}), ({"Accept": "text/event-stream"}, {}))):
        key = {"Idempotency-Key": f"shape {number}"}
        assert keyed.run("alice", {**key, **first}, code="print(1)").status == 200
        other = keyed.run("alice", {**key, **second}, code="print(1)")
        assert other.status == 409 and other.error["field"] == "Idempotency-Key" and "Accept" in other.error["hint"], other


def test_a_stream_is_given_again(keyed):
    headers = {"Idempotency-Key": "stream", "Accept": "text/event-stream"}
    first, second = (keyed.run("alice", headers, code="print('ä' * 3)", stream=True) for _ in range(2))
    assert first.status == second.status == 200 and first.body == second.body and b"event: end" in first.body
    assert second.headers["Content-Type"] == "text/event-stream" and second.headers["Idempotency-Replayed"] == "true"


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_finds_the_outcome_later(keyed, stream):
    headers = {"Idempotency-Key": f"gone {stream}", "Authorization": f"Bearer {keyed.keys['alice']}"}
    body = {"code": "import time; time.sleep(0.6); print('to the end')", "stream": stream}
    connection = keyed.server.connect()
    connection.request("POST", "/v1/run", json.dumps(body), headers)
    time.sleep(0.3)
    connection.close()
    answer = keyed.request("alice", "POST", "/v1/run", body, headers)
    assert answer.status == 200 and b"to the end" in answer.body and answer.headers["Idempotency-Replayed"] == "true"


def test_a_long_outcome_is_only_noted(keyed):
    headers = {"Idempotency-Key": "long"}
    first, second = (keyed.run("alice", headers, code="print('x' * 1500000)") for _ in range(2))
    assert first.status == second.status == 200 and len(first.json["stdout"]) == 1500001
    assert second.json["outcome_kept"] is False and second.json["outcome_bytes"] == len(first.body)


def test_a_key_is_not_used_up_by_a_mistake_nor_by_a_quota(keyed):
    for number, body in enumerate((b"{broken", {"code": "1", "limits": {"memory": "lots"}}, {"codes": "1"})):
        headers = {"Idempotency-Key": f"wrong {number}"}
        assert keyed.request("bob", "POST", "/v1/run", body, headers).status in (400, 422)
        right = keyed.run("bob", headers, code="print('right')")
        assert right.status == 200 and "Idempotency-Replayed" not in right.headers, right
        assert keyed.run("bob", headers, code="print('right')").headers["Idempotency-Replayed"] == "true"
    assert any(keyed.run("slow", code="1").status == 429 for _ in range(3))  # two a minute are gone, if they had come back
    over = [keyed.run("slow", {"Idempotency-Key": "over"}, code="1") for _ in range(2)]
    assert [answer.status for answer in over] == [429, 429] and "Idempotency-Replayed" not in over[1].headers


# ---- the audit log ----

def test_each_run_has_a_line(keyed):
    code = "open('/data/output/a', 'w').write('x'); import sys; sys.exit(3)"
    result = keyed.run("alice", code=code, language="python", limits={"memory": "300M"}).json
    (line,) = keyed.audit(run=result["id"])
    assert line["tenant"] == "alice" and line["key"].startswith("key_") and line["endpoint"] == "POST /v1/run"
    assert line["code_sha256"] == hashlib.sha256(code.encode()).hexdigest() and line["limits"]["memory"] == 300 << 20
    assert line["isolation"] == result["isolation"] and line["cause"] == "exit" and line["exit_code"] == 3
    assert line["usage"]["wall_ms"] == pytest.approx(result["usage"]["wall_ms"], abs=0.01)
    assert line["files"] == [{"path": "a", "size": 1, "sha256": hashlib.sha256(b"x").hexdigest()}] and line["at"] < line["ended_at"]


def test_runs_of_sandboxes_have_lines_too(keyed, belongings):
    path = f"/v1/sandboxes/{belongings['sandbox']}"
    one = keyed.request("alice", "POST", f"{path}/run", {"code": "2 + 2"}).json
    many = keyed.request("alice", "POST", f"{path}/fork", {"runs": [{"code": "print(1)"}, {"code": "1 / 0"}]}).json["results"]
    (line,) = keyed.audit(run=one["id"])
    assert line["sandbox"] == belongings["sandbox"] and line["endpoint"] == "POST /v1/sandboxes/{id}/run" and line["cause"] == "exit"
    for code, result in zip(("print(1)", "1 / 0"), many):
        (line,) = keyed.audit(run=result["id"])
        assert line["code_sha256"] == hashlib.sha256(code.encode()).hexdigest()


def lines_of(keyed, code):
    return keyed.audit(code_sha256=hashlib.sha256(code).hexdigest())


def test_what_is_refused_did_not_fail_by_the_host(keyed, belongings):
    answer = keyed.run("alice", code="'refused'", isolation="process", isolation_min="container")
    assert answer.status == 422, answer
    events = keyed.run("alice", code="'refused'", isolation="process", isolation_min="container", stream=True)
    assert {(line["cause"], line["error"]) for line in lines_of(keyed, b"'refused'")} == {("refused", "unprocessable")}, events
    path = f"/v1/sandboxes/{belongings['sandbox']}"
    assert keyed.request("alice", "POST", f"{path}/run", {"code": "'no context'", "context": "ctx_none"}).status == 404
    assert [(line["cause"], line["error"]) for line in lines_of(keyed, b"'no context'")] == [("refused", "not_found")]
    assert keyed.request("alice", "POST", f"{path}/fork", {"context": "ctx_none", "runs": [{"code": "'no copies'"}]}).status == 404
    assert [(line["cause"], line["error"]) for line in lines_of(keyed, b"'no copies'")] == [("refused", "not_found")]
    short = keyed.request("alice", "POST", "/v1/sandboxes", {"runs_max": 1}).json["id"]
    codes = [keyed.request("alice", "POST", f"/v1/sandboxes/{short}/run", {"code": "'one run'"}).status for _ in range(2)]
    assert codes == [200, 409] and sorted(line["cause"] for line in lines_of(keyed, b"'one run'")) == ["exit", "refused"]
    keyed.request("alice", "DELETE", f"/v1/sandboxes/{short}")
    assert not keyed.audit(cause="host_failure", endpoint="POST /v1/sandboxes/{id}/run")


def test_lines_say_what_ran_and_in_what(keyed, belongings):
    code = b"print('as bytes')"
    result = keyed.run("alice", code_base64=base64.b64encode(code).decode(), isolation="process").json
    (line,) = keyed.audit(run=result["id"])
    assert line["code_sha256"] == hashlib.sha256(code).hexdigest()
    assert line["language"] == "python" and line["isolation"] == result["isolation"] == "process"
    result = keyed.run("alice", command=["true"]).json
    (line,) = keyed.audit(run=result["id"])
    assert "language" not in line and line["isolation"] == result["isolation"]
    path = f"/v1/sandboxes/{belongings['sandbox']}"
    context = keyed.request("alice", "POST", f"{path}/contexts", {"language": "bash"}).json["id"]
    result = keyed.request("alice", "POST", f"{path}/run", {"code": "echo 1", "context": context}).json
    (line,) = keyed.audit(run=result["id"])
    assert line["language"] == "bash" and line["isolation"] == "container"
    assert keyed.request("alice", "DELETE", f"{path}/contexts/{context}").status == 204
