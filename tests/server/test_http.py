"""The server as an HTTP server: what clients do wrong, slowly, or too much of."""
import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time

import box
import pytest
import server

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def request_bytes(body, path="/v1/run", headers=b""):
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\n\r\n%s" % (path.encode(), headers, len(body), body)


def statuses(raw):
    return [int(code) for code in re.findall(rb"HTTP/1.1 (\d+) ", raw)]


def test_health_and_ready(serving):
    assert serving.get("/health").json == {"status": "ok"}
    assert serving.get("/ready").json == {"status": "ready"}
    head = serving.request("HEAD", "/health")
    assert head.status == 200 and head.body == b""


def test_unknown_paths_and_methods(serving):
    answer = serving.get("/v1/nothing")
    assert (answer.status, answer.error["code"]) == (404, "not_found")
    answer = serving.get("/v1/run")
    assert (answer.status, answer.error["code"], answer.headers["Allow"]) == (405, "method_not_allowed", "POST")
    answer = serving.request("BREW", "/health")
    assert answer.status == 405 and "GET" in answer.headers["Allow"]
    answer = serving.request("OPTIONS", "/v1/run")
    assert answer.status == 204 and answer.headers["Allow"] == "POST"


def test_errors_leave_the_connection_usable(serving):
    connection = serving.connect()
    for _ in range(3):
        assert serving.get("/v1/nothing", connection=connection).status == 404
        assert serving.post("/v1/run", {"kode": 1}, connection=connection).status == 400
        assert serving.get("/health", connection=connection).status == 200
    connection.close()


def test_pipelined_requests_are_answered_in_order(serving):
    raw = serving.raw(HEALTH + request_bytes(b'{"code":"print(1)"}') + b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n" + LAST)
    assert statuses(raw) == [200, 200, 404, 200]
    assert raw.index(b'"stdout":"1\\n"') < raw.index(b"not_found")


def test_chunked_bodies(serving):
    body = b'{"code":"print(5)"}'
    chunks = b"".join(b"%x\r\n%s\r\n" % (1, body[i:i + 1]) for i in range(len(body))) + b"0\r\n\r\n"
    raw = serving.raw(b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + chunks)
    assert statuses(raw) == [200] and b'"stdout":"5\\n"' in raw


@pytest.mark.parametrize("headers", [b"Content-Length: -1\r\n", b"Content-Length: x\r\n", b"Content-Length: 99999999999999999999999\r\n"])
def test_wrong_lengths_are_refused(serving, headers):
    raw = serving.raw(b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n{}")
    assert not raw or statuses(raw)[0] in (400, 413)


def test_both_lengths_are_refused_or_the_connection_ends(serving):
    """What one reader takes for a body another may take for a request."""
    raw = serving.raw(b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + LAST)
    assert len(statuses(raw)) <= 1 or statuses(raw)[0] == 400


def test_body_that_is_announced_too_large_is_refused_unread(serving):
    started = time.monotonic()
    raw = serving.raw(b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000000\r\n\r\n")
    assert statuses(raw) == [413] and b"too_large" in raw
    assert time.monotonic() - started < 5


def test_body_that_turns_out_too_large_is_refused(serving):
    piece = b"%x\r\n%s\r\n" % (1 << 20, b" " * (1 << 20))
    with serving.socket() as connection:
        connection.sendall(b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(66):
                connection.sendall(piece)
            connection.sendall(b"0\r\n\r\n")
        except OSError:
            pass
        raw = server.read_until_quiet(connection, 2)
    assert statuses(raw) in ([413], [])
    assert serving.get("/health").status == 200


def test_large_body_within_the_limit(serving):
    answer = serving.post("/v1/run", {"code": "import sys; print(len(sys.stdin.read()))", "stdin": "x" * (20 << 20)})
    assert answer.json["stdout"] == f"{20 << 20}\n"


@pytest.mark.parametrize("headers", [b"X: " + b"y" * 200000 + b"\r\n", b"".join(b"X-%d: y\r\n" % i for i in range(20000))],
                         ids=["one", "many"])
def test_huge_headers_are_refused(serving, headers):
    try:
        raw = serving.raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n")
    except ConnectionError:
        raw = b""
    assert not raw or statuses(raw)[0] in (400, 413, 414, 431)
    assert serving.get("/health").status == 200


@pytest.mark.parametrize("request_line, headers", [(b"GET /health HTTP/1.1", b""), (b"GET /health?a b HTTP/1.1", b"Host: localhost\r\n"),
                                                   (b"GET /he alth HTTP/1.1", b"Host: localhost\r\n"), (b"POST /v1/run HTTP/1.1", b"Content-Length: 2\r\n")])
def test_what_is_nearly_a_request_is_refused_in_our_words(serving, request_line, headers):
    raw = serving.raw(request_line + b"\r\n" + headers + b"\r\n")
    head, _, body = raw.partition(b"\r\n\r\n")
    assert statuses(raw) == [400] and b"Connection: close" in head, raw
    assert json.loads(body)["error"]["code"] == "bad_request"


def test_old_requests_need_no_host(serving):
    assert statuses(serving.raw(b"GET /health HTTP/1.0\r\n\r\n")) == [200]


def test_huge_targets_are_refused(serving):
    raw = serving.raw(b"GET /" + b"a" * 200000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert not raw or statuses(raw)[0] in (400, 404, 413, 414, 431)


@pytest.mark.parametrize("garbage", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\0" * 1000, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 1000])
def test_garbage_ends_the_connection_only(serving, garbage):
    with serving.socket() as connection:
        connection.sendall(garbage)
        connection.shutdown(socket.SHUT_WR)
        server.read_until_quiet(connection, 0.5)
    assert serving.get("/health").status == 200


def test_half_open_and_slow_clients_hold_up_nobody(serving):
    """Fifty that never finish their headers, fifty that never finish their body."""
    held = []
    for i in range(100):
        connection = serving.socket()
        connection.sendall(b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\n" + (b"Content-Length: 100\r\n\r\n{" if i % 2 else b"X-Slow"))
        held.append(connection)
    started = time.monotonic()
    assert serving.post("/v1/run", {"code": "print(1)"}).status == 200
    assert time.monotonic() - started < 5
    for connection in held:
        connection.close()


def test_bytes_one_by_one(serving):
    with serving.socket() as connection:
        for byte in request_bytes(b'{"code":"print(7)"}', headers=b"Connection: close\r\n"):
            connection.sendall(bytes([byte]))
        raw = server.read_until_quiet(connection)
    assert b'"stdout":"7\\n"' in raw


def test_client_that_sends_half_a_body_and_goes(serving):
    with serving.socket() as connection:
        connection.sendall(b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{\"code\":")
    assert serving.get("/health").status == 200


def test_expectation_of_continue(serving):
    with serving.socket() as connection:
        connection.sendall(b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: 19\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b'{"code":"print(8)"}')
        assert b'"stdout":"8\\n"' in server.read_until_quiet(connection)


# ---- pages of other sites ----

@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "127.0.0.1:8420", "[::1]:8420", "LOCALHOST"])
def test_names_of_this_machine_are_served(serving, host):
    assert serving.get("/health", headers={"Host": host}).status == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "10.0.0.1", "", "[::2]:1"])
def test_foreign_names_are_refused(serving, host):
    """A page whose name was made to resolve to 127.0.0.1 sends its own name."""
    answer = serving.post("/v1/run", {"code": "print(1)"}, headers={"Host": host})
    assert answer.status == 403 and answer.error["code"] == "forbidden"


def test_names_of_a_proxy_are_served_when_the_operator_says_so(fresh, tmp_path):
    (tmp_path / "conf").write_text("server.names = box.example, other.example\n")
    serving = fresh("--config", tmp_path / "conf")
    for host in ("box.example", "OTHER.example:443", "localhost"):
        assert serving.get("/v1/files", headers={"Host": host, "Origin": f"https://{host}"}).status == 200, host
    for host in ("box.example.evil.example", "example", "xbox.example", "box.example:x"):
        assert serving.get("/v1/files", headers={"Host": host}).status == 403, host
    answer = serving.get("/v1/files", headers={"Host": "box.example", "Origin": "https://evil.example"})
    assert answer.status == 403 and "server.names" in answer.error["hint"]


def test_pages_of_other_origins_are_refused_and_our_own_is_not(serving):
    own = f"127.0.0.1:{serving.port}"
    assert serving.post("/v1/run", {"code": "1"}, headers={"Host": own, "Origin": f"http://{own}"}).status == 200
    for origin in ("http://evil.example", "null", f"http://{own}.evil.example", "http://localhost:9"):
        assert serving.post("/v1/run", {"code": "1"}, headers={"Host": own, "Origin": origin}).status == 403, origin
    # Frames of no origin, in which the playground shows pages of guests, have its style sheet, and nothing else.
    assert serving.get("/assets/frame.css", headers={"Host": own, "Origin": "null"}).status == 200
    assert serving.get("/v1/files", headers={"Host": own, "Origin": "null"}).status == 403
    assert serving.get("/assets/frame.css", headers={"Host": "evil.example", "Origin": "null"}).status == 403


# ---- the playground and the description ----

def test_playground_is_served_with_a_strict_policy(serving):
    page = serving.get("/")
    assert page.status == 200 and page.headers["Content-Type"].startswith("text/html")
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    again = serving.get("/", headers={"If-None-Match": page.headers["ETag"]})
    assert again.status == 304 and not again.body
    assert serving.get("/assets/../../etc/passwd").status == 404


def test_cell_may_connect_to_nothing(serving):
    policy = dict(part.split(" ", 1) for part in serving.get("/assets/cell/frame.html").headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == policy["connect-src"] == "'none'"
    assert policy["sandbox"] == "allow-scripts" and policy["worker-src"] == "blob:" and policy["frame-ancestors"] == "'self'"
    # Its own script by its hash, what it is handed, and nothing that has an address.
    assert re.fullmatch(r"'sha256-[\w+/]{43}=' blob: 'unsafe-eval' 'wasm-unsafe-eval'", policy["script-src"])


PYODIDE = {"pyodide.mjs": "text/javascript; charset=utf-8", "pyodide.asm.mjs": "text/javascript; charset=utf-8", "pyodide.asm.wasm": "application/wasm",
           "python_stdlib.zip": "application/zip", "pyodide-lock.json": "application/json"}


def test_python_for_browsers_is_served_where_it_is_installed(tmp_path):
    """Of a program in a place of its own, with and without the directory."""
    for program in (box.CLOCHE, *box.OTHER_PROGRAMS, box.BUILD / "cloche-server"):
        shutil.copy(program, tmp_path)
    with server.Server(program=tmp_path / "cloche") as bare:
        missing = bare.get("/assets/pyodide/pyodide.asm.wasm")
        assert missing.status == 404 and missing.error["code"] == "not_installed" and "setup/install-pyodide" in missing.error["hint"]
    place = tmp_path / "pyodide"
    place.mkdir()
    place.chmod(0o755)
    for name in PYODIDE:
        (place / name).write_text(f"content of {name}")
    (place / "other.txt").write_text("not for the world")
    (tmp_path / "secret").write_text("secret")
    with server.Server(program=tmp_path / "cloche") as serving:
        for name, kind in PYODIDE.items():
            answer = serving.get(f"/assets/pyodide/{name}")
            assert (answer.status, answer.headers["Content-Type"], answer.body.decode()) == (200, kind, f"content of {name}")
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            again = serving.get(f"/assets/pyodide/{name}", headers={"If-None-Match": answer.headers["ETag"]})
            assert again.status == 304 and not again.body
        for name in ("other.txt", "..%2fsecret", "../secret", "pyodide.mjs/", "installed.json"):
            assert serving.get(f"/assets/pyodide/{name}").status == 404, name
        (place / "pyodide.mjs").unlink()
        (place / "pyodide.mjs").symlink_to(tmp_path / "secret")
        assert serving.get("/assets/pyodide/pyodide.mjs").status == 404


def test_python_for_browsers_is_installed_where_it_was_fetched(tmp_path):
    fetched, prefix = tmp_path / "fetched", tmp_path / "prefix"
    fetched.mkdir()

    def install():
        return subprocess.run([box.ROOT / "setup" / "put-pyodide", fetched, "share/cloche/pyodide"], check=True, capture_output=True, text=True,
                              env={**os.environ, "MESON_INSTALL_DESTDIR_PREFIX": str(prefix)}).stdout

    assert "make pyodide" in install() and not prefix.exists()
    for content in ("one", "two"):
        for name in ("pyodide.mjs", "installed.json"):
            (fetched / name).write_text(content)
        install()
        assert {path.name: path.read_text() for path in (prefix / "share/cloche/pyodide").iterdir()} == {"pyodide.mjs": content, "installed.json": content}


def test_hundreds_of_streams_at_one_time_cost_little(serving):
    """Idle streams, held open, must not cost a megabyte each. (The thousand of the bench are held there.)"""
    def resident():
        return serving.get("/v1/stats").json["memory"]["server_bytes"]
    before = resident()
    held = []
    for _ in range(300):
        connection = serving.socket()
        connection.sendall(HEALTH)
        held.append(connection)
    for connection in held:
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
    grown = resident() - before
    for connection in held:
        connection.close()
    assert grown / 300 < (45 << 10) * (8 if server.SANITIZED else 1), f"{grown / 300 / 1024:.0f} KiB each"


def test_requests_of_many_threads(serving):
    wrong = []

    def client():
        connection = serving.connect()
        for _ in range(100):
            if serving.get("/health", connection=connection).status != 200:
                wrong.append(1)
        connection.close()
    threads = [threading.Thread(target=client) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- what stands after the question mark ----

@pytest.mark.parametrize("method, path, field, meant", [
    ("POST", "/v1/run?stream=true", "stream", None), ("PUT", "/v1/files/x?tl=1s", "tl", "ttl"), ("GET", "/v1/files?limt=3", "limt", "limit"),
    ("GET", "/v1/files?limit=abc", "limit", None), ("GET", "/v1/sandboxes?limt=3", "limt", "limit"), ("GET", "/v1/doctor?x", "x", None),
    ("GET", "/v1/sandboxes/{id}?usage=1", "usage", None), ("GET", "/v1/sandboxes/{id}/files/list?path=/tmp&depth=abc", "depth", None),
    ("GET", "/v1/sandboxes/{id}/files/list?path=/tmp&depht=2", "depht", "depth"), ("GET", "/v1/sandboxes/{id}/files?path=/tmp&=1", "", None),
    ("DELETE", "/v1/sandboxes/{id}?force=1", "force", None)])
def test_parameters_that_nobody_reads_are_refused_by_name(serving, living, method, path, field, meant):
    answer = serving.request(method, path.replace("{id}", living), b"{}" if method in ("POST", "PUT") else None)
    assert answer.status == 400 and answer.error.get("field", "") == field, answer
    assert not meant or f"'{meant}'" in answer.error["message"], answer
    assert serving.get("/health?any=1").status == 200 and serving.get("/?any=1").status == 200


@pytest.fixture(scope="module")
def living(serving):
    made = serving.post("/v1/sandboxes", {}).json["id"]
    yield made
    assert serving.delete(f"/v1/sandboxes/{made}").status == 204


@pytest.mark.parametrize("fields, meant", [({"argv": ["ls"]}, "command"), ({"code": "1", "limits": {"memroy": "1G"}}, "limits.memory"),
                                           ({"code": "1", "lang": "python"}, "language"), ({"cod": "1"}, "code")])
def test_what_was_meant_is_told(serving, fields, meant):
    answer = serving.post("/v1/run", fields)
    assert answer.status in (400, 422) and f"did you mean '{meant}'" in answer.error["message"], answer
