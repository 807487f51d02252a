"""Hard knocks: what clients send that no client should, and how they behave. Whatever it is, the server lives, is the same
process as before, answers others promptly, and keeps nothing of it: neither memory nor descriptors nor threads."""
import base64
import os
import pathlib
import re
import resource
import socket
import struct
import threading
import time

import pytest
import server

PROMPT_S = 3.0  # on a machine that builds and tests at the same time; alone it takes a millisecond
HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
# What is answered shows up in the answer: "there is nothing at /smuggled".
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"


def statuses(raw):
    return [int(code) for code in re.findall(rb"HTTP/1\.[01] (\d+) ", raw)]


IS_SANITIZED = os.environ.get("CLOCHE_BUILD", "").endswith("-sanitized")  # then freed memory is kept, to see who uses it


class Weight:
    """What the server has: descriptors, threads, memory."""

    def __init__(self, pid):
        place = pathlib.Path("/proc", str(pid))
        self.descriptors = len(os.listdir(place / "fd"))
        self.threads = len(os.listdir(place / "task"))
        sizes = re.findall(r"^Private_\w+:\s+(\d+)", (place / "smaps_rollup").read_text(), re.M)
        self.private_kb = 0 if IS_SANITIZED else sum(map(int, sizes))

    def __repr__(self):
        return f"{self.descriptors} descriptors, {self.threads} threads, {self.private_kb} KB"


@pytest.fixture(scope="module")
def knocked(census):
    """A server of this module's own; at the end it must be the same process, and weigh what it did."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with server.Server("--spares", "1", "--preload", "json") as started:
        pid = started.pid
        assert started.post("/v1/run", {"code": "print(1)"}).json["stdout"] == "1\n"
        yield started
        assert started.pid == pid, "the server died and was started anew"


@pytest.fixture(autouse=True)
def others_are_served(knocked):
    pid = knocked.pid
    yield
    started = time.monotonic()
    assert knocked.get("/health").status == 200
    assert time.monotonic() - started < PROMPT_S
    assert knocked.pid == pid


def talk(knocked, data, quiet_s=1.5, shut=True):
    """All that comes back; a server that closes while we send is fine."""
    with knocked.socket() as connection:
        try:
            connection.sendall(data)
            if shut:
                connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        try:
            return server.read_until_quiet(connection, quiet_s)
        except OSError:
            return b""


def settled(knocked, before, spare_kb=0, seconds=8):
    """The weight after a while; asserts that descriptors and threads are what they were."""
    deadline = time.monotonic() + seconds
    while True:
        now = Weight(knocked.pid)
        # A few links to the keeper are kept for the next one.
        if now.descriptors <= before.descriptors + 8 and now.threads <= before.threads + 2 and (
                not spare_kb or now.private_kb <= before.private_kb + spare_kb):
            return now
        assert time.monotonic() < deadline, f"before: {before}; now: {now}"
        time.sleep(0.1)


def reset(connection):
    """Closes without a word: the other side gets a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


# ---- slow and half-open ----

def test_headers_that_trickle_hold_up_nobody(knocked):
    before = Weight(knocked.pid)
    held = [knocked.socket() for _ in range(100)]
    request = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Slow: yes\r\nConnection: close\r\n\r\n"
    slowest = 0.0
    for byte in request:
        for connection in held:
            connection.sendall(bytes([byte]))
        started = time.monotonic()
        assert knocked.get("/health").status == 200
        slowest = max(slowest, time.monotonic() - started)
    assert slowest < PROMPT_S
    for connection in held:
        assert statuses(server.read_until_quiet(connection)) == [200]
        connection.close()
    settled(knocked, before)


@pytest.mark.parametrize("begun", [
    b"", b"G", b"GET /health HTTP/1.1\r\nHost: loc", b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{\"code\":",
    b"PUT /v1/files/never HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nbegun",
    b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{",
], ids=["nothing", "method", "headers", "body", "upload", "chunk"])
def test_clients_that_go_in_the_middle_leave_nothing(knocked, begun):
    before = Weight(knocked.pid)
    held = [knocked.socket() for _ in range(60)]
    for connection in held:
        connection.sendall(begun)
    for number, connection in enumerate(held):
        reset(connection) if number % 2 else connection.close()
    settled(knocked, before)


def test_client_that_goes_while_its_run_is_under_way_leaves_nothing(knocked):
    before = Weight(knocked.pid)
    body = b'{"code":"import time; time.sleep(30)"}'
    held = [knocked.socket() for _ in range(4)]
    for connection in held:
        connection.sendall(b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    time.sleep(0.5)
    for number, connection in enumerate(held):
        reset(connection) if number % 2 else connection.close()
    settled(knocked, before)
    assert knocked.post("/v1/run", {"code": "print(2)"}).json["stdout"] == "2\n"


# ---- more at once than anybody needs ----

def test_two_thousand_connections_at_one_time(knocked):
    before = Weight(knocked.pid)
    held = []
    try:
        for _ in range(2000):
            held.append(knocked.socket())
        started = time.monotonic()
        assert knocked.get("/health").status == 200
        assert time.monotonic() - started < PROMPT_S
        for connection in held:
            connection.sendall(HEALTH)
        for connection in held:
            assert statuses(connection.recv(4096)) == [200]
        assert Weight(knocked.pid).descriptors > 2000, "they were all served at one time"
    finally:
        for connection in held:
            connection.close()
    settled(knocked, before, spare_kb=16 << 10)


def test_pipelined_requests_by_the_hundred(knocked):
    raw = talk(knocked, (HEALTH + b"GET /other HTTP/1.1\r\nHost: localhost\r\n\r\n") * 250, shut=False)
    assert statuses(raw) == [200, 404] * 250


def test_client_that_asks_and_never_reads(knocked):
    """It is not answered into memory: the server stops reading when the client does."""
    before = Weight(knocked.pid)
    with knocked.socket(timeout=0.5) as connection:
        sent = 0
        try:
            while sent < 64 << 20:
                sent += connection.send(HEALTH * 1000)
        except OSError:
            pass
        assert sent < 64 << 20, "somebody had to wait"
        assert Weight(knocked.pid).private_kb < before.private_kb + (4 << 10)
    settled(knocked, before, spare_kb=4 << 10)


def test_stream_that_is_never_read(knocked):
    """The program waits, not the server's memory; others are served meanwhile."""
    before = Weight(knocked.pid)
    body = b'{"code":"while True: print(\'x\' * 1000)","stream":true,"limits":{"output_limit":"1G","wall":"30s"}}'
    held = []
    for _ in range(4):
        connection = knocked.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        held.append(connection)
    assert statuses(held[0].recv(1000)) == [200]
    time.sleep(1)
    for _ in range(5):
        started = time.monotonic()
        assert knocked.get("/health").status == 200
        assert time.monotonic() - started < PROMPT_S
    assert Weight(knocked.pid).private_kb < before.private_kb + (16 << 10)
    for connection in held:
        connection.close()
    settled(knocked, before, spare_kb=48 << 10)  # of what the runs had written last; the C library keeps some for the next


# ---- lengths and where a request ends ----

def body_of(headers, body, version=b"1.1", path=b"/v1/run"):
    return b"POST " + path + b" HTTP/" + version + b"\r\nHost: localhost\r\n" + headers + b"\r\n" + body


# Readers have disagreed about each of these; who disagrees with a proxy takes one request for two.
AMBIGUOUS = {
    "two lengths": body_of(b"Content-Length: 0\r\nContent-Length: %d\r\n" % len(SMUGGLED), SMUGGLED),
    "two lengths, the other way": body_of(b"Content-Length: %d\r\nContent-Length: 0\r\n" % len(SMUGGLED), SMUGGLED),
    "list of lengths": body_of(b"Content-Length: 0, %d\r\n" % len(SMUGGLED), SMUGGLED),
    "length with a sign": body_of(b"Content-Length: +0\r\n", SMUGGLED),
    "length with more": body_of(b"Content-Length: 0 0\r\n", SMUGGLED),
    "length in hex": body_of(b"Content-Length: 0x0\r\n", SMUGGLED),
    "empty length": body_of(b"Content-Length: \r\n", SMUGGLED),
    "negative length": body_of(b"Content-Length: -1\r\n", SMUGGLED),
    "length beyond 64 bits": body_of(b"Content-Length: 18446744073709551616\r\n", SMUGGLED),
    "no length and chunks, nowhere": body_of(b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", b"5\r\nhello\r\n0\r\n\r\n" + SMUGGLED, path=b"/nothing"),
    "chunks and no length, nowhere": body_of(b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", b"5\r\nhello\r\n0\r\n\r\n" + SMUGGLED, path=b"/nothing"),
    "length and chunks": body_of(b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n" + SMUGGLED),
    "chunks and length": body_of(b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", b"0\r\n\r\n" + SMUGGLED),
    "unknown coding": body_of(b"Content-Length: 5\r\nTransfer-Encoding: xchunked\r\n", b"0\r\n\r\n" + SMUGGLED),
    "chunked and identity": body_of(b"Transfer-Encoding: chunked, identity\r\n", b"0\r\n\r\n" + SMUGGLED),
    "identity and chunked": body_of(b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n" + SMUGGLED),
    "chunked and something": body_of(b"Transfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n", b"0\r\n\r\n" + SMUGGLED),
    "chunked twice": body_of(b"Transfer-Encoding: chunked, chunked\r\n", b"0\r\n\r\n" + SMUGGLED),
    "blank before the colon": body_of(b"Content-Length: 5\r\nTransfer-Encoding : chunked\r\n", b"0\r\n\r\n" + SMUGGLED),
    "length with a blank before the colon": body_of(b"Content-Length : %d\r\n" % len(SMUGGLED), SMUGGLED),
    "folded": body_of(b"Content-Length: 5\r\nTransfer-Encoding:\r\n chunked\r\n", b"0\r\n\r\n" + SMUGGLED),
    "control byte": body_of(b"Content-Length: 5\r\nTransfer-Encoding: \x0bchunked\r\n", b"0\r\n\r\n" + SMUGGLED),
    "chunks in the old protocol": body_of(b"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n" + SMUGGLED, b"1.0"),
    "carriage return alone": body_of(b"X: y\rContent-Length: %d\r\n" % len(SMUGGLED), SMUGGLED),
    "zero byte in a name": body_of(b"Content-Length\0: %d\r\n" % len(SMUGGLED), SMUGGLED),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_request_whose_end_is_ambiguous_is_the_last_of_its_connection(knocked, name):
    raw = talk(knocked, AMBIGUOUS[name])
    assert b"/smuggled" not in raw, raw
    assert all(code < 500 for code in statuses(raw)), raw


WRONG_CHUNKS = {
    "no number": b"zz\r\n{}\r\n0\r\n\r\n",
    "negative": b"-2\r\n{}\r\n0\r\n\r\n",
    "signed": b"+2\r\n{}\r\n0\r\n\r\n",
    "hex prefix": b"0x2\r\n{}\r\n0\r\n\r\n",
    "too short": b"1\r\n{}\r\n0\r\n\r\n",
    "too long": b"5\r\n{}\r\n0\r\n\r\n",
    "beyond 64 bits": b"10000000000000002\r\n{}\r\n0\r\n\r\n",
    "largest": b"ffffffffffffffff\r\n{}\r\n0\r\n\r\n",
    "largest that is positive": b"7fffffffffffffff\r\n{}\r\n0\r\n\r\n",
    "no size": b"\r\n{}\r\n0\r\n\r\n",
    "endless size": b"0" * 100000 + b"2\r\n{}\r\n0\r\n\r\n",
    "endless extension": b"2;" + b"x" * 300000 + b"\r\n{}\r\n0\r\n\r\n",
    "endless trailer": b"2\r\n{}\r\n0\r\n" + b"X: y\r\n" * 60000 + b"\r\n",
    "no last chunk": b"2\r\n{}\r\n",
}


@pytest.mark.parametrize("name", WRONG_CHUNKS)
def test_wrong_chunks_end_the_connection_only(knocked, name):
    before = Weight(knocked.pid)
    raw = talk(knocked, body_of(b"Transfer-Encoding: chunked\r\n", WRONG_CHUNKS[name]))
    most = 500 if name.startswith("endless") else 499  # the HTTP library's own answer when its memory for a connection is full
    assert all(400 <= code <= most for code in statuses(raw)), raw
    settled(knocked, before)


# ---- request lines and headers ----

@pytest.mark.parametrize("target", [
    b"/health\0", b"/hea\0lth", b"/health%00", b"/health%", b"/health%zz", b"/health\x01", b"/health\x7f", b"/health\xff", b"/\xc3\x28",
    b"/health\t", b"\\health", b"//health", b"/../health", b"/v1/../health", b"/%2e%2e/health", b"*", b"http://evil.example/health",
    b"localhost:80", b"", b"health", b"?", b"/health#x", b"/v1/files/%2e%2e", b"/v1/files/..", b"/v1/files/a%2fb", b"/v1/files/%00",
    b"/v1/runs/%2e%2e/files/../../keys", b"/assets/%2e%2e/%2e%2e/etc/passwd", b"/assets/" + b"a/" * 4000, b"/v1/files/" + b"%41" * 2000,
], ids=lambda target: repr(target[:40]))
@pytest.mark.parametrize("method", [b"GET", b"CONNECT"])
def test_strange_targets_are_refused_or_not_found(knocked, method, target):
    raw = talk(knocked, method + b" " + target + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert all(code < 500 for code in statuses(raw)) and b"root:" not in raw, raw
    assert statuses(raw)[:1] != [200] or (method == b"GET" and raw.endswith(b'{"status":"ok"}')), raw


@pytest.mark.parametrize("line", [
    b"GET  /health HTTP/1.1", b" GET /health HTTP/1.1", b"GET /health HTTP/1.1 x", b"GET /health", b"GET /health HTTP/2.0", b"GET /health HTTP/1.10",
    b"GET /health http/1.1", b"G\0T /health HTTP/1.1", b"G\x01T /health HTTP/1.1", b"GET\t/health\tHTTP/1.1", b"A" * 100000 + b" / HTTP/1.1",
    b"PRI * HTTP/2.0", b"\xff\xfe", b"GET /health HTTP/1.1\rX: y",
], ids=lambda line: repr(line[:40]))
def test_strange_request_lines_end_the_connection_at_most(knocked, line):
    raw = talk(knocked, line + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert all(code < 500 or code == 505 for code in statuses(raw)), raw


@pytest.mark.parametrize("header", [
    b": empty", b"no colon", b"X\0: y", b"X: a\0b", b"X: \x01", b"\x80\xff: y", b"X: " + b"\xff" * 1000, b"Authorization: Bearer " + b"x" * 8000,
    b"Authorization: Bearer", b"Authorization: Basic \xff", b"Idempotency-Key: " + b"k" * 5000, b"Idempotency-Key: \xff\x01", b"Idempotency-Key:",
    b"Range: bytes=" + b"0-0," * 2000, b"Expect: 200-maybe", b"Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
    b"Content-Type: \xff", b"Accept: " + b"a/b," * 2000, b"Cookie: " + b"a=b;" * 2000, b"Content-Encoding: gzip",
], ids=lambda header: repr(header[:40]))
def test_strange_headers_are_no_trouble(knocked, header):
    body = b'{"kode":1}'
    raw = talk(knocked, b"POST /v1/run HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + header + b"\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    assert all(400 <= code < 500 for code in statuses(raw) if code != 100), raw


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b"null", b'"x"', b"1e999", b'{"code":"\\ud800"}', b'{"code":"\xff"}', b'{"code":"a\\u0000b"}', b'{"code":1,"code":2}',
    b"[" * 100000, b'{"a":' * 100000, b'{"code":' + b'"' + b"\\" * 99999, b"\xef\xbb\xbf{}", b"\0" * 100, b'{"env":{"":""}}', b'{"env":{"A\\u0000B":"x"},"code":"1"}',
    b'{"limits":{"wall":1e400},"code":"1"}', b'{"limits":{"memory":-1},"code":"1"}', b'{"code":"1","files":[{"name":"../x","content":"y"}]}',
    b'{"code":"1","files":[{"name":"a","content_base64":"%%%"}]}', b'{"code":"1","args":[' + b'"x",' * 200000 + b'"x"]}', b'{"command":[]}',
    b'{"code":"1","language":"\\u202e"}', b'{"code":"1","image":"../../etc"}', b'{"code":"1","cwd":"/../../proc/self"}',
], ids=lambda body: repr(body[:40]))
def test_bodies_that_are_wrong_are_refused_with_a_reason(knocked, body):
    answer = knocked.post("/v1/run", body)
    assert answer.status in (200, 400, 422), answer
    assert answer.status != 200 or "cause" in answer.json
    assert answer.status == 200 or answer.error["message"]


# ---- pages of other sites, by names that lie ----

@pytest.mark.parametrize("headers", [
    b"Host: localhost\r\nHost: evil.example\r\n", b"Host: evil.example\r\nHost: localhost\r\n", b"Host: localhost, evil.example\r\n",
    b"Host: evil.example#localhost\r\n", b"Host: localhost@evil.example\r\n", b"Host: evil.example:80@localhost\r\n", b"Host: 127.0.0.1.nip.io\r\n",
    b"Host: 127.evil.example\r\n", b"Host: localhost.\x00evil.example\r\n", b"Host: 0x7f.1\r\n", b"Host: [::ffff:8.8.8.8]\r\n", b"Host: [::1]evil.example\r\n",
    b"Host: localhost:80:evil.example\r\n", b"Host: localhost/evil.example\r\n", b"Host: 2130706433\r\n", b"Host: \r\n",
], ids=repr)
def test_names_that_only_begin_as_ours_are_refused(knocked, headers):
    body = b'{"code":"print(40 + 2)"}'
    raw = talk(knocked, b"POST /v1/run HTTP/1.1\r\n" + headers + b"Connection: close\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body), quiet_s=5)
    assert b'"stdout":"42' not in raw, raw
    assert statuses(raw)[:1] in ([400], [403], []), raw


@pytest.mark.parametrize("origin", ["http://localhost.evil.example", "https://evil.example", "null", "file://", "http://", "://localhost", "", "http://evil.example://{own}",
                                    "http://{own}/", "http://{own}#", "http://x@{own}"])
def test_origins_that_are_not_this_server_are_refused(knocked, origin):
    own = f"127.0.0.1:{knocked.port}"
    answer = knocked.post("/v1/run", {"code": "print(1)"}, headers={"Host": own, "Origin": origin.replace("{own}", own)})
    assert answer.status == 403, answer


# ---- WebSockets ----

KEY = base64.b64encode(b"0123456789abcdef").decode()
HANDSHAKE = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": KEY}


@pytest.fixture(scope="module")
def terminal(knocked):
    made = knocked.post("/v1/sandboxes", {"language": "bash", "ttl": "5m"})
    assert made.status == 201, made
    yield f"/v1/sandboxes/{made.json['id']}/exec/pty"
    knocked.delete(f"/v1/sandboxes/{made.json['id']}")


def shake_hands(knocked, path, changes=(), method=b"GET", version=b"1.1", more=b""):
    headers = {**HANDSHAKE, "Host": "localhost", **dict(changes)}
    lines = b"".join(b"%s: %s\r\n" % (name.encode(), value.encode("latin-1")) for name, value in headers.items() if value is not None)
    connection = knocked.socket()
    connection.sendall(method + b" " + path.encode() + b" HTTP/" + version + b"\r\n" + lines + b"\r\n" + more)
    return connection


@pytest.mark.parametrize("changes", [
    {"Upgrade": None}, {"Upgrade": "h2c"}, {"Sec-WebSocket-Version": None}, {"Sec-WebSocket-Version": "8"}, {"Sec-WebSocket-Version": "13, 8"}, {"Sec-WebSocket-Key": None},
    {"Sec-WebSocket-Key": ""}, {"Sec-WebSocket-Key": "short"}, {"Sec-WebSocket-Key": KEY + KEY}, {"Sec-WebSocket-Key": "x" * 9000}, {"Connection": "close"},
    {"Connection": None}, {"Origin": "http://evil.example"}, {"Host": "evil.example"},
], ids=str)
def test_wrong_handshakes_are_refused(knocked, terminal, changes):
    before = Weight(knocked.pid)
    with shake_hands(knocked, terminal, changes) as connection:
        raw = connection.recv(4096)
    assert statuses(raw)[:1] in ([400], [403], [413], [426], [431]), raw
    settled(knocked, before)


def test_handshake_by_another_method_or_protocol_is_refused(knocked, terminal):
    before = Weight(knocked.pid)
    with shake_hands(knocked, terminal, method=b"POST") as connection:
        assert statuses(connection.recv(4096))[:1] == [405]
    for _ in range(12):  # what is left of each would show
        with shake_hands(knocked, terminal, version=b"1.0") as connection:
            assert statuses(connection.recv(4096))[:1] != [101]
    settled(knocked, before)
    for _ in range(12):
        reset(shake_hands(knocked, terminal))
    settled(knocked, before)


def frame(opcode, payload, final=True, masked=True, reserved=0, length=None):
    size = len(payload) if length is None else length
    head = bytes([(0x80 if final else 0) | reserved << 4 | opcode])
    mask_bit = 0x80 if masked else 0
    if size < 126:
        head += bytes([mask_bit | size])
    elif size < 65536:
        head += bytes([mask_bit | 126]) + struct.pack(">H", size)
    else:
        head += bytes([mask_bit | 127]) + struct.pack(">Q", size)
    return head + (b"\1\2\3\4" + bytes(byte ^ (number % 4 + 1) for number, byte in enumerate(payload)) if masked else payload)


WRONG_FRAMES = {
    "not masked": frame(1, b"{}", masked=False),
    "reserved bits": frame(1, b"{}", reserved=7),
    "unknown opcode": frame(5, b"x"),
    "long ping": frame(9, b"x" * 126),
    "ping in parts": frame(9, b"x", final=False),
    "goes on without a beginning": frame(0, b"x"),
    "too long": frame(2, b"", length=1 << 40),
    "negative": frame(2, b"", length=(1 << 64) - 1),
    "no UTF-8": frame(1, b"\xff\xfe"),
    "close with one byte": frame(8, b"x"),
    "close with a wrong code": frame(8, struct.pack(">H", 5)),
    "garbage": bytes(range(256)) * 16,
    "wrong orders": b"".join(frame(1, text) for text in (b"{", b"[]", b"null", b'{"resize":1}', b'{"resize":{"rows":-1,"columns":1e9}}', b'{"signal":"NONE"}',
                                                         b'{"signal":9999}', b'{"resize":{"rows":70000,"columns":70000}}')) + frame(8, b""),
}


@pytest.mark.parametrize("name", WRONG_FRAMES)
@pytest.mark.parametrize("early", [True, False], ids=["with the handshake", "after it"])
def test_wrong_frames_end_the_connection_only(knocked, terminal, name, early):
    before, sent = Weight(knocked.pid), WRONG_FRAMES[name]
    with shake_hands(knocked, terminal, more=sent if early else b"") as connection:
        raw = connection.recv(4096)
        assert raw.startswith(b"HTTP/1.1 101 "), raw
        try:
            connection.sendall(b"" if early else sent)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        started = time.monotonic()
        server.read_until_quiet(connection, 5)
        assert time.monotonic() - started < PROMPT_S, "the server did not close it"
    settled(knocked, before)


def test_keys_typed_along_with_the_handshake_are_not_left_lying(knocked, terminal):
    with shake_hands(knocked, terminal, more=frame(2, b"echo $((6*7)) && exit\n")) as connection:
        raw = server.read_until_quiet(connection, 5)
    assert b"42" in raw and b'"end"' in raw, raw


# ---- at the very end ----

def test_knocks_leave_no_memory_behind(knocked):
    """The same again and again: what is kept of each would show."""
    script = [*AMBIGUOUS.values(), body_of(b"Content-Length: 10\r\n", b'{"kode":1}'), b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /hea\0lth HTTP/1.1\r\n\r\n",
              b"GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n", body_of(b"Transfer-Encoding: chunked\r\n", b"zz\r\n")]

    def knock(times):
        for _ in range(times):
            for data in script:
                with knocked.socket() as connection:
                    connection.sendall(data)
                    reset(connection) if times % 2 else connection.shutdown(socket.SHUT_WR)
                    if not times % 2:
                        connection.recv(65536)

    def crowd(times):
        threads = [threading.Thread(target=knock, args=[times]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    crowd(6)
    before = settled(knocked, Weight(knocked.pid))
    crowd(24)
    settled(knocked, before, spare_kb=1024)
