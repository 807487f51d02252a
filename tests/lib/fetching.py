"""Modules that fetch, and servers to fetch from.

    with fetching.Origin() as origin:
        [answer] = fetching.fetch([("GET", f"{origin.url}/hello")], "--fetch", origin.site)
        answer.status, answer.text, answer.location
"""
import base64
import dataclasses
import http.server
import json
import ssl
import struct
import subprocess
import threading
import time

import box

MODULE = """(module (import "cloche" "fetch" (func $fetch (param i32 i32 i32 i32 i32 i32 i32 i32) (result i32)))
  (import "cloche" "fetch_read" (func $read (param i32 i32) (result i32)))
  (import "cloche" "fetch_header" (func $header (param i32 i32 i32 i32) (result i32)))
  (import "cloche" "fetch_error" (func $error (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 256) (data (i32.const 64) "LOCATION")
  %s
  (func $put (param $at i32) (param $length i32)
    (loop $more
      (i32.store (i32.const 0) (local.get $at)) (i32.store (i32.const 4) (local.get $length))
      (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
      (local.set $at (i32.add (local.get $at) (i32.load (i32.const 8))))
      (local.set $length (i32.sub (local.get $length) (i32.load (i32.const 8))))
      (br_if $more (i32.gt_s (local.get $length) (i32.const 0)))))
  (func $one (param i32 i32 i32 i32 i32 i32 i32 i32) (local $status i32) (local $length i32) (local $got i32) (local $place i32)
    (local.set $status (call $fetch (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4) (local.get 5)
                                    (local.get 6) (local.get 7)))
    (local.set $place (i32.const -1))
    (if (i32.lt_s (local.get $status) (i32.const 0))
      (then (local.set $length (call $error (i32.const 0x800000) (i32.const 0x400000))))
      (else
        (local.set $place (call $header (i32.const 64) (i32.const 8) (i32.const 0x700000) (i32.const 4096)))
        (loop $more
          (local.set $got (call $read (i32.add (i32.const 0x800000) (local.get $length)) (i32.const 5000)))
          (local.set $length (i32.add (local.get $length) (local.get $got)))
          (br_if $more (i32.gt_s (local.get $got) (i32.const 0))))))
    (i32.store (i32.const 16) (local.get $status)) (i32.store (i32.const 20) (local.get $length))
    (i32.store (i32.const 24) (local.get $place))
    (call $put (i32.const 16) (i32.const 12))
    (call $put (i32.const 0x800000) (local.get $length))
    (if (i32.gt_s (local.get $place) (i32.const 0)) (then (call $put (i32.const 0x700000) (local.get $place)))))
  (func (export "_start") %s))"""


@dataclasses.dataclass
class Answer:
    status: int
    body: bytes
    location: str | None

    @property
    def text(self):
        return self.body.decode(errors="replace")


def module(requests):
    """The text of a module that makes these requests, one after the other: (method, url[, headers[, body]])."""
    at, data, calls = 1024, "", ""
    for request in requests:
        words = ""
        for part in (*request, b"", b"")[:4]:
            part = part.encode() if isinstance(part, str) else part
            data += '(data (i32.const %d) "%s")' % (at, "".join(f"\\{byte:02x}" for byte in part))
            words += f"(i32.const {at}) (i32.const {len(part)}) "
            at += len(part)
        calls += f"(call $one {words})"
    return MODULE % (data, calls)


def answers_of(result):
    """What such a module has written."""
    left = base64.b64decode(result.stdout_base64) if "stdout_base64" in result.json else result.stdout.encode()
    answers = []
    while left:
        status, length, place = struct.unpack("<iii", left[:12])
        end = 12 + length + max(place, 0)
        answers.append(Answer(status, left[12:12 + length], left[12 + length:end].decode() if place >= 0 else None))
        left = left[end:]
    return answers


def run(requests, *options, **more):
    """Over stdin: the text of one that sends much is longer than an argument can be."""
    return box.run("--spec", "-", *options, input=json.dumps({"language": "wasm", "code": module(requests)}).encode(), **more)


def fetch(requests, *options, **more):
    result = run(requests, *options, **more)
    assert (result.cause, result.exit_code) == ("exit", 0), result
    return answers_of(result)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, self.path))
        status, headers, content = 200, {}, b""
        name, _, value = self.path.lstrip("/").partition("?")
        if name == "hello":
            content = b"hello"
        elif name == "echo":
            content = json.dumps({"method": self.command, "path": self.path, "headers": list(self.headers.items()),
                                  "body": body.decode(errors="replace")}).encode()
        elif name == "to":
            status, headers = 302, {"Location": value}
        elif name == "big":
            content = b"x" * int(value)
        elif name == "many-headers":
            headers = {f"X-{number}": "y" * 1000 for number in range(90)}
        elif name == "slow":
            time.sleep(float(value))
        self.send_response(status)
        for header, text in headers.items():
            self.send_header(header, text)
        if name == "endless":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            while True:
                self.wfile.write(b"1000\r\n" + b"z" * 4096 + b"\r\n")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = answer

    def log_message(self, *words):
        pass


class Origin:
    """A server on loopback; with certificate (a path of certificate and key in one) it speaks TLS."""

    def __init__(self, certificate=None):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *words: None
        self.server.seen = []
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.site = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.site}"

    @property
    def seen(self):
        return self.server.seen

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *unused):
        self.server.shutdown()
        self.server.server_close()


def make_certificate(directory, name):
    """A CA of its own (ca.pem) and what it has signed for this name (server.pem)."""
    def openssl(*words):
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, cwd=directory)

    (directory / "names").write_text(f"subjectAltName=DNS:{name}\n")
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "ca.key", "-out", "ca.pem",
            "-days", "2", "-subj", "/CN=test authority", "-addext", "basicConstraints=critical,CA:TRUE")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "server.key", "-out", "server.csr",
            "-subj", "/CN=server")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "server.crt",
            "-days", "2", "-extfile", "names")
    pair = directory / "server.pem"
    pair.write_text((directory / "server.crt").read_text() + (directory / "server.key").read_text())
    return directory / "ca.pem", pair
