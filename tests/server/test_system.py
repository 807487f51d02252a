"""Figures, description, privileges, start, end, restart."""
import fcntl
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

import box
import leftovers
import pytest
import records
import server

METRIC_LINE = re.compile(r'^[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? -?[0-9.e+-]+$')


def status_of(pid):
    return dict(line.split(":\t", 1) for line in pathlib.Path("/proc", str(pid), "status").read_text().splitlines() if ":\t" in line)


# ---- figures ----

def value(text, name):
    return float(re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)[1])


def milestones(serving, name):
    text = serving.get("/metrics").body.decode()
    return [value(text, f'cloche_run_milestone_seconds_{name}{{milestone="T{i}"}}') for i in range(1, 5)]


@pytest.mark.parametrize("warm", [True, False])
def test_milestones_of_a_run_follow_each_other(serving, warm):
    counts, sums = milestones(serving, "count"), milestones(serving, "sum")
    assert serving.post("/v1/run", {"code": "import time; time.sleep(0.1); print(1)", "warm": warm}).status == 200
    for _ in range(100):  # a warm box is taken away behind the answer
        if milestones(serving, "count")[3] > counts[3]:
            break
        time.sleep(0.05)
    assert milestones(serving, "count") == [count + 1 for count in counts]
    started, output, ended, cleared = (now - before for now, before in zip(milestones(serving, "sum"), sums))
    assert 0 < started < output and output - started >= 0.1 and output <= ended < cleared < 20


def test_runs_without_output_have_no_moment_of_it(serving):
    before = milestones(serving, "count")
    assert serving.post("/v1/run", {"code": "pass"}).status == 200
    assert [now - then for now, then in zip(milestones(serving, "count"), before)][:3] == [1, 0, 1]


def test_metrics_are_in_prometheus_format_and_count(serving):
    before = serving.get("/metrics")
    assert before.status == 200 and before.headers["Content-Type"].startswith("text/plain")
    text = before.body.decode()
    assert not [line for line in text.splitlines() if line and not line.startswith("#") and not METRIC_LINE.match(line)]
    assert serving.post("/v1/run", {"code": "print(1)"}).status == 200
    after = serving.get("/metrics").body.decode()
    for name in ('cloche_runs_total{cause="exit"}', "cloche_run_duration_seconds_count", 'cloche_http_responses_total{class="2xx"}'):
        assert value(after, name) == value(text, name) + 1, name
    pools = sum(value(after, f'cloche_pool_{name}_total{{kind="python",image="host",preload="default"}}') for name in ("hits", "misses"))
    assert pools >= 1
    assert value(after, 'cloche_memory_bytes{process="server"}') > 1 << 20


def test_stats_tell_of_pool_memory_and_machine(serving):
    stats = serving.get("/v1/stats").json
    assert stats["single_user"] is True and stats["connections"] >= 1 and stats["machine"]["cpus"] == os.cpu_count()
    assert {kind["kind"] for kind in stats["pool"]["kinds"]} >= {"python", "bash"}
    assert stats["memory"]["keeper_bytes"] > 0


def test_doctor_names_the_layers(serving):
    told = serving.get("/v1/doctor").json
    engines = {engine["isolation"]: engine for engine in told["engines"]}
    assert set(engines) == {"gvisor", "container", "wasm", "process"} and all(engine["usable"] for engine in engines.values()), told
    assert "seccomp" in {layer["name"] for layer in engines["container"]["layers"]}


# ---- the description ----

def check(value, schema, root, where="answer"):
    """As much of JSON Schema as the description uses."""
    if "$ref" in schema:
        schema = root["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "enum" in schema:
        assert value in schema["enum"], (where, value)
    if "const" in schema:
        assert value == schema["const"], where
    kinds = schema.get("type")
    names = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None)}
    if kinds:
        kinds = [kinds] if isinstance(kinds, str) else kinds
        assert any(isinstance(value, names[kind]) for kind in kinds), (where, kinds, value)
    if isinstance(value, dict):
        missing = set(schema.get("required", ())) - set(value)
        assert not missing, (where, missing)
        for name, item in value.items():
            known = schema.get("properties", {}).get(name, schema.get("additionalProperties", {}))
            assert known is not False, (where, f"{name} is not described")
            if isinstance(known, dict):
                check(item, known, root, f"{where}.{name}")
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            check(item, schema["items"], root, f"{where}[{index}]")


def answer_schema(root, path, method, status):
    answer = root["paths"][path][method]["responses"][str(status)]
    if "$ref" in answer:
        answer = root["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    return answer["content"]["application/json"]["schema"]


def test_answers_are_as_described(serving):
    root = serving.get("/v1/openapi.json").json
    assert root["openapi"].startswith("3.1")
    for path in ("/health", "/ready", "/v1/doctor", "/v1/stats"):
        check(serving.get(path).json, answer_schema(root, path, "get", 200), root, path)
    for body, status in [({"code": "print(1)"}, 200), ({"code": "open('x', 'w').write('1')", "collect": True}, 200), ({"code": "1", "language": "c"}, 200),
                         ({"code": "import os; os.kill(os.getpid(), 9)"}, 200), ({"nonsense": 1}, 400), ({"code": "1", "limits": {"wall": "x"}}, 422)]:
        answer = serving.post("/v1/run", body)
        assert answer.status == status, answer
        check(answer.json, answer_schema(root, "/v1/run", "post", status), root, json.dumps(body))


def test_every_route_is_described_and_every_description_is_a_route(serving):
    """The table of routes is the sources'; what is served to browsers only is not the API."""
    described = {(method.upper(), re.sub(r"\{[^}]*\}", "{}", path)) for path, item in json.loads((box.ROOT / "docs" / "openapi.json").read_text())["paths"].items()
                 for method in item if method in ("get", "post", "put", "delete", "patch", "head")}
    rows = set()
    for path in sorted((box.ROOT / "src" / "server").glob("*.c")):
        rows |= {(method, re.sub(r"\{[^}]*\}", "{}", pattern)) for method, pattern in re.findall(r'\{\s*"([A-Z]+)",\s*"(/[^"]*)"', path.read_text())}
    rows -= {("GET", "/"), ("GET", "/assets/pyodide/{}"), ("GET", "/assets/{}")}
    assert rows, "the tables of routes are not found"
    assert rows - described == set(), "not in docs/openapi.json"
    assert described - rows == set(), "in docs/openapi.json, but no route"


def test_known_limits_are_described():
    described = json.loads((box.ROOT / "docs" / "openapi.json").read_text())["components"]["schemas"]["Limits"]["properties"]
    assert set(described) == set(re.findall(r"^\s*X\((\w+), LIMIT_", (box.ROOT / "src/spec/limits.h").read_text(), re.M))


# ---- privileges ----

def test_server_process_has_no_rights(serving):
    status = status_of(serving.pid)
    assert status["Seccomp"] == ("0" if server.SANITIZED else "2") and status["NoNewPrivs"] == "1"
    assert all(int(status[name], 16) == 0 for name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb"))
    uids, gids = (set(map(int, status[name].split())) for name in ("Uid", "Gid"))
    assert len(uids) == 1 and len(gids) == 1 and not status["Groups"].split()
    assert uids != {0} and not 0x7d000000 <= min(uids) < 0x7d010000, "the uid is root's or a box's"
    limits = pathlib.Path("/proc", str(serving.pid), "limits").read_text()
    assert re.search(r"Max core file size\s+0\s+0", limits)


def test_server_process_holds_nothing_that_it_does_not_need(serving):
    allowed = re.compile(r"^(socket:|pipe:|anon_inode:|/dev/null|/proc/\d+/statm|" + re.escape(str(serving.data)) + r"|/memfd:|.*/pyodide$)")  # the last: what pages fetch, read-only
    held = [os.readlink(link) for link in pathlib.Path("/proc", str(serving.pid), "fd").iterdir()]
    assert not [name for name in held if not allowed.match(name)], held
    environment = pathlib.Path("/proc", str(serving.pid), "environ").read_bytes()
    assert b"CLOCHE" not in environment and b"HOME" not in environment


def test_data_directory_is_closed_to_others(serving):
    there = serving.data.stat()
    assert there.st_mode & 0o777 == 0o700 and there.st_uid == int(status_of(serving.pid)["Uid"].split()[0])


def test_main_program_does_not_carry_the_http_library():
    assert b"libmicrohttpd" not in box.CLOCHE.read_bytes()


# ---- start ----

def test_ready_in_under_a_second_and_says_what_it_is(serving):
    assert serving.ready_s < 1.0 * (3 if os.getloadavg()[0] > 3 else 1)
    assert "single-user" in "".join(serving.said) and f":{serving.port}" in "".join(serving.said)


@pytest.mark.parametrize("arguments, message", [
    (["--listen", "0.0.0.0:0"], "key"), (["--listen", "[::]:0"], "key"), (["--listen", "somewhere:1"], "ADDRESS:PORT"), (["--listen", "127.0.0.1:99999"], "ADDRESS:PORT"),
    (["--tls-cert", "/dev/null"], "tls-key"), (["--spares", "many"], "spares"), (["--config", "/no/such/file"], "/no/such/file"), (["extra"], "extra"),
])
def test_refuses_to_start(tmp_path, arguments, message):
    done = box.raw("serve", "--data", tmp_path / "data", *arguments, timeout=20)
    assert done.returncode == box.BAD_SPEC and message in done.stderr.decode(), done


def test_directory_of_somebody_else_is_not_taken(tmp_path):
    (tmp_path / "mine").write_text("x")
    done = box.raw("serve", "--listen", "127.0.0.1:0", "--data", tmp_path, timeout=20)
    if tmp_path.stat().st_uid == os.geteuid() and os.geteuid() == 0:
        assert done.returncode == box.BAD_SPEC and "not a server's" in done.stderr.decode()
    assert tmp_path.stat().st_uid == os.geteuid()


def test_two_servers_do_not_share_a_directory(serving):
    done = box.raw("serve", "--listen", "127.0.0.1:0", "--data", serving.data, timeout=20)
    assert done.returncode == box.BAD_SPEC and "another server" in done.stderr.decode(), done
    done = box.raw("serve", "--listen", f"127.0.0.1:{serving.port}", "--data", serving.place / "other", timeout=20)
    assert done.returncode == box.HOST_FAILURE and "listen" in done.stderr.decode(), done


def test_what_is_left_of_a_server_that_was_killed_is_waited_for(tmp_path):
    """A moment after a kill, its parts may still have the directory and the address."""
    (tmp_path / "data").mkdir()
    held = os.open(tmp_path / "data", os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(held, fcntl.LOCK_EX)
    address = socket.socket()
    address.bind(("127.0.0.1", 0))
    address.listen()
    threading.Timer(0.4, lambda: (os.close(held), address.close())).start()
    with server.Server(listen=f"127.0.0.1:{address.getsockname()[1]}", data=tmp_path / "data") as late:
        assert late.get("/health").status == 200


def test_operators_ceiling_holds(fresh, tmp_path):
    config = tmp_path / "cloche.conf"
    config.write_text("memory.max = 256M\nmemory = 128M\n")
    config.chmod(0o600)
    serving = fresh("--config", config)
    answer = serving.post("/v1/run", {"code": "1", "limits": {"memory": "512M"}})
    assert answer.status == 422 and answer.error["field"] == "memory" and str(config) in answer.error["message"]
    assert serving.post("/v1/run", {"code": "print(1)", "preset": "analyst"}).json["stdout"] == "1\n"


def test_tls(fresh, tmp_path):
    import ssl
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", certificate, "-days", "1",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)
    key.chmod(0o600)
    serving = fresh("--tls-cert", certificate, "--tls-key", key)
    context = ssl.create_default_context(cafile=certificate)
    import http.client
    connection = http.client.HTTPSConnection("localhost", serving.port, context=context, timeout=20)
    assert serving.post("/v1/run", {"code": "print(1)"}, connection=connection).json["stdout"] == "1\n"
    connection.close()
    assert "https://" in "".join(serving.said)


# ---- end and restart ----

def test_sigterm_lets_a_run_finish(fresh):
    serving = fresh()
    connection = serving.connect()
    connection.request("POST", "/v1/run", json.dumps({"code": "import time; time.sleep(1.5); print('done')"}))
    time.sleep(0.7)
    serving.process.send_signal(signal.SIGTERM)
    response = connection.getresponse()
    assert json.loads(response.read())["stdout"] == "done\n"
    assert serving.process.wait(10) == 0
    with pytest.raises(OSError):
        serving.get("/health")


def test_who_comes_while_a_server_ends_is_told_so(fresh):
    serving = fresh()
    connection, kept = serving.connect(), serving.connect()
    assert serving.get("/health", connection=kept).json == {"status": "ok"}
    connection.request("POST", "/v1/run", json.dumps({"code": "import time; time.sleep(2.5); print('done')"}))
    time.sleep(0.7)
    serving.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    for given in ({}, {"connection": kept}):
        refused = serving.post("/v1/run", {"code": "1"}, **given)
        assert refused.status == 503 and refused.error["code"] == "overloaded", refused
        assert int(refused.headers["Retry-After"]) > 0 and refused.headers["Connection"].lower() == "close", refused.headers
    assert serving.get("/health").json == {"status": "draining"} and serving.get("/ready").status == 503
    assert json.loads(connection.getresponse().read())["stdout"] == "done\n"
    assert serving.process.wait(10) == 0


def test_idle_connections_do_not_hold_up_the_end(fresh):
    serving = fresh()
    held = [serving.socket() for _ in range(5)]
    started = time.monotonic()
    assert serving.stop() == 0
    assert time.monotonic() - started < 5
    for connection in held:
        connection.close()


def test_server_that_dies_is_started_again(fresh):
    serving = fresh()
    for _ in range(2):
        pid = serving.pid
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while True:
            try:
                if serving.pid not in (None, pid) and serving.post("/v1/run", {"code": "print(1)"}).status == 200:
                    break
            except OSError:
                pass
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert "started again (2)" in "".join(serving.said)


def test_killed_keeper_takes_all_with_it_and_the_next_one_cleans_up(fresh, tmp_path):
    before = box.census()
    serving = fresh("--spares", "2", data=tmp_path / "data")
    connection = serving.connect()
    connection.request("POST", "/v1/run", json.dumps({"code": "import time; time.sleep(20)"}))
    time.sleep(0.7)
    pid = serving.pid
    serving.process.kill()
    serving.process.wait()
    connection.close()
    deadline = time.monotonic() + 5
    while os.path.exists(f"/proc/{pid}"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    again = fresh(data=tmp_path / "data")
    assert again.post("/v1/run", {"code": "print(1)"}).json["stdout"] == "1\n"
    again.stop()
    assert not leftovers.leftovers(before, 5)


def test_files_that_are_kept_survive_a_restart_and_others_do_not(fresh, tmp_path):
    data = tmp_path / "data"
    serving = fresh(data=data)
    url = serving.post("/v1/run", {"code": "open('x', 'w').write('1')", "collect": "url"}).json["files"][0]["url"]
    serving.stop()
    left = data / "runs" / ("run_" + "a" * 22)
    left.mkdir()
    os.chown(left, data.stat().st_uid, data.stat().st_gid)
    again = fresh(data=data)
    assert again.get(url).body == b"1"
    assert not left.exists()


def test_what_ends_a_little_later_than_its_server_is_removed_too(fresh):
    """The kernel may still be ending what a killed server left when the next one looks."""
    number = 64999
    with records.owned(number):
        fresh()
        time.sleep(0.7)  # it has looked, and somebody lives
    assert number in records.taken()
    deadline = time.monotonic() + 5
    while number in records.taken() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert number not in records.taken()
